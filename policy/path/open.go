package path

import (
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// OpenBeneath opens rel below root in one step of the kernel, so that nobody can
// exchange a component between the check and the open. Symbolic links are
// followed as long as they stay below root; one that leaves, an absolute one,
// ".." above root and the links of /proc give EXDEV or ELOOP. mode is used
// with O_CREAT. root itself may be a link, and is followed. Errors are
// *os.PathError; ENOSYS or EPERM where openat2(2), of Linux 5.6, is missing or
// forbidden: there is no safe substitute that follows links.
func OpenBeneath(root, rel string, flags int, mode uint32) (*os.File, error) {
	fd, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: root, Err: err}
	}
	defer unix.Close(fd)
	return OpenAtBeneath(fd, rel, flags, mode)
}

// OpenAtBeneath is OpenBeneath for a root that is open already, and stays so.
func OpenAtBeneath(root int, rel string, flags int, mode uint32) (*os.File, error) {
	if rel == "" || strings.ContainsRune(rel, 0) {
		return nil, &os.PathError{Op: "openat2", Path: rel, Err: ErrInvalid}
	}
	how := unix.OpenHow{
		Flags:   uint64(flags | unix.O_CLOEXEC),
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS,
	}
	if flags&(unix.O_CREAT|unix.O_TMPFILE&^unix.O_DIRECTORY) != 0 {
		how.Mode = uint64(mode)
	}
	// The kernel answers EAGAIN when a rename anywhere raced with "..": it
	// could not tell, and asks us to try again.
	for range maxAgain {
		fd, err := unix.Openat2(root, rel, &how)
		switch {
		case err == nil:
			return os.NewFile(uintptr(fd), rel), nil
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
			continue
		}
		return nil, &os.PathError{Op: "openat2", Path: rel, Err: err}
	}
	return nil, &os.PathError{Op: "openat2", Path: rel, Err: unix.EAGAIN}
}

// maxAgain bounds the retries of OpenAtBeneath.
const maxAgain = 1000
