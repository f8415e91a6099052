package agentloop

import (
	"bytes"
	"errors"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// guardOpenDirs bounds the descriptors a walk holds, however deep the tree.
	guardOpenDirs = 96
	// guardMaxDirs bounds a walk. A larger tree is reported as not fully seen.
	guardMaxDirs = 4_000_000
)

// dirSeen is one directory of a walk, while its descriptor is open, and what
// of its entries matters to the guard.
type dirSeen struct {
	fd   int
	name string
	// gitEntry is the entry called .git; empty if there is none. On a file
	// system that folds case it may be spelled otherwise.
	gitEntry string
	gitIsDir bool
	// Names that make a directory a git directory, in any spelling.
	head, objects, refs, commondir, modulesFile bool
}

// isGitDir reports whether git would take config and hooks from the directory, or
// would if it had a HEAD: it is called .git, or it can be the commondir of another
// directory, which git does not ask for a HEAD of its own.
func (d *dirSeen) isGitDir() bool {
	return strings.EqualFold(d.name, ".git") || d.objects && d.refs || d.head && d.commondir
}

// dirWalk looks at every directory beneath one root, each once, and follows no
// link. It holds a bounded number of descriptors and goes down by single names,
// so that neither depth nor length of a path is a limit.
type dirWalk struct {
	visit func(path []string, dir *dirSeen)
	// blind is told of a directory that could not be looked at.
	blind func(path []string, err error)
	// uid is who the commands ran as: only what they could write is searched
	// by force.
	uid int
	// before is what an earlier walk saw, nil if nothing is known; record
	// becomes what this one sees.
	before *dirIndex
	record dirRecord
	stack  []walkFrame
	path   []string
	rel    []byte // the path joined
	dirs   int
	buf    []byte
}

type walkFrame struct {
	dirSeen
	todo []string
	// known is the directory's node in what was seen before, -1 if there is none;
	// kids are the nodes beneath it, by name. A frame that is still as it was has
	// no todo: next is the child to go to.
	known    int32
	kids     map[string]int32
	same     bool
	next     int32
	node     int32 // in the record
	relLen   int   // of the path above
	dev, ino uint64
	// mode is put back when the frame is left, if a mode had to be changed.
	mode    uint32
	changed bool
}

// run walks the tree below root, which stays open. It reports false if the
// bound on directories was reached.
func (w *dirWalk) run(root int) bool {
	w.buf = make([]byte, 64<<10)
	fd, err := unix.Openat(root, ".", openDirFlags, 0)
	if err != nil {
		w.blind(nil, err)
		return true
	}
	w.begin(fd)
	for len(w.stack) > 0 {
		top := &w.stack[len(w.stack)-1]
		name, known, ok := w.child(top)
		if !ok {
			w.leave()
			continue
		}
		if w.dirs >= guardMaxDirs {
			for len(w.stack) > 0 {
				w.leave()
			}
			return false
		}
		if known < 0 || !w.enterSame(name, known) {
			w.descend(top, name, known)
		}
	}
	if w.before != nil && len(w.before.nodes) != len(w.record.nodes) {
		w.record.changed = true
	}
	return true
}

// begin opens the walk at the root.
func (w *dirWalk) begin(fd int) {
	var st unix.Stat_t
	known := int32(0)
	if unix.Fstat(fd, &st) != nil || !indexable(fd) {
		w.record.off = true
	}
	w.record.dev, w.record.settled = st.Dev, guardClock(unix.CLOCK_REALTIME)-dirSettle
	if w.record.off || w.before == nil || w.before.dev != st.Dev {
		w.before, known = nil, -1
	}
	w.enter(fd, "", known, 0, false)
}

// child takes the next directory to go to from a frame, with its node in what was
// seen before.
func (w *dirWalk) child(top *walkFrame) (name string, known int32, ok bool) {
	if top.same {
		if top.next >= w.before.nodes[top.known].end {
			return "", -1, false
		}
		known = top.next
		top.next = w.before.nodes[known].end
		return w.before.nodes[known].name, known, true
	}
	if len(top.todo) == 0 {
		return "", -1, false
	}
	name = top.todo[len(top.todo)-1]
	top.todo = top.todo[:len(top.todo)-1]
	if top.known < 0 {
		return name, -1, true
	}
	if top.kids == nil {
		top.kids = map[string]int32{}
		w.before.children(top.known, func(c int32) { top.kids[w.before.nodes[c].name] = c })
	}
	if known, ok = top.kids[name]; !ok {
		known = -1
	}
	return name, known, true
}

// enterSame goes into a directory that is what it was, without opening it.
func (w *dirWalk) enterSame(name string, known int32) bool {
	was := w.before.nodes[known]
	rel := w.below(name)
	if was.ctime == 0 || len(rel) >= unix.PathMax {
		return false
	}
	st, err := lstatAt(w.stack[0].fd, string(rel))
	if err != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR || st.Dev != w.before.dev || st.Ino != was.ino || st.Ctim.Nano() != was.ctime {
		return false
	}
	w.dirs++
	w.stack = append(w.stack, walkFrame{dirSeen: dirSeen{fd: -1, name: name}, dev: st.Dev, ino: st.Ino,
		known: known, same: true, next: known + 1, node: w.record.add(dirNode{name: name, ino: was.ino, ctime: was.ctime}), relLen: len(w.rel)})
	w.path, w.rel = append(w.path, name), rel
	return true
}

// below is the path of a child of the directory the walk is in.
func (w *dirWalk) below(name string) []byte {
	if len(w.rel) == 0 {
		return append(w.rel, name...)
	}
	return append(append(w.rel, '/'), name...)
}

func (w *dirWalk) descend(top *walkFrame, name string, known int32) {
	if top.fd < 0 {
		if err := w.reopen(); err != nil {
			w.blind(w.path, err)
			w.record.reread(top.node)
			top.todo, top.next = nil, w.end(top)
			return
		}
		top = &w.stack[len(w.stack)-1]
	}
	fd, err := openDirAt(top.fd, name)
	mode, changed := uint32(0), false
	if errors.Is(err, unix.EACCES) {
		fd, mode, changed, err = openShut(top.fd, name, w.uid)
	}
	if err != nil {
		// The record lacks it, and it can change while its parent does not.
		w.record.reread(top.node)
	}
	switch {
	case err == nil:
		w.enter(fd, name, known, mode, changed)
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP), errors.Is(err, errPseudo), errors.Is(err, errForeign):
		// Gone, moved aside by us, exchanged, or not the command's to fill.
	default:
		w.blind(append(w.path, name), err)
	}
}

// end is the node behind those of a frame that is still as it was.
func (w *dirWalk) end(top *walkFrame) int32 {
	if !top.same {
		return 0
	}
	return w.before.nodes[top.known].end
}

func (w *dirWalk) enter(fd int, name string, known int32, mode uint32, changed bool) {
	w.dirs++
	frame := walkFrame{dirSeen: dirSeen{fd: fd, name: name}, known: known, relLen: len(w.rel), mode: mode, changed: changed}
	if len(w.stack) > 0 {
		w.path, w.rel = append(w.path, name), w.below(name)
	}
	// The status is from before the names are read: a later change shows.
	var st unix.Stat_t
	statErr := unix.Fstat(fd, &st)
	err := frame.read(w.buf)
	frame.node = w.note(&frame, &st, statErr == nil && err == nil && !changed)
	w.stack = append(w.stack, frame)
	if err != nil {
		w.blind(w.path, err)
	}
	w.visit(w.path, &frame.dirSeen)
	if far := len(w.stack) - 1 - guardOpenDirs; far >= 0 {
		w.stack[far].shut()
	}
}

// note records a directory that was read. whole is false if it is to be read
// again in any case.
func (w *dirWalk) note(frame *walkFrame, st *unix.Stat_t, whole bool) int32 {
	node := w.record.enter(frame.name, st)
	if node < 0 {
		return node
	}
	now := &w.record.nodes[node]
	if !whole || frame.gitEntry != "" || frame.modulesFile || frame.isGitDir() {
		now.ctime = 0
	}
	if frame.known < 0 || w.before.nodes[frame.known].ino != now.ino || w.before.nodes[frame.known].ctime != now.ctime {
		w.record.changed = true
	}
	return node
}

func (w *dirWalk) leave() {
	last := len(w.stack) - 1
	frame := &w.stack[last]
	w.record.leave(frame.node)
	if frame.changed {
		if frame.fd < 0 && w.reopen() == nil {
			frame = &w.stack[last]
		}
		if frame.fd >= 0 {
			unix.Fchmod(frame.fd, frame.mode)
		}
	}
	if frame.fd >= 0 {
		unix.Close(frame.fd)
	}
	w.rel = w.rel[:frame.relLen]
	w.stack = w.stack[:last]
	if last > 0 {
		w.path = w.path[:last-1]
	}
}

// shut closes the descriptor and remembers whose it was. The root stays open.
func (f *walkFrame) shut() {
	if f.fd < 0 || f.name == "" {
		return
	}
	var st unix.Stat_t
	if unix.Fstat(f.fd, &st) == nil {
		f.dev, f.ino = st.Dev, st.Ino
	}
	unix.Close(f.fd)
	f.fd = -1
}

// errMoved reports that a directory is not where it was a moment ago.
var errMoved = errors.New("moved while it was looked at")

// reopen opens the last frames again, going down from the nearest open one. It
// never follows a link, and takes nothing but the directory it was in before.
func (w *dirWalk) reopen() error {
	last := len(w.stack) - 1
	from := last
	for w.stack[from].fd < 0 {
		from--
	}
	at := w.stack[from].fd
	temp := -1
	defer func() {
		if temp >= 0 {
			unix.Close(temp)
		}
	}()
	for i := from + 1; i <= last; i++ {
		f := &w.stack[i]
		fd, err := openDirAt(at, f.name)
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil || st.Dev != f.dev || st.Ino != f.ino {
			unix.Close(fd)
			return errMoved
		}
		if temp >= 0 {
			unix.Close(temp)
			temp = -1
		}
		at = fd
		if last-i < guardOpenDirs/2 {
			f.fd = fd
		} else {
			temp = fd
		}
	}
	return nil
}

// read lists the directory, keeping the names of directories and the few others
// that matter.
func (f *walkFrame) read(buf []byte) error {
	for {
		n, err := unix.ReadDirent(f.fd, buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n <= 0 {
			return err
		}
		for rest := buf[:n]; len(rest) > 0; {
			entry := (*unix.Dirent)(unsafe.Pointer(&rest[0]))
			name := direntName(rest[:entry.Reclen])
			f.see(name, entry.Type)
			rest = rest[entry.Reclen:]
		}
	}
}

// direntName returns the name in one record of getdents64(2).
func direntName(record []byte) []byte {
	name := record[unsafe.Offsetof(unix.Dirent{}.Name):]
	for i, c := range name {
		if c == 0 {
			return name[:i]
		}
	}
	return name
}

func (f *walkFrame) see(name []byte, kind uint8) {
	if string(name) == "." || string(name) == ".." {
		return
	}
	if kind == unix.DT_UNKNOWN {
		kind = f.typeOf(string(name))
	}
	switch {
	case len(name) > len(".gitmodules"):
	case bytes.EqualFold(name, []byte("HEAD")):
		f.head = true
	case bytes.EqualFold(name, []byte("objects")):
		f.objects = true
	case bytes.EqualFold(name, []byte("refs")):
		f.refs = true
	case bytes.EqualFold(name, []byte("commondir")):
		f.commondir = true
	case bytes.EqualFold(name, []byte(".gitmodules")):
		f.modulesFile = true
	}
	if len(name) == len(".git") && strings.EqualFold(string(name), ".git") {
		f.gitEntry, f.gitIsDir = string(name), kind == unix.DT_DIR
	}
	if kind == unix.DT_DIR {
		f.todo = append(f.todo, string(name))
	}
}

// typeOf asks for the type that the file system did not give with the name.
func (f *walkFrame) typeOf(name string) uint8 {
	var st unix.Stat_t
	if unix.Fstatat(f.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return unix.DT_DIR
	}
	return unix.DT_REG
}
