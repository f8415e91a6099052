package landlock

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ops are the operations of trials. They make the system call themselves and
// on the bound thread.
var ops = map[string]op{
	"execute":     func(tr trial) error { return exec.Command(tr.in("exe")).Run() },
	"read":        func(tr trial) error { return openClose(tr.in("file"), unix.O_RDONLY) },
	"write":       func(tr trial) error { return openClose(tr.in("file"), unix.O_WRONLY) },
	"list":        func(tr trial) error { return openClose(tr.in("."), unix.O_RDONLY|unix.O_DIRECTORY) },
	"create":      func(tr trial) error { return openClose(tr.in("new"), unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL) },
	"rmdir":       func(tr trial) error { return unix.Rmdir(tr.in("empty")) },
	"unlink":      func(tr trial) error { return unix.Unlink(tr.in("file")) },
	"mkdir":       func(tr trial) error { return unix.Mkdir(tr.in("new"), 0o755) },
	"symlink":     func(tr trial) error { return unix.Symlink("x", tr.in("new")) },
	"mknod reg":   func(tr trial) error { return unix.Mknod(tr.in("new"), unix.S_IFREG|0o644, 0) },
	"mknod fifo":  func(tr trial) error { return unix.Mknod(tr.in("new"), unix.S_IFIFO|0o644, 0) },
	"mknod sock":  func(tr trial) error { return unix.Mknod(tr.in("new"), unix.S_IFSOCK|0o644, 0) },
	"mknod char":  func(tr trial) error { return unix.Mknod(tr.in("new"), unix.S_IFCHR|0o644, int(unix.Mkdev(1, 3))) },
	"mknod block": func(tr trial) error { return unix.Mknod(tr.in("new"), unix.S_IFBLK|0o644, int(unix.Mkdev(7, 0))) },
	"rename":      func(tr trial) error { return unix.Rename(tr.in("a/f"), tr.in("b/f")) },
	"rename dir":  func(tr trial) error { return unix.Rename(tr.in("empty"), tr.in("b/empty")) },
	"exchange": func(tr trial) error {
		return unix.Renameat2(-1, tr.in("a/f"), -1, tr.in("b"), unix.RENAME_EXCHANGE)
	},
	"link":     func(tr trial) error { return unix.Link(tr.in("a/f"), tr.in("b/f")) },
	"truncate": func(tr trial) error { return unix.Truncate(tr.in("file"), 1) },
	"o_trunc":  func(tr trial) error { return openClose(tr.in("file"), unix.O_WRONLY|unix.O_TRUNC) },
	"ioctl":    ioctlRandom,

	"read out":     func(tr trial) error { return openClose(tr.out("file"), unix.O_RDONLY) },
	"write out":    func(tr trial) error { return openClose(tr.out("file"), unix.O_WRONLY) },
	"truncate out": func(tr trial) error { return unix.Truncate(tr.out("file"), 1) },
	"move out":     func(tr trial) error { return unix.Rename(tr.in("a/f"), tr.out("f")) },
	"move in":      func(tr trial) error { return unix.Rename(tr.out("file"), tr.in("stolen")) },
	"cat out":      func(tr trial) error { return exitStatus(exec.Command("cat", tr.out("file")).Run()) },
	"cat in":       func(tr trial) error { return exitStatus(exec.Command("cat", tr.in("file")).Run()) },
	"open":         func(tr trial) error { return openClose(tr.Args[0], unix.O_RDONLY) },
	"open rw":      func(tr trial) error { return openClose(tr.Args[0], unix.O_RDWR) },

	"connect tcp": func(tr trial) error { return tcp(tr.Args[0], unix.Connect) },
	"bind tcp":    func(tr trial) error { return tcp(tr.Args[0], unix.Bind) },

	"signal":         func(tr trial) error { return unix.Kill(number(tr.Args[0]), 0) },
	"signal child":   signalChild,
	"abstract":       func(tr trial) error { return connectAbstract(tr.Args[0]) },
	"abstract child": ownAbstract,

	"17 layers": stackLayers,
	"replaced":  replacedPath,
	"filtered":  filteredProbe,
}

func (tr trial) in(name string) string  { return filepath.Join(tr.Dir, "in", name) }
func (tr trial) out(name string) string { return filepath.Join(tr.Dir, "out", name) }

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

func openClose(path string, flags int) error {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

func exitStatus(err error) error {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return fmt.Errorf("exit %d", exit.ExitCode())
	}
	return err
}

// ioctlRandom asks for the entropy count, which every user may.
func ioctlRandom(trial) error {
	fd, err := unix.Open("/dev/urandom", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	defer unix.Close(fd)
	_, err = unix.IoctlGetInt(fd, unix.RNDGETENTCNT)
	return err
}

func tcp(port string, call func(int, unix.Sockaddr) error) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	defer unix.Close(fd)
	return call(fd, &unix.SockaddrInet4{Port: number(port), Addr: [4]byte{127, 0, 0, 1}})
}

func signalChild(trial) error {
	cmd := exec.Command("sleep", "10")
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	err := unix.Kill(cmd.Process.Pid, unix.SIGKILL)
	cmd.Wait()
	return err
}

func connectAbstract(name string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	defer unix.Close(fd)
	return unix.Connect(fd, &unix.SockaddrUnix{Name: "@" + name})
}

func ownAbstract(tr trial) error {
	name := fmt.Sprintf("landlock-test-%d", os.Getpid())
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: "@" + name}); err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	if err := unix.Listen(fd, 1); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	return connectAbstract(name)
}

// stackLayers binds itself until the kernel has enough, and answers how often.
func stackLayers(tr trial) error {
	for n := 0; n < 2*MaxLayers; n++ {
		fd, flags, _, err := tr.Ruleset.Open(tr.support())
		if err != nil {
			return err
		}
		err = Restrict(fd, flags)
		unix.Close(fd)
		if errors.Is(err, ErrTooManyLayers) {
			return fmt.Errorf("%d layers, then: %w", n, err)
		}
		if err != nil {
			return err
		}
	}
	return errors.New("no end of layers")
}

// replacedPath opens the ruleset, swaps the granted directory for another, and
// binds itself: the rule stays with the old one.
func replacedPath(tr trial) error {
	fd, flags, _, err := tr.Ruleset.Open(tr.support())
	if err != nil {
		return err
	}
	err = errors.Join(
		unix.Rename(tr.in("."), tr.out("old")),
		unix.Mkdir(tr.in("."), 0o755),
		os.WriteFile(tr.in("file"), nil, 0o644),
		Restrict(fd, flags))
	if err != nil {
		return err
	}
	if err := openClose(tr.out("old/file"), unix.O_RDONLY); err != nil {
		return fmt.Errorf("old: %w", err)
	}
	return openClose(tr.in("file"), unix.O_RDONLY)
}

// filteredProbe puts a filter around itself that answers Args[1] to the call
// numbered Args[0] (or to all three of Landlock's, 0), then probes.
func filteredProbe(tr trial) error {
	if err := refuseCall(number(tr.Args[0]), number(tr.Args[1])); err != nil {
		return fmt.Errorf("filter: %w", err)
	}
	s := Probe()
	if s.ABI != 0 || s.Err == nil {
		return fmt.Errorf("Probe() = %+v", s)
	}
	_, _, _, err := tr.Ruleset.Open(s)
	if !errors.Is(err, ErrNotSupported) {
		return fmt.Errorf("Open: %v, want ErrNotSupported", err)
	}
	return err
}

// refuseCall installs a seccomp filter for all threads.
func refuseCall(nr, errno int) error {
	first, last := uint32(nr), uint32(nr)
	if nr == 0 {
		first, last = unix.SYS_LANDLOCK_CREATE_RULESET, unix.SYS_LANDLOCK_RESTRICT_SELF
	}
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the call's number
		{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, K: first, Jf: 2},
		{Code: unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K, K: last, Jt: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(errno)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, e := syscall.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	if e != 0 {
		return e
	}
	return nil
}
