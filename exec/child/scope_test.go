package child

import (
	"os"
	osexec "os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"sandboxd/test/require"
)

// asFirst lets the test binary be process 1 of its own pid namespace, as sbx is
// in a container that was started with nothing else.
const asFirst = "SANDBOXD_TEST_FIRST"

func TestSignalsAreScopedForAnyStarter(t *testing.T) {
	if os.Getenv(asFirst) == "" {
		c := osexec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestSignalsAreScopedForAnyStarter$", "-test.v")
		c.Env = append(os.Environ(), asFirst+"=1")
		c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID}
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("as process 1: %v\n%s", err, out)
		}
	} else if os.Getpid() != 1 {
		t.Fatalf("pid %d, want 1", os.Getpid())
	}
	p := &Plan{}
	base(p)
	p.Ready()
	proc, err := Start(p, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer proc.Close()
	if !proc.Scoped {
		t.Error("the keeper's signals are not scoped")
	}
}

// What is out of the bounding set already needs no right to take it out: root in
// a sandbox, and a container without capabilities.
func TestBoundingSetThatIsEmptyAlready(t *testing.T) {
	require.Root(t, "only root has a right to lose")
	if mode := os.Getenv(asBare); mode != "" {
		p := &Plan{}
		p.Bounding(0)
		p.Ready()
		proc, err := Start(p, Options{})
		if err == nil {
			proc.Close()
		}
		if (err == nil) != (mode == "empty") {
			t.Errorf("%s: %v", mode, err)
		}
		return
	}
	for mode, bounding := range map[string]string{"empty": "-all", "left": "-all,+chown"} {
		c := osexec.CommandContext(t.Context(), "setpriv", "--bounding-set", bounding, "--inh-caps", "-all",
			executable(t), "-test.run=^TestBoundingSetThatIsEmptyAlready$")
		c.Env = append(os.Environ(), asBare+"="+mode)
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", mode, err, out)
		}
	}
}

const asBare = "SANDBOXD_TEST_BARE"

func executable(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}
