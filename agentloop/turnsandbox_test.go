package agentloop

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"

	"sandboxd/policy"
)

// askedLoop is a loop whose person says yes to every call of make, and counts them.
func askedLoop(t *testing.T, edit func(*PolicyInForce), steps ...modelStep) (l *loopWorld, questions func() int) {
	t.Helper()
	l = newLoopWith(t, loopParts{world: func(w *world) {
		before := w.edit
		w.edit = func(p *PolicyInForce) {
			before(p)
			p.Config.Rules = append(p.Config.Rules, rule(policy.AskRule, "run_bash(make *)"))
			if edit != nil {
				edit(p)
			}
		}
	}}, nil, steps...)
	detach := l.asks.Attach(l.peer(), "test")
	ctx, cancel := context.WithCancel(t.Context())
	var person sync.WaitGroup
	n := make(chan int, 1)
	n <- 0
	changed, stop := l.asks.Watch()
	person.Go(func() {
		for {
			for _, q := range l.asks.Pending(l.peer()) {
				if _, err := l.asks.Answer(ctx, q.ID, l.peer(), AskAnswer{Verdict: policy.Allow}); err == nil {
					n <- <-n + 1
				}
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	})
	t.Cleanup(func() {
		detach()
		cancel()
		person.Wait()
		stop()
	})
	return l, func() int {
		v := <-n
		n <- v
		return v
	}
}

// breakSandbox makes every confined start of the world fail; mend takes it back.
func breakSandbox(t *testing.T, l *loopWorld) (mend func()) {
	t.Helper()
	guards := l.host.StateDir + "/guards"
	_ = os.RemoveAll(guards)
	if err := os.MkdirAll(l.host.StateDir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(guards, []byte("in the way"), 0o600); err != nil {
		t.Fatal(err)
	}
	return func() { _ = os.Remove(guards) }
}

// TestSandboxThatCannotStartIsToldOnce is case S014: one clear error for the session,
// and no question for each command that would fail whatever is answered.
func TestSandboxThatCannotStartIsToldOnce(t *testing.T) {
	make3 := []any{"run_bash", `{"command":"make a"}`, "run_bash", `{"command":"make b"}`, "run_bash", `{"command":"echo hi"}`}
	for name, tt := range map[string]struct {
		steps     []modelStep
		late      bool // it breaks after a command has run
		questions int
	}{
		"the first call would be asked about": {steps: []modelStep{asks(make3...), words("never")}},
		"the first call is allowed":           {steps: []modelStep{asks("run_bash", `{"command":"echo hi"}`, "run_bash", `{"command":"make a"}`), words("never")}},
		"nothing is asked about":              {steps: []modelStep{asks("run_bash", `{"command":"echo hi"}`), words("never")}},
		"a file tool is first":                {steps: []modelStep{asks("read_file", `{"path":"x"}`, "run_bash", `{"command":"make a"}`), words("never")}},
		// The answer is given before anybody can know; it is the last one.
		"it breaks later": {steps: []modelStep{asks("run_bash", `{"command":"make a"}`), asks(make3...), words("never")}, late: true, questions: 2},
	} {
		t.Run(name, func(t *testing.T) {
			l, questions := askedLoop(t, nil, tt.steps...)
			if tt.late {
				first := l.model.steps[1]
				l.model.steps[1] = func(ctx context.Context, r ModelRequest, emit func(ModelDelta)) (ModelAnswer, error) {
					breakSandbox(t, l)
					return first(ctx, r, emit)
				}
			} else {
				breakSandbox(t, l)
			}
			end, _ := l.run("build it")
			if end.Reason != EndSandbox || !strings.Contains(end.Error, "the sandbox of this session cannot be set up") || !strings.Contains(end.Error, "guards") {
				t.Errorf("ended %q: %s", end.Reason, end.Error)
			}
			if n := questions(); n != tt.questions {
				t.Errorf("%d questions, want %d", n, tt.questions)
			}
			if n := len(l.model.asked()); n != len(tt.steps)-1 {
				t.Errorf("%d requests, want %d", n, len(tt.steps)-1)
			}
			for _, b := range l.results() {
				if b.Tool == "read_file" {
					continue // what only reads is not looked at afterwards
				}
				if b.Status != StatusFail || !strings.Contains(b.Text, "guards") {
					t.Errorf("result %s: %s", b.Status, b.Text)
				}
			}
		})
	}
}

// The same session works again when its host does, and a failure of one call alone
// ends no turn.
func TestCallThatCannotStartEndsNoTurn(t *testing.T) {
	l, questions := askedLoop(t, nil, asks("run_bash", `{"command":"make a"}`), // broken
		asks("run_bash", `{"command":"make a","working_dir":"gone"}`), asks("run_bash", `{"command":"make b; echo over"}`), words("done"))
	mend := breakSandbox(t, l)
	if end, _ := l.run("build it"); end.Reason != EndSandbox {
		t.Fatalf("ended %q: %s", end.Reason, end.Error)
	}
	mend()
	end, _ := l.run("again")
	if end.Reason != EndCompleted || questions() != 2 {
		t.Errorf("ended %q: %s; %d questions", end.Reason, end.Error, questions())
	}
	if r := l.results(); len(r) != 1 || !strings.Contains(r[0].Text, "over") {
		t.Errorf("results %+v", r)
	}
}
