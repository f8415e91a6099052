package files

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
	"golang.org/x/sys/unix"
)

// MaxListed bounds the names of one answer.
const MaxListed = 1000

// ListRequest asks for the names in a directory.
type ListRequest struct {
	Ignore []string `json:"ignore,omitempty"`
}

func handleList(q Request, a *Answer) error {
	p, err := at(q)
	if err != nil {
		return err
	}
	defer p.close()
	f, err := p.openDir()
	if err != nil {
		return err
	}
	defer f.Close()
	a.Real = p.real
	entries, err := f.ReadDir(-1)
	if err != nil {
		return p.fail("list", err)
	}
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, pattern := range q.List.Ignore {
		if err := checkPattern(strings.TrimSuffix(pattern, "/")); err != nil {
			return err
		}
	}
	for _, e := range entries {
		if matchesAny(q.List.Ignore, e.Name()) {
			continue
		}
		if len(a.Found) == MaxListed {
			a.Cut = fmt.Sprintf("%d names are there, the first %d are shown", len(entries), MaxListed)
			break
		}
		a.Found = append(a.Found, Found{Path: path.Join(p.real, e.Name()), Note: describeEntry(int(f.Fd()), e)})
	}
	return nil
}

func matchesAny(patterns []string, name string) bool {
	for _, pattern := range patterns {
		if doublestar.MatchUnvalidated(strings.TrimSuffix(pattern, "/"), name) {
			return true
		}
	}
	return false
}

// describeEntry is what stands behind a name.
func describeEntry(dir int, e os.DirEntry) string {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, e.Name(), &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		if errors.Is(err, unix.ENOENT) {
			return " [gone]"
		}
		return " [cannot be looked at]"
	}
	here := place{stat: st}
	switch {
	case here.isDir():
		return "/"
	case here.isRegular():
		return fmt.Sprintf(" %d", st.Size)
	case st.Mode&unix.S_IFMT == unix.S_IFLNK:
		target, _ := readlinkAt(dir, e.Name())
		return " -> " + ShownName(target)
	}
	return " [" + here.kind() + "]"
}
