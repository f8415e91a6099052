package test

import (
	"encoding/json"
	"os"
	osexec "os/exec"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// stop is SIGTERM, as sbx daemon stop and systemd do it.
func (d *daemonRun) stop() {
	d.Helper()
	d.must(unix.Kill(d.cmd.Process.Pid, unix.SIGTERM))
	d.must(d.cmd.Wait())
}

// unnamed runs argv by sbx exec that names no session, with nobody at a terminal.
func (d *daemonRun) unnamed(env []string, argv ...string) *osexec.Cmd {
	d.Helper()
	c := d.toDaemon(d, append([]string{"exec", "--quiet", "--no-ask", "--env", "DEPLOY_TOKEN", "--"}, argv...)...)
	c.Env = append(c.Env, env...)
	return c
}

// A call that names no session is answered, allowed for good, and found again by its
// repetition, also after the daemon was killed or stopped; its variables are all there,
// those too that no disk holds. Who differs in anything else gets none of it.
func TestPlainCallsFindTheirSessionAfterARestart(t *testing.T) {
	for name, end := range map[string]func(*daemonRun){"kill -9": (*daemonRun).kill, "stop": (*daemonRun).stop} {
		t.Run(name, func(t *testing.T) {
			d := startDaemon(t, os.Getuid(), "--stop-timeout", "100ms")
			secret := []string{"DEPLOY_TOKEN=wackelpudding-471"}
			run := func(env []string, argv ...string) result { d.Helper(); return d.finish(d.unnamed(env, argv...)) }
			ids := d.questions()
			d.until("the watcher is there", func() bool { text, _ := d.get("/api/health"); return strings.Contains(text, `"connections":2`) })

			// One is allowed for good before the end, one waits at the end.
			done := make(chan result, 1)
			first := d.unnamed(secret, "touch", "always-before")
			go func() { done <- d.finish(first) }()
			if _, code := d.request("POST", "/api/approvals/"+<-ids, `{"answer":"always","scope":"session"}`); code != 200 {
				t.Fatal(code)
			}
			if r := <-done; r.Code != 0 {
				t.Fatalf("%+v", r)
			}
			var waiting []string
			for _, file := range []string{"once", "always-after", "refused"} {
				c := d.unnamed(secret, "touch", file)
				d.must(c.Start())
				defer c.Wait()
				waiting = append(waiting, <-ids)
			}
			if name == "stop" { // the calls that wait are cancelled, and their questions with them
				waiting = nil
			}
			end(d)
			d.start()

			// Other users of the same words get a session of their own.
			for _, other := range [][]string{append(slices.Clone(secret), "PLAIN=1"), nil} {
				if r := run(other, "touch", "always-before-not"); r.Code != 126 {
					t.Errorf("with %q: %+v", other, r)
				}
			}
			d.must(os.Remove(d.Work + "/always-before"))
			if r := run(secret, "touch", "always-before"); r.Code != 0 || !exists(d.Work+"/always-before") {
				t.Errorf("the rule of the session is gone: %+v", r)
			}
			again := d.unnamed(secret, "touch", "always-before") // as the next command of a shell has it
			slices.Reverse(again.Env)
			again.Env = append(again.Env, "OLDPWD=/", "_=/usr/bin/sbx")
			if r := d.finish(again); r.Code != 0 {
				t.Errorf("another order of the variables: %+v", r)
			}
			if r := run(append(slices.Clone(secret), "PLAIN=1"), "touch", "always-before"); r.Code != 126 {
				t.Errorf("the rule holds in another environment: %+v", r)
			}
			for i, id := range waiting {
				flags := [][]string{{"approve", id}, {"approve", "--always", id}, {"deny", id}}[i]
				if r := d.sbxTo(d, flags...); r.Code != 0 || !strings.Contains(r.Stdout, "does not wait any more") {
					t.Errorf("%q: %+v", flags, r)
				}
			}
			for _, tt := range []struct {
				file  string
				codes []int
			}{{"once", []int{0, 126}}, {"always-after", []int{0, 0}}, {"refused", []int{126, 126}}} {
				for i, want := range tt.codes {
					if r := run(secret, "touch", tt.file); waiting != nil && r.Code != want {
						t.Errorf("%s, call %d: %+v, want exit %d", tt.file, i+1, r, want)
					}
				}
				if exists(d.Work+"/"+tt.file) != (tt.codes[0] == 0 && waiting != nil) {
					t.Errorf("%s is there: %v", tt.file, exists(d.Work+"/"+tt.file))
				}
			}
			// The first session lives on, with its variables: a mode of it lets printenv pass.
			session := d.sessionOf("touch always-before")
			if _, code := d.request("POST", "/api/chat/sessions/"+session+"/permissions/rules", `{"op":"add","kind":"allow","rule":"run_bash(printenv *)"}`); code != 200 {
				t.Fatalf("no session %s any more", session)
			}
			if r := run(secret, "printenv", "DEPLOY_TOKEN"); r.Code != 0 || r.Stdout != "wackelpudding-471\n" {
				t.Errorf("its variables: %+v", r)
			}
			d.everywhereBut("", "wackelpudding")
		})
	}
}

// sessionOf is the session of the newest row about a command.
func (d *daemonRun) sessionOf(command string) string {
	d.Helper()
	text, _ := d.get("/api/audit?newest=1&status=ok")
	var page struct {
		Rows []struct {
			Session string          `json:"session_id"`
			Args    json.RawMessage `json:"args"`
		}
	}
	d.must(json.Unmarshal([]byte(text), &page))
	for _, r := range page.Rows {
		if strings.Contains(string(r.Args), command) {
			return r.Session
		}
	}
	d.Fatalf("no row about %q in %s", command, text)
	return ""
}

// sessions lists the ids of those that live.
func (d *daemonRun) sessions() (ids []string) {
	d.Helper()
	text, _ := d.get("/api/chat/sessions")
	var list struct{ Sessions []struct{ ID string } }
	d.must(json.Unmarshal([]byte(text), &list))
	for _, s := range list.Sessions {
		ids = append(ids, s.ID)
	}
	return ids
}

// The session of calls that name none ends after its idle time, also when the daemon
// was started again meanwhile; one whose question waits does not, and one that somebody
// made by name never does.
func TestUnnamedSessionsEndAfterARestart(t *testing.T) {
	d := startDaemon(t, os.Getuid(), "--session-timeout", "1s", "--ask-timeout", "4s")
	named := d.newSession(nil)
	ids := d.questions()
	d.until("the watcher is there", func() bool { text, _ := d.get("/api/health"); return strings.Contains(text, `"connections":2`) })
	asks := d.unnamed(nil, "touch", "asked")
	d.must(asks.Start())
	defer asks.Wait()
	question := <-ids
	if r := d.execTo(d, nil, "true"); r.Code != 0 {
		t.Fatalf("%+v", r)
	}
	if n := len(d.sessions()); n != 3 {
		t.Fatalf("%d sessions, want 3", n)
	}
	d.kill()
	d.start()
	if n := len(d.sessions()); n != 3 {
		t.Fatalf("%d sessions after the restart, want 3", n)
	}
	d.until("the idle one has ended", func() bool { return len(d.sessions()) == 2 })
	if text, code := d.get("/api/approvals/" + question); code != 200 {
		t.Errorf("the session ended with its question: %d %s", code, text)
	}
	d.until("the other one has ended, after its question", func() bool { return len(d.sessions()) == 1 })
	if got := d.sessions(); got[0] != named {
		t.Errorf("left is %v, want %s", got, named)
	}
	if rows, _ := d.get("/api/audit?status=SESSION_STOP"); strings.Count(rows, `"text":"idle"`) != 2 {
		t.Errorf("rows of the ends: %s", rows)
	}
}
