package agentloop

import (
	"context"
	"errors"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sandboxd/exec"
	"sandboxd/policy"
	"sandboxd/test/require"
)

const guardScript = "#!/bin/sh\necho guarded >&2\nexit 2\n"

// pass is what an attacker puts in place of the guard.
const pass = "#!/bin/sh\nexit 0\n"

func (b *hookBench) projectHook(command string) HookSpec {
	return HookSpec{Event: "PreToolUse", Command: command, Source: project()}
}

func TestProjectHookRunsWithTrustedContentOnly(t *testing.T) {
	for _, command := range []string{
		"./scripts/guard.sh", "scripts/guard.sh", "sh scripts/guard.sh", `"$CLAUDE_PROJECT_DIR"/scripts/guard.sh`, `"$CLAUDE_PROJECT_DIR/scripts/guard.sh" --strict`,
		"cd scripts && ./guard.sh", "env A=b ./scripts/guard.sh", "timeout 5 ./scripts/guard.sh", `sh -c 'exec ./scripts/guard.sh'`, `sh -c "scripts/guard.sh"`,
		". ./scripts/guard.sh", "if true; then ./scripts/guard.sh; fi", "sh < scripts/guard.sh", "G=scripts/guard.sh; sh scripts/guard.sh", "x=$(./scripts/guard.sh) || exit 2",
		"'./scripts/guard.sh'", `./scripts/"guard.sh"`, `./scripts/guard\.sh`, "scripts/../scripts/guard.sh",
	} {
		t.Run(command, func(t *testing.T) {
			b := newHookBench(t)
			script := b.file("home/u/w/scripts/guard.sh", guardScript, 0o755)
			s := b.projectHook(command)
			want := func(when, reason string) {
				t.Helper()
				if res := b.fire(s, HookEvent{}); !res.Blocked || !strings.Contains(res.Reason, reason) {
					t.Errorf("%s: blocked %v because of %q, want %q", when, res.Blocked, res.Reason, reason)
				}
				b.noCopiesLeft()
			}
			want("never trusted", "sbx trust")
			b.trustNow("scripts/guard.sh")
			want("trusted", "guarded")
			b.file("home/u/w/scripts/guard.sh", pass, 0o755)
			want("changed", "its content is not what was trusted")
			b.file("home/u/w/scripts/guard.sh", guardScript+"\n", 0o755)
			want("changed by one byte", "its content is not what was trusted")
			os.Remove(script)
			want("removed", "no such file")
			b.file("home/u/w/other.sh", guardScript, 0o755)
			b.link("../other.sh", "home/u/w/scripts/guard.sh")
			want("a link to the same content", "symbolic link")
			os.Remove(script)
			os.Rename(b.path("home/u/w/scripts"), b.path("home/u/w/elsewhere"))
			b.file("home/u/w/elsewhere/guard.sh", guardScript, 0o755)
			b.link("elsewhere", "home/u/w/scripts")
			want("below a link", "symbolic link")
			if err := unix.Unlink(b.path("home/u/w/scripts")); err != nil {
				t.Fatal(err)
			}
			b.dir("home/u/w/scripts")
			if err := unix.Mkfifo(script, 0o755); err != nil {
				t.Fatal(err)
			}
			want("a pipe", "not a regular file")
		})
	}
}

func TestNameThatMayMeanTwoFilesIsRefused(t *testing.T) {
	b := newHookBench(t)
	b.file("home/u/w/guard.sh", guardScript, 0o755)
	b.file("home/u/w/scripts/guard.sh", guardScript, 0o755)
	b.trustNow("guard.sh", "scripts/guard.sh")
	if res := b.fire(b.projectHook("cd scripts && ./guard.sh"), HookEvent{}); !strings.Contains(res.Reason, "may mean") {
		t.Errorf("reason %q", res.Reason)
	}
}

func TestTrustIsNeededFromEverySource(t *testing.T) {
	b := newHookBench(t)
	b.file("home/u/w/guard", guardScript, 0o755)
	for _, kind := range []policy.SourceKind{policy.SourceUser, policy.SourceCLI, policy.SourceProject, policy.SourceLocalProject} {
		res := b.fire(HookSpec{Event: "PreToolUse", Command: "./guard", Source: policy.Source{Kind: kind}}, HookEvent{})
		if !strings.Contains(res.Reason, "sbx trust") {
			t.Errorf("%v: a program of the checkout ran untrusted: %q", kind, res.Reason)
		}
	}
	// on_failure = "continue" says so loudly, and the program does not run.
	b.file("home/u/w/guard", "#!/bin/sh\necho ran >&2\nexit 2\n", 0o755)
	b.notices = nil
	res := b.fire(HookSpec{Event: "PreToolUse", Command: "./guard", ContinueOnFailure: true}, HookEvent{})
	if res.Blocked || len(b.notices) != 1 || !strings.Contains(b.notices[0], "trust") {
		t.Errorf("blocked %v, notices %q", res.Blocked, b.notices)
	}
}

func TestHookNamesThatAreComputedAreRefused(t *testing.T) {
	b := newHookBench(t)
	for command, refused := range map[string]bool{
		`"$DIR"/guard.sh`: true, "scripts/*.sh": true, `"$(dirname "$0")/guard.sh"`: true, "sh -c \"$X/guard\"": true, "${DIR:-scripts}/guard": true,
		`jq -r .tool_input.command | grep -q rm && exit 2; exit 0`: false, `in=$(cat); case "$in" in *rm*) exit 2;; esac`: false, `"$CLAUDE_PROJECT_DIR"/guard`: false,
		`"${CLAUDE_PROJECT_DIR}"/guard`: false,
	} {
		_, err := NewHookRegistry(HookRegistryOptions{Specs: []HookSpec{b.projectHook(command)}, Env: b.env})
		if (err != nil) != refused {
			t.Errorf("%s: %v, want refused: %v", command, err, refused)
		}
		own := b.projectHook(command)
		own.Source = user()
		if _, err := NewHookRegistry(HookRegistryOptions{Specs: []HookSpec{own}, Env: b.env}); err != nil {
			t.Errorf("the user's own %s: %v", command, err)
		}
	}
}

// What runs is what was read and compared, however fast the file is replaced or
// the directory around it renamed.
func TestHookProgramReplacedWhileItStarts(t *testing.T) {
	b := newHookBench(t)
	script := b.file("home/u/w/scripts/guard.sh", guardScript, 0o755)
	b.file("home/u/w/evil/guard.sh", pass, 0o755)
	b.trustNow("scripts/guard.sh")
	evil := b.file("home/u/evil.sh", pass, 0o755)
	good := b.file("home/u/good.sh", guardScript, 0o755)
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		dir, other := filepath.Dir(script), b.path("home/u/w/evil")
		for !stop.Load() {
			unix.Renameat2(unix.AT_FDCWD, dir, unix.AT_FDCWD, other, unix.RENAME_EXCHANGE)
			unix.Renameat2(unix.AT_FDCWD, evil, unix.AT_FDCWD, good, unix.RENAME_EXCHANGE)
			unix.Renameat2(unix.AT_FDCWD, script, unix.AT_FDCWD, good, unix.RENAME_EXCHANGE)
		}
	}()
	r := b.registry(b.projectHook("./scripts/guard.sh"))
	guarded, refused := 0, 0
	for deadline := time.Now().Add(3 * time.Second); time.Now().Before(deadline); {
		res := r.Fire(t.Context(), nil, HookEvent{Event: "PreToolUse", Tool: "run_bash"})
		switch {
		case !res.Blocked:
			stop.Store(true)
			<-done
			t.Fatalf("the replaced program ran: %+v", res)
		case res.Reason == "guarded":
			guarded++
		default:
			refused++
		}
	}
	stop.Store(true)
	<-done
	if guarded == 0 || refused == 0 {
		t.Errorf("%d runs of the guard, %d refusals: the race was not met from both sides", guarded, refused)
	}
	t.Logf("%d runs of the guard, %d refusals", guarded, refused)
	b.noCopiesLeft()
}

// The check itself is the last look at the file: a change right after it is not
// run, a change right before it is refused.
func TestHookProgramReplacedAfterTheCheck(t *testing.T) {
	b := newHookBench(t)
	script := b.file("home/u/w/guard", guardScript, 0o755)
	b.env.Trusts = func(path string, content []byte) bool {
		ok := string(content) == guardScript
		os.Remove(script)
		b.file("home/u/w/guard", pass, 0o755)
		return ok
	}
	if res := b.fire(b.projectHook("./guard"), HookEvent{}); res.Reason != "guarded" {
		t.Errorf("after the check another program ran: %+v", res)
	}
}

func TestHookCannotFindProgramsOfTheCheckoutByPATH(t *testing.T) {
	b := newHookBench(t)
	b.file("home/u/w/bin/my-guard", pass, 0o755)
	b.link(b.path("home/u/w/bin"), "home/u/link")
	b.env.Caller.Environ = []string{"PATH=bin:" + b.Cwd + "/bin:" + b.path("home/u/link") + "::/usr/bin:/bin", "HOME=" + b.Home}
	if res := b.fire(HookSpec{Event: "PreToolUse", Command: "my-guard"}, HookEvent{}); !strings.Contains(res.Reason, "127") {
		t.Errorf("a program of the checkout was found by PATH: %+v", res)
	}
	if res := b.fire(HookSpec{Event: "PreToolUse", Command: "test \"$PATH\" = /usr/bin:/bin && ls /usr/bin >/dev/null"}, HookEvent{}); res.Blocked {
		t.Errorf("honest programs: %s", res.Reason)
	}
}

// Only named files are bound: what a trusted script loads by itself is not, and
// the workspace is read-only for it.
func TestScriptThatSourcesAnotherFile(t *testing.T) {
	b := newHookBench(t)
	b.file("home/u/w/scripts/lib.sh", "echo from the library >&2\n", 0o644)
	b.file("home/u/w/scripts/guard.sh", "#!/bin/sh\n. \"$CLAUDE_PROJECT_DIR/scripts/lib.sh\"\n(echo 'exit 0' > \"$CLAUDE_PROJECT_DIR/scripts/lib.sh\") 2>/dev/null && echo wrote >&2\nexit 2\n", 0o755)
	b.trustNow("scripts/guard.sh")
	if res := b.fire(b.projectHook("./scripts/guard.sh"), HookEvent{}); res.Reason != "from the library" {
		t.Errorf("reason %q", res.Reason)
	}
	// By its own place it finds nothing: the copy lies alone.
	b.file("home/u/w/scripts/guard.sh", "#!/bin/sh\n. \"${0%/*}/lib.sh\"\nexit 0\n", 0o755)
	b.trustNow("scripts/guard.sh")
	if res := b.fire(b.projectHook("./scripts/guard.sh"), HookEvent{}); !res.Blocked {
		t.Error("a guard without its library let the call pass")
	}
}

func TestUserHookInTheHomeIsFoundAndReadable(t *testing.T) {
	b := newHookBench(t)
	b.file("home/u/.claude/hooks/guard.sh", guardScript, 0o755)
	for _, command := range []string{"~/.claude/hooks/guard.sh", "$HOME/.claude/hooks/guard.sh", b.Home + "/.claude/hooks/guard.sh"} {
		if res := b.fire(HookSpec{Event: "PreToolUse", Command: command}, HookEvent{}); res.Reason != "guarded" {
			t.Errorf("%s: %q", command, res.Reason)
		}
		if res := b.fire(b.projectHook(command), HookEvent{}); res.Reason == "guarded" || !res.Blocked {
			t.Errorf("a project's hook reached into the home by %s", command)
		}
	}
}

// asPrivate runs the test again as process 1 of a pid namespace: in base tier a
// run's keeper uses kill(-1), and a fault there must not reach the machine.
func asPrivate(t *testing.T) (inside bool) {
	t.Helper()
	if os.Getenv("SANDBOXD_TEST_PRIVATE_PIDS") != "" {
		return true
	}
	require.Root(t, "for a pid namespace")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c := osexec.CommandContext(ctx, "/bin/sh", "-c", `mount --make-rprivate / && mount -t proc proc /proc && "$@"`, "sh", "/proc/self/fd/3", "-test.run=^"+t.Name()+"$", "-test.v")
	exe, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	c.ExtraFiles = []*os.File{exe}
	c.Env = append(os.Environ(), "SANDBOXD_TEST_PRIVATE_PIDS=1")
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS}
	out, err := c.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("inside: %v\n%s", err, out)
	}
	return false
}

func TestHooksWithoutAMountView(t *testing.T) {
	if !asPrivate(t) {
		return
	}
	b := newHookBench(t)
	b.env.View.MountView, b.env.Tier = false, exec.TierBase
	b.file("home/u/w/scripts/guard.sh", guardScript, 0o755)
	b.trustNow("scripts/guard.sh")
	s := b.projectHook("./scripts/guard.sh")
	if res := b.fire(s, HookEvent{}); res.Reason != "guarded" {
		t.Errorf("trusted: %q", res.Reason)
	}
	b.noCopiesLeft()
	b.file("home/u/w/scripts/guard.sh", pass, 0o755)
	if res := b.fire(s, HookEvent{}); !strings.Contains(res.Reason, "sbx trust") {
		t.Errorf("changed: %q", res.Reason)
	}
	if res := b.fire(HookSpec{Event: "PreToolUse", Command: "echo x > made; test ! -e made"}, HookEvent{}); res.Blocked {
		t.Errorf("a hook wrote the workspace: %q", res.Reason)
	}
	start := time.Now()
	if res := b.fire(HookSpec{Event: "PreToolUse", Command: "setsid sleep 1000 & sleep 1000", Timeout: 300 * time.Millisecond}, HookEvent{}); !strings.Contains(res.Reason, "no answer") || time.Since(start) > 10*time.Second {
		t.Errorf("after %v: %q", time.Since(start), res.Reason)
	}
}

// A root daemon asks the hooks of a user with that user's rights.
func TestHooksOfAnotherUser(t *testing.T) {
	require.Root(t, "to give files to another user")
	b := newHookBench(t)
	b.file("home/u/w/guard", guardScript, 0o755)
	secret := b.file("root-only", "secret", 0o600)
	b.link(secret, "home/u/w/link")
	if err := filepath.WalkDir(b.path("home"), func(path string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, 1000, 1000))
	}); err != nil {
		t.Fatal(err)
	}
	for dir := b.root; dir != "/tmp" && dir != "/"; dir = filepath.Dir(dir) {
		os.Chmod(dir, 0o755)
	}
	b.env.Caller.UID, b.env.Caller.GID, b.env.Caller.Groups = 1000, 1000, []int{1000}
	b.trustNow("guard")
	if res := b.fire(b.projectHook("./guard"), HookEvent{}); res.Reason != "guarded" {
		t.Errorf("trusted: %q", res.Reason)
	}
	b.noCopiesLeft()
	if res := b.fire(HookSpec{Event: "PreToolUse", Command: "id -u >&2; exit 2"}, HookEvent{}); res.Reason != "1000" {
		t.Errorf("the hook runs as %q", res.Reason)
	}
	if res := b.fire(HookSpec{Event: "PreToolUse", Command: "cat " + secret}, HookEvent{}); !res.Blocked || strings.Contains(res.Reason, "secret\n") {
		t.Errorf("a file of root's: %q", res.Reason)
	}
	// A file that the user cannot read is not read for the user.
	closed := b.file("home/u/w/closed", guardScript, 0o600)
	b.env.Trusts = func(string, []byte) bool { t.Error("root's file was read for the user"); return true }
	if res := b.fire(b.projectHook("./closed"), HookEvent{}); !strings.Contains(res.Reason, closed) || !strings.Contains(res.Reason, "permission denied") {
		t.Errorf("a closed file: %q", res.Reason)
	}
}

func TestHookFilesForAPersonToTrust(t *testing.T) {
	b := newHookBench(t)
	b.file("home/u/w/scripts/guard.py", "print()\n", 0o644)
	b.file("home/u/w/rules.txt", "x\n", 0o644)
	files, err := HookFiles(b.projectHook("python3 scripts/guard.py --rules=rules.txt"), b.env)
	if err != nil || len(files) != 2 || files[0].Path != b.Cwd+"/scripts/guard.py" || string(files[0].Content) != "print()\n" || files[1].Path != b.Cwd+"/rules.txt" {
		t.Errorf("files %+v, error %v", files, err)
	}
	if files, err := HookFiles(b.projectHook("echo scripts/guard.py; jq ."), b.env); err != nil || len(files) != 0 {
		t.Errorf("files %+v, error %v", files, err)
	}
}

// FuzzHookWords: no panic, and every word lies where it says.
func FuzzHookWords(f *testing.F) {
	for _, s := range []string{"a b", `"$X"/y 'z' \w`, "${", "$(", "`a`", "a=b c", "'", `"`, "\\"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		at := 0
		for _, w := range hookWords(text, func(n string) (string, bool) { return "/v", n == "HOME" }) {
			if w.start < at || w.end < w.start || w.end > len(text) {
				t.Fatalf("word %+v in %q after %d", w, text, at)
			}
			at = w.end
		}
	})
}
