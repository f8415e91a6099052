package test

import (
	"bytes"
	"fmt"
	"os"
	osexec "os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// typist is a person at a terminal.
type typist struct {
	*testing.T
	cmd  *osexec.Cmd
	term *os.File
	seen bytes.Buffer
}

// atTerminal starts c on a terminal of its own.
func atTerminal(t *testing.T, c *osexec.Cmd) *typist {
	t.Helper()
	c.SysProcAttr = &unix.SysProcAttr{Setsid: true, Setctty: true, Credential: c.SysProcAttr.Credential}
	term, err := pty.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	// A terminal has no deadlines: who is awaited in vain is ended, which ends it.
	timer := time.AfterFunc(time.Minute, func() { c.Process.Kill() })
	t.Cleanup(func() { timer.Stop(); term.Close(); c.Process.Kill(); c.Wait() })
	return &typist{T: t, cmd: c, term: term}
}

func (p *typist) await(part string) {
	p.Helper()
	buf := make([]byte, 4096)
	for !strings.Contains(p.seen.String(), part) {
		n, err := p.term.Read(buf)
		p.seen.Write(buf[:n])
		if err != nil {
			p.Fatalf("waiting for %q: %v, seen %q", part, err, p.seen.String())
		}
	}
}

// ends returns the exit status.
func (p *typist) ends() int {
	p.Helper()
	buf := make([]byte, 4096)
	for {
		n, err := p.term.Read(buf)
		p.seen.Write(buf[:n])
		if err != nil {
			break
		}
	}
	p.cmd.Wait()
	return p.cmd.ProcessState.ExitCode()
}

// A question at the terminal of sbx exec: what is asked, y, n, always.
func TestQuestionAtTheTerminal(t *testing.T) {
	d := startDaemon(t, os.Getuid())
	d.file(d.Work+"/victim", "x")
	rm := func() *typist { return atTerminal(t, d.toDaemon(d, "exec", "--quiet", "--", "rm", "victim")) }

	p := rm()
	p.await("allow it?")
	for _, part := range []string{"rm victim", d.Work, "mode default", "always"} {
		if !strings.Contains(p.seen.String(), part) {
			t.Errorf("the question does not show %q: %s", part, p.seen.String())
		}
	}
	if !exists(d.Work + "/victim") {
		t.Fatal("the command ran before the answer")
	}
	p.term.WriteString("n\n")
	if code := p.ends(); code != 126 || !exists(d.Work+"/victim") {
		t.Errorf("after n: exit %d, the file is there: %v; %s", code, exists(d.Work+"/victim"), p.seen.String())
	}

	p = rm()
	p.await("allow it?")
	p.term.WriteString("y\n")
	if code := p.ends(); code != 0 || exists(d.Work+"/victim") {
		t.Errorf("after y: exit %d; %s", code, p.seen.String())
	}

	// Ctrl-C while it is asked ends the call.
	p = rm()
	p.await("allow it?")
	p.term.Write([]byte{3})
	if code := p.ends(); code != 130 || strings.Contains(p.seen.String(), "answered elsewhere") {
		t.Errorf("after Ctrl-C: exit %d; %s", code, p.seen.String())
	}
	d.until("no question is left", func() bool { text, _ := d.get("/api/approvals"); return text == "{\"questions\":[]}\n" })

	// Always, and then the same passes without a question.
	d.file(d.Work+"/victim", "x")
	p = rm()
	p.await("allow it?")
	p.term.WriteString("a\n")
	if code := p.ends(); code != 0 {
		t.Errorf("after always: exit %d; %s", code, p.seen.String())
	}
	d.file(d.Work+"/victim", "x")
	p = rm()
	if code := p.ends(); code != 0 || strings.Contains(p.seen.String(), "allow it?") {
		t.Errorf("the same again: exit %d; %s", code, p.seen.String())
	}
}

// With nobody there the answer is no, at once.
func TestHeadlessIsDeniedAtOnce(t *testing.T) {
	d := startDaemon(t, os.Getuid())
	d.execTo(d, nil, "true") // the first call of a session tests the sandbox
	c := d.toDaemon(d, "exec", "--", "rm", "-rf", "x")
	start := time.Now()
	r := d.finish(c)
	if r.Code != 126 || !strings.Contains(r.Stderr, "nobody to ask") {
		t.Errorf("headless: %+v", r)
	}
	if took := time.Since(start); took > time.Second {
		t.Errorf("it took %v, want less than a second", took)
	}
}

// A question is answered from where somebody is: another terminal that watches, or
// sbx approve. The terminal that asks is told.
func TestQuestionsAreAnsweredFromAnywhere(t *testing.T) {
	d := startDaemon(t, os.Getuid())
	id := regexp.MustCompile(`id +(\S+)`)

	d.file(d.Work+"/victim", "x")
	asking := atTerminal(t, d.toDaemon(d, "exec", "--quiet", "--", "rm", "victim"))
	asking.await("allow it?")
	question := id.FindStringSubmatch(asking.seen.String())[1]
	if r := d.sbxTo(d, "approve", question); r.Code != 0 || !strings.Contains(r.Stdout, "allow: ") {
		t.Errorf("approve: %+v", r)
	}
	if code := asking.ends(); code != 0 || exists(d.Work+"/victim") || !strings.Contains(asking.seen.String(), "answered elsewhere") {
		t.Errorf("the call: exit %d; %s", code, asking.seen.String())
	}
	if r := d.sbxTo(d, "deny", question); r.Code == 0 {
		t.Errorf("a second answer: %+v", r)
	}

	watcher := atTerminal(t, d.toDaemon(d, "approvals", "--watch"))
	watcher.await("waiting for questions")
	d.file(d.Work+"/victim", "x")
	headless := d.toDaemon(d, "exec", "--quiet", "--no-ask", "--", "rm", "victim")
	done := make(chan result, 1)
	go func() { done <- d.finish(headless) }()
	watcher.await("rm victim")
	watcher.await("allow it?")
	watcher.term.WriteString("y\n")
	if r := <-done; r.Code != 0 || exists(d.Work+"/victim") {
		t.Errorf("after the watcher's y: %+v", r)
	}
	if r := d.sbxTo(d, "permissions", "recent"); r.Code != 0 || strings.Count(r.Stdout, "rm victim") < 2 {
		t.Errorf("permissions recent: %+v", r)
	}
	rows, _ := d.get("/api/audit?status=ok")
	if n := strings.Count(rows, `"tool_name":"run_bash"`); n != 2 {
		t.Errorf("%d calls ended well, want 2: %s", n, fmt.Sprint(rows))
	}
}

// The watcher goes through the modes of the session that asks, with Shift+Tab or m;
// bypassPermissions is among them only where it was enabled at the start.
func TestWatcherCyclesTheModes(t *testing.T) {
	d := startDaemon(t, os.Getuid())
	mode := func(id string) string {
		text, _ := d.get("/api/chat/sessions/" + id)
		return strings.Join(regexp.MustCompile(`"mode":"(\w+)"`).FindStringSubmatch(text)[1:], "")
	}
	plain, bypass := d.newSession(nil), d.newSession(map[string]any{"mode": "bypassPermissions"})
	if _, code := d.request("PUT", "/api/chat/sessions/"+bypass+"/permissions/mode", `{"mode":"default"}`); code != 200 {
		t.Fatal(code)
	}
	for id, want := range map[string][]string{
		plain:  {"acceptEdits", "plan", "default", "acceptEdits"},
		bypass: {"acceptEdits", "plan", "bypassPermissions", "default"},
	} {
		watcher := atTerminal(t, d.toDaemon(d, "approvals", "--watch"))
		watcher.await("waiting for questions")
		done := make(chan result, 1)
		go func() { done <- d.sbxTo(d, "exec", "--quiet", "--no-ask", "--session", id, "--", "rm", "victim-"+id) }()
		for i, next := range want {
			watcher.await("allow it?")
			watcher.seen.Reset()
			key := "\x1b[Z"
			if i%2 == 1 {
				key = "m\n"
			}
			watcher.term.WriteString(key)
			watcher.await("the session is in mode " + next)
			if got := mode(id); got != next {
				t.Errorf("step %d: mode %s, want %s", i, got, next)
			}
		}
		watcher.await("allow it?")
		watcher.term.WriteString("n\n")
		if r := <-done; r.Code != 126 {
			t.Errorf("%+v", r)
		}
		watcher.term.Write([]byte{3})
		if code := watcher.ends(); code != 130 {
			t.Errorf("Ctrl-C: exit %d, %s", code, watcher.seen.String())
		}
	}
}
