package policy

import (
	"errors"
	"io/fs"
	"os"
)

// PathUse is what a call does to one path that is known.
type PathUse struct {
	Path string // links resolved, or a pattern
	// Write: it is changed, made or removed; else it is read.
	Write bool
	// Remove: the name goes away, or a link of that name is replaced.
	Remove bool
	// Link: what is read is a link itself.
	Link bool
	// Protected: it is written, inside of the roots, and a protected name.
	Protected bool
	// Missing: nothing was there when the call was read. It is looked at for what is
	// written.
	Missing bool
	// Outside of the roots that such a use may have without being asked about.
	Outside bool
	// Pattern: the path stands for what matches it, also for a tree that a pattern
	// names.
	Pattern bool
}

// maxLooked bounds the paths of a call that are looked at on the host for this.
const maxLooked = 256

// uses lists what the call does to known paths, each once. What is kept nowhere
// (/dev/null) is not in it.
func (f *facts) uses() []PathUse {
	var out []PathUse
	looked, seen := 0, map[PathUse]bool{}
	for i := range f.accesses {
		a := &f.accesses[i]
		if !a.known() || a.zone == discard {
			continue
		}
		u := PathUse{Path: a.real, Write: a.verb != effectRead, Remove: a.verb == effectDelete, Pattern: a.glob}
		u.Outside = a.zone < systemDir || u.Write && a.zone < writeRoot
		u.Protected = u.Write && !u.Outside && a.protected != ""
		if seen[u] {
			continue
		}
		seen[u] = true
		if (u.Write || u.Outside) && !u.Pattern && looked < maxLooked {
			looked++
			u.look()
		}
		out = append(out, u)
	}
	return out
}

// look notes what is there now.
func (u *PathUse) look() {
	info, err := os.Lstat(u.Path)
	switch {
	case err != nil:
		u.Missing = u.Write && errors.Is(err, fs.ErrNotExist)
	case info.Mode()&fs.ModeSymlink == 0:
	case u.Write:
		u.Remove = true
	default:
		u.Link = true
	}
}
