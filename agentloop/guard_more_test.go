package agentloop

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"sandboxd/exec"
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
		g.want(g.run("echo b > .vscode/s; git config core.pager less; echo c > .git/hooks/pre-commit; echo b > .config/git/config",
			".vscode", ".git/hooks", ".git/config", ".config/git"))
		// A held name whose directory was exchanged is not held any more.
		g.want(g.run("mv .config x; mkdir -p .config/git; echo evil > .config/git/config", ".config/git"), ".config/git")
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

// TestGuardNeverTouchesTheOutside: links of every kind lead to a directory
// that looks like a planted repository. Nothing there may change.
func TestGuardNeverTouchesTheOutside(t *testing.T) {
	guardUsers(t, func(g *guarded) {
		g.sh("git init -q ../out/o; f=../out/o/.git/hooks/pre-commit; " + evilHook + "mkdir ../out/v; echo x > ../out/v/settings.json; git init -q .")
		outside := func() string { return g.sh("find ../out -ls | sort; cat ../out/o/.git/config") }
		before := outside()
		found := g.run(`mkdir a b c d; ln -s ../../out/o/.git a/.git; ln -s ../out/o link; ln -s ../out/v .vscode; echo "gitdir: $(cd ../out/o; pwd)/.git" > b/.git
			git init -q e; rm -r e/.git/hooks; ln -s ../../../out/o/.git/hooks e/.git/hooks; git init -q f; git -C f config core.hooksPath ../../out/o/.git/hooks
			git init -q h; rm -r h/.git/info; ln -s ../../../out/v h/.git/info; ln -s ../out/v/settings.json .bashrc`)
		g.want(found, "a/.git", "b/.git", ".vscode", "e/.git/hooks", "f/.git/config", "h/.git/info", ".bashrc")
		if after := outside(); after != before {
			t.Errorf("outside changed:\n%s\n%s", before, after)
		}
	})
}

// TestGuardAgainstExchangedDirectories lets another process exchange a
// directory with a link to an outside one while Finish works.
func TestGuardAgainstExchangedDirectories(t *testing.T) {
	guardUsers(t, func(g *guarded) {
		g.sh("mkdir -p ../out/o/hooks; cd ../out/o; for i in $(seq 50); do : > hooks/pre-commit-$i; chmod +x hooks/pre-commit-$i; done; echo ref > HEAD; mkdir objects refs; echo '[core] pager = x' > config")
		outside := func() string { return g.sh("find ../out -type f | sort; cat ../out/o/config") }
		before := outside()
		guard := g.begin()
		g.sh("ln -s ../out/o link; mkdir w2; for i in $(seq 100); do git init -q --bare w2/r$i; : > w2/r$i/hooks/pre-commit; git -C w2/r$i config core.pager x; done; ln -s ../../../out/o/hooks w2/r1/h; ln -s ../../out/o w2/l")
		var stop atomic.Bool
		var flipper sync.WaitGroup
		flips := 0
		flipper.Go(func() {
			for i := 0; !stop.Load(); i++ {
				r := fmt.Sprintf("%s/w2/r%d", g.w, i%100+1)
				unix.Renameat2(unix.AT_FDCWD, r, unix.AT_FDCWD, g.w+"/w2/l", unix.RENAME_EXCHANGE)
				unix.Renameat2(unix.AT_FDCWD, g.w+"/w2/r1/hooks", unix.AT_FDCWD, g.w+"/w2/r1/h", unix.RENAME_EXCHANGE)
				flips++
			}
		})
		list, err := guard.Finish()
		stop.Store(true)
		flipper.Wait()
		if err != nil || len(list) == 0 || flips == 0 {
			t.Errorf("%d found, %d flips, %v", len(list), flips, err)
		}
		if after := outside(); after != before {
			t.Errorf("outside changed:\n%s\n%s", before, after)
		}
	})
}

func TestOpenDirAtFollowsNoLink(t *testing.T) {
	g := newGuarded(t, unix.Geteuid())
	g.sh("mkdir d ../out/o; ln -s d in; ln -s ../out/o out; touch f; mkfifo p")
	root, err := unix.Open(g.w, openDirFlags, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(root)
	for _, name := range []string{"in", "out", "f", "p", "gone"} {
		if fd, err := openDirAt(root, name); err == nil {
			unix.Close(fd)
			t.Errorf("openDirAt(%q) opened it", name)
		}
		if fd, _, _, err := openShut(root, name, unix.Geteuid()); err == nil {
			unix.Close(fd)
			t.Errorf("openShut(%q) opened it", name)
		}
	}
	fd, err := openDirAt(root, "d")
	if err != nil {
		t.Error(err)
	}
	unix.Close(fd)
	slash, err := unix.Open("/", openDirFlags, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(slash)
	if _, err := openDirAt(slash, "proc"); !errors.Is(err, errPseudo) {
		t.Errorf("openDirAt(/proc) = %v, want errPseudo", err)
	}
}

// TestGuardAsOrdinaryUser runs the tests of this file and its neighbour without
// root's rights, which would hide what the guard cannot do without them.
func TestGuardAsOrdinaryUser(t *testing.T) {
	if unix.Geteuid() != 0 {
		t.Skip("is one")
	}
	g := newGuarded(t, 1000)
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(filepath.Dir(g.w), "guard.test")
	if err := os.WriteFile(binary, self, 0o755); err != nil {
		t.Fatal(err)
	}
	child := osexec.Command(binary, "-test.short", "-test.run=^TestGuard", "-test.skip=DeepTree|ManyPlants|Exchanged")
	child.Dir = g.w
	child.Env = []string{"PATH=/usr/bin:/bin", "TMPDIR=" + g.w}
	child.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1000, Gid: 1000}}
	if out, err := child.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestGuardIsCompletedAfterACrash kills a process that holds a guard, without
// any chance to finish, and lets the next start complete it.
func TestGuardIsCompletedAfterACrash(t *testing.T) {
	if arg := os.Getenv("SANDBOXD_TEST_GUARD"); arg != "" {
		guardChild(arg)
		return
	}
	guardUsers(t, func(g *guarded) {
		g.sh("git init -q .; mkdir .vscode; echo old > .vscode/s")
		arg, err := json.Marshal(map[string]any{"state": g.state, "w": g.w, "user": g.user})
		if err != nil {
			t.Fatal(err)
		}
		child := osexec.Command(os.Args[0], "-test.run=^TestGuardIsCompletedAfterACrash$")
		child.Env = append(os.Environ(), "SANDBOXD_TEST_GUARD="+string(arg))
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(out).ReadString('\n'); line != "begun\n" {
			t.Fatal(line, err)
		}
		g.sh("f=.git/hooks/pre-commit; " + evilHook + "echo new > .vscode/s; echo x > .envrc")
		if list, err := CompleteGuards(g.state); len(list) != 0 || err != nil {
			t.Errorf("a living process's guard was completed: %v, %v", list, err)
		}
		if err := child.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		child.Wait()
		list, err := CompleteGuards(g.state)
		if err != nil {
			t.Fatal(err)
		}
		g.want(g.byPath(list), ".git/hooks/pre-commit", ".vscode/s", ".envrc")
		g.gone(".git/hooks/pre-commit", ".envrc")
		if got := g.read(".vscode/s"); got != "old\n" {
			t.Errorf("restored %q", got)
		}
		if list, err := CompleteGuards(g.state); len(list) != 0 || err != nil {
			t.Errorf("completed twice: %v, %v", list, err)
		}
		if left, _ := filepath.Glob(g.state + "/guards/*.json"); len(left) != 0 {
			t.Errorf("journals are left: %q", left)
		}
	})
}

func guardChild(arg string) {
	var o struct {
		State, W string
		User     *exec.User
	}
	if err := json.Unmarshal([]byte(arg), &o); err != nil {
		panic(err)
	}
	if _, err := BeginGuard(o.State, o.W, GuardOptions{User: o.User}); err != nil {
		panic(err)
	}
	fmt.Println("begun")
	select {}
}

func TestGuardOfATornJournal(t *testing.T) {
	g := newGuarded(t, unix.Geteuid())
	guard := g.begin()
	name := guard.file.Name()
	guard.file.Close()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, text[:len(text)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	if list, err := CompleteGuards(g.state); len(list) != 0 || err != nil {
		t.Errorf("CompleteGuards = %v, %v", list, err)
	}
	if info, err := os.Stat(name); err == nil {
		t.Errorf("%v is left", info.Name())
	}
}

// TestGuardsOfTwoRunsShareTheOlderSnapshot: what one run did must not be what
// the other restores.
func TestGuardsOfTwoRunsShareTheOlderSnapshot(t *testing.T) {
	guardUsers(t, func(g *guarded) {
		g.sh("mkdir .vscode; echo good > .vscode/s; git init -q .")
		first := g.begin()
		g.sh("echo evil > .vscode/s; echo evil > .envrc; git config core.pager evil")
		second := g.begin()
		g.want(g.finish(first), ".vscode/s", ".envrc", ".git/config")
		g.want(g.finish(second))
		if got := g.read(".vscode/s"); got != "good\n" || g.exists(".envrc") || strings.Contains(g.read(".git/config"), "evil") {
			t.Errorf("the first run's plant is back: %q", got)
		}
	})
}

// TestGuardOfADeepTree plants a hook 10,000 directories down, with long names,
// so that its path is many times the longest a system call takes.
func TestGuardOfADeepTree(t *testing.T) {
	g := newGuarded(t, unix.Geteuid())
	levels := 10_000 // 400 KB of path
	if testing.Short() {
		levels = 600
	}
	name := strings.Repeat("d", 40)
	guard := g.begin()
	at, err := unix.Open(g.w, openDirFlags, 0)
	if err != nil {
		t.Fatal(err)
	}
	down := func(name string) {
		if err := unix.Mkdirat(at, name, 0o755); err != nil {
			t.Fatal(err)
		}
		fd, err := openDirAt(at, name)
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(at)
		at = fd
	}
	for level := range levels {
		down(name)
		if level%20 != 0 {
			continue
		}
		// Something left to look at on the way back, in whatever order.
		for _, side := range []string{"a", "m", "z", "zz"} {
			if err := unix.Mkdirat(at, side, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	down(".git")
	down("hooks")
	defer unix.Close(at)
	fd, err := unix.Openat(at, "pre-commit", unix.O_CREAT|unix.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(fd)
	before := openFDs(t)
	limitFDs(t, uint64(before+guardOpenDirs+40))
	list, err := guard.Finish()
	if err != nil || len(list) != 1 || list[0].Action != GuardMoved {
		t.Errorf("Finish = %v, %v", list, err)
	}
	if _, err := lstatAt(at, "pre-commit"); !errors.Is(err, unix.ENOENT) {
		t.Errorf("the hook is still there: %v", err)
	}
	if after := openFDs(t); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
	for _, f := range list {
		if len(f.String()) > 3000 {
			t.Errorf("a line of %d characters", len(f.String()))
		}
	}
}

// limitFDs lowers the limit of open files for the rest of the test.
func limitFDs(t *testing.T, limit uint64) {
	t.Helper()
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: limit, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Setrlimit(unix.RLIMIT_NOFILE, &old) })
}

func openFDs(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

func TestGuardOfManyPlants(t *testing.T) {
	g := newGuarded(t, unix.Geteuid())
	count := 1500
	guard := g.begin()
	for i := range count {
		hooks := filepath.Join(g.w, fmt.Sprint(i), ".git/hooks")
		if err := os.MkdirAll(hooks, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(hooks+"/pre-commit", nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	planted, _ := filepath.Glob(g.w + "/*/.git/hooks/*")
	if len(planted) != count {
		t.Fatalf("%d of %d hooks are there before the guard looks", len(planted), count)
	}
	list, err := guard.Finish()
	if err != nil || len(list) != maxGuardFindings+1 {
		t.Errorf("%d findings, %v", len(list), err)
	}
	if want := fmt.Sprintf("%d more like these", count-maxGuardFindings); list[len(list)-1].What != want {
		t.Errorf("last finding %v, want %s", list[len(list)-1], want)
	}
	left, _ := filepath.Glob(g.w + "/*/.git/hooks/*")
	if len(left) != 0 {
		t.Errorf("%d hooks are left", len(left))
	}
}

// TestGuardOnAnotherFileSystem: the state is elsewhere, so nothing can be
// renamed into it.
func TestGuardOnAnotherFileSystem(t *testing.T) {
	guardUsers(t, func(g *guarded) {
		state, err := os.MkdirTemp("/dev/shm", "guard-test-")
		if err != nil {
			t.Skip(err)
		}
		defer os.RemoveAll(state)
		var a, b unix.Stat_t
		if unix.Stat(state, &a) != nil || unix.Stat(g.w, &b) != nil || a.Dev == b.Dev {
			t.Skip("one file system")
		}
		g.state = state
		g.sh("git init -q .; mkdir .vscode; echo old > .vscode/s")
		found := g.run("f=.git/hooks/pre-commit; " + evilHook + "git config core.pager x; git init -q n; git -C n config core.pager x; echo new > .vscode/s; mkdir -p .idea/a; echo x > .idea/a/b; ln -s a .idea/l")
		g.want(found, ".git/hooks/pre-commit", ".git/config", "n/.git/config", ".vscode/s", ".idea")
		g.gone(".git/hooks/pre-commit", ".idea")
		if g.read(".vscode/s") != "old\n" || strings.Contains(g.read("n/.git/config"), "pager") {
			t.Error("not restored")
		}
		if text, err := os.ReadFile(found[".idea"].Kept + "/a/b"); string(text) != "x\n" {
			t.Errorf("kept %q, %v", text, err)
		}
		if rest := g.sh("find . -name '*restore*'"); rest != "" {
			t.Errorf("left behind: %s", rest)
		}
	})
}

// TestGuardOfFilesOfAnotherUser: the workspace is a user's, but what was planted
// is root's, so that the user's rights do not suffice.
func TestGuardOfFilesOfAnotherUser(t *testing.T) {
	if unix.Geteuid() != 0 {
		t.Skip("needs root")
	}
	g := newGuarded(t, 1000)
	guard := g.begin()
	g.sh("git init -q .")
	hook := filepath.Join(g.w, ".git/hooks/pre-commit")
	if err := os.WriteFile(hook, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(filepath.Dir(hook), 0, 0); err != nil {
		t.Fatal(err)
	}
	g.want(g.finish(guard), ".git/hooks/pre-commit")
	g.gone(".git/hooks/pre-commit")
}

// TestGuardReportsWhatItCannotUndo: an immutable file can be made by root only.
func TestGuardReportsWhatItCannotUndo(t *testing.T) {
	g := newGuarded(t, unix.Geteuid())
	guard := g.begin()
	g.sh("git init -q .; f=.git/hooks/pre-commit; " + evilHook)
	hook := filepath.Join(g.w, ".git/hooks/pre-commit")
	if err := osexec.Command("chattr", "+i", hook).Run(); err != nil {
		t.Skip("no immutable files here: ", err)
	}
	defer osexec.Command("chattr", "-i", hook).Run()
	found := g.finish(guard)
	if f := found[".git/hooks/pre-commit"]; f.Action != GuardFailed || f.Error == "" {
		t.Errorf("found %v", found)
	}
	// It was not undone, so the next run must not take it for known.
	if f := g.run("true")[".git/hooks/pre-commit"]; f.Action == GuardMoved {
		t.Errorf("moved: %v", f)
	}
}

// TestGuardWithoutAPlaceToKeep: nothing is removed that could not be kept, and
// the report says that it is still there.
func TestGuardWithoutAPlaceToKeep(t *testing.T) {
	guardUsers(t, func(g *guarded) {
		guard := g.begin()
		g.sh("git init -q .; f=.git/hooks/pre-commit; " + evilHook)
		if err := os.WriteFile(filepath.Join(g.state, "kept"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		found := g.finish(guard)
		if f := found[".git/hooks/pre-commit"]; len(found) != 1 || f.Action != GuardFailed || f.Error == "" || !g.exists(".git/hooks/pre-commit") {
			t.Errorf("found %v", found)
		}
	})
}

func TestGuardWhenTheWorkspaceIsGone(t *testing.T) {
	g := newGuarded(t, unix.Geteuid())
	guard := g.begin()
	if err := os.Rename(g.w, g.w+"x"); err != nil {
		t.Fatal(err)
	}
	g.want(g.finish(guard), ".")
	if _, err := BeginGuard(g.state, g.w, GuardOptions{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("BeginGuard without a workspace: %v", err)
	}
}

func TestGuardStateIsPrivateAndGoesAway(t *testing.T) {
	guardUsers(t, func(g *guarded) {
		guard := g.begin()
		info, err := os.Stat(guard.file.Name())
		if err != nil || info.Mode() != 0o600 {
			t.Errorf("journal: %v, %v", info.Mode(), err)
		}
		g.want(g.finish(guard))
		left, _ := filepath.Glob(g.state + "/*/*")
		if len(left) != 0 {
			t.Errorf("left in the state: %q", left)
		}
	})
}

// bigTree makes 30,000 directories with ten files each (300,000 files).
func bigTree(b *testing.B, w string) {
	b.Helper()
	for i := range 30 {
		for j := range 1000 {
			dir := fmt.Sprintf("%s/d%d/e%d/f%d", w, i, j/100, j%100)
			if err := os.MkdirAll(dir, 0o755); err != nil {
				b.Fatal(err)
			}
			for k := range 10 {
				if err := os.WriteFile(fmt.Sprintf("%s/file%d.txt", dir, k), nil, 0o644); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
}

func BenchmarkGuard(b *testing.B) {
	for _, size := range []string{"small", "300000 files"} {
		w := b.TempDir()
		if out, err := osexec.Command("git", "init", "-q", w).CombinedOutput(); err != nil {
			b.Fatal(err, string(out))
		}
		if size != "small" {
			if testing.Short() {
				continue
			}
			bigTree(b, w)
		}
		held := []string{w + "/.git/hooks", w + "/.git/config"}
		for _, level := range [][]string{held, nil} {
			var begin, finish int64
			b.Run(fmt.Sprintf("%s/held=%v", size, level != nil), func(b *testing.B) {
				state := b.TempDir()
				for b.Loop() {
					t0 := now()
					g, err := BeginGuard(state, w, GuardOptions{Kernel: level})
					if err != nil {
						b.Fatal(err)
					}
					t1 := now()
					if list, err := g.Finish(); err != nil || len(list) != 0 {
						b.Fatal(list, err)
					}
					begin, finish = begin+t1-t0, finish+now()-t1
				}
				b.ReportMetric(float64(begin)/float64(b.N)/1e3, "begin-µs/op")
				b.ReportMetric(float64(finish)/float64(b.N)/1e6, "finish-ms/op")
				begin, finish = 0, 0
			})
		}
	}
}

func now() int64 { return guardClock(unix.CLOCK_MONOTONIC) }

// TestWithUserHasTheUsersRightsOnly: what runs inside cannot read root's files,
// and nothing of it stays behind.
func TestWithUserHasTheUsersRightsOnly(t *testing.T) {
	if unix.Geteuid() != 0 {
		t.Skip("needs root")
	}
	g := newGuarded(t, 1000)
	secret := filepath.Join(filepath.Dir(g.w), "secret")
	if err := os.WriteFile(secret, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var inside error
	made := filepath.Join(g.w, "made")
	if err := withUser(1000, 1000, []int{1001}, func() {
		_, inside = os.ReadFile(secret)
		os.WriteFile(made, nil, 0o600)
	}); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(inside, os.ErrPermission) {
		t.Errorf("inside, a file of root's can be read: %v", inside)
	}
	var st unix.Stat_t
	if err := unix.Stat(made, &st); err != nil || st.Uid != 1000 || st.Gid != 1000 {
		t.Errorf("a file made inside belongs to %d:%d, %v", st.Uid, st.Gid, err)
	}
	for range 100 {
		var wait sync.WaitGroup
		wait.Go(func() {
			if _, err := os.ReadFile(secret); err != nil {
				t.Errorf("outside: %v", err)
			}
		})
		wait.Wait()
	}
}
