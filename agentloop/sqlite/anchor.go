package sqlite

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"sandboxd/agentloop"
)

// anchorVersion begins each line of the file of anchors:
//
//	sandboxd-anchor-1 STORE TIME SEQ HASH KIND
const anchorVersion = "sandboxd-anchor-1"

// The kinds of anchors. A file begins with start or cut, else earlier ones are gone.
const (
	anchorStart = "start" // the empty log
	anchorHead  = "head"  // the last row at that time
	anchorCut   = "cut"   // the last row that retention removed
	anchorAgain = "again" // the file was missing and begins anew
)

type anchorLine struct {
	agentloop.AuditAnchor
	kind string
}

func (a anchorLine) String() string {
	return fmt.Sprintf("%s %s %s %d %s %s\n", anchorVersion, a.Store, a.Time.UTC().Format(timeFormat), a.Seq, a.Hash, a.kind)
}

func parseAnchor(line string) (anchorLine, bool) {
	f := strings.Fields(line)
	if len(f) != 6 || f[0] != anchorVersion || len(f[4]) != 64 {
		return anchorLine{}, false
	}
	when, errTime := time.Parse(timeFormat, f[2])
	seq, errSeq := strconv.ParseInt(f[3], 10, 64)
	a := anchorLine{agentloop.AuditAnchor{Store: f[1], Time: when, Seq: seq, Hash: f[4]}, f[5]}
	return a, errTime == nil && errSeq == nil && seq >= 0
}

// anchors is the open file of anchors. It is used by the writer alone.
type anchors struct {
	path  string
	file  *os.File
	last  int64 // the highest Seq that was written
	wrote time.Time
	// torn says that the file may end in the middle of a line.
	torn bool
	// appendOnly is set where the kernel lets nobody rewrite the file.
	appendOnly bool
	// fresh says that the file was missing or empty when it was opened.
	fresh bool
}

// openAnchors opens the file, or makes it with the line first.
func openAnchors(path string, first anchorLine, appendOnly bool) (*anchors, error) {
	a := &anchors{path: path}
	_, err := os.Lstat(path)
	missing := errors.Is(err, os.ErrNotExist)
	a.file, err = os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if missing {
		err = errors.Join(a.file.Chmod(0o600), syncDir(filepath.Dir(path)))
	} else {
		err = a.readTail()
	}
	a.fresh = missing || err == nil && a.last < 0
	if a.fresh {
		err = errors.Join(err, a.add(first))
	}
	if err != nil {
		return nil, errors.Join(err, a.file.Close())
	}
	if appendOnly {
		setAppendOnly(a.file, true) // where it is possible; Health and Verify say so
	}
	a.appendOnly = isAppendOnly(a.file)
	return a, nil
}

// readTail finds the last anchor of the file; last is -1 when there is none.
func (a *anchors) readTail() error {
	a.last = -1
	lines, torn, err := readAnchors(a.path)
	if err != nil {
		return err
	}
	a.torn = torn
	for _, l := range lines {
		a.last, a.wrote = max(a.last, l.Seq), l.Time
	}
	return nil
}

// add appends one line and waits until it is on disk.
func (a *anchors) add(l anchorLine) error {
	text := l.String()
	if a.torn {
		text = "\n" + text
	}
	if n, err := a.file.WriteString(text); err != nil {
		a.torn = a.torn || n > 0
		return err
	}
	a.torn = false
	if err := a.file.Sync(); err != nil {
		return err
	}
	if l.Seq >= a.last { // a cut is behind the head
		a.last, a.wrote = l.Seq, time.Now()
	}
	return nil
}

// keepFrom rewrites the file when it has grown: the anchors before the cut are of
// rows that are gone. The new file begins with the cut.
func (a *anchors) keepFrom(cut anchorLine) error {
	st, err := a.file.Stat()
	if err != nil || st.Size() < 1<<20 {
		return errors.Join(err, a.add(cut))
	}
	lines, _, err := readAnchors(a.path)
	if err != nil {
		return err
	}
	var text strings.Builder
	text.WriteString(cut.String())
	for _, l := range lines {
		if l.Seq > cut.Seq {
			text.WriteString(l.String())
		}
	}
	next, err := os.OpenFile(a.path+".new", os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = next.WriteString(text.String())
	err = errors.Join(err, next.Sync())
	if err == nil && a.appendOnly {
		setAppendOnly(a.file, false)
	}
	if err == nil {
		err = os.Rename(a.path+".new", a.path)
	}
	if err != nil {
		if a.appendOnly {
			setAppendOnly(a.file, true)
		}
		return errors.Join(err, next.Close())
	}
	err = errors.Join(syncDir(filepath.Dir(a.path)), a.file.Close())
	if a.appendOnly {
		setAppendOnly(next, true)
	}
	a.file, a.torn, a.appendOnly = next, false, isAppendOnly(next)
	return err
}

// readAnchors returns the anchors of a file in order. torn says that it does not
// end with a line end. Lines that are no anchors are left out; Verify counts them.
func readAnchors(path string) (lines []anchorLine, torn bool, err error) {
	f, err := openToRead(path)
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = f.Close() }()
	err = eachAnchor(f, func(a anchorLine, ok, ended bool) {
		torn = !ended
		if ok {
			lines = append(lines, a)
		}
	})
	return lines, torn, err
}

// openToRead opens a file of anchors without waiting if it is something else.
func openToRead(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
}

// eachAnchor calls fn for every line; ok says whether it is an anchor, ended
// whether the line is complete.
func eachAnchor(from io.Reader, fn func(a anchorLine, ok, ended bool)) error {
	r := bufio.NewReaderSize(from, 4096)
	for {
		line, err := r.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull): // no line of ours is so long
			fn(anchorLine{}, false, false)
			continue
		case errors.Is(err, io.EOF) && len(line) == 0:
			return nil
		case err != nil && !errors.Is(err, io.EOF):
			return err
		}
		text := strings.TrimSuffix(string(line), "\n")
		if text == "" {
			continue
		}
		a, ok := parseAnchor(text)
		ended := err == nil
		fn(a, ok && ended, ended)
		if !ended {
			return nil
		}
	}
}

// appendFlag is FS_APPEND_FL of linux/fs.h.
const appendFlag = 0x20

// setAppendOnly sets or clears the append-only attribute of chattr(1), which needs
// CAP_LINUX_IMMUTABLE and a file system that has it.
func setAppendOnly(f *os.File, on bool) {
	flags, err := unix.IoctlGetUint32(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if err != nil {
		return
	}
	flags &^= appendFlag
	if on {
		flags |= appendFlag
	}
	_ = unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, int(flags))
}

func isAppendOnly(f *os.File) bool {
	flags, err := unix.IoctlGetUint32(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	return err == nil && flags&appendFlag != 0
}
