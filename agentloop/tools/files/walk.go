package files

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds of a search. What is beyond is told.
const (
	maxWalkTime   = 30 * time.Second
	maxSearchTime = maxWalkTime + 2*time.Second // of a walk that is held up by one file
	maxWalkNames  = 1_000_000
	maxWalkDepth  = 200
	maxIgnore     = 1 << 20 // bytes of an ignore file
)

// metaDirs hold what version control keeps for itself.
var metaDirs = []string{".git", ".hg", ".svn", ".jj"}

// walker visits the files of a tree in the order of their names. It follows no
// link, so it never leaves the tree.
type walker struct {
	top    string  // real path of the start
	prefix string  // of the start, relative to where ignore files begin
	ignore ignores // of the directories above the start
	all    bool    // ignored names too
	until  time.Time
	names  int
	cut    string // why names are left out
	// visit is called for each regular file and link: rel is its path from the
	// start, dir the directory that holds it. It returns false to end the walk.
	visit func(rel, name string, dir int, kind os.FileMode) bool
}

// walk visits what is below a directory that is open.
func (w *walker) walk(f *os.File) {
	w.until = time.Now().Add(maxWalkTime)
	w.dir(f, "", w.ignore, 0)
}

// dir visits one directory and reports whether the walk goes on.
func (w *walker) dir(f *os.File, rel string, above ignores, depth int) bool {
	entries, err := f.ReadDir(-1)
	if err != nil && len(entries) == 0 {
		return true // as a shell's glob: what cannot be listed has no names
	}
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	fd := int(f.Fd())
	if !w.all {
		above = w.withIgnoreFile(above, fd, path.Join(w.prefix, rel), entries)
	}
	for _, e := range entries {
		if w.names++; w.names > maxWalkNames {
			w.cut = fmt.Sprintf("more than %d names", maxWalkNames)
			return false
		}
		if w.names%256 == 0 && time.Now().After(w.until) {
			w.cut = fmt.Sprintf("more than %v", maxWalkTime)
			return false
		}
		child := e.Name()
		if rel != "" {
			child = rel + "/" + child
		}
		isDir := e.IsDir()
		if isDir && slices.Contains(metaDirs, e.Name()) || !w.all && len(above) > 0 && above.ignored(path.Join(w.prefix, child), isDir) {
			continue
		}
		if !isDir {
			if kind := e.Type(); (kind.IsRegular() || kind&os.ModeSymlink != 0) && !w.visit(child, e.Name(), fd, kind) {
				return false
			}
			continue
		}
		if depth == maxWalkDepth {
			w.cut = fmt.Sprintf("deeper than %d directories", maxWalkDepth)
			continue
		}
		sub, err := openAt(fd, e.Name(), unix.O_RDONLY|unix.O_DIRECTORY, w.top+"/"+child)
		if err != nil {
			continue
		}
		more := w.dir(sub, child, above, depth+1)
		sub.Close()
		if !more {
			return false
		}
	}
	return true
}

// withIgnoreFile adds the directory's own ignore file, if there is one.
func (w *walker) withIgnoreFile(above ignores, dir int, base string, entries []os.DirEntry) ignores {
	const name = ".gitignore"
	_, there := slices.BinarySearchFunc(entries, name, func(e os.DirEntry, n string) int { return strings.Compare(e.Name(), n) })
	if !there {
		return above
	}
	text, err := readSmall(dir, name, maxIgnore)
	if err != nil {
		return above
	}
	return append(slices.Clip(above), parseIgnore(base, text))
}

// readSmall reads a regular file of a directory, not through a link.
func readSmall(dir int, name string, most int64) (string, error) {
	f, err := openAt(dir, name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return "", errors.New("not a regular file")
	}
	b, err := io.ReadAll(io.LimitReader(f, most))
	return string(b), err
}

// aboveIgnores finds the ignore files of the repository that a directory lies in,
// and the path of the directory in it. Without a repository there are none.
func aboveIgnores(real string) (list ignores, prefix string) {
	top := real
	for {
		if _, err := os.Lstat(path.Join(top, ".git")); err == nil {
			break
		}
		if top == "/" {
			return nil, ""
		}
		top = path.Dir(top)
	}
	add := func(file, base string) {
		dir, err := openPath(unix.AT_FDCWD, path.Dir(file))
		if err != nil {
			return
		}
		defer unix.Close(dir)
		if text, err := readSmall(dir, path.Base(file), maxIgnore); err == nil {
			list = append(list, parseIgnore(base, text))
		}
	}
	add(path.Join(top, ".git/info/exclude"), "")
	rel := strings.TrimPrefix(strings.TrimPrefix(real, top), "/")
	base := ""
	for name := range strings.SplitSeq(rel, "/") {
		if name == "" {
			break
		}
		add(path.Join(top, base, ".gitignore"), base)
		base = path.Join(base, name)
	}
	return list, rel
}

// openDir opens the directory that a request is about.
func (p *place) openDir() (*os.File, error) {
	switch {
	case !p.exists:
		return nil, p.fail("open", unix.ENOENT)
	case !p.isDir():
		return nil, fmt.Errorf("%s is %s, not a directory", p.path, p.kind())
	}
	f, err := openAt(p.dir, p.name, unix.O_RDONLY|unix.O_DIRECTORY, p.real)
	if err != nil {
		return nil, p.fail("open", err)
	}
	return f, nil
}

// newWalker prepares a walk below a place.
func newWalker(p *place, all bool) *walker {
	w := &walker{top: p.real, all: all}
	if !all {
		w.ignore, w.prefix = aboveIgnores(p.real)
	}
	return w
}
