package api

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"sandboxd/agentloop"
)

// maxJobLog bounds the log of one job in bytes; what comes after it is counted and
// dropped, so that the job does not stop and the disk does not fill.
const maxJobLog = 64 << 20

// jobLog is the output of a job on disk: frames of standard output and standard
// error in the order in which they were written. It is safe for concurrent use.
type jobLog struct {
	path string

	mu      sync.Mutex
	file    *os.File
	size    int64
	dropped int64
	failed  error
	ended   bool
	grown   chan struct{} // closed and replaced when size or ended change
}

// createJobLog makes the file, 0600 and the owner's, with the daemon's rights in a
// directory where nobody else can make entries.
func createJobLog(path string, owner agentloop.Caller) (*jobLog, error) {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_APPEND, 0o600)
	if err != nil {
		return nil, &os.PathError{Op: "create", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	if owner.UID != os.Geteuid() {
		if err := f.Chown(owner.UID, owner.GID); err != nil {
			return nil, errors.Join(err, f.Close(), os.Remove(path))
		}
	}
	return &jobLog{path: path, file: f, grown: make(chan struct{})}, nil
}

// stream returns the writer of one stream. It never fails and never waits for a
// reader: a job is not held up by its log.
func (l *jobLog) stream(kind FrameType) io.Writer { return jobStream{l, kind} }

type jobStream struct {
	log  *jobLog
	kind FrameType
}

func (s jobStream) Write(b []byte) (int, error) {
	l := s.log
	l.mu.Lock()
	defer l.mu.Unlock()
	for at := 0; at < len(b); {
		n := min(len(b)-at, maxData)
		l.append(s.kind, b[at:at+n])
		at += n
	}
	return len(b), nil
}

func (l *jobLog) append(kind FrameType, b []byte) {
	text := appendFrame(make([]byte, 0, frameHeader+len(b)), kind, b)
	if l.failed != nil || l.dropped > 0 || l.size+int64(len(text)) > maxJobLog {
		l.dropped += int64(len(b))
		return
	}
	if n, err := l.file.Write(text); err != nil {
		// Half a frame would spoil the log for its readers.
		l.failed, l.dropped = err, l.dropped+int64(len(b))
		if n > 0 {
			_ = l.file.Truncate(l.size)
		}
		return
	}
	l.size += int64(len(text))
	close(l.grown)
	l.grown = make(chan struct{})
}

// end closes the log. It returns what was lost.
func (l *jobLog) end() (dropped int64, failed error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.ended = true
		l.failed = errors.Join(l.failed, l.file.Close())
		close(l.grown)
		l.grown = make(chan struct{})
	}
	return l.dropped, l.failed
}

// state is how much can be read, whether more comes, and what tells of it.
func (l *jobLog) state() (size int64, ended bool, grown <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.size, l.ended, l.grown
}

// read hands every frame to take, from the first on; with follow it waits for more
// until the job has ended.
func (l *jobLog) read(ctx context.Context, follow bool, take func(kind FrameType, b []byte) error) error {
	f, err := openJobFile(l.path)
	if err != nil {
		return err
	}
	defer f.Close()
	var done int64
	for {
		size, ended, grown := l.state()
		if err := readFrames(io.NewSectionReader(f, done, size-done), take); err != nil {
			return err
		}
		done = size
		if ended || !follow {
			if now, _, _ := l.state(); now == size {
				return nil
			}
			continue
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// readFrames hands the frames of one section to take.
func readFrames(r io.Reader, take func(FrameType, []byte) error) error {
	in := bufio.NewReaderSize(r, maxData)
	var buf []byte
	for {
		f, next, err := readFrame(in, buf)
		buf = next
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := take(f.kind, f.payload); err != nil {
			return err
		}
	}
}

func openJobFile(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// makePrivateDir makes a directory of the daemon's own and its parents.
func makePrivateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return &os.PathError{Op: "lstat", Path: dir, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || int(st.Uid) != os.Geteuid() || st.Mode&0o077 != 0 {
		return &os.PathError{Op: "use", Path: filepath.Clean(dir), Err: errors.New("not a private directory of this daemon")}
	}
	return nil
}
