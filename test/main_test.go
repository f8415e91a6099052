package test

import (
	"fmt"
	"os"
	osexec "os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMain runs the tests below process 1 of a private pid and mount namespace:
// in the base tier a run's keeper uses kill(-1), and a fault there must not reach
// the machine. The same binary, started as a player, plays one part of a vector.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == playerWord {
		os.Exit(play(os.Args[2], os.Args[3]))
	}
	if len(os.Args) == 4 && os.Args[1] == partWord {
		os.Exit(playPart(os.Args[2], os.Args[3]))
	}
	if os.Getenv(privateVariable) != "" {
		os.Exit(m.Run())
	}
	os.Exit(inPrivateNamespace())
}

const privateVariable = "SANDBOXD_TEST_PRIVATE"

// inPrivateNamespace runs the tests, and removes what the run made.
func inPrivateNamespace() int {
	r, err := newRunPlaces()
	if err != nil {
		fmt.Fprintln(os.Stderr, "place for stages:", err)
		return 1
	}
	code := r.runTests()
	left := r.remove()
	if len(left) > 0 && (code == 0 || code == 1) {
		fmt.Fprintf(os.Stderr, "FAIL: the tests left behind:\n\t%s\n", strings.Join(left, "\n\t"))
		return 1
	}
	return code
}

func (r runPlaces) runTests() int {
	script := `mount --make-rprivate / && mount -t proc proc /proc && "$0" "$@"; exit $?`
	c := osexec.Command("/bin/sh", append([]string{"-c", script}, os.Args...)...)
	c.Env = append(os.Environ(), privateVariable+"=1", stagesVariable+"="+r.stages, "TMPDIR="+r.temp)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS, Pdeathsig: unix.SIGKILL}
	if uid, gid := os.Getuid(), os.Getgid(); uid != 0 {
		// mount(8) asks for uid 0, which the keeping of capabilities stands for.
		c.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		c.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
		c.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN}
		c.Args[2] = strings.Replace(script, `"$0"`, `setpriv --ambient-caps -all --inh-caps -all "$0"`, 1)
	}
	// One that ends us ends the tests first, and then what they made is removed.
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT)
	defer signal.Stop(asked)
	if err := c.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "private namespace:", err)
		return 1
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	select {
	case err := <-ended:
		if code := c.ProcessState.ExitCode(); code > 0 {
			return code
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "private namespace:", err)
			return 128
		}
		return 0
	case s := <-asked:
		c.Process.Kill() // process 1 of the namespace: all end with it
		<-ended
		return 128 + int(s.(syscall.Signal))
	}
}
