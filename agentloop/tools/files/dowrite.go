package files

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// WriteRequest asks for a file to be written or edited.
type WriteRequest struct {
	Content *string `json:"content,omitempty"`
	Edits   []Edit  `json:"edits,omitempty"`
	// Seen is what the conversation last saw of the file; nil: nothing.
	Seen *Stamp `json:"seen,omitempty"`
	// Dry: nothing is written; the answer is the diff that would be made.
	Dry bool `json:"dry,omitempty"`
	// Most bounds the new content, in bytes; zero: only the limit of the process.
	Most int64 `json:"most,omitempty"`
}

// handleWrite changes a file if it is as the conversation saw it. Of two writers of
// one file at a time the second finds it changed.
func handleWrite(q Request, a *Answer) error {
	p, err := at(q)
	if err != nil {
		return err
	}
	defer p.close()
	w := q.Write
	if p.exists && !p.isRegular() {
		return fmt.Errorf("%s is %s, not a file", p.path, p.kind())
	}
	if !p.exists && w.Content == nil {
		return fmt.Errorf("%s: no such file; file_write makes one", p.path)
	}
	if p.exists && p.stat.Size > MaxWholeFile {
		return tooLarge(p)
	}
	if p.exists && w.Seen == nil {
		return fmt.Errorf("%s has not been read in this conversation: read it with read_file first, so that nothing in it is lost", p.path)
	}
	a.Real = p.real
	if !p.exists {
		return createFile(p, w, a)
	}
	held, err := hold(p)
	if err != nil {
		return err
	}
	defer held.release()
	return changeFile(p, held, w, a)
}

func tooLarge(p *place) error {
	return fmt.Errorf("%s is larger than %d bytes: file tools do not change it", p.path, MaxWholeFile)
}

// createFile makes a file that must not be there yet, and the directories to it.
func createFile(p *place, w *WriteRequest, a *Answer) error {
	content := []byte(*w.Content)
	if err := checkSize(p, len(content), w.Most); err != nil {
		return err
	}
	a.Diff = unifiedAs("/dev/null", ShownName("b/"+filepath.Base(p.real)), "", *w.Content)
	if w.Dry {
		return nil
	}
	end, err := p.makeParents()
	if err != nil {
		return err
	}
	err = p.create(content)
	end(err == nil)
	if err != nil {
		return err
	}
	a.Text = fmt.Sprintf("wrote %d bytes to %s, a new file", len(content), p.path)
	return p.stampNow(content, a)
}

// changeFile gives a file that is held its new content.
func changeFile(p *place, held *held, w *WriteRequest, a *Answer) error {
	old, err := readWhole(held.file)
	if errors.Is(err, errTooLarge) {
		return tooLarge(p)
	}
	if err != nil {
		return p.fail("read", err)
	}
	if err := unchanged(p, old, *w.Seen); err != nil {
		return err
	}
	next, done, err := w.next(p, old)
	if err != nil {
		return err
	}
	if err := checkSize(p, len(next), w.Most); err != nil {
		return err
	}
	a.Diff = unified(filepath.Base(p.real), string(old), string(next))
	if w.Dry {
		return nil
	}
	note := ""
	if !bytes.Equal(old, next) {
		if note, err = p.replace(held, old, next); err != nil {
			return err
		}
	}
	a.Text = done + note
	if a.Diff != "" {
		a.Text += "\n" + cutLines(a.Diff, MaxModelDiff)
	}
	return p.stampNow(next, a)
}

// next makes the new content, and says what was done.
func (w *WriteRequest) next(p *place, old []byte) (next []byte, done string, err error) {
	if w.Content != nil {
		return []byte(*w.Content), fmt.Sprintf("wrote %d bytes to %s", len(*w.Content), p.path), nil
	}
	switch kind := encodingOf(old, true); kind {
	case encodingBinary, encodingUTF16LE, encodingUTF16BE:
		return nil, "", fmt.Errorf("%s is %s: file_edit edits text of UTF-8 or another encoding of single bytes", p.path, kind)
	}
	text, n, err := applyEdits(string(old), w.Edits)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", p.path, err)
	}
	word := "replacements"
	if n == 1 {
		word = "replacement"
	}
	return []byte(text), fmt.Sprintf("edited %s: %d %s", p.path, n, word), nil
}

// unchanged compares a file with what the conversation saw of it. The content
// decides: a file that was only touched is the same, and one of the same size and
// time may be another.
func unchanged(p *place, now []byte, seen Stamp) error {
	stamp := stampOf(&p.stat, now)
	if stamp.Hash == seen.Hash {
		return nil
	}
	how := fmt.Sprintf("size %d, then %d bytes", seen.Size, stamp.Size)
	if stamp.Size == seen.Size {
		how = "same size, other content"
	}
	return fmt.Errorf("%s has changed since it was read in this conversation (%s): read it again and edit what is there now; nothing was changed", p.path, how)
}

// checkSize refuses a content before a byte of it is written.
func checkSize(p *place, size int, most int64) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit); err == nil && limit.Cur < 1<<62 && (most <= 0 || int64(limit.Cur) < most) {
		most = int64(limit.Cur)
	}
	if most > 0 && int64(size) > most {
		return fmt.Errorf("%s would have %d bytes, and limits.max_file_size or limits.file_size allows %d: nothing was written", p.path, size, most)
	}
	return nil
}

// makeParents makes the missing directories. end is called with whether they are
// needed; else those that are empty go again.
func (p *place) makeParents() (end func(needed bool), err error) {
	top, err := unix.Dup(p.dir)
	if err != nil {
		return nil, p.fail("open", err)
	}
	var made []string // paths from top
	end = func(needed bool) {
		for i := len(made) - 1; i >= 0 && !needed; i-- {
			_ = unix.Unlinkat(top, made[i], unix.AT_REMOVEDIR)
		}
		unix.Close(top)
	}
	last := p.name
	for i, name := range p.missing {
		err := unix.Mkdirat(p.dir, name, 0o777)
		if err == nil {
			made = append(made, strings.Join(p.missing[:i+1], "/"))
		} else if err != unix.EEXIST {
			end(false)
			return nil, p.fail("make directory "+name, err)
		}
		if err := p.into(name); err != nil {
			end(false)
			return nil, p.fail("open directory "+name, err)
		}
	}
	p.name = last
	return end, nil
}

// stampNow remembers the file that now has the name.
func (p *place) stampNow(content []byte, a *Answer) error {
	if err := unix.Fstatat(p.dir, p.name, &p.stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return p.fail("look at", err)
	}
	a.Stamp = stampOf(&p.stat, content)
	return nil
}

// held is a file that no other helper changes meanwhile.
type held struct {
	file *os.File
	dir  int // -1: it cannot be read, so it is not locked
}

func (h *held) release() {
	h.file.Close()
	if h.dir >= 0 {
		unix.Close(h.dir)
	}
}
