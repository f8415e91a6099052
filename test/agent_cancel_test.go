package test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// cancelSeen is how soon a cancellation must be seen (requirement 136).
const cancelSeen = 250 * time.Millisecond

// cancelCase is a call that is cancelled in its middle.
type cancelCase struct {
	// before are earlier calls of the turn, one a step.
	before []modelCall
	args   map[string]any
	// argsOf stands in place of args, made of the last result.
	argsOf func(last string) map[string]any
	// middle returns once the call is in its middle, where it stays until it is ended.
	// It returns false when the call was too fast to be caught; then it is done again.
	middle func(w *cancelWorld) bool
	// release is called when the cancellation was sent, for a call that finishes first.
	release func(w *cancelWorld)
	// within is how long the turn may take to end; zero: cancelSeen.
	within time.Duration
	writes bool   // what stands in its directory stays as it is
	status string // of the result; empty: cancelled
	after  func(w *cancelWorld)
}

// cancelWorld is one session whose turn is cancelled.
type cancelWorld struct {
	*daemonRun
	dir     string // of the case, below the workspace
	session string
	events  <-chan sessionEvent
	model   *cancelModel
}

// sessionEvent is an event as a client gets it.
type sessionEvent struct {
	Type string
	Data json.RawMessage
}

// listen gives the events of a session, as somebody who answers its questions.
func (d *daemonRun) listen(session string) <-chan sessionEvent {
	d.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, err := http.NewRequestWithContext(ctx, "GET", "http://localhost"+session+"/events?answers=1", nil)
	d.must(err)
	c := d.http()
	c.Timeout = 0
	answer, err := c.Do(r)
	d.must(err)
	out := make(chan sessionEvent, 10_000)
	done := make(chan bool)
	go func() {
		defer close(done)
		defer close(out)
		lines := bufio.NewScanner(answer.Body)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var e sessionEvent
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && json.Unmarshal([]byte(data), &e) == nil {
				out <- e
			}
		}
	}()
	d.Cleanup(func() { cancel(); answer.Body.Close(); <-done })
	return out
}

// next waits for an event of one of some types.
func (w *cancelWorld) next(types ...string) sessionEvent {
	w.Helper()
	late := time.After(20 * time.Second)
	var seen []string
	for {
		select {
		case e, ok := <-w.events:
			if !ok {
				w.Fatalf("the events end before %q", types)
			}
			if slices.Contains(types, e.Type) {
				return e
			}
			seen = append(seen, e.Type+" "+clip(string(e.Data)))
		case <-late:
			w.Fatalf("no event %q since %q", types, seen)
		}
	}
}

// comes waits for what holds the call.
func (w *cancelWorld) comes(held <-chan bool) bool {
	w.Helper()
	select {
	case <-held:
	case <-time.After(20 * time.Second):
		w.Fatalf("its middle does not come; the last result is %.500q", w.model.last())
	}
	return true
}

// last is the last result that the model got.
func (m *cancelModel) last() string {
	all := m.requests()
	return all[len(all)-1].last()
}

// cancelModel asks for the calls of one case. hold keeps its next answers back.
type cancelModel struct {
	*modelServer
	hold atomic.Bool
	held chan bool
	gone chan bool
}

func startCancelModel(t *testing.T, tool string, c cancelCase) *cancelModel {
	m := &cancelModel{held: make(chan bool, 10), gone: make(chan bool)}
	m.modelServer = startModel(t, func(r modelRequest) modelReply {
		made, _ := r.calls()
		reply := modelReply{Text: "on we go"}
		switch n := len(made); {
		case m.hold.Load():
			reply.Hold = func() { m.held <- true; <-m.gone }
		case n < len(c.before):
			reply.Calls = []modelCall{c.before[n]}
		case n == len(c.before):
			args := c.args
			if c.argsOf != nil {
				args = c.argsOf(r.last())
			}
			reply.Calls = []modelCall{{Tool: tool, Args: args}}
			m.hold.Store(true) // whoever asks now, a sub-agent or a summary, waits
		}
		return reply
	})
	t.Cleanup(func() { close(m.gone) }) // runs before the server is closed
	return m
}

// TestCancelInTheMiddleOfEachTool: whatever tool runs, a cancellation is seen within 250
// ms or, by a tool that finishes first, within its 2 s; the call has one result, and
// nothing of it runs on. The tools are those that the daemon offers a model: one without
// a case fails the test.
func TestCancelInTheMiddleOfEachTool(t *testing.T) {
	d := startDaemon(t, os.Getuid())
	cases := cancelCases(d)
	offered := d.offered(t)
	for tool := range cases {
		if !slices.Contains(offered, tool) {
			t.Errorf("%s has a case and is not offered", tool)
		}
	}
	for _, tool := range offered {
		t.Run(tool, func(t *testing.T) {
			c, ok := cases[tool]
			if !ok {
				t.Fatalf("no case for the tool %s", tool)
			}
			d := d.in(t)
			var took time.Duration
			for try := range 3 { // other work of the machine may come between
				if took = d.cancelIn(t, tool, c, try); took <= c.bound() {
					break
				}
			}
			t.Logf("%s: the turn ended after %v", tool, took)
			if took > c.bound() {
				t.Errorf("the turn ended %v after the cancellation, want %v", took, c.bound())
			}
		})
	}
}

func (c cancelCase) bound() time.Duration { return max(c.within, cancelSeen) }

// offered are the tools of a session here, as its model is told.
func (d *daemonRun) offered(t *testing.T) []string {
	m := startModel(t, func(modelRequest) modelReply { return modelReply{Text: "hello"} })
	session := d.talkTo(m)
	d.object("POST", session+"/messages", `{"text":"which tools?"}`, 202)
	d.said(session)
	d.object("DELETE", session, "", 200)
	return m.requests()[0].Tools
}

// talkTo makes a session with a model that is played.
func (d *daemonRun) talkTo(m *modelServer) (session string) {
	d.Helper()
	body, err := json.Marshal(map[string]any{"cwd": d.Work, "env": []string{"HOME=" + d.Home, "PATH=/usr/bin:/bin"},
		"agent": map[string]any{"provider": "anthropic", "base_url": m.URL, "model": "local-model", "keys": map[string]string{"ANTHROPIC_API_KEY": modelKey}}})
	d.must(err)
	return "/api/chat/sessions/" + d.object("POST", "/api/chat/sessions", string(body), 201)["id"].(string)
}

// cancelIn plays one case and returns how long the turn took to end.
func (d *daemonRun) cancelIn(t *testing.T, tool string, c cancelCase, try int) time.Duration {
	t.Helper()
	children := d.descendants()
	w := &cancelWorld{daemonRun: d, dir: d.Work + "/" + tool}
	for again := 0; ; again++ {
		w.model = startCancelModel(t, tool, c)
		w.session = d.talkTo(w.model.modelServer)
		w.events = d.listen(w.session)
		d.object("POST", w.session+"/messages", `{"text":"go"}`, 202)
		for range len(c.before) + 1 {
			w.next("turn.tool")
		}
		if c.middle(w) {
			break
		}
		d.object("DELETE", w.session, "", 200)
		if again == 20 {
			t.Fatal("its middle was never caught")
		}
	}
	before := map[string]string{}
	if c.writes {
		before = d.tree(w.dir)
	}
	at := time.Now()
	d.object("POST", "/api/chat/cancel", `{"session_id":"`+filepath.Base(w.session)+`"}`, 200)
	if c.release != nil {
		c.release(w)
	}
	w.next("turn.ended")
	took := time.Since(at)
	d.pairedOnce(t, d.said(w.session), tool, c.status)
	if c.writes {
		sameTree(d.scene, tool, d.tree(w.dir), before)
	}
	if c.after != nil {
		c.after(w)
	}
	d.object("DELETE", w.session, "", 200)
	d.until("nothing is left", func() bool { return len(without(d.descendants(), children)) == 0 })
	return took
}

// pairedOnce checks that every call has one result, the last one with its status.
func (d *daemonRun) pairedOnce(t *testing.T, said map[string]any, tool, status string) {
	t.Helper()
	if end := said["end"].(map[string]any); end["reason"] != "cancelled" {
		t.Errorf("the end: %v", end)
	}
	var uses []string
	results := map[string][]string{}
	last := ""
	for _, m := range said["messages"].([]any) {
		for _, b := range m.(map[string]any)["blocks"].([]any) {
			b := b.(map[string]any)
			id := fmt.Sprint(b["call_id"])
			switch b["kind"] {
			case "tool_use":
				uses, last = append(uses, id), fmt.Sprint(b["tool"])
			case "tool_result":
				results[id] = append(results[id], fmt.Sprint(b["status"]))
			}
		}
	}
	for _, id := range uses {
		if len(results[id]) != 1 {
			t.Errorf("call %s has the results %q", id, results[id])
		}
	}
	if status == "" {
		status = "cancelled"
	}
	if got := results[uses[len(uses)-1]]; last != tool || len(results) != len(uses) || got[0] != status {
		t.Errorf("%d calls, %d results; the last is of %s, %q, want %s", len(uses), len(results), last, got, status)
	}
}

// opened reports whether a process has a file open whose path ends so.
func opened(end string) bool {
	names, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, name := range names {
		if to, err := os.Readlink(name); err == nil && strings.HasSuffix(to, end) && !strings.HasPrefix(name, fmt.Sprintf("/proc/%d/", os.Getpid())) {
			return true
		}
	}
	return false
}

// fileHelper is how the processes of file tools are called.
const fileHelper = "sandboxd-file-helper"

// stopHelper stops the process of a file tool wherever it is, so that it stays there.
func stopHelper(w *cancelWorld) bool {
	w.Helper()
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); {
		for _, p := range processesWith(fileHelper) {
			var pid int
			if _, err := fmt.Sscanf(p, "/proc/%d ", &pid); err != nil || unix.Kill(pid, unix.SIGSTOP) != nil {
				continue
			}
			for range 100 { // it may have been ending
				stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
				if err != nil || strings.Contains(string(stat), ") Z ") {
					return false
				}
				if strings.Contains(string(stat), ") T ") {
					return true
				}
				time.Sleep(time.Millisecond)
			}
		}
		select {
		case e := <-w.events:
			if e.Type == "turn.result" {
				return false
			}
		default:
		}
	}
	w.Fatal("no helper came")
	return false
}
