package agentloop

import (
	"context"
	"errors"
	"strings"
	"testing"

	"sandboxd/policy"
	"sandboxd/test/require"
)

// TestAlwaysDoesNotAnswerForAHook: a rule that a person keeps for one question
// does not let a call pass that a hook wanted a person to see.
func TestAlwaysDoesNotAnswerForAHook(t *testing.T) {
	asks := hookFunc{"careful", EventPreToolUse, func(e HookEvent) HookOutcome {
		if command, _ := e.Args["command"].(string); strings.Contains(command, "secret") {
			return HookOutcome{Action: HookPermissionRequired, Reason: "this one is to be seen"}
		}
		return HookOutcome{Action: HookContinue}
	}}
	w := newWorld(t, nil, withHooks(t, asks))
	defer w.asks.Attach(w.peer(), "test")()
	plain, hooked := w.later("touch a"), w.later("cat secret")
	for _, q := range w.asked(2) {
		if q.Script == "cat secret" {
			continue
		}
		if _, err := w.asks.Answer(t.Context(), q.ID, w.peer(), AskAnswer{Verdict: policy.Allow, Always: true}); err != nil {
			t.Fatal(err)
		}
	}
	if res := <-plain; res.Status != StatusOK {
		t.Errorf("the answered call: %+v", res)
	}
	left := w.asked(1)
	if len(left) != 1 || left[0].Script != "cat secret" {
		t.Fatalf("questions left: %+v", left)
	}
	out, err := w.asks.Answer(t.Context(), left[0].ID, w.peer(), AskAnswer{Verdict: policy.Allow, Always: left[0].AlwaysRule != ""})
	if err != nil || left[0].AlwaysRule != "" && !out.StillAsks {
		t.Errorf("outcome %+v, %v", out, err)
	}
	if res := <-hooked; !res.Ran {
		t.Errorf("the person's answer does not count: %+v", res)
	}
}

// TestSessionThatCannotStartIsForgotten: what fails after the policy was read
// leaves nothing in the process.
func TestSessionThatCannotStartIsForgotten(t *testing.T) {
	w := newWorld(t, nil, withHooks(t))
	count := func() (n int) {
		w.opts.Hooks.sessions.Range(func(any, any) bool { n++; return true })
		return n
	}
	before := count()
	w.m.o.SelfTest = func(context.Context, *Session) error { return errors.New("not held here") }
	w.edit = func(p *PolicyInForce) {
		p.Hooks = []HookSpec{{Event: EventPreToolUse, Matcher: "run_bash", Command: "true"}}
	}
	for range 3 {
		if s, err := w.m.Create(t.Context(), w.peer(), SessionRequest{Cwd: w.host.Cwd}); err == nil {
			t.Fatalf("session %s was made", s.ID())
		}
	}
	if n := count(); n != before {
		t.Errorf("%d sessions are kept, %d were", n, before)
	}
	if list := w.m.List(w.peer()); len(list) != 1 {
		t.Errorf("%d sessions are listed, want the first one", len(list))
	}
	// An honest one after it is kept.
	w.m.o.SelfTest = nil
	if _, err := w.m.Create(t.Context(), w.peer(), SessionRequest{Cwd: w.host.Cwd}); err != nil || count() != before+1 {
		t.Errorf("%v, %d sessions are kept, want %d", err, count(), before+1)
	}
}

// TestPanicOnAUsersThreadIsAnError: it runs on a goroutine of its own, where a
// panic would end the process.
func TestPanicOnAUsersThreadIsAnError(t *testing.T) {
	require.Root(t, "to have a thread of another user")
	err := withUser(1000, 1000, nil, func() { panic("a fault") })
	if err == nil || !strings.Contains(err.Error(), "a fault") {
		t.Errorf("error %v", err)
	}
	ran := false
	if err := withUser(1000, 1000, nil, func() { ran = true }); err != nil || !ran {
		t.Errorf("afterwards: %v, ran %v", err, ran)
	}
}

func TestReasonOfASessionRuleIsBounded(t *testing.T) {
	w := newWorld(t, nil)
	if err := w.s.AddRuleFor(policy.DenyRule, "run_bash(rm *)", strings.Repeat("x", maxRuleReason+1), "t"); err == nil || len(w.s.OwnRules()) != 0 {
		t.Errorf("error %v, rules %v", err, w.s.OwnRules())
	}
	if err := w.s.AddRuleFor(policy.DenyRule, "run_bash(rm *)", strings.Repeat("x", maxRuleReason), "t"); err != nil {
		t.Error(err)
	}
}
