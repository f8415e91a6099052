package path

import (
	"errors"

	"golang.org/x/sys/unix"
)

// ErrOwnProcess reports a name that leads into /proc where only the process that
// opens it is meant: for a daemon that would be the daemon, not its client.
var ErrOwnProcess = errors.New("it leads through or into /proc, where the process that opens it is meant, not yours; name the file itself")

// OpenNamed opens what somebody named, close-on-exec, by open(2). Links are followed,
// unless flags has O_NOFOLLOW.
//
// On a thread with the file rights of another user than the process's (setfsuid(2))
// that somebody is a client of this process. The kernel lets a thread into /proc/self
// whatever its rights: to descriptors of the process, which lead past directories that
// are closed to the client, and to its memory map. So the links of /proc that lead to
// no name are not followed there, and nothing of /proc is opened: [ErrOwnProcess].
// It needs openat2(2), of Linux 5.6, and fails without.
func OpenNamed(name string, flags int) (int, error) {
	if !ForClient() {
		return ignoringEINTR(func() (int, error) { return unix.Open(name, flags|unix.O_CLOEXEC, 0) })
	}
	return OpenNamedAt(unix.AT_FDCWD, name, unix.OpenHow{Flags: uint64(flags)})
}

// OpenNamedAt is OpenNamed by openat2(2).
func OpenNamedAt(dir int, name string, how unix.OpenHow) (int, error) {
	how.Flags |= unix.O_CLOEXEC
	client := ForClient()
	if client {
		how.Resolve |= unix.RESOLVE_NO_MAGICLINKS
	}
	fd, err := ignoringEINTR(func() (int, error) { return unix.Openat2(dir, name, &how) })
	if !client {
		return fd, err
	}
	if err == unix.ELOOP && how.Flags&unix.O_NOFOLLOW == 0 && how.Resolve&unix.RESOLVE_NO_SYMLINKS == 0 {
		var st unix.Stat_t
		if unix.Fstatat(dir, name, &st, 0) != unix.ELOOP { // as a ring of links gives
			err = ErrOwnProcess
		}
	}
	if err != nil {
		return -1, err
	}
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil || st.Type == unix.PROC_SUPER_MAGIC {
		unix.Close(fd)
		return -1, errors.Join(err, ErrOwnProcess)
	}
	return fd, nil
}

// ForClient reports whether this thread has the file rights of another user than its
// process.
func ForClient() bool {
	// No user has the id -1: nothing is changed, and the present one is returned.
	now, _, _ := unix.RawSyscall(unix.SYS_SETFSUID, ^uintptr(0), 0, 0)
	return int(now) != unix.Geteuid()
}

func ignoringEINTR(f func() (int, error)) (int, error) {
	for {
		if n, err := f(); err != unix.EINTR {
			return n, err
		}
	}
}
