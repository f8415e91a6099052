package child

import (
	"errors"
	"fmt"
	"io"
	"os"
	osexec "os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestMain runs the tests as children of process 1 of a private pid namespace:
// the keeper uses kill(-1), and a fault there must not reach the machine.
func TestMain(m *testing.M) {
	if os.Getenv(asStreams) != "" {
		os.Exit(streamsProgram())
	}
	if os.Getenv(asEarly) != "" {
		os.Exit(earlyProgram())
	}
	if os.Getenv("SANDBOXD_TEST_PRIVATE") == "" {
		os.Exit(inPrivateNamespace())
	}
	if os.Getpid() == 1 && os.Getenv(asFirst) == "" {
		os.Exit(reExec(nil))
	}
	os.Exit(m.Run())
}

func reExec(attr *syscall.SysProcAttr) int {
	c := osexec.Command("/proc/self/exe", os.Args[1:]...)
	c.Env = append(os.Environ(), "SANDBOXD_TEST_PRIVATE=1")
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.SysProcAttr = attr
	if err := c.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func inPrivateNamespace() int {
	flags := uintptr(unix.CLONE_NEWPID | unix.CLONE_NEWNS)
	attr := &syscall.SysProcAttr{Cloneflags: flags}
	if os.Getuid() != 0 {
		attr.Cloneflags |= unix.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
	}
	c := osexec.Command("/bin/sh", "-c", `mount --make-rprivate / && mount -t proc proc /proc && exec "$0" "$@"`)
	exe, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	c.Args = append(c.Args, exe)
	c.Args = append(c.Args, os.Args[1:]...)
	c.Env = append(os.Environ(), "SANDBOXD_TEST_PRIVATE=1")
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.SysProcAttr = attr
	if err := c.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "private namespace:", err)
		return 1
	}
	return 0
}

// outcome is what a test sees of a run.
type outcome struct {
	status syscall.WaitStatus
	code   int32
	output string
}

// shell runs a script with no confinement but what prepare adds.
func shell(t *testing.T, script string, ns uint64, prepare func(*Plan), edit func(*Command)) (outcome, *Process, error) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	null, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	p := &Plan{}
	if prepare != nil {
		prepare(p)
	}
	c := Command{Path: "/bin/sh", Dir: "/", Argv: []string{"sh", "-c", script}, Env: []string{"PATH=/usr/bin:/bin", "A=1"},
		Stdio: [3]int{int(null.Fd()), int(w.Fd()), int(w.Fd())}, NoRuleset: true, NoFilter: true, Umask: 0o22}
	if edit != nil {
		edit(&c)
	}
	p.Run(c)
	proc, err := Start(p, Options{Namespaces: ns})
	w.Close()
	if err != nil {
		return outcome{}, nil, err
	}
	defer proc.Close()
	var got outcome
	for {
		m, err := proc.Receive()
		if err != nil {
			t.Fatalf("the keeper went away: %v", err)
		}
		if m.Type == ExitedMessage {
			got.code, got.status = m.A, syscall.WaitStatus(m.B)
		}
		if m.Type == Done {
			break
		}
	}
	out, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	got.output = string(out)
	return got, proc, nil
}

func base(p *Plan) { p.Scope(); p.Subreaper(); p.Drop() }

var namespaces = uint64(unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWNET | unix.CLONE_NEWNS)

func TestCommandRunsAndReportsItsStatus(t *testing.T) {
	for _, tt := range []struct {
		script       string
		code, status int32
	}{
		{"exit 0", 1, 0},
		{"exit 7", 1, 7},
		{"kill -9 $$", 2, 9},
		{"kill -15 $$", 2, 15},
	} {
		for name, ns := range map[string]uint64{"base": 0, "pid": namespaces} {
			got, _, err := shell(t, tt.script, ns, base, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got.code != tt.code || int32(got.status) != tt.status {
				t.Errorf("%s: %q: code %d status %d, want %d %d", name, tt.script, got.code, got.status, tt.code, tt.status)
			}
		}
	}
}

func TestCommandSeesOnlyWhatThePlanSays(t *testing.T) {
	got, _, err := shell(t, `for n in 3 4 5 6 7 8 9 10 11 12 200 201 202; do [ -e /proc/$$/fd/$n ] && echo "open: $n"; done; echo "$A:$0:$(pwd):$(umask)"; ps -o pid=,sid= -p $$`, 0, base, func(c *Command) {
		c.Argv[0] = "sh"
		c.Dir = "/usr"
		c.Umask = 0o77
	})
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitN(got.output, "\n", 2)
	if want := "1:sh:/usr:0077"; lines[0] != want {
		t.Errorf("got %q, want %q", lines[0], want)
	}
	f := strings.Fields(lines[1])
	if len(f) != 2 || f[0] != f[1] {
		t.Errorf("pid and session %q: the command must lead its own session", lines[1])
	}
}

func TestFailureNamesTheStage(t *testing.T) {
	for _, tt := range []struct {
		name, stage string
		err         error
		prepare     func(*Plan)
		edit        func(*Command)
	}{
		{"no such program", "exec", unix.ENOENT, nil, func(c *Command) { c.Path = "/no/such" }},
		{"not executable", "exec", unix.EACCES, nil, func(c *Command) { c.Path = "/etc/passwd" }},
		{"no such directory", "directory", unix.ENOENT, nil, func(c *Command) { c.Dir = "/no/such" }},
		{"no ruleset", "landlock", unix.EBADF, nil, func(c *Command) { c.NoRuleset = false }},
		{"empty filter", "seccomp", unix.EINVAL, nil, func(c *Command) { c.NoFilter = false }},
		{"missing source", "mount", unix.ENOENT, func(p *Plan) { p.Tree("/no/such", 0, 0) }, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := shell(t, "true", 0, tt.prepare, tt.edit)
			e, ok := errors.AsType[*StartError](err)
			if !ok || e.Stage != tt.stage || !errors.Is(err, tt.err) {
				t.Errorf("got %v, want stage %s: %v", err, tt.stage, tt.err)
			}
		})
	}
}

// What the command leaves behind ends with it, however it detached itself.
func TestTreeEndsWithTheCommand(t *testing.T) {
	for name, ns := range map[string]uint64{"base": 0, "pid": namespaces} {
		for _, script := range []string{
			"sleep 71.3 & exit 0",
			"setsid sleep 71.3 & exit 0",
			"(setsid sh -c '(trap \"\" TERM HUP INT; sleep 71.3) & sleep 71.3') & sleep 0.1; exit 0",
			"sh -c 'kill -STOP $$; sleep 71.3' & sleep 0.1; exit 0",
		} {
			if _, _, err := shell(t, script+" >/dev/null 2>&1", ns, base, nil); err != nil {
				t.Fatal(err)
			}
			if left := running("71.3"); left != "" {
				t.Errorf("%s: %q left %s", name, script, left)
			}
		}
	}
}

// The keeper may leave while an order is on its way to it. What it said before is
// not lost by that.
func TestStatusSurvivesAnUnreadOrder(t *testing.T) {
	for range 300 {
		p := &Plan{}
		base(p)
		null, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		fd := int(null.Fd())
		p.Run(Command{Path: "/bin/true", Dir: "/", Argv: []string{"true"}, Stdio: [3]int{fd, fd, fd}, NoRuleset: true, NoFilter: true})
		proc, err := Start(p, Options{})
		null.Close()
		if err != nil {
			t.Fatal(err)
		}
		stop := make(chan struct{})
		go func() {
			defer close(stop)
			for proc.Send(Message{Type: Measure}) == nil {
			}
		}()
		seen := false
		for {
			m, err := proc.Receive()
			if err != nil {
				t.Fatalf("before the end: %v", err)
			}
			seen = seen || m.Type == ExitedMessage
			if m.Type == Done {
				break
			}
		}
		if !seen {
			t.Fatal("the status was lost")
		}
		<-stop
		proc.Close()
	}
}

func running(arg string) string {
	out, _ := osexec.Command("sh", "-c", "grep -al '"+arg+"' /proc/[0-9]*/cmdline 2>/dev/null | grep -v /self/ ; true").Output()
	var left []string
	for _, f := range strings.Fields(string(out)) {
		b, err := os.ReadFile(f)
		if err == nil && strings.HasPrefix(string(b), "sleep\x00") {
			left = append(left, f)
		}
	}
	return strings.Join(left, " ")
}

func TestScopeSparesOutsiders(t *testing.T) {
	outsider := osexec.Command("sleep", "72.3")
	if err := outsider.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { outsider.Process.Kill(); outsider.Wait() }()
	_, proc, err := shell(t, "sleep 71.3 & exit 0", 0, base, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !proc.Scoped {
		t.Error("signals are not scoped on this kernel")
	}
	time.Sleep(20 * time.Millisecond)
	if err := outsider.Process.Signal(syscall.Signal(0)); err != nil || running("72.3") == "" {
		t.Errorf("the outsider was hit: %v", err)
	}
}
