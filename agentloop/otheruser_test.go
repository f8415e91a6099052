package agentloop

import (
	"context"
	"errors"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sandboxd/policy"
	"sandboxd/test/require"
)

// otherWorld is a root daemon's dispatcher with a session of uid 1000, whose
// files lie in a directory that this user owns.
func otherWorld(t *testing.T, edit func(*PolicyInForce)) *world {
	t.Helper()
	require.Root(t, "only root serves other users")
	const uid = 1000
	w := newWorld(t, edit, func(w *world) {
		w.opts.StateDir = w.host.dir("daemon")
		w.host.UID, w.host.GID, w.host.Groups = uid, uid, []int{uid}
		for dir := w.host.root; dir != "/tmp"; dir = filepath.Dir(dir) {
			_ = os.Chmod(dir, 0o755)
		}
		err := filepath.WalkDir(w.host.path("home"), func(p string, _ os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return os.Lchown(p, uid, uid)
		})
		if err != nil {
			t.Fatal(err)
		}
	})
	return w
}

// TestCallsRunAsTheSessionsUser: uid, gid and groups, and files belong to them.
func TestCallsRunAsTheSessionsUser(t *testing.T) {
	w := otherWorld(t, denying())
	res := w.bash("id -u; id -g; id -G; touch made; touch ~/private; grep -c . /proc/self/status >/dev/null; grep CapEff /proc/self/status")
	if !strings.HasPrefix(res.Output, "1000\n1000\n1000\n") || !strings.Contains(res.Output, "CapEff:\t0000000000000000") {
		t.Errorf("%q %s %v", res.Output, res.Error, res.Err)
	}
	var st unix.Stat_t
	if err := unix.Stat(w.host.path("home/u/w/made"), &st); err != nil || st.Uid != 1000 {
		t.Errorf("made: %v, uid %d", err, st.Uid)
	}
	if res := w.call("file_write", policy.Args{"file_path": "by-tool", "content": "x"}); res.Status != StatusOK {
		t.Errorf("tool: %s", res.Error)
	}
	if err := unix.Stat(w.host.path("home/u/w/by-tool"), &st); err != nil || st.Uid != 1000 {
		t.Errorf("by the tool: %v, uid %d", err, st.Uid)
	}
}

// TestPeersPathsAreOpenedWithItsRights: what the user cannot reach, the daemon
// does not reach for it.
func TestPeersPathsAreOpenedWithItsRights(t *testing.T) {
	w := otherWorld(t, nil)
	hidden := w.host.dir("rootonly")
	secret := w.host.file("rootonly/open/secret", "hush\n", 0o666)
	_ = os.Chmod(filepath.Dir(secret), 0o777)
	_ = os.Chmod(hidden, 0o700)
	link := w.host.path("home/u/w/link")
	if err := os.Symlink(filepath.Dir(secret), link); err != nil {
		t.Fatal(err)
	}
	w.edit = denying()
	w.s = w.session()
	for _, path := range []string{filepath.Dir(secret), secret, link} {
		for _, access := range []policy.PathAccess{policy.GrantRead, policy.GrantWrite} {
			c := ToolCall{Call: policy.BashCall("cat "+secret+" "+link+"/secret", ""), Paths: []policy.PathGrant{{Path: path, Access: access, Source: policy.Source{Kind: policy.SourceCLI}}}}
			if res := w.d.Dispatch(t.Context(), w.s, c); res.Ran || strings.Contains(res.Output, "hush") || res.Error == "" {
				t.Errorf("%s %s: %v %q", access, path, res.Status, res.Output)
			}
		}
	}
	for _, r := range []SessionRequest{{Workspace: filepath.Dir(secret)}, {Workspace: link}, {Cwd: filepath.Dir(secret)}} {
		if _, err := w.m.Create(t.Context(), w.peer(), r); err == nil {
			t.Errorf("session in %+v", r)
		}
	}
	// The decision cannot be led to look there either: the path is unreadable.
	defer w.asks.Attach(w.peer(), "t")()
	if res := w.call("read_file", policy.Args{"file_path": secret}); res.Ran || strings.Contains(res.Output, "hush") {
		t.Errorf("by the file tool: %v %q", res.Status, res.Output)
	}
	// Honest use beside it.
	own := w.host.file("home/u/lib/data", "mine\n", 0o644)
	w.edit = denying()
	w.s = w.session()
	c := ToolCall{Call: policy.BashCall("cat "+own, ""), Paths: []policy.PathGrant{{Path: filepath.Dir(own), Access: policy.GrantRead, Source: policy.Source{Kind: policy.SourceCLI}}}}
	if res := w.d.Dispatch(t.Context(), w.s, c); res.Output != "mine\n" {
		t.Errorf("own: %v %q %s", res.Status, res.Output, res.Error)
	}
}

// threadHook reports whose rights the files of its thread have.
type threadHook struct{ fsuid chan int }

func (threadHook) Name() string            { return "thread" }
func (threadHook) ContinueOnFailure() bool { return false }

func (h threadHook) PreToolUse(context.Context, policy.Call) (policy.HookResult, error) {
	none := ^uintptr(0)
	now, _, _ := unix.RawSyscall(unix.SYS_SETFSUID, none, 0, 0)
	h.fsuid <- int(now)
	return policy.HookResult{Action: policy.HookContinue}, nil
}

// TestHooksDoNotRunOnTheUsersThread: a process started from a thread with half of
// the user's rights would be neither root's nor the user's.
func TestHooksDoNotRunOnTheUsersThread(t *testing.T) {
	h := threadHook{make(chan int, 1)}
	w := otherWorld(t, nil)
	s := newSession("s", w.peer(), SessionRequest{}, sessionParts{confinement: policy.FullyConfined, now: w.d.o.Now})
	err := s.install(PolicyInForce{Config: policy.Config{Workspace: w.s.Workspace(), Default: policy.Allow, Hooks: []policy.Hook{ownThreadHook{h}}}})
	if err != nil {
		t.Fatal(err)
	}
	s.decide(t.Context(), ToolCall{Call: policy.BashCall("true", "")}, true)
	if uid := <-h.fsuid; uid != 0 {
		t.Errorf("the hook ran with the file rights of uid %d", uid)
	}
	var uid int
	if err := s.asUser(func() {
		now, _, _ := unix.RawSyscall(unix.SYS_SETFSUID, ^uintptr(0), 0, 0)
		uid = int(now)
	}); err != nil || uid != 1000 {
		t.Errorf("files are looked at as uid %d, %v", uid, err)
	}
}

// TestForeignGuardJournalIsNotTrusted: the user cannot make root undo something.
func TestForeignGuardJournalIsNotTrusted(t *testing.T) {
	w := otherWorld(t, denying())
	if dir := w.d.stateDir(w.s); dir != w.opts.StateDir+"/uid-1000" {
		t.Errorf("journals of root's guard are in %q", dir)
	}
	res := w.unread("mkdir -p .git/hooks && printf '#!/bin/sh\\nid\\n' > .git/hooks/pre-commit && chmod +x .git/hooks/pre-commit")
	if len(res.Detected) == 0 {
		t.Errorf("nothing detected: %+v %s", res.Status, res.Output)
	}
	if _, err := os.Stat(w.host.path("home/u/w/.git/hooks/pre-commit")); err == nil {
		t.Error("the hook is still there")
	}
}

// TestHomeIsMeasuredWithTheUsersRights: the user swaps the directory of his private
// homes for a link during a run, and gets no file of root's there; without the swap
// nothing below his home is root's either.
func TestHomeIsMeasuredWithTheUsersRights(t *testing.T) {
	w := otherWorld(t, denying())
	hidden := w.host.dir("rootonly")
	_ = os.Chmod(hidden, 0o700)
	res := w.bash("true")
	homes := filepath.Dir(res.Plan.HomeSource)
	if note, err := os.Lstat(res.Plan.HomeSource + ".measured"); err != nil || note.Sys().(*syscall.Stat_t).Uid != 1000 {
		t.Fatalf("the note of an honest run: %v %v", note, err)
	}
	err := filepath.WalkDir(w.host.path("home"), func(p string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if info, err := d.Info(); err == nil && info.Sys().(*syscall.Stat_t).Uid != 1000 {
			t.Errorf("%s belongs to uid %d", p, info.Sys().(*syscall.Stat_t).Uid)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	before, err := readNames(homes)
	if err != nil {
		t.Fatal(err)
	}
	swapped := make(chan error, 1)
	go func() {
		swapped <- func() error {
			for {
				if _, err := os.Stat(w.host.path("home/u/w/started")); err == nil {
					break
				}
				time.Sleep(5 * time.Millisecond)
			}
			if err := os.Rename(homes, homes+"2"); err != nil {
				return err
			}
			return errors.Join(os.Symlink(hidden, homes), os.WriteFile(w.host.path("home/u/w/go"), nil, 0o644))
		}()
	}()
	res = w.bash("touch started; while ! test -e go; do sleep 0.02; done")
	if err := <-swapped; err != nil || !res.Ran {
		t.Fatalf("%v %v %q", err, res.Status, res.Error)
	}
	if names, err := readNames(hidden); err != nil || len(names) != 0 {
		t.Errorf("in root's directory were made: %q, %v; in the homes lay %q", names, err, before)
	}
}

// TestUsersThreadFollowsNoLinkOfOthersProcesses: the kernel shows the directory of
// another user's process to nobody else, and so not to the daemon that looks for one.
func TestUsersThreadFollowsNoLinkOfOthersProcesses(t *testing.T) {
	require.Root(t, "to play two users")
	start := func(uid uint32) string {
		c := osexec.Command("sleep", "60")
		c.Dir = "/"
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Process.Kill(); c.Wait() })
		return "/proc/" + itoa(c.Process.Pid)
	}
	one, two := start(1000), start(1001)
	read := func(name string) (err error) {
		if inner := withUser(1000, 1000, nil, func() { _, err = os.ReadFile(name) }); inner != nil {
			t.Fatal(inner)
		}
		return err
	}
	for _, link := range []string{"/cwd", "/root"} {
		if err := read(two + link + "/etc/passwd"); !errors.Is(err, os.ErrPermission) {
			t.Errorf("by %s of another user's process: %v", link, err)
		}
	}
	if err := read("/etc/passwd"); err != nil {
		t.Errorf("plainly: %v", err)
	}
	// Outside the thread, root's rights are as they were.
	if _, err := os.ReadFile(two + "/cwd/etc/passwd"); err != nil {
		t.Errorf("as root: %v", err)
	}
	if err := osexec.Command("kill", "-0", strings.TrimPrefix(one, "/proc/")).Run(); err != nil {
		t.Errorf("a program of root's: %v", err)
	}
}

// TestUsersThreadReadsNothingThroughItsOwnProcess: a thread may open the descriptors of
// its process whatever its rights, and what they are of may lie where the user may not go.
func TestUsersThreadReadsNothingThroughItsOwnProcess(t *testing.T) {
	h := newHost(t)
	require.Root(t, "to play another user")
	for up := h.root; up != os.TempDir() && up != "/"; up = filepath.Dir(up) {
		_ = os.Chmod(up, 0o755) // for uid 1000
	}
	h.file("closed/in/.claude/agents/spy.md", "---\nname: spy\ndescription: d\n---\nprompt\n", 0o644)
	h.file("closed/in/AGENTS.md", "words", 0o644)
	h.file("open/AGENTS.md", "plain", 0o644)
	closed, err := unix.Open(h.path("closed/in"), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(closed)
	_ = os.Chmod(h.path("closed"), 0o700)
	through := "/proc/self/fd/" + itoa(closed)
	open := h.dir("open/.claude")
	h.link(through, "open/link")
	h.link(through+"/.claude/agents", "open/.claude/agents")
	h.link(through+"/AGENTS.md", "open/small")
	for _, tt := range []struct {
		what string
		read func() int
		user int // what uid 1000 gets
	}{
		{"instructions", func() int { return len(readBeneath(through, "AGENTS.md", 99)) }, 0},
		{"instructions by a link", func() int { return len(readBeneath(h.path("open/link"), "AGENTS.md", 99)) }, 0},
		{"instructions, plainly", func() int { return len(readBeneath(h.path("open"), "AGENTS.md", 99)) }, 5},
		{"a definition", func() int { defs, _ := agentDefsIn(through, ".claude/agents", true, nil); return len(defs) }, 0},
		{"a definition by a link of the user's", func() int { defs, _ := agentDefsIn(open, "agents", false, nil); return len(defs) }, 0},
		{"a small file", func() int { text, _ := readSmall(h.path("open/small")); return len(text) }, 0},
		{"the head of a script", func() int { text, _ := readHead(h.path("open/small"), 2); return len(text) }, 0},
	} {
		var got int
		if err := withUser(1000, 1000, nil, func() { got = tt.read() }); err != nil || got != tt.user {
			t.Errorf("uid 1000 reads %s: %d, %v, want %d", tt.what, got, err, tt.user)
		}
		if got := tt.read(); got == 0 {
			t.Errorf("the process itself cannot read %s: the test proves nothing", tt.what)
		}
	}
}

// TestUsersDirectoryIsTriedWithTheUsersRights: root's rights would say yes to any.
func TestUsersDirectoryIsTriedWithTheUsersRights(t *testing.T) {
	require.Root(t, "to play another user")
	h := newHost(t)
	for up := h.root; up != os.TempDir() && up != "/"; up = filepath.Dir(up) {
		_ = os.Chmod(up, 0o755) // for uid 1000
	}
	for mode, want := range map[os.FileMode]error{0o700: nil, 0o500: os.ErrPermission, 0o600: os.ErrPermission} {
		dir := h.dir("of1000")
		if err := errors.Join(os.Chmod(dir, mode), os.Chown(dir, 1000, 1000)); err != nil {
			t.Fatal(err)
		}
		var got error
		if err := withUser(1000, 1000, nil, func() { got = checkOwnDir(dir, 1000) }); err != nil || !errors.Is(got, want) {
			t.Errorf("mode %04o: %v, %v, want %v", mode, got, err, want)
		}
	}
}
