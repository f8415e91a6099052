package agentloop

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sandboxd/policy"
)

// TestChangesReachSubAgentsInTime: while sub-agents of two levels make calls, rules
// come and go, the mode changes, the policy is read again, and further sub-agents
// start and end. No call that is made after a rule came escapes it, and nothing
// waits for ever.
func TestChangesReachSubAgentsInTime(t *testing.T) {
	f := newFamily(t, nil, nil)
	start := func(s *Session) *Session {
		t.Helper()
		c, err := s.startChild(childRequest{kind: "x", mode: policy.ModeDefault, own: allTools, ceiling: toolsets{allTools}})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	child := start(f.s)
	grandchild := start(child)
	var stop atomic.Bool
	var group sync.WaitGroup
	busy := func(do func(n int)) {
		group.Go(func() {
			for n := 0; !stop.Load(); n++ {
				do(n)
			}
		})
	}
	check := func(s *Session, script string) policy.Verdict {
		d, _ := s.decide(t.Context(), ToolCall{Call: policy.BashCall(script, "")}, false)
		return d.Verdict
	}
	for _, s := range []*Session{child, grandchild} {
		busy(func(n int) { check(s, fmt.Sprint("echo ", n)) })
	}
	busy(func(n int) {
		mode := policy.ModeDefault
		if n%2 == 0 {
			mode = policy.ModePlan
		}
		if err := f.s.SetMode(mode); err != nil {
			t.Error(err)
		}
	})
	busy(func(int) {
		if err := f.m.Reload(context.Background()); err != nil {
			t.Error(err)
		}
	})
	busy(func(int) {
		c, err := child.startChild(childRequest{kind: "y", own: allTools, ceiling: toolsets{allTools}})
		if err != nil {
			t.Error(err)
			return
		}
		child.endChild(context.Background(), c)
	})
	deadline := time.Now().Add(3 * time.Second)
	for n := 0; time.Now().Before(deadline); n++ {
		pattern, script := fmt.Sprintf("run_bash(echo denied%d*)", n), fmt.Sprintf("echo denied%d", n)
		if err := f.s.AddRule(policy.DenyRule, pattern, "test"); err != nil {
			t.Fatal(err)
		}
		for _, s := range []*Session{child, grandchild} {
			if v := check(s, script); v != policy.Deny {
				t.Errorf("rule %d does not hold in %s: %v", n, s.ID(), v)
			}
		}
		if _, err := f.s.RemoveRule(policy.DenyRule, pattern); err != nil {
			t.Fatal(err)
		}
		for _, s := range []*Session{child, grandchild} {
			if v := check(s, script); v == policy.Deny {
				t.Errorf("rule %d still holds in %s", n, s.ID())
			}
		}
	}
	stop.Store(true)
	group.Wait()
	ended := make(chan struct{})
	go func() { defer close(ended); f.s.end(context.Background(), "test") }()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Fatal("the end waits for ever")
	}
	for _, s := range []*Session{child, grandchild} {
		if res := f.d.Dispatch(t.Context(), s, ToolCall{Call: policy.BashCall("echo x", "")}); res.Err == nil || res.Ran {
			t.Errorf("%s lives on: %+v", s.ID(), res)
		}
	}
}
