package agentloop

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestGuardSettings(t *testing.T) {
	guardUsers(t, func(g *guarded) {
		g.sh(`mkdir .vscode .claude; echo old > .vscode/settings.json; echo keep > .vscode/tasks.json; echo p > .claude/settings.json
			echo a > .bashrc; echo b > sandboxd.toml; chmod 640 .bashrc; ln -s .bashrc .zshrc; git init -q .`)
		found := g.run(`echo new > .vscode/settings.json; echo x > .vscode/launch.json; rm .claude/settings.json; echo evil >> .bashrc
			rm sandboxd.toml; rm .zshrc; echo evil > .zshrc; mkdir .idea; echo x > .idea/w.xml; echo {} > .mcp.json; echo e > .envrc
			mkdir -p node_modules/p/.vscode .config/git; echo x > node_modules/p/.vscode/s; echo y > node_modules/p/.envrc; echo z > .config/git/config
			echo src > main.c; echo h > .gitattributes; echo i > .gitignore`)
		g.want(found, ".vscode/settings.json", ".vscode/launch.json", ".claude/settings.json", ".bashrc", "sandboxd.toml", ".zshrc", ".idea", ".mcp.json", ".envrc", ".config/git")
		g.gone(".vscode/launch.json", ".idea", ".mcp.json", ".envrc", ".config/git")
		for name, want := range map[string]string{".vscode/settings.json": "old", ".vscode/tasks.json": "keep", ".claude/settings.json": "p", ".bashrc": "a", "sandboxd.toml": "b",
			"main.c": "src", ".gitattributes": "h", ".gitignore": "i", "node_modules/p/.vscode/s": "x", "node_modules/p/.envrc": "y"} {
			if got := strings.TrimSpace(g.read(name)); got != want {
				t.Errorf("%s holds %q, want %q", name, got, want)
			}
		}
		if target, err := os.Readlink(filepath.Join(g.w, ".zshrc")); err != nil || target != ".bashrc" {
			t.Errorf(".zshrc is a link to %q, %v", target, err)
		}
		if info, err := os.Stat(filepath.Join(g.w, ".bashrc")); err != nil || info.Mode() != 0o640 || int(info.Sys().(*syscall.Stat_t).Uid) != g.user.UID {
			t.Errorf(".bashrc was restored as %v, %v", info, err)
		}
		if kept, _ := os.ReadFile(found[".bashrc"].Kept); string(kept) != "a\nevil\n" {
			t.Errorf("kept %q", kept)
		}
		g.want(g.run("true"))
	})
}

func TestGuardLeavesWhatTheKernelHeld(t *testing.T) {
	guardUsers(t, func(g *guarded) {
		g.sh("git init -q .; mkdir .vscode; echo a > .vscode/s; mkdir -p .config/git; echo a > .config/git/config")
		// An edit from outside, by the person.
		g.want(g.run("echo b > .vscode/s; printf '[core]\npager = less\n' >> .git/config; echo c > .git/hooks/pre-commit; echo b > .config/git/config",
			".vscode", ".git/hooks", ".git/config", ".config/git"))
		// A held name whose directory was exchanged is not held any more.
		g.want(g.run("mv .config x; mkdir -p .config/git; echo evil > .config/git/config", ".config/git"), ".config/git")
		// Nor is one that was replaced itself, as git and editors do.
		g.sh("chmod +x .git/hooks/*; echo a > .envrc")
		g.want(g.run("git config user.name me", ".git/config"))
		g.want(g.run("git config core.editor evil", ".git/config"), ".git/config")
		g.want(g.run("echo evil > y; mv y .envrc", ".envrc"), ".envrc")
		g.want(g.run("mv .git/hooks z; mkdir .git/hooks; cp .git/config .git/hooks/pre-push; chmod +x .git/hooks/pre-push", ".git/hooks"), ".git/hooks/pre-push")
		if text := g.read(".git/config"); !strings.Contains(text, "less") || !strings.Contains(text, "name = me") || strings.Contains(text, "evil") || g.read(".envrc") != "a\n" {
			t.Errorf("afterwards .git/config is\n%s, .envrc %q", text, g.read(".envrc"))
		}
		if g.exists(".git/hooks/pre-push") {
			t.Error("the new hook is still there")
		}
	})
}

// A name that an earlier run gave to a held file is not held by the mount.
func TestGuardJudgesHeldFilesWithOtherNames(t *testing.T) {
	guardUsers(t, func(g *guarded) {
		g.sh("git init -q .; mkdir .vscode; echo a > .vscode/s; echo a > .envrc; echo a > .mcp.json; printf '#!/bin/sh\n' > .git/hooks/pre-push; chmod +x .git/hooks/pre-push")
		held := []string{".vscode", ".git/hooks", ".git/config", ".envrc", ".mcp.json"}
		g.want(g.run("ln .vscode/s s; ln .envrc e; ln .git/config c; ln .git/hooks/pre-push h"))
		g.want(g.run("printf '[user]\\nname = me\\n' >> c", slices.Clone(held)...))
		g.want(g.run("echo evil >> s; echo evil >> e; printf '[core]\\nfsmonitor = evil\\n' >> c; echo evil >> h; echo b > .mcp.json", slices.Clone(held)...),
			".vscode/s", ".envrc", ".git/config", ".git/hooks/pre-push")
		for _, name := range []string{".vscode/s", ".envrc", ".git/config", ".git/hooks/pre-push"} {
			if strings.Contains(g.read(name), "evil") {
				t.Errorf("%s holds %q", name, g.read(name))
			}
		}
		if !strings.Contains(g.read(".git/config"), "name = me") {
			t.Error("the honest setting is gone")
		}
	})
}

func TestGuardLeavesOldHooksAndSettings(t *testing.T) {
	guardUsers(t, func(g *guarded) {
		g.sh(`for r in . near deep/er/far deep/er/still; do git init -q $r; printf '#!/bin/sh\nexit 0\n' > $r/.git/hooks/pre-commit; chmod +x $r/.git/hooks/pre-commit
			git -C $r config core.pager less; git -C $r config filter.x.clean cat; done`)
		work := "for r in . near; do git -C $r commit -q --allow-empty -m x; git -C $r remote add o$1 ../x; done; touch deep/er/still/file deep/er/f"
		g.want(g.run(work))
		for _, r := range []string{"", "near/", "deep/er/far/", "deep/er/still/"} {
			if !g.exists(r+".git/hooks/pre-commit") || !strings.Contains(g.read(r+".git/config"), "clean = cat") {
				t.Errorf("%s lost its own hook or settings", r)
			}
		}
		// The last run saw the far one, so from now on it is known.
		g.want(g.run("cd deep/er/far; git commit -q --allow-empty -m x; git remote add o ../x"))
		// A new key beside old ones: the old ones stay.
		g.want(g.run("git -C near config core.editor evil; git config core.editor evil"), "near/.git/config", ".git/config")
		for _, r := range []string{"", "near/"} {
			if text := g.read(r + ".git/config"); strings.Contains(text, "evil") || !strings.Contains(text, "clean = cat") {
				t.Errorf("%sconfig is now\n%s", r, text)
			}
		}
		// Configured hooks stay, whatever is made beside and around them.
		g.sh("mkdir -p c/hooks; cp .git/hooks/pre-commit c/hooks; git config -f c/inc core.editor vi; git config core.hooksPath c/hooks; git config include.path ../c/inc")
		g.want(g.run("echo n > c/hooks/README; mkdir c/other; mv c/other c/moved; git commit -q --allow-empty -m x"))
		if !g.exists("c/hooks/pre-commit") || !strings.Contains(g.read("c/inc"), "editor = vi") {
			t.Error("configured hooks or an included setting are gone")
		}
		g.sh("git config --unset core.hooksPath; git config --unset include.path")
		// What git does not start is no hook.
		g.want(g.run("for r in . near; do echo notes > $r/.git/hooks/README; cp $r/.git/hooks/pre-commit $r/.git/hooks/pre-commit.sample; done; git init -q young; echo n > young/.git/hooks/README"))
		if !g.exists(".git/hooks/README") || !g.exists("young/.git/hooks/README") {
			t.Error("notes in a hooks directory are gone")
		}
		// A deleted hook comes back.
		g.want(g.run("rm .git/hooks/pre-commit"), ".git/hooks/pre-commit")
		if !g.exists(".git/hooks/pre-commit") {
			t.Error("the deleted hook is still missing")
		}
	})
}

func TestGuardReportsARebaseThatWillRunCommands(t *testing.T) {
	guardUsers(t, func(g *guarded) {
		g.sh("git init -q .; for i in 1 2 3; do echo $i > f$i; git add .; git commit -qm $i; done")
		found := g.run("git rebase -q -x false HEAD~2 2>/dev/null || true")
		f, ok := found[".git/rebase-merge/git-rebase-todo"]
		if ok && f.Action != GuardLeft {
			t.Errorf("found %v", found)
		}
		g.sh("git rebase --abort")
	})
}
