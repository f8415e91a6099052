package agentloop

import "sync"

// FileStamp is what a file was when a conversation last saw it. The content
// decides; size and time of change tell people how a file changed.
type FileStamp struct {
	Size  int64 `json:"size"`
	MTime int64 `json:"mtime_ns"`
	// Hash is the SHA-256 of the content in hexadecimal. It is empty for a file too
	// large to be edited.
	Hash string `json:"hash"`
}

// maxFileStamps bounds the files that one conversation remembers; beyond it the
// oldest are forgotten, and must be read again before they are edited.
const maxFileStamps = 10_000

// FileState remembers which files a conversation has read, by their real paths:
// only those may be changed, and only while they are as they were. The zero value
// remembers none. It is safe for concurrent use.
type FileState struct {
	mu    sync.Mutex
	stamp map[string]FileStamp
	order []string // oldest first, each path once
}

// Seen notes what a file is now.
func (f *FileState) Seen(path string, s FileStamp) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stamp == nil {
		f.stamp = map[string]FileStamp{}
	}
	if _, known := f.stamp[path]; !known {
		if len(f.order) == maxFileStamps {
			delete(f.stamp, f.order[0])
			f.order = f.order[1:]
		}
		f.order = append(f.order, path)
	}
	f.stamp[path] = s
}

// Stamp returns what a file was when it was last seen.
func (f *FileState) Stamp(path string) (FileStamp, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, ok := f.stamp[path]
	return s, ok
}

// Clear forgets everything: a new conversation has read nothing.
func (f *FileState) Clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stamp, f.order = nil, nil
}

// Files are the files that the conversation of the session has read.
func (s *Session) Files() *FileState { return &s.files }
