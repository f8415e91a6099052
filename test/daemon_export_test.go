package test

import (
	"encoding/json"
	"fmt"
	"os"
	osexec "os/exec"
	"regexp"
	"strings"
	"testing"
)

// sbx audit export writes every row there is, more than any page holds, so that the
// program of docs/audit.md finds the whole of it unchanged, and any change of it.
func TestExportIsVerifiedByTheProgramOfTheDocs(t *testing.T) {
	d := startDaemon(t, os.Getuid())
	// Texts that JSON has several forms for, and that a terminal would obey.
	for _, odd := range []string{"\u202eevil", "\x1b[2J\u009b", "<a>&\u2028", "\x7f\\ \"", "\xff\xfe"} {
		d.sbxTo(d, "exec", "--quiet", "--", "rm", odd)
		d.execTo(d, nil, "printf", "%s", odd)
	}
	session := d.newSession(nil)
	for i := range 600 { // two rows each: a question is denied, as nobody is there
		d.request("POST", "/api/exec", fmt.Sprintf(`{"session_id":%q,"cwd":%q,"tool":"run_bash","args":{"command":"true %d"}}`, session, d.Work, i))
	}
	r := d.sbxTo(d, "audit", "export")
	d.file(d.Work+"/audit.jsonl", r.Stdout)
	var last struct{ Seq int }
	lines := strings.Split(strings.TrimSuffix(r.Stdout, "\n"), "\n")
	d.must(json.Unmarshal([]byte(lines[len(lines)-1]), &last))
	if r.Code != 0 || last.Seq != len(lines) || len(lines) < 1100 {
		t.Fatalf("exit %d, %d lines, the last is row %d: %s", r.Code, len(lines), last.Seq, clip(r.Stderr))
	}
	program := d.docProgram("../docs/audit.md", "```python\nimport hashlib, json, sys\n")
	verify := func(text string) string {
		d.file(d.Work+"/audit.jsonl", text)
		c := osexec.CommandContext(t.Context(), "python3", "-c", program)
		c.Dir = d.Work
		out, _ := c.CombinedOutput()
		return string(out)
	}
	if out := verify(r.Stdout); !strings.HasPrefix(out, fmt.Sprintf("ok %d ", last.Seq)) {
		t.Errorf("an honest export: %s", out)
	}
	if out := verify(strings.Replace(r.Stdout, "evil", "good", 1)); !strings.Contains(out, "was changed") {
		t.Errorf("a changed one: %s", out)
	}
	if out := verify(strings.Join(append(lines[:20:20], lines[21:]...), "\n") + "\n"); !strings.Contains(out, "missing") {
		t.Errorf("one without a row: %s", out)
	}

	// Filters select; a file is new, private and whole, or not there.
	r = d.sbxTo(d, "audit", "export", "--status", "ok", "--since", "1h", "--output", "ok.jsonl")
	text := d.content(d.Work + "/ok.jsonl")
	if info, err := os.Stat(d.Work + "/ok.jsonl"); r.Code != 0 || err != nil || info.Mode().Perm() != 0o600 || strings.Count(text, "\n") != strings.Count(text, `"status":"ok"`) || text == "" {
		t.Errorf("filtered: %+v, %v, %s", r, err, clip(text))
	}
	for _, args := range [][]string{{"--status", "bogus"}, {"--verdict", "maybe"}, {"--since", "tomorrow"}, {"row"}} {
		r := d.sbxTo(d, append([]string{"audit", "export", "--output", "no.jsonl"}, args...)...)
		if r.Code != 125 || !strings.Contains(r.Stderr, "sbx: hint: ") || exists(d.Work+"/no.jsonl") {
			t.Errorf("%q: exit %d, %s; a file: %v", args, r.Code, r.Stderr, exists(d.Work+"/no.jsonl"))
		}
	}
	if r := d.sbxTo(d, "audit", "export", "--output", "ok.jsonl"); r.Code != 125 || d.content(d.Work+"/ok.jsonl") != text {
		t.Errorf("over a file that is there: %+v", r)
	}
	for _, q := range []string{"verdict=bogus", "status=bogus", "newest=maybe", "bogus=1"} {
		if text, code := d.get("/api/audit?" + q); code != 400 {
			t.Errorf("%s: %d %s", q, code, clip(text))
		}
	}
	if r := d.sbxTo(d, "audit", "--verdict", "bogus"); r.Code != 125 || !strings.Contains(r.Stderr, "allow, ask, deny") {
		t.Errorf("%+v", r)
	}
	// On a terminal nothing of it is obeyed.
	p := atTerminal(t, d.toDaemon(d, "audit", "export", "--text", "evil"))
	if code := p.ends(); code != 0 || !strings.Contains(p.seen.String(), "evil") || regexp.MustCompile("[\u202e\u009b\x1b]").MatchString(p.seen.String()) {
		t.Errorf("exit %d, %q", code, clip(p.seen.String()))
	}
}

// docProgram is the code block of a document that begins so.
func (s *scene) docProgram(file, begin string) string {
	s.Helper()
	text := s.content(file)
	at := strings.Index(text, begin)
	if at < 0 {
		s.Fatalf("%s has no block %q", file, begin)
	}
	text = text[at+strings.Index(begin, "\n")+1:]
	return text[:strings.Index(text, "\n```")]
}

// Who watches goes on when the daemon was started again, and is recorded as who it is.
func TestWatcherOutlivesTheDaemon(t *testing.T) {
	d := startDaemon(t, os.Getuid())
	d.file(d.Work+"/victim", "x")
	watcher := atTerminal(t, d.toDaemon(d, "approvals", "--watch"))
	watcher.await("waiting for questions")
	first := d.toDaemon(d, "exec", "--quiet", "--no-ask", "--", "rm", "victim")
	d.must(first.Start())
	watcher.await("allow it?")
	d.kill()
	first.Wait()
	watcher.await("the daemon is gone")
	watcher.seen.Reset()
	d.start()
	watcher.await("the daemon is there again")
	watcher.await("allow it?")
	if strings.Contains(watcher.seen.String(), "answered elsewhere") {
		t.Errorf("nobody answered: %s", watcher.seen.String())
	}
	watcher.term.WriteString("y\n")
	watcher.await("its repetition passes once")
	if r := d.sbxTo(d, "exec", "--quiet", "--no-ask", "--", "rm", "victim"); r.Code != 0 || exists(d.Work+"/victim") {
		t.Errorf("the repetition: %+v", r)
	}
	if rows, _ := d.get("/api/audit?status=allow&newest=1&limit=1"); !strings.Contains(rows, "by sbx approvals --watch") {
		t.Errorf("who answered: %s", rows)
	}
	watcher.term.Write([]byte{3})
	if code := watcher.ends(); code != 130 {
		t.Errorf("exit %d, %s", code, watcher.seen.String())
	}
	d.kill()
	r := d.sbxTo(d, "approvals", "--watch", "--json")
	if r.Code != 125 || !strings.Contains(r.Stderr, "sbx: hint: ") {
		t.Errorf("without a daemon: %+v", r)
	}
}
