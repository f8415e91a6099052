package tools

import (
	"sync"

	"golang.org/x/sys/unix"
)

// lightProgram is another program of this installation that can play the helper, and
// starts faster: it does not bring the model APIs and the database. It is used only
// while it is as safe as the program that runs: of the same owner, and writable by
// no other. One of another build answers so, did nothing, and is not asked again
// until its file changes. Nil is none. It is safe for concurrent use.
type lightProgram struct {
	path string

	mu    sync.Mutex
	unfit fileID
}

// fileID tells a file from another one that takes its place.
type fileID struct {
	dev, ino uint64
	size     int64
	changed  unix.Timespec
}

// fit returns the program, if it can be tried.
func (p *lightProgram) fit() (path string, id fileID, ok bool) {
	if p == nil || p.path == "" {
		return "", id, false
	}
	var own, st unix.Stat_t
	if unix.Stat("/proc/self/exe", &own) != nil || unix.Lstat(p.path, &st) != nil {
		return "", id, false
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Uid != own.Uid || st.Mode&0o022 != 0 {
		return "", id, false
	}
	id = fileID{dev: uint64(st.Dev), ino: st.Ino, size: st.Size, changed: st.Ctim}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.path, id, id != p.unfit
}

// refuse remembers that the program does not fit.
func (p *lightProgram) refuse(id fileID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unfit = id
}
