package seccomp

import (
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// attempt is something a confined program tries.
type attempt struct {
	name string
	do   func(s stage) error
	// with are the options of the filter it is tried under.
	with Options
	// want is the errno under the filter; 0 for honest attempts, EPERM if unset
	// for attacks.
	want syscall.Errno
	// rootOnly: an ordinary user cannot do it anyhow.
	rootOnly bool
	// happened judges from outside whether the attack had its effect. Nil: its
	// success is the effect.
	happened func(t *testing.T, e *effects) bool
}

func call(number uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	_, _, errno := unix.Syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5])
	return errnoErr(errno)
}

func pathArg(name string) uintptr {
	p, _ := unix.BytePtrFromString(name)
	return uintptr(unsafe.Pointer(p))
}

const here = ^uintptr(99) // AT_FDCWD

// withFile makes an ordinary file first.
func withFile(f func(name string) error) func(stage) error {
	return func(s stage) error {
		name := filepath.Join(s.dir, "file")
		if err := os.WriteFile(name, []byte("x"), 0o644); err != nil {
			return err
		}
		return f(name)
	}
}

// socketOf opens and closes a socket.
func socketOf(domain, kind, protocol int) func(stage) error {
	return func(stage) error {
		fd, err := unix.Socket(domain, kind, protocol)
		if err == nil {
			unix.Close(fd)
		}
		return err
	}
}

// newTask makes a child by a raw call that ends at once.
func newTask(number uintptr, args ...uintptr) error {
	var a [5]uintptr
	copy(a[:], args)
	pid, _, errno := unix.RawSyscall6(number, a[0], a[1], a[2], a[3], a[4], 0)
	if errno != 0 {
		return errno
	}
	if pid == 0 {
		unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
	_, err := unix.Wait4(int(pid), nil, 0, nil)
	return err
}

const fsNoDump = 0x40 // FS_NODUMP_FL of linux/fs.h

var attacks = []attempt{
	{name: "chmod set-user-id", do: withFile(func(n string) error { return unix.Chmod(n, 0o4755) }), happened: setuidFile},
	{name: "fchmod set-user-id", do: withFile(func(n string) error {
		fd, err := unix.Open(n, unix.O_RDONLY, 0)
		if err != nil {
			return err
		}
		return unix.Fchmod(fd, 0o4700)
	}), happened: setuidFile},
	{name: "fchmodat set-user-id", do: withFile(func(n string) error {
		return call(unix.SYS_FCHMODAT, here, pathArg(n), 0o104711)
	}), happened: setuidFile},
	{name: "fchmodat2 set-user-id", do: withFile(func(n string) error {
		return call(unix.SYS_FCHMODAT2, here, pathArg(n), 0o4711, 0)
	}), happened: setuidFile, want: anyRefusal},
	{name: "openat set-user-id", do: func(s stage) error {
		return call(unix.SYS_OPENAT, here, pathArg(s.dir+"/new"), unix.O_CREAT|unix.O_WRONLY, 0o4755)
	}, happened: setuidFile},
	{name: "openat set-user-id, upper halves set", do: func(s stage) error {
		return call(unix.SYS_OPENAT, here, pathArg(s.dir+"/new"), 1<<32|unix.O_CREAT|unix.O_WRONLY, 1<<32|0o4755)
	}, happened: setuidFile},
	{name: "O_TMPFILE set-user-id", do: func(s stage) error {
		fd, _, errno := unix.Syscall6(unix.SYS_OPENAT, here, pathArg(s.dir), unix.O_TMPFILE|unix.O_WRONLY, 0o4755, 0, 0)
		if errno != 0 {
			return errno
		}
		link := "/proc/self/fd/" + strconv.Itoa(int(fd))
		return unix.Linkat(unix.AT_FDCWD, link, unix.AT_FDCWD, s.dir+"/new", unix.AT_SYMLINK_FOLLOW)
	}, happened: setuidFile},
	{name: "openat2 set-user-id", do: func(s stage) error {
		_, err := unix.Openat2(unix.AT_FDCWD, s.dir+"/new", &unix.OpenHow{Flags: unix.O_CREAT | unix.O_WRONLY, Mode: 0o4755})
		return err
	}, happened: setuidFile, want: unix.ENOSYS},
	{name: "mknodat set-user-id", do: func(s stage) error {
		return unix.Mknodat(unix.AT_FDCWD, s.dir+"/new", unix.S_IFREG|0o4755, 0)
	}, happened: setuidFile},
	{name: "mknodat character device", do: func(s stage) error {
		return unix.Mknodat(unix.AT_FDCWD, s.dir+"/null", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3)))
	}, rootOnly: true, happened: deviceNode},
	{name: "mknodat block device", do: func(s stage) error {
		return unix.Mknodat(unix.AT_FDCWD, s.dir+"/disk", unix.S_IFBLK|0o666, int(unix.Mkdev(7, 0)))
	}, rootOnly: true, happened: deviceNode},
	{name: "inode flags through a read-only descriptor", do: withFile(func(n string) error {
		fd, err := unix.Open(n, unix.O_RDONLY, 0)
		if err != nil {
			return err
		}
		return unix.IoctlSetPointerInt(fd, fsSetFlags, fsNoDump)
	}), happened: noDumpFile},

	{name: "TIOCSTI", do: func(s stage) error { return typeInto(s.terminal, unix.TIOCSTI) }, happened: typed},
	{name: "TIOCSTI, upper half set", do: func(s stage) error { return typeInto(s.terminal, 1<<32|unix.TIOCSTI) }, happened: typed},

	{name: "clone into a user namespace", do: func(stage) error {
		return newTask(unix.SYS_CLONE, unix.CLONE_NEWUSER|uintptr(unix.SIGCHLD))
	}},
	{name: "clone3 into a user namespace", do: func(stage) error {
		args := [11]uint64{0: unix.CLONE_NEWUSER, 4: uint64(unix.SIGCHLD)} // struct clone_args: flags, ..., exit_signal
		return newTask(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args))
	}, want: unix.ENOSYS},
	{name: "unshare", do: func(stage) error { return unix.Unshare(unix.CLONE_NEWUTS) }, rootOnly: true},
	{name: "setns", do: func(stage) error {
		fd, err := unix.Open("/proc/self/ns/uts", unix.O_RDONLY, 0)
		if err != nil {
			return err
		}
		return unix.Setns(fd, unix.CLONE_NEWUTS)
	}, rootOnly: true},
	{name: "chroot", do: func(s stage) error { return unix.Chroot(s.dir) }, rootOnly: true},
	{name: "personality", do: func(stage) error { return call(unix.SYS_PERSONALITY, addrNoRandomize) }},

	{name: "personality after an own filter that allows everything", do: func(stage) error {
		err := install(encode([]unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}}))
		if err != nil {
			return unix.ENOTRECOVERABLE
		}
		return call(unix.SYS_PERSONALITY, addrNoRandomize)
	}},

	{name: "MPTCP", do: socketOf(unix.AF_INET, unix.SOCK_STREAM, 262), with: Options{Inet: true, Unix: true}},
	{name: "ICMP as a stream", do: socketOf(unix.AF_INET, unix.SOCK_STREAM, 1), with: Options{Inet: true, Unix: true}},
	{name: "raw socket", do: socketOf(unix.AF_INET, unix.SOCK_RAW, 255), with: Options{Inet: true, Unix: true}, rootOnly: true},
	{name: "packet socket", do: socketOf(unix.AF_PACKET, unix.SOCK_RAW, 0), with: Options{Inet: true, Unix: true}, rootOnly: true},
	{name: "VM socket", do: socketOf(unix.AF_VSOCK, unix.SOCK_STREAM, 0), with: Options{Inet: true, Unix: true}},
	{name: "crypto socket", do: socketOf(unix.AF_ALG, unix.SOCK_SEQPACKET, 0), with: Options{Inet: true, Unix: true}},
	{name: "netlink socket diagnosis", do: socketOf(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_INET_DIAG), with: Options{Inet: true, Unix: true}},
	{name: "netlink device events", do: socketOf(unix.AF_NETLINK, unix.SOCK_DGRAM, unix.NETLINK_KOBJECT_UEVENT), with: Options{Inet: true, Unix: true}},
	{name: "TCP without Inet", do: socketOf(unix.AF_INET, unix.SOCK_STREAM, 0), with: Options{Unix: true}},
	{name: "UDP over IPv6 without Inet", do: socketOf(unix.AF_INET6, unix.SOCK_DGRAM, 0), with: Options{Unix: true}},
	{name: "UNIX socket without Unix", do: socketOf(unix.AF_UNIX, unix.SOCK_STREAM, 0), with: Options{Inet: true}},
	{name: "datagram pair sends to a path", do: func(s stage) error {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		return unix.Sendto(pair[0], []byte("x"), 0, &unix.SockaddrUnix{Name: s.dir + "/service"})
	}, happened: datagramArrived},
	{name: "TCP fast open", do: func(s stage) error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		return unix.Sendto(fd, []byte("x"), unix.MSG_FASTOPEN, &unix.SockaddrInet4{Port: s.port, Addr: [4]byte{127, 0, 0, 1}})
	}, with: Options{Inet: true}, happened: connected},

	{name: "prlimit of another process", do: func(s stage) error {
		return unix.Prlimit(s.victim, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 77, Max: 77}, nil)
	}, happened: func(t *testing.T, e *effects) bool {
		limits, err := os.ReadFile("/proc/" + strconv.Itoa(e.stage.victim) + "/limits")
		if err != nil {
			t.Fatal(err)
		}
		return regexp.MustCompile(`Max open files +77 `).Match(limits)
	}},
	{name: "setpriority of another process", do: func(s stage) error { return unix.Setpriority(unix.PRIO_PROCESS, s.victim, 7) },
		happened: func(t *testing.T, e *effects) bool {
			n, err := unix.Getpriority(unix.PRIO_PROCESS, e.stage.victim)
			if err != nil {
				t.Fatal(err)
			}
			return n == 20-7
		}},
	{name: "sched_setscheduler of another process", do: func(s stage) error {
		var priority int32
		return call(unix.SYS_SCHED_SETSCHEDULER, uintptr(s.victim), unix.SCHED_BATCH, uintptr(unsafe.Pointer(&priority)))
	}, happened: func(t *testing.T, e *effects) bool {
		policy, _, errno := unix.Syscall(unix.SYS_SCHED_GETSCHEDULER, uintptr(e.stage.victim), 0, 0)
		if errno != 0 {
			t.Fatal(errno)
		}
		return policy == unix.SCHED_BATCH
	}},
	{name: "ioprio_set of another process", do: func(s stage) error {
		return call(unix.SYS_IOPRIO_SET, ioprioWhoProcess, uintptr(s.victim), 3<<13)
	}, happened: func(t *testing.T, e *effects) bool {
		class, _, errno := unix.Syscall(unix.SYS_IOPRIO_GET, ioprioWhoProcess, uintptr(e.stage.victim), 0)
		if errno != 0 {
			t.Fatal(errno)
		}
		return class>>13 == 3
	}},
	{name: "ptrace", do: func(s stage) error {
		if err := unix.PtraceAttach(s.victim); err != nil {
			return err
		}
		_, err := unix.Wait4(s.victim, nil, unix.WALL, nil)
		return err
	}},
	{name: "process_vm_readv", do: func(s stage) error {
		// At address 0: with access, EFAULT; without, EPERM.
		var b [1]byte
		local := []unix.Iovec{{Base: &b[0], Len: 1}}
		if _, err := unix.ProcessVMReadv(s.victim, local, []unix.RemoteIovec{{Base: 0, Len: 1}}, 0); err != unix.EFAULT {
			return err
		}
		return nil
	}},
	{name: "System V segment of another program", do: func(s stage) error {
		b, err := unix.SysvShmAttach(s.segment, 0, 0)
		if err != nil {
			return err
		}
		b[0] = 'x'
		return nil
	}, happened: func(t *testing.T, e *effects) bool { return e.memory[0] == 'x' }},
	{name: "memory file that can be executed", do: func(stage) error {
		_, err := unix.MemfdCreate("x", unix.MFD_CLOEXEC)
		return err
	}, with: Options{NoExecWrite: true}},
}

// anyRefusal stands for EPERM or ENOSYS: which one depends on the newest number
// that libseccomp knows.
const anyRefusal = syscall.Errno(10000)

// typeInto makes fd the controlling terminal and types a line into it.
func typeInto(fd int, request uintptr) error {
	if err := unix.IoctlSetInt(fd, unix.TIOCSCTTY, 0); err != nil {
		return err
	}
	key := byte('\n')
	return call(unix.SYS_IOCTL, uintptr(fd), request, uintptr(unsafe.Pointer(&key)))
}

// effects is what the outside looks at.
type effects struct {
	stage    stage
	terminal *os.File
	service  *net.UnixConn
	listener *net.TCPListener
	memory   []byte // of the System V segment
}

func setuidFile(t *testing.T, e *effects) bool {
	return anyFile(t, e, func(i fs.FileInfo) bool { return i.Mode()&fs.ModeSetuid != 0 })
}

func deviceNode(t *testing.T, e *effects) bool {
	return anyFile(t, e, func(i fs.FileInfo) bool { return i.Mode()&fs.ModeDevice != 0 })
}

func anyFile(t *testing.T, e *effects, is func(fs.FileInfo) bool) bool {
	t.Helper()
	entries, err := os.ReadDir(e.stage.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && is(info) {
			return true
		}
	}
	return false
}

func noDumpFile(t *testing.T, e *effects) bool {
	file, err := os.Open(filepath.Join(e.stage.dir, "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	const fsGetFlags = 0x80086601
	flags, err := unix.IoctlGetInt(int(file.Fd()), fsGetFlags)
	return err == nil && flags&fsNoDump != 0
}

func typed(t *testing.T, e *effects) bool {
	n, err := unix.IoctlGetInt(int(e.terminal.Fd()), unix.TIOCINQ)
	if err != nil {
		t.Fatal(err)
	}
	return n > 0
}

func datagramArrived(t *testing.T, e *effects) bool {
	e.service.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	n, _ := e.service.Read(make([]byte, 8))
	return n > 0
}

func connected(t *testing.T, e *effects) bool {
	e.listener.SetDeadline(time.Now().Add(100 * time.Millisecond))
	c, err := e.listener.Accept()
	if err == nil {
		c.Close()
	}
	return err == nil
}
