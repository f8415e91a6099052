package files

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Limits of what is shown; more is read by a further call.
const (
	maxLineChars = 2000    // of a line; the rest is counted
	MaxReadBytes = 100_000 // of an answer
)

// ReadRequest asks for lines of a file.
type ReadRequest struct {
	From  int `json:"from"` // the first line, from 1
	Count int `json:"count"`
	// Plain, if not zero, asks for at most so many bytes of the text as it is.
	Plain int `json:"plain,omitempty"`
}

// handleRead shows lines. A file of at most MaxWholeFile bytes is read once, so that
// what is shown and what is remembered are the same; of a larger one no more is
// kept than what is shown.
func handleRead(q Request, a *Answer) error {
	p, err := at(q)
	if err != nil {
		return err
	}
	defer p.close()
	if p.exists && p.isDir() {
		return fmt.Errorf("%s is a directory: list_dir shows it", p.path)
	}
	f, err := p.openFile()
	if err != nil {
		return err
	}
	defer f.Close()
	a.Real = p.real
	content, err := readWhole(f)
	if err != nil && !errors.Is(err, errTooLarge) {
		return p.fail("read", err)
	}
	if err != nil {
		return readLarge(q, p, f, a)
	}
	a.Stamp = stampOf(&p.stat, content)
	kind := encodingOf(content[:min(len(content), headBytes)], len(content) <= headBytes)
	switch {
	case len(content) == 0:
		a.Text = "[the file is empty]"
		return nil
	case kind == encodingBinary:
		a.Text = describeBinary(content[:min(len(content), headBytes)], int64(len(content)))
		return nil
	}
	text := decode(content, kind)
	if q.Read.Plain > 0 {
		if len(text) > q.Read.Plain {
			return fmt.Errorf("%s has %d bytes, at most %d are loaded", p.path, len(text), q.Read.Plain)
		}
		a.Text = text
		return nil
	}
	a.Text = showLines(strings.NewReader(text), *q.Read, lineNotes(kind, text))
	return nil
}

// readLarge shows lines of a file that is not kept.
func readLarge(q Request, p *place, f *os.File, a *Answer) error {
	head := make([]byte, headBytes)
	n, err := f.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return p.fail("read", err)
	}
	head = head[:n]
	kind := encodingOf(head, false)
	switch kind {
	case encodingBinary, encodingUTF16LE, encodingUTF16BE:
		a.Text = describeBinary(head, p.stat.Size)
		return nil
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return p.fail("read", err)
	}
	notes := append(lineNotes(kind, string(head)), fmt.Sprintf("%d bytes: too large to be edited by file_edit", p.stat.Size))
	if kind == encodingUTF8BOM {
		if _, err := f.Seek(int64(len(utf8BOM)), io.SeekStart); err != nil {
			return p.fail("read", err)
		}
	}
	a.Text = showLines(f, *q.Read, notes)
	return nil
}

// lineNotes say what of a text its lines do not show.
func lineNotes(kind encoding, text string) (notes []string) {
	if kind != encodingUTF8 {
		notes = append(notes, "encoding: "+kind.String())
	}
	if ends := strings.Count(text, "\r\n"); ends > 0 && ends == strings.Count(text, "\n") {
		notes = append(notes, "lines end with CR LF")
	}
	return notes
}

// showLines numbers the asked-for lines of a text, within the bounds of an answer.
func showLines(in io.Reader, q ReadRequest, notes []string) string {
	var out strings.Builder
	lines := lineReader{r: bufio.NewReaderSize(in, 64<<10)}
	last, more := 0, false
	for lines.skip(q.From - 1) {
		line, ok := lines.next()
		if !ok {
			break
		}
		shown := strconv.Itoa(lines.number) + "\t" + line + "\n"
		if lines.number >= q.From+q.Count || out.Len()+len(shown) > MaxReadBytes && last > 0 {
			more = true
			break
		}
		out.WriteString(shown)
		last = lines.number
	}
	switch {
	case more && last == 0:
		notes = append(notes, "no lines were asked for")
	case more:
		notes = append(notes, fmt.Sprintf("more lines follow: read on with offset %d", last+1))
	case last == 0 && lines.err == nil:
		notes = append(notes, fmt.Sprintf("the file has %d lines, so none from %d on", lines.number, q.From))
	case lines.unended && last > 0:
		notes = append(notes, "the last line has no line end")
	}
	if lines.err != nil {
		notes = append(notes, "reading stopped: "+unwrapped(lines.err).Error())
	}
	if len(notes) > 0 {
		out.WriteString("[" + strings.Join(notes, "; ") + "]\n")
	}
	return out.String()
}

// lineReader reads lines of any length in bounded memory.
type lineReader struct {
	r       *bufio.Reader
	number  int  // of the line that was read last
	unended bool // that one has no line end
	err     error
}

// skip passes over lines until n are behind. It reports whether there may be more.
func (l *lineReader) skip(n int) bool {
	for l.number < n {
		if _, ok := l.read(0); !ok {
			return false
		}
	}
	return l.err == nil
}

// next returns a line without its end, cut at maxLineChars, as valid UTF-8.
func (l *lineReader) next() (string, bool) {
	line, ok := l.read(maxLineChars * utf8.UTFMax)
	if !ok {
		return "", false
	}
	text := strings.ToValidUTF8(strings.TrimSuffix(string(line.kept), "\r"), "\uFFFD")
	cut := line.dropped
	if n := utf8.RuneCountInString(text); n > maxLineChars {
		end := 0
		for range maxLineChars {
			_, size := utf8.DecodeRuneInString(text[end:])
			end += size
		}
		cut += len(text) - end
		text = text[:end]
	}
	if cut > 0 {
		text += fmt.Sprintf(" [... %d more bytes in this line]", cut)
	}
	return text, true
}

// piece is a line of which the first bytes are kept.
type piece struct {
	kept    []byte
	dropped int
}

func (l *lineReader) read(keep int) (p piece, ok bool) {
	for {
		part, err := l.r.ReadSlice('\n')
		if len(part) > 0 {
			ok = true
		}
		if err == nil {
			part = part[:len(part)-1]
		}
		room := min(len(part), keep-len(p.kept))
		p.kept = append(p.kept, part[:room]...)
		p.dropped += len(part) - room
		switch {
		case err == nil:
			l.number++
			return p, true
		case err == bufio.ErrBufferFull:
			continue
		case err != io.EOF:
			l.err = err
		}
		if ok {
			l.number++
			l.unended = true
		}
		return p, ok
	}
}
