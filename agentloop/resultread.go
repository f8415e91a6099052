package agentloop

import (
	"cmp"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// ResultPage is a part of a result.
type ResultPage struct {
	ID   string `json:"id"`
	Text string `json:"text"`
	// Offset is where Text begins, Next where the following page does, Size the
	// whole, all in bytes of the file.
	Offset int64 `json:"offset"`
	Next   int64 `json:"next"`
	Size   int64 `json:"size"`
	// Last says that nothing follows.
	Last bool `json:"last"`
}

const (
	defaultPage = 16 << 10
	maxPage     = 256 << 10
)

// Page reads a part of a result of the user c from offset on: limit bytes, 16 KiB
// if it is 0, at most 256 KiB, and never half a character at the end. The error is
// [ErrNoResultFile] for what is not there and for what is not c's alike.
func (r *ResultFiles) Page(c Caller, id string, offset int64, limit int) (ResultPage, error) {
	if limit <= 0 {
		limit = defaultPage
	}
	out := ResultPage{ID: id, Offset: max(offset, 0)}
	var text []byte
	var err error
	inner := AsUser(c, func() { text, out.Size, err = readResult(c, id, out.Offset, min(max(limit, utf8.UTFMax), maxPage)) })
	if err := errors.Join(inner, err); err != nil {
		return ResultPage{}, err
	}
	if whole := trimHalf(text); len(whole) > 0 {
		text = whole
	}
	out.Text, out.Next = string(text), out.Offset+int64(len(text))
	out.Last = out.Next >= out.Size
	return out, nil
}

// readResult is called with the rights of the user.
func readResult(c Caller, id string, offset int64, limit int) (text []byte, size int64, err error) {
	if c.StateDir == "" || !isResultID(id) {
		return nil, 0, ErrNoResultFile
	}
	f, err := openOwn(filepath.Join(c.StateDir, resultsDir, id), c.UID)
	if err != nil {
		return nil, 0, errors.Join(ErrNoResultFile, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	text = make([]byte, min(int64(limit), max(info.Size()-offset, 0)))
	n, err := f.ReadAt(text, offset)
	if err == io.EOF {
		err = nil
	}
	return text[:n], info.Size(), err
}

// openOwn opens a regular file of uid for reading. It follows no link at the end
// and waits for nobody.
func openOwn(path string, uid int) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || int(st.Uid) != uid {
		f.Close()
		return nil, &os.PathError{Op: "open", Path: path, Err: cmp.Or(err, error(unix.EPERM))}
	}
	return f, nil
}

// isResultID reports whether a name is one that Create gives.
func isResultID(id string) bool {
	rest, ok := strings.CutPrefix(id, resultPrefix)
	return ok && len(rest) == 26 && strings.Trim(rest, "abcdefghijklmnopqrstuvwxyz234567") == ""
}

// trimHalf takes an incomplete character off the end.
func trimHalf(b []byte) []byte {
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		if c := b[len(b)-i]; utf8.RuneStart(c) {
			if !utf8.FullRune(b[len(b)-i:]) {
				return b[:len(b)-i]
			}
			return b
		}
	}
	return b
}

// Prune removes the results of c that are too old or too much, as Create does
// before it makes another one.
func (r *ResultFiles) Prune(c Caller) error {
	if c.StateDir == "" {
		return nil
	}
	var err error
	inner := AsUser(c, func() { err = r.prune(filepath.Join(c.StateDir, resultsDir), 0) })
	return errors.Join(inner, err)
}

// prune is called with the rights of the user. reserved bytes are left free for
// what is being written, the file among it that is about to be made.
func (r *ResultFiles) prune(dir string, reserved int64) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	type kept struct {
		path  string
		bytes int64
		used  time.Time
	}
	var all []kept
	total := reserved
	for _, e := range entries {
		if !isResultID(e.Name()) {
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue // removed meanwhile
		}
		all = append(all, kept{filepath.Join(dir, e.Name()), info.Size(), info.ModTime()})
		total += info.Size()
	}
	slices.SortFunc(all, func(a, b kept) int { return a.used.Compare(b.used) })
	now, left := r.o.Now(), len(all)
	for _, k := range all {
		room := reserved == 0 || left < r.o.UserFiles // one more is about to come
		if total <= r.o.UserBytes && room && now.Sub(k.used) < r.o.Age {
			break
		}
		if err := os.Remove(k.path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		total, left = total-k.bytes, left-1
	}
	return nil
}
