package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// maxLinks bounds the links followed for one path, as the kernel does (ELOOP).
const maxLinks = 40

// place is where a path leads: a name that is no link, in a directory that is held
// open. What is done to the name through dir happens there and nowhere else,
// whatever becomes of the path meanwhile.
type place struct {
	path    string // as asked for
	real    string // absolute, links resolved
	dir     int    // O_PATH
	name    string // "." for dir itself
	missing []string
	exists  bool
	stat    unix.Stat_t // of what is there
}

// find walks a path one name at a time and follows links by reading them. A parent
// that does not exist is no error: missing then lists the directories to make, from
// dir on.
func find(path string) (*place, error) {
	p := &place{path: path, name: ".", exists: true}
	root, err := openPath(unix.AT_FDCWD, "/")
	if err != nil {
		return nil, p.fail("open", err)
	}
	p.dir = root
	if err := p.follow(path); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// follow walks from the root.
func (p *place) follow(path string) error {
	rest := strings.Split(path, "/")
	links := 0
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		if name == "" || name == "." {
			continue
		}
		if err := p.enter(); err != nil {
			return p.fail("open", err)
		}
		if name == ".." && !p.exists {
			return p.fail("open", unix.ENOENT)
		}
		if name == ".." {
			if err := p.into(".."); err != nil {
				return p.fail("open", err)
			}
			continue
		}
		p.name = name
		if !p.exists {
			continue // below something that is not there
		}
		err := unix.Fstatat(p.dir, name, &p.stat, unix.AT_SYMLINK_NOFOLLOW)
		switch {
		case err == unix.ENOENT:
			p.exists = false
		case err != nil:
			return p.fail("open", err)
		case p.stat.Mode&unix.S_IFMT == unix.S_IFLNK:
			if links++; links > maxLinks {
				return p.fail("open", unix.ELOOP)
			}
			target, err := readlinkAt(p.dir, name)
			if err != nil {
				return p.fail("open", err)
			}
			p.name = "."
			if strings.HasPrefix(target, "/") {
				if err := p.into("/"); err != nil {
					return p.fail("open", err)
				}
			}
			rest = append(strings.Split(target, "/"), rest...)
		}
	}
	if strings.HasSuffix(path, "/") && p.exists && !p.isDir() {
		return p.fail("open", unix.ENOTDIR)
	}
	return p.located()
}

// enter makes the last name, a directory, the one that further names are in.
func (p *place) enter() error {
	switch {
	case p.name == ".":
		return nil
	case !p.exists:
		p.missing = append(p.missing, p.name)
		return nil
	}
	return p.into(p.name)
}

func (p *place) into(name string) error {
	fd, err := openPath(p.dir, name)
	if err != nil {
		return err
	}
	unix.Close(p.dir)
	p.dir, p.name = fd, "."
	return nil
}

// located finds out where the walk ended.
func (p *place) located() error {
	dir, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(p.dir))
	if err != nil || !strings.HasPrefix(dir, "/") {
		return fmt.Errorf("%s: where it leads cannot be told without /proc: nothing was done", p.path)
	}
	if p.name == "." {
		p.real = dir
		return unix.Fstat(p.dir, &p.stat)
	}
	if dir == "/" {
		dir = ""
	}
	p.real = dir + "/" + strings.Join(append(slices.Clone(p.missing), p.name), "/")
	return nil
}

// within refuses a path that leads elsewhere than it did when it was decided.
func (p *place) within(real []string) error {
	if len(real) > 0 && !slices.Contains(real, p.real) {
		return fmt.Errorf("%s leads elsewhere now than when the call was decided: nothing was done; try again", p.path)
	}
	return nil
}

// close lets go of the directory.
func (p *place) close() { unix.Close(p.dir) }

// at finds the place of a request.
func at(q Request) (*place, error) {
	if !strings.HasPrefix(q.Path, "/") || strings.ContainsRune(q.Path, 0) {
		return nil, fmt.Errorf("%q is not a path", q.Path)
	}
	p, err := find(q.Path)
	if err != nil {
		return nil, err
	}
	if err := p.within(q.Real); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *place) isDir() bool     { return p.stat.Mode&unix.S_IFMT == unix.S_IFDIR }
func (p *place) isRegular() bool { return p.stat.Mode&unix.S_IFMT == unix.S_IFREG }

// kind names what is there, for people.
func (p *place) kind() string {
	switch p.stat.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return "a directory"
	case unix.S_IFIFO:
		return "a FIFO"
	case unix.S_IFSOCK:
		return "a socket"
	case unix.S_IFCHR, unix.S_IFBLK:
		return "a device"
	case unix.S_IFLNK:
		return "a link"
	}
	return "a file"
}

// openFile opens what is there for reading, if it is a regular file. It never waits
// for the other side of a FIFO.
func (p *place) openFile() (*os.File, error) {
	if !p.exists {
		return nil, p.fail("open", unix.ENOENT)
	}
	if !p.isRegular() {
		return nil, fmt.Errorf("%s is %s, not a file", p.path, p.kind())
	}
	f, err := openAt(p.dir, p.name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, p.real)
	if err != nil {
		return nil, p.fail("open", err)
	}
	if err := unix.Fstat(int(f.Fd()), &p.stat); err != nil || !p.isRegular() {
		f.Close()
		return nil, fmt.Errorf("%s was replaced by %s meanwhile", p.path, p.kind())
	}
	return f, nil
}

// fail words an error about the path.
func (p *place) fail(op string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &unreached{p.path + ": no such file or directory"}
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return &unreached{fmt.Sprintf("%s: %s: permission denied, by the file's mode or by the sandbox", p.path, op)}
	case errors.Is(err, unix.EROFS):
		return fmt.Errorf("%s: %s: held read-only by the sandbox", p.path, op)
	case errors.Is(err, unix.ELOOP):
		return fmt.Errorf("%s: became a link, or too many links: nothing was done", p.path)
	}
	return fmt.Errorf("%s: %s: %w", p.path, op, unwrapped(err))
}

// errUnreached is what every [unreached] error is.
var errUnreached = errors.New("not reached")

// unreached reports a path that is not there, or closed.
type unreached struct{ text string }

func (e *unreached) Error() string     { return e.text }
func (e *unreached) Is(err error) bool { return err == errUnreached }

// unwrapped takes the path out of an error that names it elsewhere.
func unwrapped(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// openPath opens a directory to look names up in.
func openPath(dir int, name string) (int, error) {
	return again(func() (int, error) {
		return unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
}

// openFD opens a name in a directory, never through a link at the end.
func openFD(dir int, name string, flags int) (int, error) {
	return again(func() (int, error) {
		return unix.Openat(dir, name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
}

// openAt is openFD for a file whose name in errors is label.
func openAt(dir int, name string, flags int, label string) (*os.File, error) {
	fd, err := openFD(dir, name, flags)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), label), nil
}

func readlinkAt(dir int, name string) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := again(func() (int, error) { return unix.Readlinkat(dir, name, buf) })
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

func again(f func() (int, error)) (int, error) {
	for {
		n, err := f()
		if err != unix.EINTR {
			return n, err
		}
	}
}
