package agentloop

import (
	"bytes"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// guardFileBytes bounds what is kept of one file, guardItemBytes of all
	// files under one name, guardItemFiles their number, guardItemDepth how
	// deep it goes. Git configs and settings are a few KiB.
	guardFileBytes = 1 << 20
	guardItemBytes = 4 << 20
	guardItemFiles = 512
	guardItemDepth = 8
)

// fileState is a file, a link or a directory as it was.
type fileState struct {
	Mode     uint32 // with the type
	UID, GID uint32
	Dev, Ino uint64
	Ctime    int64  // nanoseconds
	Content  []byte `json:",omitempty"` // of a file; the target of a link
	// Large: the content was over a bound, and cannot be put back.
	Large    bool                  `json:",omitempty"`
	Children map[string]*fileState `json:",omitempty"`
}

func (s *fileState) kind() uint32 { return s.Mode & unix.S_IFMT }

// same reports whether b is what a was, to a program that reads it.
func (s *fileState) same(b *fileState) bool {
	if s == nil || b == nil {
		return s == b
	}
	if s.Mode != b.Mode {
		return false
	}
	if s.Large || b.Large {
		return s.Large && b.Large && s.Dev == b.Dev && s.Ino == b.Ino && s.Ctime == b.Ctime
	}
	if !bytes.Equal(s.Content, b.Content) || len(s.Children) != len(b.Children) {
		return false
	}
	for name, child := range s.Children {
		if !child.same(b.Children[name]) {
			return false
		}
	}
	return true
}

// stateBudget is what may still be read for one item.
type stateBudget struct {
	bytes int64
	files int
	// skip leaves out names with this suffix: git's samples of hooks.
	skip string
}

func newStateBudget() *stateBudget { return &stateBudget{bytes: guardItemBytes, files: guardItemFiles} }

// takeState reads what is called name, one component, in the open directory
// dir. It returns nil if there is nothing.
func takeState(dir int, name string, budget *stateBudget, depth int) *fileState {
	st, err := lstatAt(dir, name)
	if err != nil {
		return nil
	}
	s := stateOf(st)
	budget.files--
	if budget.files < 0 || depth > guardItemDepth {
		s.Large = true
		return s
	}
	switch s.kind() {
	case unix.S_IFLNK:
		target, err := readLinkAt(dir, name)
		s.Content, s.Large = []byte(target), err != nil
	case unix.S_IFREG:
		if st.Size > guardFileBytes || st.Size > budget.bytes {
			s.Large = true
			break
		}
		budget.bytes -= st.Size
		content, err := readFileAt(dir, name, guardFileBytes)
		s.Content, s.Large = content, err != nil
	case unix.S_IFDIR:
		s.takeChildren(dir, name, budget, depth)
	}
	return s
}

func stateOf(st unix.Stat_t) *fileState {
	return &fileState{Mode: st.Mode, UID: st.Uid, GID: st.Gid, Dev: st.Dev, Ino: st.Ino, Ctime: st.Ctim.Nano()}
}

func (s *fileState) takeChildren(dir int, name string, budget *stateBudget, depth int) {
	fd, err := openDirAt(dir, name)
	if err != nil {
		s.Large = true
		return
	}
	defer unix.Close(fd)
	names, whole := entryNames(fd, guardItemFiles)
	s.Children = make(map[string]*fileState, len(names))
	for _, child := range names {
		if budget.skip != "" && strings.HasSuffix(child, budget.skip) {
			continue
		}
		if state := takeState(fd, child, budget, depth+1); state != nil {
			s.Children[child] = state
		}
	}
	s.Large = !whole
}

// entryNames lists at most limit names of an open directory, sorted, and says
// whether these are all.
func entryNames(fd, limit int) ([]string, bool) {
	again, err := unix.Openat(fd, ".", openDirFlags, 0)
	if err != nil {
		return nil, false
	}
	f := os.NewFile(uintptr(again), ".")
	defer f.Close()
	names, _ := f.Readdirnames(limit + 1)
	whole := len(names) <= limit
	if !whole {
		names = names[:limit]
	}
	slices.Sort(names)
	return names, whole
}
