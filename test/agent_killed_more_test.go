package test

import (
	"encoding/json"
	"os"
	"strings"
	"sync/atomic"
	"testing"
)

// After kill -9 of the daemon while a question waits, a sub-agent works, a compaction
// runs or an answer has just been given, the session goes on: every call has one result
// (the server refuses others), nothing runs twice or runs on, and the log is whole.
func TestKilledWhileOthersAreAwaited(t *testing.T) {
	for _, phase := range []struct {
		name  string
		calls []modelCall
		hold  int // the request that is never answered; -1: none
		there func(d *daemonRun, events <-chan sessionEvent)
	}{
		{"a question waits", []modelCall{bash("touch asked")}, -1, func(d *daemonRun, events <-chan sessionEvent) {
			d.until("the question is there", func() bool { text, _ := d.get("/api/approvals"); return strings.Contains(text, "touch asked") })
		}},
		{"a sub-agent works", []modelCall{use("subagent", object{"prompt": "think", "description": "thinks"})}, 1, nil},
		{"a compaction runs", []modelCall{bash("seq 1 3000"), use("compress_context", object{"focus": "all"})}, 2, nil},
		{"a background task runs while the model thinks", []modelCall{use("bg_task_run", object{"command": "echo once >> once; sleep 4245.5"})}, 1, nil},
		{"the answer was given", nil, -1, func(d *daemonRun, events <-chan sessionEvent) {
			for e := range events {
				if e.Type == "turn.message" {
					return
				}
			}
		}},
	} {
		t.Run(phase.name, func(t *testing.T) {
			d := startDaemon(t, os.Getuid())
			d.policy(agentPolicy + "[rules]\nask = [\"run_bash(touch asked*)\"]\n")
			held, gone := make(chan bool, 1), make(chan bool)
			var n atomic.Int32
			var resumed atomic.Bool
			m := startModel(t, func(r modelRequest) modelReply {
				k := int(n.Add(1)) - 1
				reply := modelReply{Text: "done"}
				switch {
				case resumed.Load():
				case k == phase.hold:
					reply.Hold = func() { held <- true; <-gone }
				case k < len(phase.calls):
					reply.Calls = phase.calls[k : k+1]
				}
				return reply
			})
			session := d.talkTo(m)
			events := d.listen(session)
			d.object("POST", session+"/messages", `{"text":"go"}`, 202)
			if phase.there != nil {
				phase.there(d, events)
			} else {
				<-held
			}
			d.kill()
			resumed.Store(true)
			close(gone)
			d.until("nothing runs", func() bool { return len(processesWith("sleep 4245.5")) == 0 })
			d.start()
			more, err := json.Marshal(map[string]any{"text": "go on", "agent": map[string]any{"provider": "anthropic", "base_url": m.URL, "model": "local-model", "keys": map[string]string{"ANTHROPIC_API_KEY": modelKey}}})
			d.must(err)
			d.object("POST", session+"/messages", string(more), 202)
			if end := d.said(session)["end"].(map[string]any); end["reason"] != "completed" {
				t.Errorf("after the restart: %v", end)
			}
			if text, _ := d.get("/api/approvals"); strings.Contains(text, "touch asked") || exists(d.Work+"/asked") {
				t.Errorf("the question is still there, or its call ran: %s", text)
			}
			if exists(d.Work+"/once") && d.content(d.Work+"/once") != "once\n" {
				t.Errorf("the task ran again: %q", d.content(d.Work+"/once"))
			}
			if r := d.sbxTo(d, "audit", "verify"); r.Code != 0 {
				t.Errorf("audit verify: %s%s", r.Stdout, r.Stderr)
			}
			d.object("DELETE", session, "", 200)
		})
	}
}
