package api

import (
	"errors"
	"net"
	"os"
	osexec "os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"sandboxd/test/require"
)

const honestStatus = "Name:\tsh\nUmask:\t0022\nPPid:\t41\nNSpid:\t42\nNoNewPrivs:\t0\nSeccomp:\t0\nSeccomp_filters:\t0\n"

func TestStatusOfAProcess(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       process
		bad        bool
	}{
		{"honest", honestStatus, process{parent: 41}, false},
		{"nested", strings.Replace(honestStatus, "NSpid:\t42", "NSpid:\t42\t7\t1", 1), process{parent: 41, nesting: 2}, false},
		{"bound", strings.Replace(strings.Replace(honestStatus, "Privs:\t0", "Privs:\t1", 1), "filters:\t0", "filters:\t3", 1), process{parent: 41, bound: true, filters: 3}, false},
		{"a field that is missing", strings.Replace(honestStatus, "NoNewPrivs", "Other", 1), process{}, true},
		{"cut", honestStatus[:30], process{}, true},
		{"no number", strings.Replace(honestStatus, "PPid:\t41", "PPid:\tx", 1), process{}, true},
		{"nothing", "", process{}, true},
	} {
		got, err := parseStatus([]byte(tt.text))
		if (err != nil) != tt.bad || err == nil && got != tt.want {
			t.Errorf("%s: %+v, %v, want %+v, error %v", tt.name, got, err, tt.want, tt.bad)
		}
	}
}

// Who asks from outside is let through, also by a chain of parents; what cannot be
// seen is not.
func TestPeersThatCannotBeSeenAreRefused(t *testing.T) {
	j, err := newJudge()
	if err != nil {
		t.Fatal(err)
	}
	if why := j.confined(credentials{PID: os.Getpid(), pidfd: -1}); why != "" {
		t.Errorf("this process: %s", why)
	}
	for name, pid := range map[string]int{"a container's": 0, "one that has ended": 1 << 30} {
		if why := j.confined(credentials{PID: pid, pidfd: -1}); why == "" {
			t.Errorf("%s process is let through", name)
		}
	}
}

// A number is trusted as long as the process that had it when the daemon started has
// it. What gets it later is looked at like any other.
func TestNumberOfADeadAncestorIsNotTrusted(t *testing.T) {
	require.Root(t, "to make a pid namespace")
	j, err := newJudge()
	if err != nil {
		t.Fatal(err)
	}
	if got := j.confined(credentials{PID: os.Getppid(), pidfd: -1}); got != "" {
		t.Errorf("the parent of the daemon: %s", got)
	}
	inside := osexec.Command("sleep", "1000")
	inside.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	if err := inside.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { inside.Process.Kill(); inside.Wait() }()
	pid := inside.Process.Pid
	start, err := startOf(pid)
	if err != nil || start < j.start() {
		t.Fatalf("it started at %d, the test at %d, %v", start, j.start(), err)
	}
	// As if an ancestor had had this number and ended.
	j.above[pid] = j.start() - 1
	if why := j.confined(credentials{PID: pid, pidfd: -1}); !strings.Contains(why, "pid namespace") {
		t.Errorf("a process in a pid namespace that got the number of an ancestor: %q", why)
	}
	j.above[pid] = start // as if it were the ancestor itself
	if why := j.confined(credentials{PID: pid, pidfd: -1}); why != "" {
		t.Errorf("an ancestor that lives: %s", why)
	}
}

func TestOldKernelAloneKnowsNoPidfd(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		want int
		bad  bool
	}{
		{"answered", nil, 7, false},
		{"before 6.5", unix.ENOPROTOOPT, -1, false},
		{"the peer has ended", unix.ESRCH, -1, true},
		{"the peer has ended, before 6.16", unix.EINVAL, -1, true},
		{"no descriptor is free", unix.EMFILE, -1, true},
		{"no memory", unix.ENOMEM, -1, true},
	} {
		got, err := peerPidfd(func() (int, error) { return 7, tt.err })
		if got != tt.want || (err != nil) != tt.bad {
			t.Errorf("%s: %d, %v", tt.name, got, err)
		}
	}
}

// A daemon whose descriptors are used up refuses, instead of knowing a peer less well.
func TestPeerWithoutAPidfdIsRefused(t *testing.T) {
	if os.Getenv("API_TEST_NO_DESCRIPTORS") == "" {
		c := osexec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		c.Env = append(os.Environ(), "API_TEST_NO_DESCRIPTORS=1")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: t.TempDir() + "/s", Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	c, err := l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	cred, err := readCredentials(c)
	if err != nil || cred.PID != os.Getpid() {
		t.Fatalf("with descriptors: %+v, %v", cred, err)
	}
	if cred.pidfd < 0 {
		require.Missing(t, require.Host, "this kernel has no SO_PEERPIDFD")
	}
	cred.close()
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	before := limit
	defer func() { _ = unix.Setrlimit(unix.RLIMIT_NOFILE, &before) }()
	limit.Cur = 3
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if cred, err := readCredentials(c); !errors.Is(err, unix.EMFILE) {
		t.Errorf("without a descriptor: %+v, %v", cred, err)
	}
}

func BenchmarkPeer(b *testing.B) {
	j, err := newJudge()
	if err != nil {
		b.Fatal(err)
	}
	delete(j.above, os.Getpid())
	for b.Loop() {
		if why := j.confined(credentials{PID: os.Getpid(), pidfd: -1}); why != "" {
			b.Fatal(why)
		}
	}
}
