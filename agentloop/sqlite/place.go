package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// The files of a store at path, and the lock that says who may write to it.
func walPath(path string) string     { return path + "-wal" }
func shmPath(path string) string     { return path + "-shm" }
func anchorsPath(path string) string { return path + ".anchors" }
func lockPath(path string) string    { return path + ".lock" }

// prepare makes the directory of path (0700) where it is missing, checks that
// nobody else can put something else in its place, and checks the files that are
// there. It returns the absolute path.
func prepare(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	if err := checkDir(dir); err != nil {
		return "", err
	}
	return path, checkFiles(path)
}

// checkDir checks the directory itself and those above it: each belongs to us or
// root, and no one else may rename what is in it.
func checkDir(dir string) error {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	st, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	switch uid := owner(st); {
	case st.Mode()&os.ModeSymlink != 0:
		return fmt.Errorf("%w: %s is a symbolic link; name the directory itself", ErrUnsafe, dir)
	case !st.IsDir():
		return fmt.Errorf("%w: %s is not a directory", ErrUnsafe, dir)
	case uid != os.Geteuid():
		return fmt.Errorf("%w: %s belongs to uid %d, not %d", ErrUnsafe, dir, uid, os.Geteuid())
	case st.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("%w: %s is open to others (mode %04o); chmod 700 it", ErrUnsafe, dir, st.Mode().Perm())
	}
	for _, from := range []string{filepath.Dir(dir), filepath.Dir(real)} {
		if err := checkAbove(from); err != nil {
			return err
		}
	}
	return nil
}

func checkAbove(dir string) error {
	for {
		st, err := os.Stat(dir)
		if err != nil {
			return err
		}
		switch uid := owner(st); {
		case uid != 0 && uid != os.Geteuid():
			return fmt.Errorf("%w: %s above it belongs to uid %d", ErrUnsafe, dir, uid)
		case st.Mode().Perm()&0o022 != 0 && st.Mode()&os.ModeSticky == 0:
			return fmt.Errorf("%w: %s above it can be written by others (mode %04o)", ErrUnsafe, dir, st.Mode().Perm())
		}
		if dir == "/" {
			return nil
		}
		dir = filepath.Dir(dir)
	}
}

// checkFiles checks each file of the store that is there. The directory is ours
// alone, so what is checked stays so.
func checkFiles(path string) error {
	for _, name := range []string{path, walPath(path), shmPath(path), anchorsPath(path), lockPath(path)} {
		st, err := os.Lstat(name)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		sys, _ := st.Sys().(*syscall.Stat_t)
		switch {
		case !st.Mode().IsRegular():
			return fmt.Errorf("%w: %s is not a regular file", ErrUnsafe, name)
		case owner(st) != os.Geteuid():
			return fmt.Errorf("%w: %s belongs to uid %d, not %d", ErrUnsafe, name, owner(st), os.Geteuid())
		case st.Mode().Perm()&0o077 != 0:
			return fmt.Errorf("%w: %s is open to others (mode %04o); chmod 600 it", ErrUnsafe, name, st.Mode().Perm())
		case sys == nil || sys.Nlink != 1:
			return fmt.Errorf("%w: %s has another name (hard link)", ErrUnsafe, name)
		}
	}
	return nil
}

func owner(st os.FileInfo) int {
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		return int(sys.Uid)
	}
	return -1
}

// create makes an empty database file that only we can open. SQLite gives the
// files beside it the same mode.
func create(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Chmod(0o600), f.Close(), syncDir(filepath.Dir(path)))
}

// syncDir makes new names in dir durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// lock takes the lock of the writer, which ends with the process at the latest.
// It is a file of its own: SQLite's own locks on the database would be lost when
// any other descriptor of that file is closed.
func lock(path string) (*os.File, error) {
	f, err := os.OpenFile(lockPath(path), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: %s; is another daemon running?", ErrInUse, path)
		}
		return nil, &os.PathError{Op: "flock", Path: lockPath(path), Err: err}
	}
	return f, nil
}

// identity names a file whatever its name.
type identity struct{ dev, ino uint64 }

func identify(path string) (identity, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return identity{}, &os.PathError{Op: "lstat", Path: path, Err: err}
	}
	return identity{st.Dev, st.Ino}, nil
}
