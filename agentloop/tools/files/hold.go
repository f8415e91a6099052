package files

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lockWait is how long a helper waits for others that change files of the same
// directory. Each takes milliseconds; who holds a lock longer is no helper.
const lockWait = 10 * time.Second

// hold locks the directory of an existing file, where it can be read, and the file
// itself, and opens the file. The locks are advisory (flock(2)) and end with the
// process: they order helpers, of every session and user; other programs do not ask
// for them, which is why contents are compared as well.
func hold(p *place) (*held, error) {
	deadline := time.Now().Add(lockWait)
	h := &held{dir: -1}
	dir, err := again(func() (int, error) {
		return unix.Openat(p.dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	if err == nil {
		h.dir = dir
		if err := lock(dir, p, deadline); err != nil {
			unix.Close(dir)
			return nil, err
		}
	}
	for {
		f, err := p.lockedFile(deadline)
		if err != nil && h.dir >= 0 {
			unix.Close(h.dir)
		}
		if err != nil {
			return nil, err
		}
		same, err := p.still(f)
		if err != nil || same {
			h.file = f
			return h, err
		}
		f.Close() // replaced while we waited
	}
}

// lockedFile opens what has the name now and locks it.
func (p *place) lockedFile(deadline time.Time) (*os.File, error) {
	if err := unix.Fstatat(p.dir, p.name, &p.stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return nil, p.fail("open", err)
	}
	f, err := p.openFile()
	if err != nil {
		return nil, err
	}
	if err := lock(int(f.Fd()), p, deadline); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// still reports whether the name leads to an open file.
func (p *place) still(f *os.File) (bool, error) {
	var now, then unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &then); err != nil {
		return false, p.fail("open", err)
	}
	if err := unix.Fstatat(p.dir, p.name, &now, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return false, p.fail("open", err)
	}
	return now.Dev == then.Dev && now.Ino == then.Ino, nil
}

func lock(fd int, p *place, deadline time.Time) error {
	const pause = 5 * time.Millisecond
	for {
		err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case err == unix.EINTR:
			continue
		case err != unix.EWOULDBLOCK:
			return p.fail("lock", err)
		case time.Now().After(deadline):
			return fmt.Errorf("%s: another process has held the lock of the file or its directory for %v: nothing was changed", p.path, lockWait)
		}
		time.Sleep(pause)
	}
}
