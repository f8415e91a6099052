package exec

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"sandboxd/exec/child"
)

const (
	defaultTmpfsBytes = 64 << 20
	rootBytes         = 4 << 20 // mount points only
)

// devices are the nodes of every /dev. The terminal is there for a run that has
// its own; without one opening it fails with ENXIO.
var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}

var deviceLinks = []Link{
	{"/dev/fd", "/proc/self/fd"}, {"/dev/stdin", "/proc/self/fd/0"}, {"/dev/stdout", "/proc/self/fd/1"},
	{"/dev/stderr", "/proc/self/fd/2"}, {"/dev/ptmx", "pts/ptmx"},
}

// rootSecrets are files of a fresh proc that root owns and could read without
// any capability (proc(5), kernel/proc permissions 0400). As another user the
// mode is enough.
var rootSecrets = []string{"/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/kpagecount", "/proc/kpageflags",
	"/proc/kpagecgroup", "/proc/vmallocinfo", "/proc/slabinfo", "/proc/sched_debug", "/proc/kmsg"}

// item is an entry on its way into the view.
type item struct {
	Entry
	dir     bool
	slot    child.Slot
	parent  int        // index of the closest granting or hiding entry above, -1: the root
	skipped bool       // optional and not there
	hollow  bool       // denied, with grants below it: an empty directory that holds them
	same    child.Same // what a denied or protected path named when it was looked at
}

// planView adds the mount work. Sources are taken first, then the new root
// covers a directory of the old view, then everything is attached from the
// outside in, so that a longer path lies on top of a shorter one.
func (l *launch) planView() error {
	if !l.view {
		return nil
	}
	for _, e := range l.spec.View.Entries {
		if e.Path == "/" {
			return &SetupError{Stage: "filesystem", Err: errors.New("/ as a whole cannot be shown in a mount view, which has a root of its own"),
				Hint: "grant the directories that are needed, or use --tier base"}
		}
	}
	items, err := l.items()
	if err != nil {
		return err
	}
	p := &l.plan
	if l.limitByPIDMax() {
		p.PIDMax(reservedPIDs + l.limits.Tasks + 1)
	}
	p.Private(l.lateMounts())
	if u := l.spec.User; u != nil && u.OwnPaths {
		p.FilesOf(u.UID, u.GID, u.Groups)
	}
	for i := range items {
		it := &items[i]
		if it.skipped || it.Kind != Bind || it.Access <= Protect {
			continue
		}
		it.slot = p.Tree(it.source(), attributes(it.Access, l.spec.NoExecWrite), flagIf(it.Optional, child.Optional))
	}
	if u := l.spec.User; u != nil && u.OwnPaths {
		p.FilesOwn()
	}
	nodes := make([]child.Slot, len(devices))
	for i, d := range devices {
		nodes[i] = p.Tree(d, child.NoSUID|child.NoExec, child.Follow|child.Optional)
	}
	p.Root(p.Tmpfs(rootBytes, 0o755, child.NoSUID|child.NoDev))
	for i := range items {
		l.attach(items, i)
	}
	for _, link := range l.spec.View.Links {
		p.Symlink(link.Target, link.Path)
	}
	l.planSystem(nodes)
	for _, it := range items {
		if it.hollow {
			p.Seal(it.slot)
		}
	}
	p.RootReadOnly()
	p.Pivot()
	if l.namespaces&nsNet != 0 {
		p.Loopback()
	}
	return nil
}

// planSystem adds /dev and /proc.
func (l *launch) planSystem(nodes []child.Slot) {
	p := &l.plan
	for i, d := range devices {
		p.Attach(nodes[i], d, child.MakeFile|child.Optional)
	}
	for _, link := range deviceLinks {
		p.Symlink(link.Target, link.Path)
	}
	noexec := child.Attr(0)
	if l.spec.NoExecWrite {
		noexec = child.NoExec
	}
	p.Attach(p.Devpts(child.NoSUID|child.NoExec), "/dev/pts", child.MakeDir)
	p.Attach(p.Tmpfs(l.tmpfsBytes(l.spec.View.ShmBytes), 0o1777, child.NoSUID|child.NoDev|noexec), "/dev/shm", child.MakeDir)
	proc := p.Proc(child.NoSUID | child.NoDev | child.NoExec)
	p.Attach(proc, "/proc", child.MakeDir|child.Keep)
	if l.uid() == 0 {
		for _, path := range rootSecrets {
			p.Mask(path, child.Same{}, child.Optional)
		}
	}
	// Read-only as a whole: no kernel knob, whoever owns it, and no write to
	// another process's files. A link to an open file still opens for writing.
	p.Seal(proc)
}

func flagIf(on bool, f child.Flag) child.Flag {
	if on {
		return f
	}
	return 0
}

func (it *item) source() string { return cmp.Or(it.Source, it.Path) }

func attributes(a Access, noExecWrite bool) child.Attr {
	attrs := child.NoSUID | child.NoDev
	if a == ReadOnly {
		attrs |= child.ReadOnly
	} else if noExecWrite {
		attrs |= child.NoExec
	}
	return attrs
}

// items sorts the entries from the outside in, drops repeated ones in favour of
// the stricter, and looks at each source.
func (l *launch) items() ([]item, error) {
	items := make([]item, 0, len(l.spec.View.Entries))
	for _, e := range l.spec.View.Entries {
		items = append(items, item{Entry: e, parent: -1})
	}
	slices.SortStableFunc(items, func(a, b item) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), cmp.Compare(a.Access, b.Access))
	})
	// Strings sort "/a-b" before "/a/b": order by components for parents.
	slices.SortStableFunc(items, func(a, b item) int {
		return cmp.Or(cmp.Compare(strings.Count(a.Path, "/"), strings.Count(b.Path, "/")), strings.Compare(a.Path, b.Path))
	})
	out := items[:0]
	for _, it := range items {
		// A protect entry may stand on a granting one at the same path only
		// as the stricter of two: the path itself read-only.
		if n := len(out); n > 0 && out[n-1].Path == it.Path {
			if out[n-1].Access == Protect && it.Access == ReadWrite {
				out[n-1].Entry.Access = ReadOnly
				out[n-1].Entry.Source = it.Source
				out[n-1].Kind = it.Kind
			}
			continue
		}
		out = append(out, it)
	}
	for i := range out {
		if err := l.look(out, i); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// look finds what the source is, the entry it lies in, and whether it matters.
func (l *launch) look(items []item, i int) error {
	it := &items[i]
	for j := i - 1; j >= 0; j-- {
		if !items[j].skipped && within(it.Path, items[j].Path) && items[j].Access != Protect &&
			(it.parent < 0 || len(items[j].Path) > len(items[it.parent].Path)) {
			it.parent = j
		}
	}
	if it.Kind == Tmpfs {
		it.dir = true
		return nil
	}
	var st unix.Stat_t
	if err := unix.Lstat(it.source(), &st); err != nil {
		if it.Access <= Protect || it.Optional {
			it.skipped = true
			return nil
		}
		return &SetupError{Stage: "filesystem", Err: fmt.Errorf("%s: %w", it.source(), err), Hint: missingHint(err)}
	}
	it.dir = st.Mode&unix.S_IFMT == unix.S_IFDIR
	if it.Access <= Protect && it.parent >= 0 && items[it.parent].showsHost() {
		it.same = child.Same{Dev: st.Dev, Ino: st.Ino}
	}
	if it.Demanded && it.same != (child.Same{}) && !it.dir && st.Nlink > 1 && !l.spec.BestEffort {
		return &SetupError{Stage: "filesystem", Err: fmt.Errorf("%s has %d names (hard links), and only this one would be held", it.Path, st.Nlink),
			Hint: "remove the other names, or accept the gap with --best-effort"}
	}
	if it.Access == Deny {
		if it.parent < 0 || items[it.parent].Access == Deny && !items[it.parent].hollow {
			it.skipped = true // not in view anyhow
			return nil
		}
		for j := i + 1; j < len(items); j++ {
			if items[j].Access > Protect && items[j].Path != it.Path && within(items[j].Path, it.Path) {
				it.hollow = it.dir
			}
		}
	}
	return nil
}

// showsHost reports whether the paths below the entry are those of the host.
func (it *item) showsHost() bool {
	return it.Access > Deny && it.Kind == Bind && it.source() == it.Path
}

// mayLack lets a denied or protected path be missing where the host's name means
// nothing: in a private directory, or behind another denial. Elsewhere what was
// there a moment ago must still be there, or somebody is moving names away while
// the view is built.
func (it *item) mayLack() child.Flag {
	return flagIf(it.same == child.Same{}, child.Optional)
}

func missingHint(err error) string {
	if errors.Is(err, unix.ENOENT) {
		return "create it first, nothing is made in your tree"
	}
	return ""
}

// attach adds the operations of one entry.
func (l *launch) attach(items []item, i int) {
	it, p := &items[i], &l.plan
	if it.skipped {
		return
	}
	l.cover(it)
	switch {
	case it.hollow:
		it.slot = p.Tmpfs(64<<10, 0o711, child.NoSUID|child.NoDev|child.NoExec)
		p.Attach(it.slot, it.Path, l.makePoint(items, it)|child.Keep)
	case it.Access == Deny:
		p.Mask(it.Path, it.same, it.mayLack())
	case it.Access == Protect:
		p.Rebind(it.Path, child.ReadOnly|child.NoSUID|child.NoDev, it.same, it.mayLack())
	case it.Kind == Tmpfs:
		attrs := child.NoSUID | child.NoDev
		if l.spec.NoExecWrite {
			attrs |= child.NoExec
		}
		mode := uint32(0o1777)
		s := p.Tmpfs(l.tmpfsBytes(it.Bytes), mode, attrs)
		p.Attach(s, it.Path, l.makePoint(items, it))
	default:
		p.Attach(it.slot, it.Path, l.makePoint(items, it)|flagIf(it.Optional, child.Optional))
	}
}

// makePoint allows a mount point to be made only where that is not the user's
// tree: in the root, in a tmpfs, in an emptied directory, or in a private
// directory that stands for another one.
func (l *launch) makePoint(items []item, it *item) child.Flag {
	if it.parent >= 0 {
		up := &items[it.parent]
		private := up.Kind == Tmpfs || up.hollow || up.Source != "" && up.Source != up.Path
		if !private {
			return 0
		}
	}
	if it.dir {
		return child.MakeDir
	}
	return child.MakeFile
}

// tmpfsBytes is the size of a memory file system of which bytes were asked. What
// lies in it belongs to no process, so that sampling does not see it: without a
// control group it may at most hold what the run may have.
func (l *launch) tmpfsBytes(bytes int64) int64 {
	bytes = cmp.Or(bytes, defaultTmpfsBytes)
	if limit := l.limits.Memory; limit > 0 && !l.cgroupHolds("memory") {
		return min(bytes, limit)
	}
	return bytes
}

func (l *launch) uid() int {
	if l.spec.User != nil {
		return l.spec.User.UID
	}
	return os.Geteuid()
}
