package test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"
)

// TestFloodOnBothStreams: a GiB on each stream at once, captured: every byte is
// counted, the end is kept, sbx stays small.
func TestFloodOnBothStreams(t *testing.T) {
	const flood = 1 << 30
	inTiers(t, func(s *scene) {
		script := fmt.Sprintf("head -c %d /dev/zero & head -c %d /dev/zero >&2; wait; echo END; echo ERR >&2", flood, flood)
		o := s.observe([]string{"--output-limit", "4KiB"}, "/bin/sh", "-c", script)
		if o.Code != 0 || o.Report.Stdout.Bytes != flood+4 || o.Report.Stderr.Bytes != flood+4 {
			s.Errorf("exit %d, %d and %d bytes, %s", o.Code, o.Report.Stdout.Bytes, o.Report.Stderr.Bytes, o.Report.Outcome)
		}
		if !strings.HasSuffix(o.Report.Stdout.Text, "END\n") || !strings.HasSuffix(o.Report.Stderr.Text, "ERR\n") {
			s.Errorf("the end is not kept: %.20q %.20q", o.Report.Stdout.Text, o.Report.Stderr.Text)
		}
		o.holds(s)
	})
}

// TestFloodToASlowReader: passed through, the command waits for the reader, and
// the deadline holds all the same.
func TestFloodToASlowReader(t *testing.T) {
	inTiers(t, func(s *scene) {
		r, w, err := os.Pipe()
		s.must(err)
		defer r.Close()
		argv := []string{s.program("sbx"), "run", "--quiet", "--tier", s.Tier, "--timeout", "1s", "--workspace", s.Work, "--", "/bin/sh", "-c", "yes " + s.mark()}
		c := s.command(argv...)
		c.Stdout = w
		start := time.Now()
		s.must(c.Start())
		w.Close()
		c.Wait() // nobody read
		if code := c.ProcessState.ExitCode(); code != 124 || time.Since(start) > 6*time.Second {
			s.Errorf("exit %d after %v", code, time.Since(start))
		}
		if found := left(s.mark()); found != "" {
			s.Errorf("it left %s", found)
		}
	})
}

// TestOutputIsCutBetweenCharacters is row 108: with --json 4000 bytes are kept,
// head and tail, each cut between characters; the result tells how much there
// was, and the whole is in a file.
func TestOutputIsCutBetweenCharacters(t *testing.T) {
	for _, uid := range users() {
		for _, width := range []string{"a", "é", "漢", "🙂"} {
			s := newScene(t, uid, "full")
			for shift := range 4 {
				script := fmt.Sprintf("printf %%s '%s'; for i in $(seq 5000); do printf %%s '%s'; done", strings.Repeat("x", shift), width)
				out := s.finish(s.command(s.program("sbx"), "run", "--quiet", "--json", "--workspace", s.Work, "--", "/bin/sh", "-c", script))
				var object struct {
					Stdout struct {
						Text, File           string
						Bytes, Kept, Dropped int64
						Truncated            bool
					}
				}
				s.must(json.Unmarshal([]byte(out.Stdout), &object))
				o := object.Stdout
				total := int64(shift + 5000*len(width))
				if o.Bytes != total || o.Kept+o.Dropped != total || !o.Truncated || o.Kept > 4000 || o.Kept < 4000-8 {
					t.Errorf("uid %d, %s: of %d bytes: %+v", uid, width, total, o)
				}
				if strings.ContainsRune(o.Text, utf8.RuneError) || !strings.HasSuffix(o.Text, width) {
					t.Errorf("uid %d, %s: cut inside of a character: %.12q ... %q", uid, width, o.Text, o.Text[len(o.Text)-12:])
				}
				if whole := s.content(o.File); int64(len(whole)) != total || !utf8.ValidString(whole) {
					t.Errorf("uid %d, %s: the file %q has %d bytes", uid, width, o.File, len(whole))
				}
				if strings.HasPrefix(o.File, s.Work) {
					t.Errorf("the file lies in the workspace: %s", o.File)
				}
			}
		}
	}
}

// captured runs a command with --json and an output limit and returns the
// description of its standard output.
func (s *scene) captured(limit string, argv ...string) (o struct {
	Text, File           string
	Bytes, Kept, Dropped int64
	Truncated            bool
}) {
	s.Helper()
	args := []string{s.program("sbx"), "run", "--quiet", "--json", "--tier", s.Tier, "--output-limit", limit, "--workspace", s.Work, "--"}
	r := s.finish(s.command(append(args, argv...)...))
	var object struct{ Stdout any }
	object.Stdout = &o
	s.must(json.Unmarshal([]byte(r.Stdout), &object))
	return o
}

// S011: a cut output says what is left out, where, and where the whole is.
func TestCaseCutOutputSaysWhatIsLeftOut(t *testing.T) {
	inTiers(t, func(s *scene) {
		o := s.captured("1000", "seq", "1", "100000")
		head, rest, ok := strings.Cut(o.Text, "\n[... ")
		middle, tail, ok2 := strings.Cut(rest, " ...]\n")
		if !ok || !ok2 || !strings.HasPrefix(head, "1\n2\n") || !strings.HasSuffix(tail, "99999\n100000\n") {
			s.Fatalf("text %q", o.Text)
		}
		lines := 100000 - strings.Count(head, "\n") - strings.Count(tail, "\n")
		for _, want := range []string{fmt.Sprintf("%d bytes", o.Dropped), fmt.Sprintf("%d lines", lines), o.File} {
			if !strings.Contains(middle, want) || want == "" {
				s.Errorf("%q does not say %q", middle, want)
			}
		}
		if whole := s.content(o.File); len(whole) != 588895 || o.Bytes != 588895 {
			s.Errorf("%d bytes in the file, %d counted", len(whole), o.Bytes)
		}
	})
}

// S044: one very long last line keeps its end.
func TestCaseLongLastLine(t *testing.T) {
	inTiers(t, func(s *scene) {
		o := s.captured("50KiB", "/bin/sh", "-c", `head -c 250000 /dev/zero | tr '\0' x; echo END`)
		if !strings.HasSuffix(o.Text, "xEND\n") || o.Bytes != 250004 || o.Kept+o.Dropped != o.Bytes || o.Kept < 50<<10-8 {
			s.Errorf("%d bytes, kept %d, dropped %d, end %q", o.Bytes, o.Kept, o.Dropped, o.Text[max(len(o.Text)-12, 0):])
		}
		if n := len(s.content(o.File)); n != 250004 {
			s.Errorf("the file has %d bytes", n)
		}
	})
}

// S067: the object arrives whole however slow its reader is.
func TestCaseSlowReaderGetsTheWholeObject(t *testing.T) {
	inTiers(t, func(s *scene) {
		r, w, err := os.Pipe()
		s.must(err)
		defer r.Close()
		c := s.command(s.program("sbx"), "run", "--quiet", "--json", "--tier", s.Tier, "--output-limit", "1MiB", "--workspace", s.Work, "--",
			"/bin/sh", "-c", `head -c 400000 /dev/zero | tr '\0' y`)
		c.Stdout = w
		s.must(c.Start())
		w.Close()
		var text []byte
		for {
			time.Sleep(20 * time.Millisecond) // a pipe holds 64 KiB: sbx waits in between
			buf := make([]byte, 32<<10)
			n, err := r.Read(buf)
			text = append(text, buf[:n]...)
			if err == io.EOF {
				break
			}
			s.must(err)
		}
		s.must(c.Wait())
		var object struct{ Stdout struct{ Text string } }
		if err := json.Unmarshal(text, &object); err != nil || len(object.Stdout.Text) != 400000 {
			s.Errorf("%d bytes of text: %v", len(object.Stdout.Text), err)
		}
	})
}

// S074: four floods at once, each counted right, sbx small.
func TestCaseFourFloodsAtOnce(t *testing.T) {
	const flood = 512 * mib
	inTiers(t, func(s *scene) {
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				var out bytes.Buffer
				c := s.command(s.sbxArgs([]string{"--output-limit", "1MiB"}, "/bin/bash", "-c", fmt.Sprintf("yes | head -c %d", flood))...)
				c.Stdout = &out
				if err := c.Start(); err != nil {
					s.Error(err)
					return
				}
				ended := make(chan struct{})
				peak := make(chan int64, 1)
				go func() { peak <- ownPeak(c.Process.Pid, ended) }()
				c.Wait() // the object tells
				close(ended)
				var object report
				if err := json.Unmarshal(out.Bytes(), &object); err != nil || object.Stdout.Bytes != flood {
					s.Errorf("%d bytes: %v", object.Stdout.Bytes, err)
				}
				if own := <-peak; own > ownBytes {
					s.Errorf("sbx grew to %d MiB", own/mib)
				}
			})
		}
		all.Wait()
	})
}
