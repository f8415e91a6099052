package agentloop

import (
	"fmt"
	"io/fs"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"sandboxd/exec"
)

// guarded is a workspace and a state directory on one file system.
type guarded struct {
	*testing.T
	state, w string
	user     *exec.User
}

// guardUsers runs a test as every identity that this process can give a run.
func guardUsers(t *testing.T, f func(g *guarded)) {
	t.Helper()
	for _, uid := range []int{unix.Geteuid(), 1000} {
		if unix.Geteuid() != 0 && uid != unix.Geteuid() {
			continue
		}
		t.Run(fmt.Sprintf("uid %d", uid), func(t *testing.T) { f(newGuarded(t, uid)) })
		if uid == 1000 {
			break
		}
	}
}

func newGuarded(t *testing.T, uid int) *guarded {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	// t.TempDir's parent is shut to others; the run's user needs a way in.
	for dir := base; dir != "/tmp" && dir != "/"; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&0o011 != 0o011 && strings.HasPrefix(dir, os.TempDir()+"/") {
			if err := os.Chmod(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	g := &guarded{T: t, state: filepath.Join(base, "state"), w: filepath.Join(base, "w"), user: &exec.User{UID: uid, GID: uid}}
	for _, dir := range []string{g.state, g.w, filepath.Join(base, "out")} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if dir != g.state {
			if err := os.Chown(dir, uid, uid); err != nil {
				t.Fatal(err)
			}
		}
	}
	// What a test leaves with mode 0 must not keep it from being removed.
	t.Cleanup(func() { osexec.Command("chmod", "-R", "u+rwx", base).Run() })
	return g
}

// sh runs a script as the user in the workspace, as the run would.
func (g *guarded) sh(script string) string {
	g.Helper()
	cmd := osexec.Command("sh", "-ec", script)
	cmd.Dir = g.w
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=/nonexistent", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org",
		"GIT_CONFIG_COUNT=2", "GIT_CONFIG_KEY_0=protocol.file.allow", "GIT_CONFIG_VALUE_0=always", "GIT_CONFIG_KEY_1=init.defaultBranch", "GIT_CONFIG_VALUE_1=main"}
	if g.user.UID != unix.Geteuid() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(g.user.UID), Gid: uint32(g.user.GID)}}
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		g.Fatalf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}

func (g *guarded) begin(kernel ...string) *Guard {
	g.Helper()
	for i, name := range kernel {
		kernel[i] = filepath.Join(g.w, name)
	}
	guard, err := BeginGuard(g.state, g.w, GuardOptions{Kernel: kernel, User: g.user})
	if err != nil {
		g.Fatal(err)
	}
	return guard
}

// run guards one script and returns what was found, paths relative to the
// workspace.
func (g *guarded) run(script string, kernel ...string) map[string]GuardFinding {
	g.Helper()
	guard := g.begin(kernel...)
	g.sh(script)
	return g.finish(guard)
}

func (g *guarded) finish(guard *Guard) map[string]GuardFinding {
	g.Helper()
	list, err := guard.Finish()
	if err != nil {
		g.Fatal(err)
	}
	return g.byPath(list)
}

func (g *guarded) byPath(list []GuardFinding) map[string]GuardFinding {
	found := map[string]GuardFinding{}
	for _, f := range list {
		rel, _ := filepath.Rel(g.w, f.Path)
		found[rel] = f
		if f.Kept != "" {
			if _, err := os.Lstat(f.Kept); err != nil {
				g.Errorf("%v: not kept: %v", f, err)
			}
		}
	}
	return found
}

// want compares the paths found with the given ones.
func (g *guarded) want(found map[string]GuardFinding, names ...string) {
	g.Helper()
	var got []string
	for name, f := range found {
		got = append(got, name)
		if f.Action == GuardFailed {
			g.Errorf("failed: %v", f)
		}
	}
	slices.Sort(got)
	slices.Sort(names)
	if !slices.Equal(got, names) {
		g.Errorf("found %q, want %q\n%v", got, names, found)
	}
}

func (g *guarded) exists(name string) bool {
	_, err := os.Lstat(filepath.Join(g.w, name))
	return err == nil
}

func (g *guarded) gone(names ...string) {
	g.Helper()
	for _, name := range names {
		if g.exists(name) {
			g.Errorf("%s is still there", name)
		}
	}
}

func (g *guarded) read(name string) string {
	g.Helper()
	text, err := os.ReadFile(filepath.Join(g.w, name))
	if err != nil {
		g.Error(err)
	}
	return string(text)
}

// tree lists every file with its mode and content.
func (g *guarded) tree() string {
	g.Helper()
	var all strings.Builder
	err := filepath.WalkDir(g.w, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text := ""
		if info.Mode().IsRegular() {
			content, _ := os.ReadFile(name)
			text = fmt.Sprintf("%d %x", len(content), content[:min(len(content), 200)])
		}
		fmt.Fprintln(&all, name, info.Mode(), text)
		return nil
	})
	if err != nil {
		g.Fatal(err)
	}
	return all.String()
}

const evilHook = `printf '#!/bin/sh\ntouch "$MARK"\n' > "$f"; chmod +x "$f"; `

// TestGuardLeavesHonestGitAlone runs what people run, and compares the tree
// before and after Finish byte by byte.
func TestGuardLeavesHonestGitAlone(t *testing.T) {
	guardUsers(t, func(g *guarded) {
		for _, script := range []string{
			"git init -q .; echo a > f; git add f; git commit -qm a",
			"git init -q other; git -C other commit -q --allow-empty -m a",
			"git clone -q other clone; git clone -q --bare other bare.git; git clone -q --mirror other mirror",
			"git submodule --quiet add ./other dep; git commit -qm dep",
			"git worktree add -q tree; echo b > tree/g; git -C tree add g; git -C tree commit -qm b",
			"git switch -qc topic; echo c > f; git commit -qam c; git switch -q main; echo d > h; git add h; git commit -qm d; git switch -q topic; git rebase -q main",
			"echo x > f; git stash -q; git stash pop -q; git commit -qam x",
			"git gc -q; git repack -qad; git -C clone fetch -q; git remote add -f o ./other 2>/dev/null; git config user.name b; git switch -q --track -c new o/main",
			"git -C clone sparse-checkout set --no-cone f; git worktree remove tree; git submodule --quiet update --init; git -C clone tag v1",
			"git clone -q --recurse-submodules . again; git clone -q --depth 1 file://$PWD/other shallow; git clone -q --separate-git-dir sep other apart",
		} {
			before := ""
			guard := g.begin()
			g.sh(script)
			before = g.tree()
			g.want(g.finish(guard))
			if after := g.tree(); after != before {
				g.Errorf("%s: the tree was changed", script)
			}
		}
		g.sh("git fsck; git -C again fsck; git -C clone status; git -C apart status")
	})
}

// TestGuardUndoesPlants: each script leaves something that would run; nothing
// of it may be in force, judged by real git with a marker.
func TestGuardUndoesPlants(t *testing.T) {
	for _, tt := range []struct {
		name, setup, script string
		found               []string
		try                 string // what would set it off
	}{
		{"hook in a new repository", "", "git init -q .; f=.git/hooks/pre-commit; " + evilHook, []string{".git/hooks/pre-commit"}, "git commit -q --allow-empty -m x"},
		{"hook in the old repository", "git init -q .", "f=.git/hooks/pre-commit; " + evilHook, []string{".git/hooks/pre-commit"}, "git commit -q --allow-empty -m x"},
		{"config in the old repository", "git init -q .", "git config core.fsmonitor 'touch $MARK;'", []string{".git/config"}, "git status"},
		{"config of a clone", "git init -q src; git -C src commit -q --allow-empty -m x", "git clone -q src c; git -C c config core.fsmonitor 'touch $MARK;'", []string{"c/.git/config"}, "cd c; git status"},
		{"nested repository", "git init -q .", "mkdir -p a/b; git init -q a/b/c; f=a/b/c/.git/hooks/pre-commit; " + evilHook, []string{"a/b/c/.git/hooks/pre-commit"}, "cd a/b/c; git commit -q --allow-empty -m x"},
		{"bare repository with another name", "", "git init -q --bare docs; git -C docs config core.fsmonitor 'touch $MARK;'; git -C docs config core.bare false; git -C docs config core.worktree .", []string{"docs/config"}, "cd docs; git status"},
		{"link to a hidden repository", "", "git init -q --bare .cache; git -C .cache config core.bare false; git -C .cache config core.fsmonitor 'touch $MARK;'; mkdir p; echo 'gitdir: ../.cache' > p/.git", []string{".cache/config"}, "cd p; git status"},
		{"symbolic link to a hidden repository", "", "git init -q x; mv x/.git y; rm -r x; git -C y config core.bare false; git -C y config core.fsmonitor 'touch $MARK;'; mkdir p; ln -s ../y p/.git", []string{"y/config"}, "cd p; git status"},
		{"hooks directory renamed into place", "git init -q sub; mkdir scripts; f=scripts/pre-commit; " + evilHook, "mv sub/.git/hooks old; mv scripts sub/.git/hooks", []string{"sub/.git/hooks/pre-commit"}, "cd sub; git commit -q --allow-empty -m x"},
		{"git directory renamed into place", "git init -q x; f=x/.git/hooks/pre-commit; " + evilHook + "mv x/.git fixture; mkdir -p deep/er", "mv fixture deep/er/.git", []string{"deep/er/.git/hooks/pre-commit"}, "cd deep/er; git commit -q --allow-empty -m x"},
		{"git directory renamed away, a new one made", "git init -q .", "mv .git git.old; git init -q .; f=.git/hooks/pre-commit; " + evilHook, []string{".git/hooks/pre-commit", ".git"}, "git commit -q --allow-empty -m x"},
		{"nested repository's parent renamed", "git init -q a/r", "mv a b; f=b/r/.git/hooks/pre-commit; " + evilHook, []string{"b/r/.git/hooks/pre-commit"}, "cd b/r; git commit -q --allow-empty -m x"},
		{"through a symbolic link to .git", "git init -q .; ln -s .git g", "f=g/hooks/pre-commit; " + evilHook, []string{".git/hooks/pre-commit"}, "git commit -q --allow-empty -m x"},
		{"through a hard link of the config", "git init -q .", "ln .git/config c; printf '[core]\\n\\tfsmonitor = touch $MARK;\\n' >> c", []string{".git/config"}, "git status"},
		{"execute bit of an inert hook", "git init -q .; f=.git/hooks/pre-commit; " + evilHook + "chmod -x $f", "chmod +x .git/hooks/pre-commit", []string{".git/hooks/pre-commit"}, "git commit -q --allow-empty -m x"},
		{"hook that is a link", "git init -q .; f=run.sh; " + evilHook, "ln -s ../../run.sh .git/hooks/pre-commit", []string{".git/hooks/pre-commit"}, "git commit -q --allow-empty -m x"},
		{"hooks directory that is a link", "git init -q .; mkdir h; f=h/pre-commit; " + evilHook, "rm -r .git/hooks; ln -s ../h .git/hooks", []string{".git/hooks"}, "git commit -q --allow-empty -m x"},
		{"hook in the directory that config names", "git init -q .; mkdir githooks; git config core.hooksPath githooks", "f=githooks/pre-commit; " + evilHook, []string{"githooks/pre-commit"}, "git commit -q --allow-empty -m x"},
		{"setting in a file that config includes", "git init -q .; touch inc; git config include.path ../inc", "git config -f inc core.fsmonitor 'touch $MARK;'", []string{"inc"}, "git status"},
		{"directory above configured hooks renamed into place", "git init -q .; mkdir -p c/hooks x/hooks; git config core.hooksPath c/hooks; f=x/hooks/pre-commit; " + evilHook, "mv c old; mv x c", []string{"c/hooks/pre-commit"}, "git commit -q --allow-empty -m x"},
		{"directory above an included config renamed into place", "git init -q .; mkdir c x; git config -f c/inc user.name me; git config -f x/inc core.fsmonitor 'touch $MARK;'; git config include.path ../c/inc", "mv c old; mv x c", []string{"c/inc"}, "git status"},
		{"link to configured hooks turned", "git init -q .; mkdir a b; ln -s a l; git config core.hooksPath l; f=b/pre-commit; " + evilHook, "ln -sfn b l", []string{"b/pre-commit"}, "git commit -q --allow-empty -m x"},
		{"hook in a directory that an included config names", "git init -q .; mkdir hk; git config -f inc core.hooksPath hk; git config include.path ../inc", "f=hk/pre-commit; " + evilHook, []string{"hk/pre-commit"}, "git commit -q --allow-empty -m x"},
		{"config of a worktree", "git init -q .; git commit -q --allow-empty -m x; git worktree add -q t; git config extensions.worktreeConfig true", "git -C t config --worktree core.fsmonitor 'touch $MARK;'", []string{".git/worktrees/t/config.worktree"}, "cd t; git status"},
		{"commondir", "git init -q .; git commit -q --allow-empty -m x", "git init -q e; echo ../e/.git > .git/commondir; git config -f e/.git/config core.fsmonitor 'touch $MARK;'", []string{".git/commondir", "e/.git/config"}, "git status"},
		{"commondir that has no HEAD of its own", "", "mkdir -p r/worktrees/x r/objects r/refs p; echo 'ref: refs/heads/main' > r/worktrees/x/HEAD; echo ../.. > r/worktrees/x/commondir; echo 'gitdir: ../r/worktrees/x' > p/.git; git config -f r/config core.fsmonitor 'touch $MARK;'", []string{"r/config"}, "cd p; git status"},
		{"submodule's config", "git init -q s; git -C s commit -q --allow-empty -m x; git init -q .; git submodule --quiet add ./s d", "git -C d config core.fsmonitor 'touch $MARK;'", []string{".git/modules/d/config"}, "git -C d status"},
		{"attributes and filter", "git init -q .; echo a > f; git add f; git commit -qm a", "mkdir -p .git/info; echo '* filter=x' > .git/info/attributes; git config filter.x.clean 'touch $MARK; cat'", []string{".git/info/attributes", ".git/config"}, "echo b > f; git add f"},
		{"directory shut to its owner", "", "git init -q a; f=a/.git/hooks/pre-commit; " + evilHook + "# shut\nchmod 500 a/.git/hooks; chmod 000 a", []string{"a/.git/hooks/pre-commit"}, "chmod 755 a; cd a; git commit -q --allow-empty -m x"},
		{"hooks directory shut to its owner", "", "git init -q a; f=a/.git/hooks/pre-commit; " + evilHook + "# shut\nchmod 000 a/.git/hooks", []string{"a/.git/hooks/pre-commit"}, "chmod 755 a/.git/hooks; cd a; git commit -q --allow-empty -m x"},
		{"name with a line break", "", "d=$(printf 'a\\nb'); git init -q \"$d\"; f=\"$d/.git/hooks/pre-commit\"; " + evilHook, []string{"a\nb/.git/hooks/pre-commit"}, "cd \"$(printf 'a\\nb')\"; git commit -q --allow-empty -m x"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			guardUsers(t, func(g *guarded) {
				if tt.setup != "" {
					g.sh("MARK=" + g.w + "/mark; " + tt.setup)
				}
				mark := filepath.Join(g.w, "mark")
				expand := func(script string) string { return "export MARK=" + mark + "; " + script }
				guard := g.begin()
				// What follows the mark hides the plant; a copy needs it open.
				plant, shut, _ := strings.Cut(tt.script, "# shut\n")
				g.sh(expand(plant))
				// The plant works, as long as nobody undoes it.
				g.sh("cp -a . ../out/copy")
				g.sh("cd ../out/copy; export MARK=" + mark + "; (" + tt.try + ") >/dev/null 2>&1 || true")
				if !g.exists("mark") {
					g.Errorf("the plant does not work, so the test shows nothing")
				}
				g.sh("rm -rf mark; chmod -R u+rwx ../out/copy; rm -rf ../out/copy")
				g.sh(shut)
				g.want(g.finish(guard), tt.found...)
				g.sh(expand("(" + tt.try + ") >/dev/null 2>&1 || true"))
				g.gone("mark")
			})
		})
	}
}
