package api

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// ListenOptions says where the daemon listens.
type ListenOptions struct {
	// Path is the socket. Its directory is made where it is missing, private for
	// an ordinary user and passable for root's daemon, which serves others.
	Path string
	// GID, when above 0, is the group that may connect besides the owner.
	GID int
}

// SocketPath is where a daemon of uid listens: root's for everybody, a user's
// below XDG_RUNTIME_DIR. Empty when there is no such directory.
func SocketPath(uid int, runtimeDir string) string {
	if uid == 0 {
		return "/run/sandboxd/sandboxd.sock"
	}
	if !filepath.IsAbs(runtimeDir) {
		return ""
	}
	return filepath.Join(runtimeDir, "sandboxd", "sandboxd.sock")
}

// ErrRunning reports that another daemon serves the socket.
var ErrRunning = errors.New("another daemon is running")

// Listener is the daemon's socket. Close removes it.
type Listener struct {
	*net.UnixListener
	lock *os.File
	path string
}

// Listen makes the socket with mode 0600, or 0660 for a group. A socket that a
// dead daemon left is replaced: who holds the lock beside it is the daemon, and
// the kernel lets go of the lock with the process. The error wraps [ErrRunning].
func Listen(o ListenOptions) (*Listener, error) {
	dir := filepath.Dir(o.Path)
	if err := makeSocketDir(dir); err != nil {
		return nil, err
	}
	lock, err := lockFile(o.Path + ".lock")
	if err != nil {
		return nil, err
	}
	l, err := bind(o)
	if err != nil {
		lock.Close()
		return nil, fmt.Errorf("listen on %s: %w", o.Path, err)
	}
	return &Listener{UnixListener: l, lock: lock, path: o.Path}, nil
}

// makeSocketDir makes dir and checks that nobody else can put something there.
func makeSocketDir(dir string) error {
	mode := os.FileMode(0o700)
	if os.Geteuid() == 0 {
		mode = 0o755
	}
	if err := os.Mkdir(dir, mode); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return &os.PathError{Op: "lstat", Path: dir, Err: err}
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return fmt.Errorf("%s is not a directory", dir)
	case int(st.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to uid %d, not %d", dir, st.Uid, os.Geteuid())
	case st.Mode&0o022 != 0:
		return fmt.Errorf("%s can be written by others (mode %04o)", dir, st.Mode&0o7777)
	}
	return nil
}

// lockFile takes the lock, and writes our pid into it for people.
func lockFile(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		defer f.Close()
		if err == unix.EWOULDBLOCK {
			return nil, fmt.Errorf("%w%s", ErrRunning, holder(f))
		}
		return nil, &os.PathError{Op: "flock", Path: path, Err: err}
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func holder(f *os.File) string {
	text := make([]byte, 20)
	n, _ := f.ReadAt(text, 0)
	if pid, err := strconv.Atoi(strings.TrimSpace(string(text[:n]))); err == nil {
		return fmt.Sprintf(" (pid %d)", pid)
	}
	return ""
}

// bind makes the socket under another name and moves it into place: nobody can
// connect before mode and group are right, and a client finds the old socket or
// the new one, never none.
func bind(o ListenOptions) (*net.UnixListener, error) {
	if err := checkReplaceable(o.Path); err != nil {
		return nil, err
	}
	fresh := o.Path + ".new"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: fresh, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	mode := os.FileMode(0o600)
	if o.GID > 0 {
		err, mode = os.Lchown(fresh, -1, o.GID), 0o660
	}
	// Until here the umask alone may have let others in: they find no name yet.
	err = errors.Join(err, os.Chmod(fresh, mode))
	if err == nil {
		err = os.Rename(fresh, o.Path)
	}
	if err != nil {
		l.Close()
		os.Remove(fresh)
		return nil, err
	}
	return l, nil
}

func checkReplaceable(path string) error {
	var st unix.Stat_t
	err := unix.Lstat(path, &st)
	switch {
	case err == unix.ENOENT:
		return nil
	case err != nil:
		return err
	case st.Mode&unix.S_IFMT != unix.S_IFSOCK:
		return errors.New("there is something that is no socket")
	}
	return nil
}

// Close ends the listener and removes the socket, unless it is another's by now.
func (l *Listener) Close() error {
	err := l.UnixListener.Close()
	if l.lock != nil {
		os.Remove(l.path)
		err = errors.Join(err, l.lock.Close())
		l.lock = nil
	}
	return err
}

// control runs f on the descriptor of a connection.
func control(c syscall.Conn, f func(fd int) error) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = f(int(fd)) }); err != nil {
		return err
	}
	return inner
}
