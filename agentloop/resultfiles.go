package agentloop

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// ResultFilesOptions bound what is kept for each user. Zero fields mean the
// default named beside them.
type ResultFilesOptions struct {
	FileBytes int64         // of one result; 64 MiB
	UserBytes int64         // of all results of one user; 1 GiB
	UserFiles int           // how many of them; 1000
	Age       time.Duration // 7 days
	Now       func() time.Time
}

// ResultFiles keeps results that are too large for an answer, each in a file of
// the user whose call it was: in the user's own state directory, mode 0600, under
// a name that nobody chose and nobody can guess. Runs do not see that directory;
// sbx clean removes it. Secrets are masked as in every record of a session. It is
// safe for concurrent use.
//
//	f, err := results.Create(session)
//	io.WriteString(f, text)
//	err = f.Close() // f.ID() is for ResultFiles.Page, f.Name() for people
//
// # Limits
//
// The file is the user's: the user can change it afterwards, and what is read back
// is then what the user wrote. The bounds count what stands in the directory that
// the user's environment names, so that a user with two of them has both.
type ResultFiles struct {
	o ResultFilesOptions

	mu   sync.Mutex
	live map[int]int // files being written, by uid
}

// NewResultFiles returns a store without state of its own but what is being
// written.
func NewResultFiles(o ResultFilesOptions) *ResultFiles {
	if o.FileBytes <= 0 {
		o.FileBytes = 64 << 20
	}
	if o.UserBytes <= 0 {
		o.UserBytes = 1 << 30
	}
	if o.UserFiles <= 0 {
		o.UserFiles = 1000
	}
	if o.Age <= 0 {
		o.Age = 7 * 24 * time.Hour
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &ResultFiles{o: o, live: map[int]int{}}
}

var (
	// ErrNoResultFile reports that there is no such result for this user, or not
	// any more.
	ErrNoResultFile = errors.New("no such result, or it was removed by now")
	// ErrResultsFull reports that the user's results that are being written may
	// take all the room.
	ErrResultsFull = errors.New("too many large results of this user are being written at once")
)

// resultsDir is the part of a state directory for results; sbx clean knows it.
const resultsDir = "outputs"

// resultPrefix begins the id of a result, which is its file's name.
const resultPrefix = "result-"

// ResultFile takes one result. It is not safe for concurrent use.
type ResultFile struct {
	of   *ResultFiles
	uid  int
	file *os.File
	mask *streamMasker // nil: as it comes
	err  error
	done bool

	written, dropped int64
}

// Create makes the file of one result of s. learn are texts of the call, such as
// its command: a secret of a known form in them is masked wherever it occurs. The
// oldest results of the user make room. Close must be called.
func (r *ResultFiles) Create(s *Session, learn ...string) (*ResultFile, error) {
	c := s.caller()
	if err := r.reserve(c.UID); err != nil {
		return nil, err
	}
	f := &ResultFile{of: r, uid: c.UID}
	if !s.local() {
		f.mask = newStreamMasker(s.Kept().learning(learn...))
	}
	var err error
	inner := AsUser(c, func() { f.file, err = r.create(c, s.workspace) })
	if err := errors.Join(inner, err); err != nil {
		r.free(c.UID)
		return nil, fmt.Errorf("no file for the whole result: %w", err)
	}
	return f, nil
}

// reserve counts one more file that may grow to its bound.
func (r *ResultFiles) reserve(uid int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if int64(r.live[uid]+1)*r.o.FileBytes > r.o.UserBytes {
		return ErrResultsFull
	}
	r.live[uid]++
	return nil
}

func (r *ResultFiles) free(uid int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.live[uid]--; r.live[uid] <= 0 {
		delete(r.live, uid)
	}
}

// create is called with the rights of the user.
func (r *ResultFiles) create(c Caller, workspace string) (*os.File, error) {
	dir, err := resultDir(c, workspace)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	reserved := int64(r.live[c.UID]) * r.o.FileBytes
	r.mu.Unlock()
	if err := r.prune(dir, reserved); err != nil {
		return nil, err
	}
	name := filepath.Join(dir, resultPrefix+strings.ToLower(rand.Text()))
	fd, err := unix.Open(name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, &os.PathError{Op: "create", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// resultDir makes the directory of a user's results. One that a run could reach is
// none: what stands there is read back as a result.
func resultDir(c Caller, workspace string) (string, error) {
	if c.StateDir == "" {
		return "", errors.New("no private state directory")
	}
	if real := c.realPlace(c.StateDir); workspace != "" && within(real, workspace) {
		return "", fmt.Errorf("the state directory %s lies in the workspace", c.StateDir)
	}
	for _, dir := range []string{c.StateDir, filepath.Join(c.StateDir, resultsDir)} {
		if err := makeOwnDir(dir, c.UID); err != nil {
			return "", err
		}
	}
	return filepath.Join(c.StateDir, resultsDir), nil
}

// ID names the result for [ResultFiles.Page].
func (f *ResultFile) ID() string { return filepath.Base(f.file.Name()) }

// Name is the path of the file.
func (f *ResultFile) Name() string { return f.file.Name() }

// Dropped is how many bytes did not fit.
func (f *ResultFile) Dropped() int64 { return f.dropped }

// Write appends. What does not fit is dropped and counted; the error is that of the
// disk.
func (f *ResultFile) Write(b []byte) (int, error) {
	if f.err != nil || f.done {
		return 0, errors.Join(f.err, io.ErrClosedPipe)
	}
	f.put(f.masked(b, false))
	if f.err != nil {
		return 0, f.err
	}
	return len(b), nil
}

func (f *ResultFile) masked(b []byte, last bool) []byte {
	if f.mask == nil {
		return b
	}
	return f.mask.next(b, last)
}

func (f *ResultFile) put(b []byte) {
	if room := f.of.o.FileBytes - f.written; int64(len(b)) > room {
		f.dropped += int64(len(b)) - max(room, 0)
		b = b[:max(room, 0)]
	}
	if len(b) == 0 || f.err != nil {
		return
	}
	n, err := f.file.Write(b)
	f.written += int64(n)
	f.err = err
}

// Close writes what was held back for masking. It may be called again.
func (f *ResultFile) Close() error {
	if f.done {
		return f.err
	}
	f.done = true
	f.put(f.masked(nil, true))
	f.of.free(f.uid)
	f.err = errors.Join(f.err, f.file.Close())
	return f.err
}
