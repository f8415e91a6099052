package exec

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// capture keeps the head and the tail of a stream, and all of it, up to a cap,
// in a file. It takes everything that comes and never blocks the writer.
type capture struct {
	head, tail []byte // at most keep/2 each; tail is a ring
	at         int    // where the ring continues
	keep       int
	total      int64
	lines      int64

	open    func() (OutputFile, error) // nil: no file
	file    OutputFile
	fileCap int64
	written int64
	err     error // the file could not be made or written
}

func newCapture(keep int, fileCap int64, open func() (OutputFile, error)) *capture {
	return &capture{keep: max(keep, 2), fileCap: fileCap, open: open}
}

// Write never fails.
func (c *capture) Write(b []byte) (int, error) {
	c.toFile(b)
	c.total += int64(len(b))
	c.lines += int64(bytes.Count(b, []byte{'\n'}))
	rest := b
	if room := c.keep - c.keep/2 - len(c.head); room > 0 {
		n := min(room, len(rest))
		c.head = append(c.head, rest[:n]...)
		rest = rest[n:]
	}
	half := c.keep / 2
	if len(rest) > half {
		rest = rest[len(rest)-half:]
	}
	for len(rest) > 0 {
		if len(c.tail) < half {
			n := min(half-len(c.tail), len(rest))
			c.tail = append(c.tail, rest[:n]...)
			rest = rest[n:]
			continue
		}
		n := copy(c.tail[c.at:], rest)
		c.at = (c.at + n) % half
		rest = rest[n:]
	}
	return len(b), nil
}

// toFile appends to the file of the whole stream. It is made once the stream
// outgrows what is kept.
func (c *capture) toFile(b []byte) {
	if c.open == nil || c.err != nil {
		return
	}
	if c.file == nil {
		if c.total+int64(len(b)) <= int64(c.keep) {
			return
		}
		if c.file, c.err = c.open(); c.err != nil {
			c.file = nil
			return
		}
		c.toFile(c.kept()) // everything so far is still kept
	}
	if room := c.fileCap - c.written; room < int64(len(b)) {
		b = b[:max(room, 0)]
	}
	n, err := c.file.Write(b)
	c.written += int64(n)
	c.err = err
}

// kept is head and tail in order.
func (c *capture) kept() []byte {
	out := append([]byte{}, c.head...)
	out = append(out, c.tail[c.at:]...)
	return append(out, c.tail[:c.at]...)
}

// stream ends the capture and describes it.
func (c *capture) stream() Stream {
	s := Stream{Bytes: c.total}
	if c.file != nil {
		s.File = c.file.Name()
		if err := c.file.Close(); c.err == nil {
			c.err = err
		}
		s.FileDropped = c.total - c.written
	}
	if c.err != nil {
		s.FileError = c.err.Error()
	}
	if c.total <= int64(len(c.head)+len(c.tail)) {
		s.Text, s.Kept = string(c.kept()), c.total
		return s
	}
	head := trimEnd(c.head)
	tail := trimStart(c.kept()[len(c.head):])
	s.Kept = int64(len(head) + len(tail))
	s.Dropped, s.Truncated = s.Bytes-s.Kept, true
	lines := c.lines - int64(bytes.Count(head, []byte{'\n'})+bytes.Count(tail, []byte{'\n'}))
	where := "the rest is not kept"
	if c.err != nil {
		where += " (" + c.err.Error() + ")"
	}
	if s.File != "" {
		where = "in full: " + s.File
		if c.written < c.total {
			where = fmt.Sprintf("the first %d bytes: %s", c.written, s.File)
		}
	}
	s.Text = fmt.Sprintf("%s\n[... %d bytes, %d lines left out here; %s ...]\n%s", head, s.Dropped, lines, where, tail)
	return s
}

// trimEnd takes an incomplete character off the end, trimStart off the start.
func trimEnd(b []byte) []byte {
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		c := b[len(b)-i]
		if utf8.RuneStart(c) {
			if !utf8.FullRune(b[len(b)-i:]) {
				return b[:len(b)-i]
			}
			return b
		}
	}
	return b
}

func trimStart(b []byte) []byte {
	for i := 0; i < utf8.UTFMax && i < len(b); i++ {
		if utf8.RuneStart(b[i]) {
			return b[i:]
		}
	}
	return b
}
