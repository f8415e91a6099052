package test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// sleeping is a model whose command notes that it began, prints, sleeps, and notes
// that it has slept.
func sleeping(name string, seconds float64, print string) string {
	return fmt.Sprintf(`
steps:
  - calls: [{tool: run_bash, args: {command: "touch %s-begun; %s sleep %g; touch %s-slept", timeout: 115}}]
  - say: done %s
`, name, print, seconds, name, name)
}

// in is the daemon for a test within its test.
func (d *daemonRun) in(t *testing.T) *daemonRun {
	own, s := *d, *d.scene
	s.T, own.scene = t, &s
	return &own
}

// follow opens the events of a session as its client; close ends the stream.
func (d *daemonRun) follow(session string) (closeStream func()) {
	d.Helper()
	ctx, cancel := context.WithCancel(d.Context())
	r, err := http.NewRequestWithContext(ctx, "GET", "http://localhost"+session+"/events?attached=1", nil)
	d.must(err)
	c := d.http()
	c.Timeout = 0
	answer, err := c.Do(r)
	d.must(err)
	if answer.StatusCode != 200 {
		d.Fatalf("following %s: %d", session, answer.StatusCode)
	}
	if _, err := bufio.NewReader(answer.Body).ReadString('\n'); err != nil {
		d.Fatal(err)
	}
	return func() { cancel(); answer.Body.Close() }
}

// endedAsGone tells whether a session ended since its client was gone, with a turn that was
// cancelled.
func (d *daemonRun) endedAsGone(session string, turn bool) {
	d.Helper()
	id := filepath.Base(session)
	d.until("the session ends", func() bool { _, code := d.get("/api/chat/sessions/" + id); return code == 404 })
	r := d.sbxTo(d, "audit", "--json", "--session", id)
	stop, cancelled := 0, 0
	for line := range strings.Lines(r.Stdout) {
		var row struct {
			Tool   string `json:"tool_name"`
			Status string
			Reason struct{ Type, Text, End string }
		}
		d.must(json.Unmarshal([]byte(line), &row))
		if row.Tool == "session" && row.Status == "SESSION_STOP" && row.Reason.Text == "client-gone" {
			stop++
		}
		if row.Tool == "turn" && row.Status == "cancelled" && row.Reason.End == "cancelled" {
			cancelled++
		}
	}
	if stop != 1 || turn && cancelled != 1 {
		d.Errorf("%d rows of the end of the session, %d of a cancelled turn:\n%s", stop, cancelled, r.Stdout)
	}
}

// A session of sbx agent ends with sbx, however that ends. One that is stopped, or whose
// stream breaks and comes back, is not gone; a session that was not made so outlives
// every stream.
func TestSessionEndsWithItsClient(t *testing.T) {
	d := startDaemon(t, os.Getuid())
	d.policy(agentPolicy)
	d.patience = 3 * time.Minute
	attached := map[string]any{"attached": true}
	has := func(name string) func() bool { return func() bool { return exists(d.Work + "/" + name) } }
	t.Run("all", func(t *testing.T) { // they wait, most of the time
		t.Run("killed", func(t *testing.T) {
			t.Parallel()
			d := d.in(t)
			c := d.agent(d, sleeping("killed", 71.25, ""), "--no-ask", "--json", "sleep, and be killed")
			done := make(chan result, 1)
			go func() { done <- d.finish(c) }()
			d.until("the command begins", has("killed-begun"))
			d.must(unix.Kill(c.Process.Pid, unix.SIGKILL))
			at := time.Now()
			var e struct {
				Data struct {
					Session      string `json:"session_id"`
					Conversation string `json:"conversation_id"`
				}
			}
			d.must(json.Unmarshal([]byte(strings.SplitN((<-done).Stdout, "\n", 2)[0]), &e))
			d.until("the command is ended", func() bool { return len(processesWith("sleep 71.25")) == 0 })
			if took := time.Since(at); took < 8*time.Second {
				t.Errorf("ended after %v: a client has 10 s to come back", took)
			}
			d.endedAsGone("/"+e.Data.Session, true)
			if has("killed-slept")() {
				t.Error("the command went on")
			}
			more := "steps: [{say: x}, {expect: 'cancelled', say: went on}]"
			if r := d.finish(d.agent(d, more, "--no-ask", "--resume", e.Data.Conversation, "go on")); r.Code != 0 || r.Stdout != "went on\n" {
				t.Errorf("--resume: %d %s %s", r.Code, r.Stdout, r.Stderr)
			}
		})
		t.Run("stopped", func(t *testing.T) {
			t.Parallel()
			d := d.in(t)
			// What it does not take fills its socket, for longer than an answer may wait.
			c := d.agent(d, sleeping("stopped", 48.5, "head -c 3000000 /dev/zero | tr '\\\\0' x;"), "--no-ask", "sleep, and be stopped")
			done := make(chan result, 1)
			go func() { done <- d.finish(c) }()
			d.until("the command begins", has("stopped-begun"))
			d.must(unix.Kill(c.Process.Pid, unix.SIGSTOP))
			time.Sleep(50 * time.Second)
			d.must(unix.Kill(c.Process.Pid, unix.SIGCONT))
			if r := <-done; r.Code != 0 || !strings.Contains(r.Stdout, "done stopped") || !has("stopped-slept")() {
				t.Errorf("exit %d, slept %v: %s %s", r.Code, has("stopped-slept")(), clip(r.Stdout), clip(r.Stderr))
			}
		})
		t.Run("comes back", func(t *testing.T) {
			t.Parallel()
			d := d.in(t)
			session := d.chat(sleeping("back", 16.5, ""), attached)
			leave := d.follow(session)
			d.object("POST", session+"/messages", `{"text":"go"}`, 202)
			d.until("the command begins", has("back-begun"))
			leave()
			time.Sleep(4 * time.Second)
			leave = d.follow(session)
			d.until("it has slept", has("back-slept"))
			if end := d.said(session)["end"].(map[string]any); end["reason"] != "completed" {
				t.Errorf("the end: %v", end)
			}
			leave()
			d.endedAsGone(session, false)
		})
		t.Run("never came", func(t *testing.T) {
			t.Parallel()
			d := d.in(t)
			d.endedAsGone(d.chat("steps: [{say: x}]", attached), false)
		})
		t.Run("without the option", func(t *testing.T) {
			t.Parallel()
			d := d.in(t)
			session := d.chat(sleeping("free", 14.5, ""), nil)
			if text, code := d.get(session + "/events?attached=1"); code != 409 {
				t.Errorf("following it as its client: %d %s", code, text)
			}
			d.object("POST", session+"/messages", `{"text":"go"}`, 202)
			d.until("it has slept", has("free-slept"))
			if end := d.said(session)["end"].(map[string]any); end["reason"] != "completed" {
				t.Errorf("the end: %v", end)
			}
		})
	})
	// After a restart nobody is there, and the session is waited for as a new one is.
	session := d.chat(sleeping("restart", 61.25, ""), attached)
	leave := d.follow(session)
	d.object("POST", session+"/messages", `{"text":"go"}`, 202)
	d.until("the command begins", has("restart-begun"))
	d.kill()
	leave()
	d.start()
	if _, code := d.get(session); code != 200 {
		t.Fatalf("the session is not there after a restart: %d", code)
	}
	d.endedAsGone(session, false)
}
