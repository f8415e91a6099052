package agentloop

import (
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
	"sandboxd/test/require"
)

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
		require.NotHere(t, "is one")
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
			require.Missing(t, require.Host, err)
		}
		defer os.RemoveAll(state)
		var a, b unix.Stat_t
		if unix.Stat(state, &a) != nil || unix.Stat(g.w, &b) != nil || a.Dev == b.Dev {
			require.Missing(t, require.Host, "one file system")
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

// TestGuardOfDirectoriesOfAnotherUser: what the run planted lies in a directory of
// root's, so that the user's rights do not suffice. What is root's itself there, no
// run of the user made.
func TestGuardOfDirectoriesOfAnotherUser(t *testing.T) {
	require.Root(t, "to give files to another user")
	g := newGuarded(t, 1000)
	guard := g.begin()
	g.sh("git init -q .; f=.git/hooks/pre-commit; " + evilHook)
	hooks := filepath.Join(g.w, ".git/hooks")
	if err := os.WriteFile(hooks+"/post-commit", nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(hooks, 0, 0); err != nil {
		t.Fatal(err)
	}
	found := g.finish(guard)
	if f := found[".git/hooks/pre-commit"]; f.Action != GuardMoved {
		t.Errorf("the run's: %+v", f)
	}
	g.gone(".git/hooks/pre-commit")
	if f := found[".git/hooks/post-commit"]; f.Action != GuardLeft || f.What != "it belongs to uid 0" {
		t.Errorf("root's: %+v", f)
	}
	g.sh("test -e .git/hooks/post-commit")
}

// TestGuardLeavesFilesOfOthersInASharedDirectory: in a directory like /tmp another
// user makes protected names while a run goes on. They stay, with mode and content,
// and what the run made beside them does not.
func TestGuardLeavesFilesOfOthersInASharedDirectory(t *testing.T) {
	require.Root(t, "to play another user")
	g := newGuarded(t, 1000)
	if err := errors.Join(os.Chown(g.w, 0, 0), os.Chmod(g.w, os.ModeSticky|0o777)); err != nil {
		t.Fatal(err)
	}
	other := &guarded{T: t, w: g.w, user: &exec.User{UID: 1001, GID: 1001}}
	guard := g.begin()
	other.sh("umask 077; mkdir .vscode .claude; echo x > .claude/settings.json; echo x > .envrc; echo '[rules]' > sandboxd.toml; git init -q theirs; f=theirs/.git/hooks/pre-commit; " + evilHook)
	g.sh("echo x > .mcp.json; mkdir .idea; echo x > .idea/x.xml")
	list := func() string {
		return other.sh("find .vscode .claude .envrc sandboxd.toml theirs -printf '%p %m %u %s\\n' | sort; cat .envrc")
	}
	before := list()
	found := g.finish(guard)
	if after := list(); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	for _, name := range []string{".vscode", ".claude", ".envrc", "sandboxd.toml"} {
		if f := found[name]; f.Action != GuardLeft || f.What != "it belongs to uid 1001" || f.Kept != "" {
			t.Errorf("%s: %+v", name, f)
		}
	}
	g.want(map[string]GuardFinding{".mcp.json": found[".mcp.json"], ".idea": found[".idea"]}, ".mcp.json", ".idea")
	g.gone(".mcp.json")
	g.gone(".idea")
}

// TestGuardReportsWhatItCannotUndo: an immutable file can be made by root only.
func TestGuardReportsWhatItCannotUndo(t *testing.T) {
	g := newGuarded(t, unix.Geteuid())
	guard := g.begin()
	g.sh("git init -q .; f=.git/hooks/pre-commit; " + evilHook)
	hook := filepath.Join(g.w, ".git/hooks/pre-commit")
	if err := osexec.Command("chattr", "+i", hook).Run(); err != nil {
		require.Missing(t, require.Host, "no immutable files here: ", err)
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

// TestWithUserHasTheUsersRightsOnly: what runs inside cannot read root's files,
// and nothing of it stays behind.
func TestWithUserHasTheUsersRightsOnly(t *testing.T) {
	require.Root(t, "to give files to another user")
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
