package path

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// ReadRegular reads a regular file of at most max bytes. Whoever owns the directory
// may have put something else there: a pipe that nobody writes to is not waited for,
// and a device that never ends is not read. The error wraps unix.EINVAL for what is
// no regular file, unix.EFBIG for a longer one.
func ReadRegular(name string, max int64) ([]byte, error) {
	f, err := openNamed(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, &os.PathError{Op: "read", Path: name, Err: unix.EINVAL}
	case info.Size() > max:
		return nil, &os.PathError{Op: "read", Path: name, Err: unix.EFBIG}
	}
	data, err := io.ReadAll(io.LimitReader(f, max+1)) // it may grow
	if err == nil && int64(len(data)) > max {
		return nil, &os.PathError{Op: "read", Path: name, Err: unix.EFBIG}
	}
	return data, err
}

// OpenDir opens a directory for listing, and waits for nothing else in its place.
func OpenDir(name string) (*os.File, error) {
	return openNamed(name, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK)
}

func openNamed(name string, flags int) (*os.File, error) {
	fd, err := OpenNamed(name, flags)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}
