package seccomp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"sandboxd/test/require"
)

// A filter cannot be taken off again, so what is tried under one is tried in a
// child: this binary itself, told by the environment what to do.
const roleVariable = "SANDBOXD_TEST_SECCOMP_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		os.Exit(playRole(role))
	}
	os.Exit(m.Run())
}

// playRole binds the process to the filter on descriptor 3, if there is one,
// then makes one attempt and prints its errno, or runs a program.
func playRole(role string) int {
	runtime.LockOSThread()
	program, err := io.ReadAll(os.NewFile(3, "filter"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "filter:", err)
		return 2
	}
	if err := install(program); err != nil {
		fmt.Fprintln(os.Stderr, "install:", err)
		return 2
	}
	if name, ok := strings.CutPrefix(role, "exec:"); ok {
		fmt.Fprintln(os.Stderr, unix.Exec(name, os.Args[1:], os.Environ()))
		return 2
	}
	stage := stageOfChild()
	probes := []attempt{{name: "probe and compile", do: probeAndCompile}}
	for _, a := range slices.Concat(attacks, honest, probes) {
		if a.name == role {
			fmt.Print(int(errnoOf(a.do(stage))))
			return 0
		}
	}
	if call, ok := strings.CutPrefix(role, "call:"); ok {
		n, _ := strconv.Atoi(call)
		none := ^uintptr(0)
		_, _, errno := unix.Syscall6(uintptr(n), none, none, none, none, none, none)
		fmt.Print(int(errno))
		return 0
	}
	fmt.Fprintln(os.Stderr, "no such role:", role)
	return 2
}

// install binds every thread, as exec/child does for its only one.
func install(program []byte) error {
	if len(program) == 0 {
		return nil
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	code := decode(program)
	fprog := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&fprog)))
	return errnoErr(errno)
}

func errnoErr(errno syscall.Errno) error {
	if errno != 0 {
		return errno
	}
	return nil
}

// errnoOf returns 0 for nil and a number no call gives for other errors.
func errnoOf(err error) syscall.Errno {
	if err == nil {
		return 0
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	fmt.Fprintln(os.Stderr, err)
	return 9999
}

// stage is what an attempt finds around it.
type stage struct {
	dir      string // writable
	victim   int    // a process of the same user outside
	terminal int    // descriptor of a terminal's slave side, or -1
	port     int    // TCP port on loopback where somebody listens
	segment  int    // System V segment of the same user
}

const stageVariable = "SANDBOXD_TEST_SECCOMP_STAGE"

func stageOfChild() stage {
	s := stage{}
	fmt.Sscan(os.Getenv(stageVariable), &s.dir, &s.victim, &s.terminal, &s.port, &s.segment)
	return s
}

func (s stage) String() string {
	return fmt.Sprint(s.dir, " ", s.victim, " ", s.terminal, " ", s.port, " ", s.segment)
}

// child prepares this binary in a role, bound to f (nothing if f is zero).
func child(t testing.TB, role string, f Filter, uid int, s stage, terminal *os.File, args ...string) *exec.Cmd {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := write.Write(f.BPF); err != nil { // far below a pipe's 64 KiB
		t.Fatal(err)
	}
	write.Close()
	t.Cleanup(func() { read.Close() })
	// By this name the binary can be run by a user who cannot reach its path.
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Dir = s.dir
	cmd.ExtraFiles = []*os.File{read}
	s.terminal = -1
	if terminal != nil {
		cmd.ExtraFiles, s.terminal = append(cmd.ExtraFiles, terminal), 4
	}
	cmd.Env = append(os.Environ(), roleVariable+"="+role, stageVariable+"="+s.String())
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setsid: true}
	if uid != os.Getuid() {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}
	}
	return cmd
}

// try makes one attempt in a child and returns its errno, and the signal if one
// ended the child.
func try(t testing.TB, role string, f Filter, uid int, s stage, terminal *os.File) (syscall.Errno, syscall.Signal) {
	t.Helper()
	cmd := child(t, role, f, uid, s, terminal)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signaled() {
		return 0, exit.Sys().(syscall.WaitStatus).Signal()
	}
	n, convErr := strconv.Atoi(string(out))
	if err != nil || convErr != nil {
		t.Fatalf("%s: %v, output %q, %s", role, err, out, &stderr)
	}
	return syscall.Errno(n), 0
}

// users are those the tests can act as: root and an ordinary one, or whoever
// runs the tests.
func users() []int {
	if os.Getuid() == 0 {
		return []int{0, 1000}
	}
	return []int{os.Getuid()}
}

// requireSeccomp skips where filters cannot be used, unless they must be.
func requireSeccomp(t *testing.T) {
	t.Helper()
	if s := Probe(); !s.Available {
		require.Missing(t, require.Seccomp, s.Err)
	}
}

// newStage makes a directory that uid owns and a process of uid outside.
func newStage(t *testing.T, uid int) stage {
	t.Helper()
	dir, err := os.MkdirTemp("", "seccomp")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if os.Getuid() == 0 {
		if err := os.Chown(dir, uid, uid); err != nil {
			t.Fatal(err)
		}
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		t.Fatal(err)
	}
	victim := exec.Command("sleep", "600")
	victim.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if uid != os.Getuid() {
		victim.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}
	}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { victim.Process.Kill(); victim.Wait() })
	return stage{dir: dir, victim: victim.Process.Pid}
}
