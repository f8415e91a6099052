package exec

import (
	"fmt"
	"os"
	osexec "os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMain runs the tests twice, as root and as an ordinary user, each time below
// process 1 of a private pid namespace: without a pid namespace of its own a
// run's keeper uses kill(-1), and a fault there must not reach the machine.
func TestMain(m *testing.M) {
	if os.Getenv("SANDBOXD_TEST_PRIVATE") != "" {
		os.Exit(m.Run())
	}
	code := inPrivateNamespace(os.Getuid())
	if os.Getuid() == 0 && code == 0 {
		fmt.Println("again as uid 1000:")
		code = inPrivateNamespace(1000)
	}
	os.Exit(code)
}

func inPrivateNamespace(uid int) int {
	script := `mount --make-rprivate / && mount -t proc proc /proc && ` + becomes(uid)
	c := osexec.Command("/bin/sh", append([]string{"-c", script, "test"}, arguments(uid)...)...)
	exe, err := os.Open("/proc/self/exe")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer exe.Close()
	c.ExtraFiles = []*os.File{exe}
	c.Env = append(os.Environ(), "SANDBOXD_TEST_PRIVATE=1")
	if uid != os.Getuid() {
		c.Env = append(c.Env, "HOME=/tmp")
	}
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS}
	if os.Getuid() != 0 {
		c.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		c.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
	}
	if err := c.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "private namespace:", err)
		return 1
	}
	return 0
}

// arguments are the test binary's own, less the files that only the first user
// can write.
func arguments(uid int) []string {
	return slices.DeleteFunc(slices.Clone(os.Args[1:]), func(a string) bool {
		return uid != os.Getuid() && (strings.HasPrefix(a, "-test.testlogfile") || strings.HasPrefix(a, "-test.coverprofile"))
	})
}

// becomes is the last command of the set-up: this binary, by descriptor 3, since
// its path may lie in a directory that the user cannot enter. A shell stays
// process 1 and reaps.
func becomes(uid int) string {
	if uid == os.Getuid() {
		return `/proc/self/fd/3 "$@"; exit $?`
	}
	return fmt.Sprintf(`setpriv --reuid %d --regid %d --clear-groups /proc/self/fd/3 "$@"; exit $?`, uid, uid)
}
