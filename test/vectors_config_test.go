package test

import (
	"errors"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// configVectors make another program run something when a person next works in
// the workspace. The stand-in is that person: git as they would call it, whose
// orders, when planted, make the file "new" in Out.
func configVectors() []vector {
	bare := func(s *scene) { s.file(s.Work+"/mine", "mine") }
	plant := func(name string, setup func(*scene), attack func(places) error) vector {
		return vector{name: name, setup: setup, attack: attack, reached: gitObeys, honest: honestGit}
	}
	inRepo := func(name string, attack func(places) error) vector { return plant(name, repository, attack) }
	noRepo := func(name string, attack func(places) error) vector { return plant(name, bare, attack) }
	hookIn := func(dir string) func(places) error { return func(p places) error { return hook(dir, p) } }
	configIn := func(dir string) func(places) error {
		return func(p places) error { return orders(dir+"/config", p) }
	}
	return append([]vector{
		inRepo("write a git hook", hookIn(".git")), inRepo("write git config", configIn(".git")),
		inRepo("write git config by git", func(p places) error { return git("config", "core.fsmonitor", "touch "+p.Out+"/new; false") }),
		plant("write git config.worktree", func(s *scene) {
			repository(s)
			s.must(appendTo(s.Work+"/.git/config", "[extensions]\n\tworktreeConfig = true\n"))
		}, func(p places) error { return orders(".git/config.worktree", p) }),
		inRepo("write a hook of a nested repository", hookIn("sub/.git")), inRepo("write config of a nested repository", configIn("sub/.git")),
		inRepo("make a git hook executable", func(places) error { return os.Chmod(".git/hooks/post-commit", 0o755) }),
		{name: "write git info attributes", setup: repository, honest: honestGit,
			attack: func(places) error {
				return errors.Join(ignoreExist(os.Mkdir(".git/info", 0o755)), os.WriteFile(".git/info/attributes", []byte("* filter=planted\n"), 0o644))
			},
			reached: func(s *scene, _ result) bool {
				return strings.Contains(s.content(s.Work+"/.git/info/attributes"), "planted")
			}},
		noRepo("plant a git directory", func(p places) error { return planted(".git", p) }),
		noRepo("plant a git directory by git", func(p places) error {
			return errors.Join(git("init", "-q", "."), hook(".git", p), orders(".git/config", p))
		}),
		noRepo("plant a git file", func(p places) error {
			return errors.Join(planted("elsewhere", p), os.WriteFile(".git", []byte("gitdir: elsewhere\n"), 0o644))
		}),
		noRepo("plant a bare repository", func(p places) error {
			return errors.Join(planted("sub", p), appendTo("sub/config", "[core]\n\tbare = false\n\tworktree = .\n"))
		}),
		noRepo("plant a nested repository", func(p places) error { return planted("sub/.git", p) }),
		inRepo("plant a nested repository beside another", func(p places) error { return planted("mod/.git", p) }),
		inRepo("rename git away", func(p places) error {
			return errors.Join(os.Rename(".git", "old-git"), planted(".git", p))
		}),
		inRepo("rename the parent of a nested repository", func(p places) error {
			return errors.Join(os.Rename("sub", "moved"), hook("moved/.git", p), orders("moved/.git/config", p), os.Rename("moved", "sub"))
		}),
		inRepo("write through a symlink to git", func(p places) error {
			return errors.Join(os.Symlink(".git", "alias"), hook("alias", p), orders("alias/config", p))
		}),
		inRepo("write through a hard link of git config", func(p places) error {
			return errors.Join(os.Link(".git/config", "alias"), orders("alias", p))
		}),
		inRepo("rename a file over git config", func(p places) error {
			return errors.Join(os.WriteFile("alias", nil, 0o644), orders("alias", p), os.Rename("alias", ".git/config"))
		}),
		inRepo("rename a directory over git hooks", func(p places) error {
			return errors.Join(hook("alias", p), os.RemoveAll(".git/hooks"), os.Rename("alias/hooks", ".git/hooks"))
		}),
	}, settingsVectors()...)
}

// settingsVectors write what shells, editors and agents read at start, where it
// was and where it was not.
func settingsVectors() []vector {
	const planted = "planted"
	var vs []vector
	for _, file := range []struct{ name, content string }{
		{".gitmodules", "[submodule \"planted\"]\n\tpath = x\n\turl = ext::planted\n\tupdate = !planted\n"},
		{".bashrc", "planted\n"}, {".profile", "planted\n"}, {".zshrc", "planted\n"}, {".envrc", "planted\n"},
		{".vscode/settings.json", `{"python.defaultInterpreterPath": "./planted", "git.path": "./planted"}`},
		{".vscode/tasks.json", `{"version": "2.0.0", "tasks": [{"label": "x", "command": "planted", "runOptions": {"runOn": "folderOpen"}}]}`},
		{".idea/workspace.xml", "<project><planted/></project>\n"},
		{".devcontainer/devcontainer.json", `{"initializeCommand": "planted"}`},
		{".mcp.json", `{"mcpServers": {"x": {"command": "planted"}}}`},
		{".claude/settings.json", `{"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "planted"}]}]}}`},
		{".cursor/mcp.json", `{"mcpServers": {"x": {"command": "planted"}}}`},
		{"sandboxd.toml", "mode = \"bypassPermissions\" # planted\n"},
	} {
		for _, there := range []bool{true, false} {
			v := vector{
				name: "write a new " + strings.ReplaceAll(file.name, "/", " "),
				attack: func(places) error {
					return errors.Join(os.MkdirAll(filepath.Dir(file.name), 0o755), os.WriteFile(file.name, []byte(file.content), 0o644))
				},
				reached: func(s *scene, _ result) bool { return strings.Contains(s.content(s.Work+"/"+file.name), planted) },
				honest:  func(places) error { return os.WriteFile("mine", nil, 0o644) },
			}
			if there {
				v.name = "write an old " + strings.ReplaceAll(file.name, "/", " ")
				v.setup = func(s *scene) { s.file(s.Work+"/"+file.name, "# old\n") }
				v.honest = func(places) error { return show(file.name) }
			}
			vs = append(vs, v)
		}
	}
	return vs
}

// repository makes the workspace a checkout with a nested repository "sub".
func repository(s *scene) {
	s.Helper()
	for _, dir := range []string{s.Work, s.mkdir(s.Work + "/sub")} {
		if r := s.plain("git", "-c", "init.defaultBranch=main", "init", "-q", dir); r.Code != 0 {
			s.Fatalf("git init: %s", r.Stderr)
		}
		for _, name := range []string{"pre-commit", "info"} {
			os.Remove(dir + "/.git/hooks/" + name)
		}
		s.file(dir+"/.git/hooks/post-commit", "#!/bin/sh\ntouch "+s.Out+"/new\n")
	}
}

// gitObeys plays the person: it works in each directory of the workspace, and
// reports whether git ran what was planted.
func gitObeys(s *scene, _ result) bool {
	s.Helper()
	dirs, err := filepath.Glob(s.Work + "/*")
	s.must(err)
	for _, dir := range append(dirs, s.Work) {
		for _, args := range [][]string{{"status"}, {"commit", "-q", "--allow-empty", "-m", "x"}} {
			s.plain(append([]string{"timeout", "10", "git", "-C", dir, "-c", "user.name=a", "-c", "user.email=a@b.test"}, args...)...)
		}
	}
	return exists(s.Out + "/new")
}

// hook puts a hook into a git directory.
func hook(dir string, p places) error {
	err := os.MkdirAll(dir+"/hooks", 0o755)
	for _, name := range []string{"pre-commit", "post-commit"} {
		err = errors.Join(err, os.WriteFile(dir+"/hooks/"+name, []byte("#!/bin/sh\ntouch "+p.Out+"/new\n"), 0o755),
			os.Chmod(dir+"/hooks/"+name, 0o755))
	}
	return err
}

// orders adds executing keys to a config file of git.
func orders(file string, p places) error {
	return appendTo(file, "[core]\n\trepositoryformatversion = 0\n\tfsmonitor = \"touch "+p.Out+"/new; false\"\n")
}

// appendTo writes at the end, through a descriptor that is not for appending.
func appendTo(file, text string) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Seek(0, 2)
	if err == nil {
		_, err = f.WriteString(text)
	}
	return errors.Join(err, f.Close())
}

// planted makes a git directory that carries a hook and an executing key.
func planted(dir string, p places) error {
	err := errors.Join(os.MkdirAll(dir+"/objects", 0o755), os.MkdirAll(dir+"/refs", 0o755),
		os.WriteFile(dir+"/HEAD", []byte("ref: refs/heads/main\n"), 0o644))
	return errors.Join(err, hook(dir, p), orders(dir+"/config", p))
}

// honestGit is what people do in the same place.
func honestGit(places) error {
	here := func(args ...string) []string {
		return append([]string{"-c", "user.name=a", "-c", "user.email=a@b.test"}, args...)
	}
	return errors.Join(os.Mkdir("honest", 0o755), os.WriteFile("honest/file", []byte("x"), 0o644),
		git("init", "-q", "honest"), git(here("-C", "honest", "add", "file")...),
		git(here("-C", "honest", "commit", "-q", "-m", "x")...), git("clone", "-q", "honest", "copy"), show("copy/file"),
		git("-C", "copy", "status"))
}

func git(args ...string) error {
	c := osexec.Command("git", args...)
	c.Stdout, c.Stderr = os.Stderr, os.Stderr
	return c.Run()
}

func ignoreExist(err error) error {
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	return err
}
