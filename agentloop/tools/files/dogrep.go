package files

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path"
	"regexp"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"
	"golang.org/x/sys/unix"
)

// MaxHead is how many files or lines a search shows, whatever is asked for.
const MaxHead = 10_000

// Output modes of a search.
const (
	GrepNames   = "files_with_matches"
	GrepContent = "content"
	GrepCount   = "count"
)

// GrepRequest asks for what matches a regular expression.
type GrepRequest struct {
	Pattern       string   `json:"pattern"`
	Globs         []string `json:"globs,omitempty"` // of paths; "!" excludes
	Names         []string `json:"names,omitempty"` // of a language; one must match
	Mode          string   `json:"mode"`
	Before, After int      `json:",omitempty"`
	Head, Offset  int      `json:",omitempty"`
	Fold          bool     `json:"fold,omitempty"`
	Multiline     bool     `json:"multiline,omitempty"`
}

// search is one grep on its way.
type search struct {
	q       *GrepRequest
	re      *regexp.Regexp
	quick   bool        // the whole content can be asked first
	add     func(Found) // takes what is found
	w       *walker
	hits    int // files or lines so far
	bytes   int
	skipped int // files too large
	buf     []byte
}

func handleGrep(q Request, a *Answer) error {
	p, err := at(q)
	if err != nil {
		return err
	}
	defer p.close()
	a.Real = p.real
	s := &search{q: q.Grep}
	if err := s.compile(); err != nil {
		return err
	}
	if p.exists && p.isRegular() {
		f, err := p.openFile()
		if err != nil {
			return err
		}
		defer f.Close()
		return collect(a, maxSearchTime, func(add func(Found)) (string, error) {
			s.w, s.add = &walker{}, add
			s.file(int(f.Fd()), p.real)
			return s.cut(), nil
		})
	}
	f, err := p.openDir()
	if err != nil {
		return err
	}
	defer f.Close()
	return collect(a, maxSearchTime, func(add func(Found)) (string, error) {
		s.w, s.add = newWalker(p, false), add
		s.w.visit = func(rel, name string, dir int, kind os.FileMode) bool {
			if !kind.IsRegular() || !s.wanted(rel, name) {
				return true
			}
			fd, err := openFD(dir, name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
			if err != nil {
				return true // not to be read: as if it were not there
			}
			defer unix.Close(fd)
			return s.file(fd, path.Join(p.real, rel))
		}
		s.w.walk(f)
		return s.cut(), nil
	})
}

// cut says what is left out.
func (s *search) cut() string {
	if s.skipped == 0 {
		return s.w.cut
	}
	note := fmt.Sprintf("%d files larger than %d bytes were not searched", s.skipped, MaxWholeFile)
	return strings.TrimPrefix(s.w.cut+"; "+note, "; ")
}

// compile checks expression and patterns.
func (s *search) compile() (err error) {
	flags := "m"
	if s.q.Fold {
		flags += "i"
	}
	if s.q.Multiline {
		flags += "s"
	}
	if s.re, err = regexp.Compile("(?" + flags + ")" + s.q.Pattern); err != nil {
		return fmt.Errorf("pattern: %w", err)
	}
	// A line that matches alone matches in the whole too, unless the expression
	// knows where a text begins or ends.
	s.quick = !strings.Contains(s.q.Pattern, `\A`) && !strings.Contains(s.q.Pattern, `\z`)
	for _, g := range s.q.Globs {
		if err := checkPattern(strings.TrimPrefix(g, "!")); err != nil {
			return fmt.Errorf("glob: %w", err)
		}
	}
	return nil
}

// wanted reports whether a file is one of those to be searched.
func (s *search) wanted(rel, name string) bool {
	if len(s.q.Names) > 0 && !globAny(s.q.Names, rel, name) {
		return false
	}
	included, any := false, false
	for _, g := range s.q.Globs {
		if pattern, not := strings.CutPrefix(g, "!"); not {
			if globAny([]string{pattern}, rel, name) {
				return false
			}
			continue
		}
		any = true
		included = included || globAny([]string{g}, rel, name)
	}
	return included || !any
}

// globAny matches patterns with a slash against the path, others against the name.
func globAny(patterns []string, rel, name string) bool {
	for _, g := range patterns {
		subject := name
		if strings.Contains(g, "/") {
			subject = rel
			g = strings.TrimPrefix(g, "/")
		}
		if doublestar.MatchUnvalidated(g, subject) {
			return true
		}
	}
	return false
}

// read returns the content of a file, which is overwritten by the next one: most of
// the time of a search goes into system calls and garbage.
func (s *search) read(fd int) ([]byte, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, errors.New("not a regular file")
	}
	if st.Size > MaxWholeFile {
		return nil, errTooLarge
	}
	if need := int(st.Size) + 1; len(s.buf) < need { // room to see the end
		s.buf = make([]byte, max(need, 2*len(s.buf), 64<<10))
	}
	n := 0
	for n < len(s.buf) {
		m, err := again(func() (int, error) { return unix.Read(fd, s.buf[n:]) })
		if err != nil {
			return nil, err
		}
		if n += m; m == 0 || int64(n) == st.Size {
			break // what is written later is not of this search
		}
	}
	return s.buf[:n], nil
}

// file searches one file and reports whether the search goes on.
func (s *search) file(fd int, real string) bool {
	content, err := s.read(fd)
	if errors.Is(err, errTooLarge) {
		s.skipped++
		return true
	}
	if err != nil {
		return true
	}
	kind := encodingOf(content[:min(len(content), headBytes)], len(content) <= headBytes)
	if kind == encodingBinary {
		return true
	}
	if kind != encodingUTF8 && kind != encodingOther {
		content = []byte(decode(content, kind))
	}
	if (s.quick || s.q.Multiline) && !s.re.Match(content) {
		return true
	}
	lines := bytes.Split(bytes.TrimSuffix(content, []byte("\n")), []byte("\n"))
	hit := s.matches(content, lines)
	if len(hit) == 0 {
		return true
	}
	if s.q.Mode != GrepContent {
		return s.addFile(Found{Path: real, Count: len(hit)})
	}
	return s.addLines(real, lines, hit)
}

// matches lists the numbers of the matching lines, from 0.
func (s *search) matches(content []byte, lines [][]byte) (hit []int) {
	if !s.q.Multiline {
		for i, line := range lines {
			if s.re.Match(bytes.TrimSuffix(line, []byte("\r"))) {
				hit = append(hit, i)
			}
		}
		return hit
	}
	starts := make([]int, len(lines))
	at := 0
	for i, line := range lines {
		starts[i] = at
		at += len(line) + 1
	}
	lineOf := func(offset int) int { return sort.SearchInts(starts, offset+1) - 1 }
	for _, m := range s.re.FindAllIndex(content, MaxHead) {
		first, last := lineOf(m[0]), lineOf(max(m[1]-1, m[0]))
		for i := first; i <= last; i++ {
			if len(hit) == 0 || hit[len(hit)-1] < i {
				hit = append(hit, i)
			}
		}
	}
	return hit
}

// addFile takes a file into the answer, within its bounds.
func (s *search) addFile(f Found) bool {
	if s.hits++; s.hits <= s.q.Offset {
		return true
	}
	if s.full(len(f.Path)) {
		return false
	}
	s.add(f)
	return true
}

// full reports whether the answer has no place for another hit of so many bytes.
func (s *search) full(bytes int) bool {
	s.bytes += bytes
	switch {
	case s.hits > s.q.Offset+s.q.Head:
		s.w.cut = fmt.Sprintf("there are more; go on with offset %d", s.q.Offset+s.q.Head)
	case s.bytes > MaxReadBytes:
		s.w.cut = fmt.Sprintf("the answer would be longer than %d bytes; go on with offset %d", MaxReadBytes, s.hits-1)
	default:
		return false
	}
	return true
}

// addLines takes the matching lines of a file, and those around them.
func (s *search) addLines(real string, lines [][]byte, hit []int) bool {
	f := Found{Path: real, Count: len(hit)}
	next, more := 0, true // the first line that is not in the answer yet
	for k, i := range hit {
		if s.hits++; s.hits <= s.q.Offset {
			continue
		}
		text := shownLine(lines[i])
		if s.full(len(real) + len(text)) {
			more = false
			break
		}
		for j := max(i-s.q.Before, next); j < i; j++ {
			f.Lines = append(f.Lines, s.beside(lines, j))
		}
		f.Lines = append(f.Lines, FoundLine{Number: i + 1, Text: text})
		until := min(i+s.q.After, len(lines)-1)
		if k+1 < len(hit) {
			until = min(until, hit[k+1]-1)
		}
		for j := i + 1; j <= until; j++ {
			f.Lines = append(f.Lines, s.beside(lines, j))
		}
		next = until + 1
	}
	if len(f.Lines) > 0 {
		s.add(f)
	}
	return more
}

func (s *search) beside(lines [][]byte, j int) FoundLine {
	text := shownLine(lines[j])
	s.bytes += len(text)
	return FoundLine{Number: j + 1, Text: text, Context: true}
}

// shownLine is a line within the bound of a line, as valid UTF-8.
func shownLine(line []byte) string {
	const most = 500
	line = bytes.TrimSuffix(line, []byte("\r"))
	cut := 0
	if len(line) > most {
		end := most
		for end > 0 && !utf8.RuneStart(line[end]) {
			end--
		}
		cut = len(line) - end
		line = line[:end]
	}
	text := strings.ToValidUTF8(string(line), "\uFFFD")
	if cut > 0 {
		text += fmt.Sprintf(" [... %d more bytes in this line]", cut)
	}
	return text
}
