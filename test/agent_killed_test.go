package test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// After kill -9 of the daemon in any phase of a turn the conversation goes on: the
// model gets one that is paired (the server refuses others), and no call runs twice.
func TestKilledInEachPhaseOfATurn(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, users()[len(users())-1])
	d.policy(agentPolicy)
	// Where the model's n-th answer holds, or a command does.
	for i, phase := range []struct {
		name       string
		hold       int // the answer in whose stream the daemon is killed; -1: none
		command    bool
		background bool
		after      time.Duration // kill so long after the turn began
	}{
		{name: "the prompt is stored, the model streams", hold: 0},
		{name: "a command runs", hold: -1, command: true},
		{name: "a background task runs", hold: 1, background: true},
		{name: "results are kept", hold: 1},
		{name: "many results are kept", hold: 4},
		{name: "the last answer streams", hold: 6},
		{name: "somewhere", hold: -1, after: 130 * time.Millisecond},
		{name: "elsewhere", hold: -1, after: 190 * time.Millisecond},
		{name: "later", hold: -1, after: 260 * time.Millisecond},
	} {
		t.Run(phase.name, func(t *testing.T) {
			count := fmt.Sprintf("%s/count%d", d.Work, i)
			begun := fmt.Sprintf("%s/begun%d", d.Work, i)
			held, gone := make(chan bool, 1), make(chan bool)
			var n atomic.Int32
			var resumed atomic.Bool
			m := startModel(t, func(r modelRequest) modelReply {
				k := int(n.Add(1)) - 1
				reply := modelReply{Text: "done"}
				if k < 6 && !resumed.Load() {
					script := fmt.Sprintf("echo %d >> count%d", k, i)
					if phase.command && k == 1 {
						script += fmt.Sprintf("; touch begun%d; sleep 4242.75", i)
					}
					reply.Calls = []modelCall{bash(script)}
					if phase.background && k == 0 {
						reply.Calls[0].Tool = "bg_task_run"
					}
				}
				if k == phase.hold && !resumed.Load() {
					reply.Hold = func() { held <- true; <-gone }
				}
				return reply
			})
			c := d.agentOf(m, i%2, "--json", "--no-ask", "count "+fmt.Sprint(i))
			done := make(chan result, 1)
			go func() { done <- d.finish(c) }()
			switch {
			case phase.hold >= 0:
				<-held
			case phase.command:
				d.until("the command runs", func() bool { return exists(begun) })
			default:
				time.Sleep(phase.after)
			}
			d.must(unix.Kill(d.cmd.Process.Pid, unix.SIGKILL))
			d.cmd.Wait()
			resumed.Store(true)
			close(gone)
			<-done
			d.start()
			var list struct{ Conversations []struct{ ID, Title string } }
			r := d.sbxTo(d, "sessions", "list", "--conversations", "--json")
			d.must(json.Unmarshal([]byte(r.Stdout), &list))
			id := ""
			for _, h := range list.Conversations {
				if h.Title == "count "+fmt.Sprint(i) {
					id = h.ID
				}
			}
			if id == "" {
				if phase.after == 0 || n.Load() > 0 {
					t.Fatalf("the conversation is lost: %s", r.Stdout+r.Stderr)
				}
				return // killed before the prompt was there
			}
			before := d.content(count)
			if r := d.finish(d.agentOf(m, i%2, "--json", "--no-ask", "--resume", id, "go on")); r.Code != 0 {
				t.Errorf("--resume: %d %s %s", r.Code, clip(r.Stdout), r.Stderr)
			}
			cut := 0
			all := m.requests()
			_, results := all[len(all)-1].calls()
			for _, res := range results {
				if strings.Contains(res.Text, "interrupted: the program ended") {
					cut++
				}
			}
			if cut > 1 || phase.command && cut != 1 || phase.hold >= 0 && cut != 0 {
				t.Errorf("%d of %d calls are told as cut off", cut, len(results))
			}
			if now := d.content(count); now != before {
				t.Errorf("a call ran again: %q, then %q", before, now)
			}
			seen := map[string]bool{}
			for line := range strings.Lines(before) {
				if seen[line] || !strings.HasSuffix(line, "\n") {
					t.Errorf("%q", before)
				}
				seen[line] = true
			}
			if r := d.sbxTo(d, "audit", "verify"); r.Code != 0 {
				t.Errorf("audit verify: %s%s", r.Stdout, r.Stderr)
			}
			d.until("nothing is left", func() bool { return len(processesWith("sleep 4242.75")) == 0 })
		})
	}
}
