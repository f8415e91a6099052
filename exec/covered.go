package exec

import (
	"golang.org/x/sys/unix"

	"sandboxd/exec/child"
)

// covered is a path that the user denied or protected, held by a mount on it.
//
// The mount lies on a directory entry. When somebody outside renames another
// file over the name or removes it, as most editors do to save, the kernel takes
// the mount away (mount_namespaces(7)), and the run meets what is there then.
// Nothing at hand prevents that, so it is reported.
type covered struct {
	part string
	path string
	same child.Same
}

// cover notes a demand that is held by a mount.
func (l *launch) cover(it *item) {
	if !it.Demanded || it.same == (child.Same{}) {
		return
	}
	part := "deny "
	if it.Access == Protect {
		part = "protect "
	}
	l.covered = append(l.covered, covered{part + it.Path, it.Path, it.same})
}

// uncovered lists what was replaced since the view was built.
func (l *launch) uncovered() []Gap {
	var gaps []Gap
	for _, c := range l.covered {
		var st unix.Stat_t
		err := unix.Lstat(c.path, &st)
		if err == unix.ENOENT || err == nil && c.same != (child.Same{Dev: st.Dev, Ino: st.Ino}) {
			gaps = append(gaps, Gap{Part: c.part,
				Why: "it was replaced or removed from outside while the command ran, which takes the mount on it away"})
		}
	}
	return gaps
}
