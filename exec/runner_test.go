package exec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sandboxd/test/require"
)

// tiers are what a run can be held by on this host.
func tiers() map[string]Tier { return map[string]Tier{"full": TierFull, "base": TierBase} }

var host = ProbeHost()

// each runs f in every tier; a host without mounts has base only.
func each(t *testing.T, f func(t *testing.T, s Spec, work string)) {
	for name, tier := range tiers() {
		t.Run(name, func(t *testing.T) {
			if tier == TierFull && !host.MountView {
				require.Missing(t, require.UserNS, "no mount view")
			}
			work := t.TempDir()
			f(t, spec(tier, work), work)
		})
	}
}

func spec(tier Tier, work string) Spec {
	s := Spec{Dir: work, Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + work}, Tier: tier}
	for _, p := range []string{"/usr", "/bin", "/lib", "/lib64", "/etc"} {
		s.View.Entries = append(s.View.Entries, Entry{Path: p, Access: ReadOnly, Optional: true})
	}
	if tier == TierFull {
		s.View.Entries = s.View.Entries[:1:1]
		s.View.Entries = append(s.View.Entries, Entry{Path: "/etc", Access: ReadOnly}, Entry{Path: "/tmp", Kind: Tmpfs, Access: ReadWrite})
		for _, l := range []string{"bin", "lib", "lib64"} {
			s.View.Links = append(s.View.Links, Link{"/" + l, "usr/" + l})
		}
	}
	s.View.Entries = append(s.View.Entries, Entry{Path: work, Access: ReadWrite})
	return s
}

func sh(s Spec, script string) Spec {
	s.Path, s.Argv = "/bin/sh", []string{"sh", "-c", script}
	return s
}

func run(t *testing.T, s Spec) Result {
	t.Helper()
	r := NewRunner(host)
	res, err := r.Run(t.Context(), s)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return res
}

func TestExitCodes(t *testing.T) {
	each(t, func(t *testing.T, s Spec, work string) {
		for _, tt := range []struct {
			script  string
			outcome Outcome
			code    int
		}{
			{"exit 0", Exited, 0}, {"exit 42", Exited, 42}, {"kill -TERM $$", Signaled, 143}, {"kill -KILL $$", Signaled, 137},
		} {
			if got := run(t, sh(s, tt.script)); got.Outcome != tt.outcome || got.ExitCode != tt.code {
				t.Errorf("%q: %s %d, want %s %d", tt.script, got.Outcome, got.ExitCode, tt.outcome, tt.code)
			}
		}
	})
}

func TestNothingRunsWhenSetUpFails(t *testing.T) {
	each(t, func(t *testing.T, s Spec, work string) {
		mark := filepath.Join(work, "ran")
		for name, edit := range map[string]func(*Spec){
			"missing grant":     func(s *Spec) { s.View.Entries = append(s.View.Entries, Entry{Path: "/no/such", Access: ReadOnly}) },
			"missing directory": func(s *Spec) { s.Dir = "/no/such" },
			"missing program":   func(s *Spec) { s.Path = "/no/such" },
			"unknown profile":   func(s *Spec) { s.Syscalls = "no-such" },
			"relative path":     func(s *Spec) { s.View.Entries = append(s.View.Entries, Entry{Path: "x", Access: ReadOnly}) },
			"no Landlock":       nil,
		} {
			c := sh(s, "touch "+mark)
			r := NewRunner(host)
			if edit == nil {
				r = NewRunner(Host{})
			} else {
				edit(&c)
			}
			res, err := r.Run(t.Context(), c)
			if _, ok := errors.AsType[*SetupError](err); !ok || res.Outcome != NotSetUp {
				t.Errorf("%s: %v %v, want a SetupError", name, res.Outcome, err)
			}
			if _, err := os.Stat(mark); err == nil {
				t.Fatalf("%s: the command ran", name)
			}
		}
	})
}

func TestViewHoldsWhatIsOutside(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("hush"), 0o644); err != nil {
		t.Fatal(err)
	}
	each(t, func(t *testing.T, s Spec, work string) {
		got := run(t, sh(s, "cat "+secret+"; cat ../../*/secret; echo x > "+secret+"; echo ok > mine; cat mine"))
		if got.Stdout.Text != "ok\n" {
			t.Errorf("output %q, want ok alone", got.Stdout.Text)
		}
		if b, _ := os.ReadFile(secret); string(b) != "hush" {
			t.Errorf("the file outside is now %q", b)
		}
		if b, _ := os.ReadFile(filepath.Join(work, "mine")); string(b) != "ok\n" {
			t.Errorf("the honest write left %q", b)
		}
	})
}

func TestStricterEntryWinsInAnyOrder(t *testing.T) {
	if !host.MountView {
		require.Missing(t, require.UserNS, "no mount view")
	}
	work := t.TempDir()
	for _, d := range []string{"denied/open", "kept", "plain"} {
		if err := os.MkdirAll(filepath.Join(work, d), 0o755); err != nil {
			t.Fatal(err)
		}
		os.WriteFile(filepath.Join(work, d, "f"), []byte("f"), 0o644)
	}
	entries := []Entry{
		{Path: work + "/denied", Access: Deny, Demanded: true},
		{Path: work + "/denied/open", Access: ReadWrite},
		{Path: work + "/kept", Access: Protect, Demanded: true},
		{Path: work + "/plain/f", Access: Deny},
	}
	for turn := range entries {
		s := spec(TierFull, work)
		s.View.Entries = append(append(append([]Entry{}, entries[turn:]...), s.View.Entries...), entries[:turn]...)
		got := run(t, sh(s, `cat denied/open/f && echo 1 > denied/open/new && echo open
ls denied 2>/dev/null | grep -v open; echo x > denied/new 2>/dev/null && echo leak1
cat kept/f; echo x > kept/f 2>/dev/null && echo leak2; mv kept other 2>/dev/null && echo leak3
cat plain/f 2>/dev/null && echo leak4; echo x > plain/f 2>/dev/null && echo leak5; chmod 644 plain/f 2>/dev/null && echo leak6; touch plain/g && echo plain`))
		if want := "fopen\nfplain\n"; got.Stdout.Text != want {
			t.Errorf("turn %d: %q, want %q (%s)", turn, got.Stdout.Text, want, got.Stderr.Text)
		}
		if b, _ := os.ReadFile(work + "/plain/f"); string(b) != "f" {
			t.Errorf("the denied file is now %q", b)
		}
		if _, err := os.Stat(work + "/denied/new"); err == nil {
			t.Error("a write into the denied directory arrived")
		}
	}
}

func TestBaseRefusesWhatItCannotHold(t *testing.T) {
	work := t.TempDir()
	os.Mkdir(work+"/x", 0o755)
	for _, a := range []Access{Deny, Protect} {
		s := sh(spec(TierBase, work), "true")
		s.View.Entries = append(s.View.Entries, Entry{Path: work + "/x", Access: a, Demanded: true})
		if _, err := NewRunner(host).Run(t.Context(), s); err == nil {
			t.Errorf("access %d: not refused", a)
		}
		s.BestEffort = true
		if got := run(t, s); len(got.Enforced.Missing) == 0 || !strings.Contains(got.Enforced.Missing[0].Part, work+"/x") {
			t.Errorf("access %d: the gap is not reported: %+v", a, got.Enforced.Missing)
		}
	}
}

func TestDeadlineEndsTheWholeTree(t *testing.T) {
	each(t, func(t *testing.T, s Spec, work string) {
		for _, script := range []string{
			"sleep 73.5",
			"trap '' TERM HUP INT QUIT; while :; do sleep 73.5; done",
			"setsid sleep 73.5 & (setsid sh -c 'trap \"\" TERM; sleep 73.5' &) ; sleep 73.5",
			"exec >&- 2>&- <&-; sleep 73.5",
			"kill -STOP $$",
			"f() { sleep 0.01; f & }; f; f; sleep 73.5",
		} {
			c := sh(s, script)
			c.Limits.Wall, c.Limits.Grace = 150*time.Millisecond, 100*time.Millisecond
			start := time.Now()
			got := run(t, c)
			if got.Outcome != TimedOut || got.ExitCode != 124 {
				t.Errorf("%q: %s %d, want timeout 124", script, got.Outcome, got.ExitCode)
			}
			if d := time.Since(start); d > 4*time.Second {
				t.Errorf("%q took %v", script, d)
			}
			if left := processes(work, "73.5"); left != "" {
				t.Errorf("%q left %s", script, left)
			}
		}
	})
}

// processes lists what still runs with arg, or in the directory work.
func processes(work, arg string) string {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	var left []string
	for _, d := range dirs {
		b, err := os.ReadFile(d + "/cmdline")
		cwd, _ := os.Readlink(d + "/cwd")
		if err == nil && (strings.HasPrefix(string(b), "sleep\x00"+arg) || cwd == work) {
			left = append(left, fmt.Sprintf("%s %q", d, b))
		}
	}
	return strings.Join(left, " ")
}

func TestCaptureKeepsHeadAndTailAndTheWholeInAFile(t *testing.T) {
	each(t, func(t *testing.T, s Spec, work string) {
		dir := t.TempDir()
		s.OpenOutput = func() (OutputFile, error) { return os.CreateTemp(dir, "output-*") }
		s.Limits.OutputBytes = 1000
		got := run(t, sh(s, "seq 1 100000; seq 1 5 >&2"))
		o := got.Stdout
		if o.Bytes != 588895 || !o.Truncated || o.Kept+o.Dropped != o.Bytes {
			t.Errorf("stdout %+v", o)
		}
		if !strings.HasPrefix(o.Text, "1\n2\n") || !strings.HasSuffix(o.Text, "99999\n100000\n") || !strings.Contains(o.Text, o.File) {
			t.Errorf("text %q", o.Text)
		}
		if b, err := os.ReadFile(o.File); err != nil || len(b) != 588895 {
			t.Errorf("file of %d bytes: %v", len(b), err)
		}
		if got.Stderr.Text != "1\n2\n3\n4\n5\n" || got.Stderr.File != "" {
			t.Errorf("stderr %+v", got.Stderr)
		}
	})
}

func TestFloodIsDrainedInBoundedMemory(t *testing.T) {
	each(t, func(t *testing.T, s Spec, work string) {
		dir := t.TempDir()
		s.OpenOutput = func() (OutputFile, error) { return os.CreateTemp(dir, "output-*") }
		s.Limits.OutputFileBytes = 1 << 20
		got := run(t, sh(s, "head -c 300000000 /dev/zero; head -c 300000000 /dev/zero >&2; echo END"))
		if got.ExitCode != 0 || got.Stdout.Bytes != 300000004 || got.Stderr.Bytes != 300000000 || !strings.HasSuffix(got.Stdout.Text, "END\n") {
			t.Errorf("%d bytes, %d bytes, exit %d", got.Stdout.Bytes, got.Stderr.Bytes, got.ExitCode)
		}
		if st, err := os.Stat(got.Stdout.File); err != nil || st.Size() != 1<<20 || got.Stdout.FileDropped != got.Stdout.Bytes-1<<20 {
			t.Errorf("the file: %v %v, %d bytes are not in it", st, err, got.Stdout.FileDropped)
		}
		var u unix.Rusage
		unix.Getrusage(unix.RUSAGE_SELF, &u)
		if u.Maxrss > 200<<10 {
			t.Errorf("this process grew to %d KiB", u.Maxrss)
		}
	})
}

func TestInputIsStreamedAndNotReadAhead(t *testing.T) {
	each(t, func(t *testing.T, s Spec, work string) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		io.WriteString(w, "one\ntwo\n")
		w.Close()
		s.Stdin = r
		if got := run(t, sh(s, "read a; echo $a")); got.Stdout.Text != "one\n" {
			t.Errorf("output %q", got.Stdout.Text)
		}
		// A shell reads a pipe byte by byte, so the rest is still there.
		if rest, _ := io.ReadAll(r); string(rest) != "two\n" {
			t.Errorf("the rest of the input is %q, want two", rest)
		}
	})
}

func TestSocketAsInputIsNotHandedOver(t *testing.T) {
	each(t, func(t *testing.T, s Spec, work string) {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		ours, theirs := os.NewFile(uintptr(fds[0]), "a"), os.NewFile(uintptr(fds[1]), "b")
		defer ours.Close()
		defer theirs.Close()
		io.WriteString(ours, "hello\n")
		unix.Shutdown(int(ours.Fd()), unix.SHUT_WR)
		s.Stdin = theirs
		got := run(t, sh(s, "readlink /proc/self/fd/0 | cut -d: -f1; cat"))
		if got.Stdout.Text != "pipe\nhello\n" {
			t.Errorf("output %q", got.Stdout.Text)
		}
	})
}

func TestOnlyNamedDescriptorsArePassed(t *testing.T) {
	dir, err := os.Open("/root")
	if err != nil {
		dir, err = os.Open("/")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	unix.FcntlInt(dir.Fd(), unix.F_SETFD, 0) // inheritable, as a careless caller leaves it
	each(t, func(t *testing.T, s Spec, work string) {
		r, w, _ := os.Pipe()
		defer r.Close()
		defer w.Close()
		s.PassFDs = []PassFD{{File: w, Number: 7}}
		got := run(t, sh(s, "for i in 3 4 5 6 7 8 9 10 11 12 13 20 200 201 202 203; do [ -e /proc/$$/fd/$i ] && echo $i; done; echo pass >&7"))
		if got.Stdout.Text != "7\n" {
			t.Errorf("open descriptors: %q, want 7 alone", got.Stdout.Text)
		}
		w.Close()
		if b, _ := io.ReadAll(r); string(b) != "pass\n" {
			t.Errorf("through the passed one came %q", b)
		}
	})
}

func TestNetworkIsNotThere(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	port := ln.Addr().(*net.TCPAddr).Port
	script := fmt.Sprintf("exec 3<>/dev/tcp/127.0.0.1/%d && echo reached", port)
	if out, _ := osexec.Command("bash", "-c", script).Output(); string(out) != "reached\n" {
		t.Fatalf("unconfined it must work: %q", out)
	}
	each(t, func(t *testing.T, s Spec, work string) {
		s.Path, s.Argv = "/bin/bash", []string{"bash", "-c", script}
		if got := run(t, s); got.Stdout.Text != "" {
			t.Errorf("the host's listener was reached")
		}
		s.Network = NetFull
		if got := run(t, s); got.Stdout.Text != "reached\n" {
			t.Errorf("granted, it must work: %q", got.Stderr.Text)
		}
	})
}

func TestSignalsReachTheCommand(t *testing.T) {
	each(t, func(t *testing.T, s Spec, work string) {
		signals := make(chan os.Signal, 1)
		s.Signals = signals
		go func() {
			for {
				if _, err := os.Stat(filepath.Join(work, "ready")); err == nil {
					signals <- syscall.SIGUSR1
					return
				}
				time.Sleep(2 * time.Millisecond)
			}
		}()
		got := run(t, sh(s, "trap 'echo got; exit 5' USR1; touch ready; while :; do sleep 0.02; done"))
		if got.ExitCode != 5 || got.Stdout.Text != "got\n" {
			t.Errorf("exit %d, %q", got.ExitCode, got.Stdout.Text)
		}
	})
}

func TestCancelEndsTheRun(t *testing.T) {
	each(t, func(t *testing.T, s Spec, work string) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		s.Limits.Grace = 50 * time.Millisecond
		start := time.Now()
		res, err := NewRunner(host).Run(ctx, sh(s, "trap '' TERM; sleep 73.6"))
		if err != nil || res.ExitCode == 0 || time.Since(start) > 3*time.Second {
			t.Errorf("%+v %v after %v", res.Outcome, err, time.Since(start))
		}
		if left := processes(work, "73.6"); left != "" {
			t.Errorf("left %s", left)
		}
	})
}

func TestLimitsNameTheirOutcome(t *testing.T) {
	each(t, func(t *testing.T, s Spec, work string) {
		for _, tt := range []struct {
			name, script string
			limits       Limits
			outcome      Outcome
		}{
			{"file size", "head -c 200000 /dev/zero > big", Limits{FileSize: 100000}, FileLimit},
			{"cpu", "while :; do :; done", Limits{CPU: time.Second}, CPULimit},
			{"memory", "exec python3 -c 'x=[bytearray(10**7) for _ in range(10**3)]'", Limits{Memory: 128 << 20}, OutOfMem},
		} {
			c := sh(s, tt.script)
			tt.limits.Wall = 20 * time.Second
			c.Limits = tt.limits
			got := run(t, c)
			if tt.name == "memory" && got.Outcome == Exited && got.ExitCode == 1 && strings.Contains(got.Stderr.Text, "MemoryError") {
				continue // RLIMIT_DATA told the program first
			}
			if got.Outcome != tt.outcome || got.ExitCode == 0 {
				t.Errorf("%s: %s %d %v, want %s (%s)", tt.name, got.Outcome, got.ExitCode, got.LimitsHit, tt.outcome, got.Stderr.Text)
			}
		}
	})
}

func TestForkBombEndsInItsLimit(t *testing.T) {
	each(t, func(t *testing.T, s Spec, work string) {
		c := sh(s, "")
		c.Path, c.Argv = "/bin/bash", []string{"bash", "-c", ":(){ :|:& };:; sleep 30"}
		c.Limits = Limits{Tasks: 64, Wall: time.Second, Grace: 100 * time.Millisecond}
		start := time.Now()
		got := run(t, c)
		if time.Since(start) > 10*time.Second || got.ExitCode == 0 {
			t.Errorf("%s %d after %v", got.Outcome, got.ExitCode, time.Since(start))
		}
		if left := processes(work, "30"); left != "" {
			t.Errorf("left %s", left)
		}
	})
}

// Numbers of ended processes are given out again: a run may fork much more often
// than it has tasks at a time.
func TestManyShortProcessesFitInTheDefaultLimit(t *testing.T) {
	each(t, func(t *testing.T, s Spec, work string) {
		got := run(t, sh(s, "i=0; while [ $i -lt 1200 ]; do /bin/true || exit 9; i=$((i+1)); done; seq 1 50 | sort -n | tail -1 | cat; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do sleep 0.1 & done; wait; echo end"))
		if got.ExitCode != 0 || got.Stdout.Text != "50\nend\n" {
			t.Errorf("exit %d: %q %q", got.ExitCode, got.Stdout.Text, got.Stderr.Text)
		}
	})
}

// The root of a mount view is its own: a grant of "/" is refused by name there,
// and holds in the base tier.
func TestRootAsAWhole(t *testing.T) {
	each(t, func(t *testing.T, s Spec, work string) {
		s.View.Entries = append(s.View.Entries, Entry{Path: "/", Access: ReadOnly})
		res, err := NewRunner(host).Run(t.Context(), sh(s, "ls / >/dev/null"))
		if s.Tier == TierBase {
			if err != nil || res.ExitCode != 0 {
				t.Errorf("base: %v, %d %s", err, res.ExitCode, res.Stderr.Text)
			}
			return
		}
		e, ok := errors.AsType[*SetupError](err)
		if !ok || e.Stage != "filesystem" || !strings.Contains(e.Hint, "--tier base") {
			t.Errorf("full: %v, want a refusal with a hint", err)
		}
	})
}
