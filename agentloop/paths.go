package agentloop

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"sandboxd/exec"
)

// within reports whether path is dir or lies beneath it. Both are absolute and
// clean; the comparison is by components, so "/ab" is not within "/a".
func within(path, dir string) bool {
	if dir == "/" {
		return strings.HasPrefix(path, "/")
	}
	return path == dir || len(path) > len(dir) && path[len(dir)] == '/' && path[:len(dir)] == dir
}

// withinAny reports whether path is within one of dirs.
func withinAny(path string, dirs []string) bool {
	for _, d := range dirs {
		if d != "" && within(path, d) {
			return true
		}
	}
	return false
}

// maxLinks bounds the links followed for one path, as the kernel does (ELOOP).
const maxLinks = 40

// resolver follows symbolic links and remembers what it saw, so that the many
// paths of one view that share their parents cost one lstat(2) per directory.
// It is for one Build and not safe for concurrent use.
type resolver struct{ seen map[string]node }

// node is what lstat(2) and readlink(2) say about one path.
type node struct {
	mode   uint32 // st_mode; 0 when err is set
	uid    uint32
	gid    uint32
	ino    uint64
	ctime  int64  // nanoseconds
	target string // of a symbolic link
	err    error
}

func (n node) isDir() bool  { return n.mode&unix.S_IFMT == unix.S_IFDIR }
func (n node) isLink() bool { return n.mode&unix.S_IFMT == unix.S_IFLNK }
func (n node) isFile() bool { return n.mode&unix.S_IFMT == unix.S_IFREG }

// usualPaths is how many paths a resolver of a whole grant looks at; a map that
// grows costs more.
const usualPaths = 128

func newResolver(paths int) *resolver { return &resolver{seen: make(map[string]node, paths)} }

// lstat returns the node at an absolute, clean path without following it.
func (r *resolver) lstat(path string) node {
	if n, ok := r.seen[path]; ok {
		return n
	}
	n := readNode(path)
	r.seen[path] = n
	return n
}

func readNode(path string) node {
	var st unix.Stat_t
	if err := ignoringEINTR(func() error { return unix.Lstat(path, &st) }); err != nil {
		return node{err: err}
	}
	n := node{mode: st.Mode, uid: st.Uid, gid: st.Gid, ino: st.Ino, ctime: st.Ctim.Nano()}
	if n.isLink() {
		n.target, n.err = os.Readlink(path)
	}
	return n
}

// resolve returns the path with every symbolic link followed, and the links it
// went through, outermost first. The parent of each returned link is free of
// links. The path must be absolute.
func (r *resolver) resolve(path string) (real string, links []exec.Link, err error) {
	real, rest := "/", filepath.Clean(path)
	for rest = strings.TrimPrefix(rest, "/"); rest != ""; {
		name, tail, _ := strings.Cut(rest, "/")
		rest = tail
		switch name {
		case "", ".":
			continue
		case "..":
			real = filepath.Dir(real)
			continue
		}
		next := join(real, name)
		n := r.lstat(next)
		if n.err != nil {
			return "", links, &os.PathError{Op: "lstat", Path: next, Err: n.err}
		}
		if !n.isLink() {
			if rest != "" && !n.isDir() {
				return "", links, &os.PathError{Op: "lstat", Path: next, Err: unix.ENOTDIR}
			}
			real = next
			continue
		}
		if len(links) == maxLinks {
			return "", links, &os.PathError{Op: "lstat", Path: path, Err: unix.ELOOP}
		}
		links = append(links, exec.Link{Path: next, Target: n.target})
		// Not cleaned: "a/.." must be walked, since a may itself be a link.
		if rest != "" {
			rest = n.target + "/" + rest
		} else {
			rest = n.target
		}
		if strings.HasPrefix(rest, "/") {
			real, rest = "/", strings.TrimPrefix(rest, "/")
		}
	}
	return real, links, nil
}

// realDir resolves path and reports whether it is a directory. The empty path
// is none.
func (r *resolver) realDir(path string) (string, bool) {
	if path == "" {
		return "", false
	}
	real, _, err := r.resolve(path)
	if err != nil {
		return "", false
	}
	return real, r.lstat(real).isDir()
}

// parent is filepath.Dir for a path that is absolute and clean.
func parent(path string) string {
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		return path[:i]
	}
	return "/"
}

func join(dir, name string) string {
	if dir == "/" {
		return "/" + name
	}
	return dir + "/" + name
}

func isMissing(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENOTDIR)
}

func ignoringEINTR(f func() error) error {
	for {
		if err := f(); err != unix.EINTR {
			return err
		}
	}
}
