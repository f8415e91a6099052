package agentloop

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"sandboxd/exec"
)

// tempBytes caps /tmp where it is a memory file system: enough for a large
// link, and not enough to fill a small machine.
const tempBytes = 1 << 30

// addTemp gives the command a temporary directory of its own: a fresh /tmp in a
// mount view, a private directory named by TMPDIR without one.
func (b *builder) addTemp() error {
	if !b.g.PrivateTmp {
		return nil
	}
	if b.h.MountView {
		b.report.Temp = "/tmp"
		b.set.add(exec.Entry{Path: "/tmp", Kind: exec.Tmpfs, Bytes: tempBytes, Access: exec.ReadWrite, Reason: "private temporary directory"})
		if _, taken := b.set.byPath["/var/tmp"]; !taken {
			b.set.links["/var/tmp"] = "/tmp"
		}
		return nil
	}
	part, err := b.makePart("tmp")
	if err != nil {
		b.gap("temporary directory", err.Error(), "none")
		return nil
	}
	sweepTemp(part)
	dir, remove, err := b.makeTemp(part)
	if err != nil {
		hint := "make it writable"
		if isFull(err) {
			hint = "the disk is full: free some space, or run sbx clean"
		}
		return &GrantError{Entry: "temporary directory " + part, Hint: hint, Err: unwrapPath(err)}
	}
	b.report.Temp, b.report.Cleanup = dir, remove
	b.set.demand(exec.Entry{Path: dir, Access: exec.ReadWrite, Reason: "private temporary directory"})
	return nil
}

// tempTries bounds how often a start loses its new directory to the sweep of
// another one, which takes it for left behind while it has no lock yet.
const tempTries = 100

// makeTemp makes the directory of one run. A shared lock on the directory lives
// as long as this process: a start that can take the lock for itself knows that
// the run is over, whatever became of pids meanwhile.
func (b *builder) makeTemp(part string) (dir string, remove func() error, err error) {
	lock := -1
	for range tempTries {
		if dir, err = os.MkdirTemp(part, "r"); err != nil {
			return "", nil, err
		}
		if lock, err = lockTemp(dir); !errors.Is(err, errSwept) {
			break
		}
	}
	if err == nil {
		if err = b.handOver(dir); err != nil {
			unix.Close(lock)
		}
	}
	if err != nil {
		return "", nil, errors.Join(err, os.Remove(dir))
	}
	var once sync.Once
	return dir, func() (err error) {
		once.Do(func() {
			err = removeTree(dir)
			unix.Close(lock)
		})
		return err
	}, nil
}

// errSwept says that another start removed a directory before it was locked.
var errSwept = errors.New("removed by the sweep of another start")

// lockTemp takes the shared lock on a directory that was just made.
func lockTemp(dir string) (lock int, err error) {
	lock, err = unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if errors.Is(err, unix.ENOENT) {
		return -1, errSwept
	}
	if err != nil {
		return -1, err
	}
	err = unix.Flock(lock, unix.LOCK_SH|unix.LOCK_NB)
	var st unix.Stat_t
	if errors.Is(err, unix.EWOULDBLOCK) || err == nil && unix.Fstat(lock, &st) == nil && st.Nlink == 0 {
		err = errSwept // being removed, or gone: the lock is on what has no name
	}
	if err != nil {
		unix.Close(lock)
		return -1, err
	}
	return lock, nil
}

// handOver hands a directory that was just made to the identity of the run.
func (b *builder) handOver(dir string) error {
	if b.id.uid == b.c.UID {
		return nil
	}
	return os.Lchown(dir, b.id.uid, b.id.gid)
}

// sweepTemp removes what runs that were killed left behind. A directory between
// its making and its lock has no entries, so that a race removes nothing: its
// maker sees that and makes another.
func sweepTemp(part string) {
	names, err := readNames(part)
	if err != nil {
		return
	}
	for _, name := range names {
		dir := filepath.Join(part, name)
		fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
		if err != nil {
			continue
		}
		if unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) == nil {
			_ = removeTree(dir)
		}
		unix.Close(fd)
	}
}

// removeTree removes dir although a command may have taken rights off its own
// directories. It follows no link.
func removeTree(dir string) error {
	err := os.RemoveAll(dir)
	if err == nil || !errors.Is(err, os.ErrPermission) {
		return err
	}
	root, rerr := os.OpenRoot(dir)
	if rerr != nil {
		_ = os.Chmod(dir, 0o700)
		if root, rerr = os.OpenRoot(dir); rerr != nil {
			return err
		}
	}
	reopen(root, ".", 0)
	root.Close()
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("leftover %s: %w", dir, err)
	}
	return nil
}

// reopenDepth bounds the descent; deeper trees are left to the next try.
const reopenDepth = 1000

// reopen gives every directory below name back to its owner.
func reopen(root *os.Root, name string, depth int) {
	if depth > reopenDepth {
		return
	}
	_ = root.Chmod(name, 0o700)
	f, err := root.Open(name)
	if err != nil {
		return
	}
	entries, _ := f.ReadDir(-1)
	f.Close()
	for _, e := range entries {
		if e.IsDir() {
			reopen(root, filepath.Join(name, e.Name()), depth+1)
		}
	}
}
