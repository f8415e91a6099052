package agentloop

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// readResultTool is the name of the tool that reads on.
const readResultTool = "read_result"

// fitResult returns what a model gets of a result of a call: all of it up to max
// characters, else its head and tail and how to read on. The whole is kept by keep,
// under a name that the model has no part in.
func fitResult(text string, max int, keep func(text string) (id, path string, err error)) (short, path string) {
	if len(text) <= max || utf8.RuneCountInString(text) <= max {
		return text, ""
	}
	id, path, err := keep(text)
	head, tail := headAndTail(text, max)
	left := len(text) - len(head) - len(tail)
	where := "the whole could not be kept"
	if err == nil {
		where = fmt.Sprintf("read on with %s {\"id\":%q,\"offset\":%d}", readResultTool, id, len(head))
	} else if !errors.Is(err, ErrNoResultFile) {
		where += ": " + err.Error()
	}
	return fmt.Sprintf("%s\n[... %d of %d bytes are left out here; %s ...]\n%s", head, left, len(text), where, tail), path
}

// headAndTail cuts the middle out of text, so that max characters stay: two thirds
// of them at the head, cut at the ends of lines where these are near.
func headAndTail(text string, max int) (head, tail string) {
	tailLen := max / 3
	head = firstCharacters(text, max-tailLen)
	if n := strings.LastIndexByte(head, '\n'); n > len(head)*3/4 {
		head = head[:n+1]
	}
	at := len(text)
	for range tailLen {
		_, size := utf8.DecodeLastRuneInString(text[:at])
		at -= size
	}
	tail = text[at:]
	if n := strings.IndexByte(tail, '\n'); n >= 0 && n < len(tail)/4 {
		tail = tail[n+1:]
	}
	return head, tail
}

// keep puts a text into a file of the session's user.
func (r *ResultFiles) keep(s *Session, text string, learn ...string) (id, path string, err error) {
	if r == nil {
		return "", "", ErrNoResultFile
	}
	f, err := r.Create(s, learn...)
	if err != nil {
		return "", "", err
	}
	_, err = io.WriteString(f, text)
	if err := errors.Join(err, f.Close()); err != nil {
		return "", "", err
	}
	return f.ID(), f.Name(), nil
}

// resultText is what the model is told of a result of a call, and the file of the
// whole, if there is one. learn are texts of the call, whose secrets are masked in
// that file.
func (d *Dispatcher) resultText(s *Session, max int, res ToolResult, text string, learn ...string) (short, path string) {
	short, path = fitResult(text, max, func(text string) (id, path string, err error) { return d.o.Results.keep(s, text, learn...) })
	if res.Exec == nil {
		return short, path
	}
	// What a command printed was cut where it was captured.
	for _, of := range []struct{ name, file string }{{"stdout", res.Exec.Stdout.File}, {"stderr", res.Exec.Stderr.File}} {
		if id := filepath.Base(of.file); isResultID(id) {
			short += fmt.Sprintf("\n[the whole %s: %s {\"id\":%q,\"offset\":0}]", of.name, readResultTool, id)
			path = of.file
		}
	}
	return short, path
}

// ResultPage reads a part of a kept result of the user whose call this is. limit is
// in bytes; 0, and what is more than the model may get of one result, means as much
// as that.
func (r *ToolRun) ResultPage(id string, offset int64, limit int) (ResultPage, error) {
	if r.d.o.Results == nil {
		return ResultPage{}, ErrNoResultFile
	}
	max := AgentLimits{}.OrDefault().MaxOutput
	if a := r.Agent(); a != nil {
		max = a.o.Config.Limits.OrDefault().MaxOutput
	}
	max = slices.Max([]int{max - pageHeader, utf8.UTFMax})
	if limit <= 0 || limit > max {
		limit = max
	}
	return r.d.o.Results.Page(r.Session.caller(), id, offset, limit)
}

// pageHeader is room for what is said about a page, in characters.
const pageHeader = 200
