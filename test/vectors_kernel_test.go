package test

import (
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"sandboxd/test/require"
)

// kernelVectors are calls into parts of the kernel that a command has no use
// for. What would change the host is called with arguments that do nothing if
// let through, such as a name that is not there: the kernel's own answer to them
// shows that the call arrived.
func kernelVectors() []vector {
	var list []vector
	for _, c := range kernelCalls() {
		list = append(list, vector{name: "kernel " + c.name, rootOnly: c.rootOnly, reached: printed("through"), honest: ordinaryCalls,
			setup: func(s *scene) {
				if errors.Is(c.do(), unix.ENOSYS) {
					require.Missing(s, require.Host, "this kernel does not have it")
				}
			},
			attack: func(places) error { return through(c.do()) }})
	}
	return append(list,
		vector{name: "kernel user namespace by unshare", reached: printed("through"), honest: ordinaryCalls,
			attack: func(places) error { return through(osexec.Command("unshare", "--user", "true").Run()) }},
		vector{name: "kernel user namespace by clone", reached: printed("through"), honest: ordinaryCalls,
			attack: func(places) error {
				return through(newTask(unix.SYS_CLONE, unix.CLONE_NEWUSER|uintptr(unix.SIGCHLD), 0))
			}},
		vector{name: "kernel user namespace by clone3", reached: printed("through"), honest: ordinaryCalls,
			attack: func(places) error {
				args := [11]uint64{0: unix.CLONE_NEWUSER, 4: uint64(unix.SIGCHLD)} // struct clone_args: flags, ..., exit_signal
				return through(newTask(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args)))
			}},
		vector{name: "kernel mount in user namespace", reached: printed("tmpfs"), honest: ordinaryCalls,
			attack: func(p places) error {
				script := "mkdir -p m && mount -t tmpfs none m && grep -o 'work/m tmpfs' /proc/self/mounts"
				c := osexec.Command("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script)
				c.Stdout, c.Stderr = os.Stdout, os.Stderr
				return c.Run()
			}},
	)
}

// through prints that the kernel did the call or gave an answer of its own.
func through(err error) error {
	if err == nil || !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.ENOSYS) && !isExit(err) {
		fmt.Println("through:", err)
	}
	return err
}

func isExit(err error) bool {
	_, ok := errors.AsType[*osexec.ExitError](err)
	return ok
}

// newTask makes a child by a raw call that ends at once.
func newTask(number uintptr, args ...uintptr) error {
	pid, _, errno := unix.RawSyscall6(number, args[0], args[1], 0, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	if pid == 0 {
		unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
	_, err := unix.Wait4(int(pid), nil, unix.WALL, nil)
	return err
}

type kernelCall struct {
	name     string
	rootOnly bool // the kernel refuses it to others anyhow
	do       func() error
}

func call(number uintptr, args ...uintptr) func() error {
	return func() error {
		var a [6]uintptr
		copy(a[:], args)
		_, _, errno := unix.Syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5])
		return errnoOrNil(errno)
	}
}

// onPath makes a call whose argument number at is a path that is not there.
func onPath(number uintptr, at int, args ...uintptr) func() error {
	return func() error {
		path, err := unix.BytePtrFromString("/no/such")
		if err != nil {
			return err
		}
		var a [6]uintptr
		copy(a[:], args)
		a[at] = uintptr(unsafe.Pointer(path))
		err = call(number, a[:]...)()
		runtime.KeepAlive(path)
		return err
	}
}

func kernelCalls() []kernelCall {
	const none, cwd = ^uintptr(0), ^uintptr(99) // no descriptor, AT_FDCWD
	return []kernelCall{
		{"mount", true, onPath(unix.SYS_MOUNT, 1)},
		{"umount2", true, onPath(unix.SYS_UMOUNT2, 0)},
		{"open_tree", false, onPath(unix.SYS_OPEN_TREE, 1, cwd)},
		{"open_tree that clones", true, onPath(unix.SYS_OPEN_TREE, 1, cwd, 0, unix.OPEN_TREE_CLONE)},
		{"move_mount", true, onPath(unix.SYS_MOVE_MOUNT, 1, cwd, 0, cwd)},
		{"fsopen", true, onPath(unix.SYS_FSOPEN, 0)},
		{"fsconfig", false, call(unix.SYS_FSCONFIG, none, 99)},
		{"fsmount", true, call(unix.SYS_FSMOUNT, none)},
		{"fspick", true, onPath(unix.SYS_FSPICK, 1, cwd)},
		{"mount_setattr", true, onPath(unix.SYS_MOUNT_SETATTR, 1, cwd)},
		{"chroot", false, onPath(unix.SYS_CHROOT, 0)},
		{"pivot_root", true, onPath(unix.SYS_PIVOT_ROOT, 0)},
		{"setns", false, call(unix.SYS_SETNS, none, 0)},

		{"keyctl", false, call(unix.SYS_KEYCTL, unix.KEYCTL_GET_KEYRING_ID, uintptr(0xfffffffd), 0)}, // the session's
		{"add_key", false, call(unix.SYS_ADD_KEY, 0, 0, 0, 0, 0)},
		{"request_key", false, call(unix.SYS_REQUEST_KEY, 0, 0, 0, 0)},
		{"bpf", true, call(unix.SYS_BPF, 9999, 0, 0)},
		{"perf_event_open", false, call(unix.SYS_PERF_EVENT_OPEN, 0, 0, none, none, 0)},
		{"userfaultfd", false, call(unix.SYS_USERFAULTFD, 1|unix.O_CLOEXEC)}, // UFFD_USER_MODE_ONLY
		{"io_uring_setup", false, call(unix.SYS_IO_URING_SETUP, 1, 0)},

		{"swapon", true, onPath(unix.SYS_SWAPON, 0)},
		{"swapoff", true, onPath(unix.SYS_SWAPOFF, 0)},
		{"init_module", true, call(unix.SYS_INIT_MODULE, 0, 0, 0)},
		{"finit_module", true, call(unix.SYS_FINIT_MODULE, none, 0, 0)},
		{"delete_module", true, call(unix.SYS_DELETE_MODULE, 0, 0)},
		{"kexec_load", true, call(unix.SYS_KEXEC_LOAD, 0, 9999, 0, 0xffffffff)},
		{"kexec_file_load", true, call(unix.SYS_KEXEC_FILE_LOAD, none, none, 0, 0, 0xffffffff)},
		{"reboot", true, call(unix.SYS_REBOOT, 1, 2, 3, 0)},
		{"settimeofday", true, func() error { return unix.Settimeofday(&unix.Timeval{Usec: -1}) }},
		{"clock_settime", false, call(unix.SYS_CLOCK_SETTIME, 9999, 0)},
		{"adjtimex", false, call(unix.SYS_ADJTIMEX, 0)},
		{"clock_adjtime", false, call(unix.SYS_CLOCK_ADJTIME, 9999, 0)},
		{"sethostname", true, call(unix.SYS_SETHOSTNAME, 0, none)},
		{"setdomainname", true, call(unix.SYS_SETDOMAINNAME, 0, none)},
		{"syslog", true, call(unix.SYS_SYSLOG, 9999, 0, 0)},
		{"acct", true, onPath(unix.SYS_ACCT, 0)},
		{"quotactl", true, onPath(unix.SYS_QUOTACTL, 1)},
		{"quotactl_fd", false, call(unix.SYS_QUOTACTL_FD, none)},
		{"personality without randomisation", false, call(unix.SYS_PERSONALITY, 0x0040000)},
	}
}

// ordinaryCalls: processes, threads and what every program does.
func ordinaryCalls(places) error {
	if err := osexec.Command("/bin/sh", "-c", "sleep 0 & (true) | cat; wait").Run(); err != nil {
		return err
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		_, err := unix.Getrandom(make([]byte, 8), 0)
		done <- err
	}()
	return <-done
}
