package test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// newSession makes a session by the API and returns its id.
func (d *daemonRun) newSession(more map[string]any) string {
	d.Helper()
	body := map[string]any{"cwd": d.Work, "env": []string{"PATH=/usr/bin:/bin", "HOME=" + d.Home}}
	for k, v := range more {
		body[k] = v
	}
	text, err := json.Marshal(body)
	d.must(err)
	answer, code := d.request("POST", "/api/chat/sessions", string(text))
	var made struct{ ID string }
	if d.must(json.Unmarshal([]byte(answer), &made)); code != 201 {
		d.Fatalf("new session: %d %s", code, answer)
	}
	return made.ID
}

// questions watches, so that questions wait, and hands out their ids.
func (d *daemonRun) questions() <-chan string {
	d.Helper()
	r, err := http.NewRequestWithContext(d.Context(), "GET", "http://localhost/api/approvals/watch", nil)
	d.must(err)
	c := d.http()
	c.Timeout = 0
	answer, err := c.Do(r)
	d.must(err)
	ids := make(chan string, 1000)
	go func() { // ends with the test's context
		defer answer.Body.Close()
		defer close(ids)
		kind := ""
		for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
			if name, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				kind = name
			}
			data, ok := strings.CutPrefix(lines.Text(), "data: ")
			var q struct{ ID string }
			if ok && kind == "question" && json.Unmarshal([]byte(data), &q) == nil {
				ids <- q.ID
			}
		}
	}()
	return ids
}

// Two clients answer one question at the same time, 1,000 times: exactly one wins and
// the other is told. The winner's answer is what happens, and a rule is kept only when
// it was the winner's.
func TestTwoClientsRaceForEachQuestion(t *testing.T) {
	const rounds, workers = 1000, 4
	d := startDaemon(t, os.Getuid())
	session := d.newSession(nil)
	ids := d.questions()
	end := time.Now().Add(8 * time.Minute)
	var next, always, denied atomic.Int64
	var calls, racers sync.WaitGroup
	answers := []string{`{"answer":"always","scope":"session"}`, `{"answer":"deny"}`}
	for range workers {
		calls.Go(func() {
			for n := next.Add(1); n <= rounds && time.Now().Before(end); n = next.Add(1) {
				name := fmt.Sprintf("made-%04d", n)
				text, _ := d.request("POST", "/api/exec", d.execBody(map[string]any{"session_id": session, "mode": ""}, "touch", name))
				switch allowed := strings.Contains(text, `"outcome":"exited","exit_code":0`); {
				case allowed != exists(d.Work+"/"+name):
					t.Errorf("%s: the file is there: %v; %s", name, !allowed, text)
				case !allowed && !strings.Contains(text, `"outcome":"denied"`):
					t.Errorf("%s: neither ran nor denied: %s", name, text)
				}
			}
		})
	}
	raced := make(chan struct{})
	go func() {
		defer close(raced)
		for id := range ids {
			var codes [2]int
			var texts [2]string
			racers.Go(func() {
				var both sync.WaitGroup
				for i := range 2 {
					both.Go(func() { texts[i], codes[i] = d.request("POST", "/api/approvals/"+id, answers[i]) })
				}
				both.Wait()
				switch {
				case codes[0] == 200 && codes[1] == 409 && strings.Contains(texts[1], "answered already: allow"):
					always.Add(1)
				case codes[1] == 200 && codes[0] == 409 && strings.Contains(texts[0], "answered already: deny"):
					denied.Add(1)
				default:
					t.Errorf("question %s: %d %s and %d %s, want one winner, and the loser told by whom", id, codes[0], texts[0], codes[1], texts[1])
				}
			})
		}
	}()
	calls.Wait()
	d.until("all answers are back", func() bool { return always.Load()+denied.Load() == min(next.Load()-workers, rounds) || t.Failed() })
	racers.Wait()
	made, err := os.ReadDir(d.Work)
	d.must(err)
	files := 0
	for _, e := range made {
		if strings.HasPrefix(e.Name(), "made-") {
			files++
		}
	}
	text, _ := d.get("/api/chat/sessions/" + session + "/permissions/rules")
	kept := strings.Count(text, "run_bash(touch made-")
	t.Logf("%d questions: %d allowed, %d denied", always.Load()+denied.Load(), always.Load(), denied.Load())
	if int64(files) != always.Load() || int64(kept) != always.Load() || always.Load()+denied.Load() != rounds || always.Load() == 0 || denied.Load() == 0 {
		t.Errorf("%d always, %d denied; %d files, %d rules, want as many as always, %d in all, and both kinds", always.Load(), denied.Load(), files, kept, rounds)
	}
	if text, _ := d.get("/api/approvals"); text != "{\"questions\":[]}\n" {
		t.Errorf("left: %s", text)
	}
}

// A switch of the mode, and a rule, hold for a call that waits for its turn.
func TestModeSwitchHoldsForAQueuedCall(t *testing.T) {
	d := startDaemon(t, os.Getuid(), "--max-running", "1", "--max-running-per-uid", "1")
	other := d.newSession(map[string]any{"mode": "bypassPermissions"})
	queued := func() bool {
		text, _ := d.get("/metrics")
		return strings.Contains(text, "sandboxd_queued 1\n")
	}
	for _, tt := range []struct {
		name, path, body, method string
		runs                     bool
	}{
		{"mode", "/permissions/mode", `{"mode":"plan"}`, "PUT", false},
		{"wider", "/permissions/rules", `{"op":"add","kind":"allow","rule":"run_bash(touch *)"}`, "POST", true},
		{"rule", "/permissions/rules", `{"op":"add","kind":"deny","rule":"run_bash(touch *)"}`, "POST", false},
	} {
		var both sync.WaitGroup
		both.Go(func() {
			d.request("POST", "/api/exec", d.execBody(map[string]any{"session_id": other, "mode": ""}, "sh", "-c", "touch running-"+tt.name+"; while test ! -e go-"+tt.name+"; do sleep 0.02; done"))
		})
		session := d.newSession(map[string]any{"mode": "acceptEdits"})
		d.until("the first call runs", func() bool { return exists(d.Work + "/running-" + tt.name) })
		both.Go(func() {
			text, _ := d.request("POST", "/api/exec", d.execBody(map[string]any{"session_id": session, "mode": ""}, "touch", "late-"+tt.name))
			if ran := strings.Contains(text, `"outcome":"exited"`); ran != tt.runs || exists(d.Work+"/late-"+tt.name) != tt.runs {
				t.Errorf("%s: ran %v, want %v: %s", tt.name, ran, tt.runs, text)
			}
		})
		d.until("the second call waits", queued)
		if text, code := d.request(tt.method, "/api/chat/sessions/"+session+tt.path, tt.body); code != 200 {
			t.Fatalf("%s: %d %s", tt.name, code, text)
		}
		d.file(d.Work+"/go-"+tt.name, "")
		both.Wait()
	}
}

// Whoever starts a command is held to the policy's limit, in a session and as a job too,
// unless a flag says another; without one in the policy there is none, also above the 60 s
// and 120 s of a model's call.
func TestLimitsOfTimeByWhoCalls(t *testing.T) {
	d := startDaemon(t, os.Getuid())
	policy := d.file(d.Home+"/short.toml", "[limits]\ntimeout = \"1s\"\n")
	d.must(os.Chmod(policy, 0o600))
	session := d.newSession(map[string]any{"policy": []string{policy}, "mode": "bypassPermissions"})
	unlimited := d.newSession(map[string]any{"mode": "bypassPermissions"})
	for in, want := range map[string]int{session: 124, unlimited: 0} {
		if r := d.sbxTo(d, "exec", "--quiet", "--session", in, "--", "sleep", "1.6"); r.Code != want {
			t.Errorf("sbx exec without a flag: %+v, want %d", r, want)
		}
	}
	for _, text := range []string{"3s", "unlimited"} {
		if r := d.sbxTo(d, "exec", "--quiet", "--session", session, "--timeout", text, "--", "sleep", "1.6"); r.Code != 0 {
			t.Errorf("a flag of %s outranks the policy: %+v", text, r)
		}
	}
	if text, _ := d.request("POST", "/api/exec", d.execBody(map[string]any{"argv": nil, "script": "true", "attended": true})); !strings.Contains(text, "attended without argv") {
		t.Errorf("a script that says a person waits: %s", text)
	}
	if r := d.sbxTo(d, "exec", "--quiet", "--session", session, "--timeout", "300ms", "--", "sleep", "1.6"); r.Code != 124 {
		t.Errorf("sbx exec with a limit: %+v", r)
	}
	tool := map[string]any{"session_id": session, "mode": "", "argv": nil, "tool": "run_bash"}
	for _, args := range []map[string]any{{"command": "sleep 1.6"}, {"command": "sleep 1.6", "timeout": 100}} {
		tool["args"] = args
		if text, _ := d.request("POST", "/api/exec", d.execBody(tool)); !strings.Contains(text, `"outcome":"timeout"`) {
			t.Errorf("a tool call %v is not held to the policy: %s", args, text)
		}
	}
	for in, want := range map[string]string{session: `"outcome":"timeout"`, unlimited: `"exit_code":0`} {
		job := strings.TrimSpace(d.sbxTo(d, "exec", "--detach", "--session", in, "--", "sleep", "1.6").Stdout)
		d.until("the job has ended", func() bool { text, _ := d.get("/api/jobs/" + job); return strings.Contains(text, `"state":"ended"`) })
		if text, _ := d.get("/api/jobs/" + job); !strings.Contains(text, want) {
			t.Errorf("a job without a flag: %s, want %s", text, want)
		}
	}
}
