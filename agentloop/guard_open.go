package agentloop

import (
	"errors"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

var (
	// errPseudo reports a mount of the kernel's own, such as procfs.
	errPseudo = errors.New("not a file system with files")
	// errForeign reports a directory that the run's user could not have
	// opened either.
	errForeign = errors.New("not the command's")
)

const openDirFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_NONBLOCK

// openDirAt opens the directory called name, one component, and follows no
// link. Mounts are entered (a volume can hold a repository), the kernel's
// own file systems are not.
func openDirAt(dir int, name string) (int, error) {
	how := unix.OpenHow{Flags: openDirFlags, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV}
	fd, err := unix.Openat2(dir, name, &how)
	switch {
	case errors.Is(err, unix.EXDEV):
		return openMount(dir, name)
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM):
		// No openat2 here: one component with O_NOFOLLOW cannot leave either.
		return unix.Openat(dir, name, openDirFlags, 0)
	}
	return fd, err
}

func openMount(dir int, name string) (int, error) {
	fd, err := unix.Openat(dir, name, openDirFlags, 0)
	if err != nil {
		return -1, err
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err == nil {
		switch fs.Type {
		case unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC,
			unix.DEVPTS_SUPER_MAGIC, unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC, unix.SECURITYFS_MAGIC, unix.BPF_FS_MAGIC:
			unix.Close(fd)
			return -1, errPseudo
		}
	}
	return fd, nil
}

// openShut opens a directory whose mode shuts its owner out: a command can make
// one to hide what is in it. The mode that the caller has to put back is
// returned. What belongs to somebody else than uid was shut to the command too.
func openShut(dir int, name string, uid int) (fd int, mode uint32, changed bool, err error) {
	handle, err := unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, 0, false, err
	}
	defer unix.Close(handle)
	var st unix.Stat_t
	if err := unix.Fstat(handle, &st); err != nil {
		return -1, 0, false, err
	}
	if int(st.Uid) != uid {
		return -1, 0, false, errForeign
	}
	mode = st.Mode & 0o7777
	if err := chmodHandle(handle, mode|0o700); err != nil {
		return -1, 0, false, err
	}
	fd, err = openDirAt(dir, name)
	if err != nil {
		chmodHandle(handle, mode)
		return -1, 0, false, err
	}
	return fd, mode, true, nil
}

// chmodHandle changes the mode behind an O_PATH descriptor, by fchmodat2 (Linux
// 6.6) or by its name in /proc.
func chmodHandle(handle int, mode uint32) error {
	err := unix.Fchmodat(handle, "", mode, unix.AT_EMPTY_PATH)
	if err == nil {
		return nil
	}
	return unix.Chmod("/proc/self/fd/"+strconv.Itoa(handle), mode)
}

// readFileAt reads a regular file called name, one component, of at most limit
// bytes, without following a link or waiting for a pipe.
func readFileAt(dir int, name string, limit int64) ([]byte, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, &os.PathError{Op: "read", Path: name, Err: unix.EINVAL}
	}
	content, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(content)) > limit {
		err = &os.PathError{Op: "read", Path: name, Err: unix.EFBIG}
	}
	return content, err
}

// lstatAt is fstatat without following a link.
func lstatAt(dir int, name string) (unix.Stat_t, error) {
	var st unix.Stat_t
	err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return st, err
}

// readLinkAt returns the target of a symbolic link.
func readLinkAt(dir int, name string) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(dir, name, buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}
