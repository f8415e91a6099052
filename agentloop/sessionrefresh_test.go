package agentloop

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sandboxd/policy"
)

// edited is a policy whose file a test edits.
type edited struct {
	loads   atomic.Int64
	changed atomic.Bool
	err     atomic.Pointer[error]
	held    chan struct{} // not nil: looking waits for it
}

// editedWorld has one session for each of two policies of its user.
func editedWorld(t *testing.T) (w *world, one, two *edited, a, b *Session) {
	one, two = &edited{}, &edited{}
	current := one
	w = newWorld(t, func(p *PolicyInForce) {
		denying()(p)
		p.Config.Rules = append(p.Config.Rules, rule(policy.AllowRule, "run_bash(true)"))
	})
	base := w.edit
	w.m.o.Load = func(ctx context.Context, p Peer, r SessionRequest) (PolicyInForce, error) {
		e := current
		if r.Profile == "two" {
			e = two
		}
		e.loads.Add(1)
		if err := e.err.Load(); err != nil {
			return PolicyInForce{}, *err
		}
		w.edit = base
		in, err := w.load(ctx, p, r)
		in.Changed = func() bool {
			if e.held != nil {
				<-e.held
			}
			return e.changed.Swap(false)
		}
		return in, err
	}
	make := func(profile string) *Session {
		s, err := w.m.Create(t.Context(), w.peer(), SessionRequest{Profile: profile})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	return w, one, two, make("one"), make("two")
}

func (w *world) callIn(s *Session) ToolResult {
	return w.d.Dispatch(w.t.Context(), s, ToolCall{Call: policy.Call{Tool: "run_bash", Args: policy.Args{"command": "true"}}})
}

// TestEditReloadsTheSessionsThatItConcerns, when their next call comes, and no
// other.
func TestEditReloadsTheSessionsThatItConcerns(t *testing.T) {
	w, one, two, a, b := editedWorld(t)
	for range 3 {
		w.callIn(a)
		w.callIn(b)
	}
	if one.loads.Load() != 1 || two.loads.Load() != 1 {
		t.Fatalf("without an edit: %d and %d loads", one.loads.Load(), two.loads.Load())
	}
	one.changed.Store(true)
	w.callIn(b)
	if a.Generation() != 1 || b.Generation() != 1 {
		t.Errorf("the other session's call: generations %d and %d", a.Generation(), b.Generation())
	}
	if res := w.callIn(a); res.Generation != 2 || one.loads.Load() != 2 || two.loads.Load() != 1 {
		t.Errorf("decided by generation %d, %d and %d loads", res.Generation, one.loads.Load(), two.loads.Load())
	}
	// One that cannot be read leaves the old one, is told of once and tried again.
	broken := errors.New("line 3: broken")
	one.err.Store(&broken)
	one.changed.Store(true)
	sub := a.Events().Subscribe(a.Events().Last())
	defer sub.Close()
	for range 3 {
		if res := w.callIn(a); res.Generation != 2 || res.Status != StatusOK {
			t.Errorf("with a broken policy: generation %d, %v", res.Generation, res.Status)
		}
	}
	time.Sleep(retryEvery)
	w.callIn(a)
	if n := one.loads.Load(); n != 4 {
		t.Errorf("a broken policy was read %d times", n-2)
	}
	one.err.Store(nil)
	time.Sleep(retryEvery)
	if res := w.callIn(a); res.Generation != 3 {
		t.Errorf("mended: generation %d", res.Generation)
	}
	refused := 0
	for len(sub.C) > 0 {
		if e := <-sub.C; e.Type == EventPolicyRefused {
			refused++
		}
	}
	if refused != 1 {
		t.Errorf("told %d times of the broken policy", refused)
	}
}

// TestFilesThatDoNotAnswerHoldUpTheirSessionAlone, be it at a call or when all
// policies are read again.
func TestFilesThatDoNotAnswerHoldUpTheirSessionAlone(t *testing.T) {
	w, one, _, a, b := editedWorld(t)
	one.held = make(chan struct{})
	var stuck sync.WaitGroup
	stuck.Go(func() { w.callIn(a) })
	defer stuck.Wait()
	defer close(one.held)
	time.Sleep(50 * time.Millisecond)
	done := make(chan ToolResult)
	go func() { done <- w.callIn(b) }()
	select {
	case res := <-done:
		if res.Status != StatusOK {
			t.Errorf("%v %s", res.Status, res.Error)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the call of another session waits too")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := w.m.Reload(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("reading all again: %v", err)
	}
}

// TestUsersAreServedSideBySide: what holds one user up is left to itself, and named.
func TestUsersAreServedSideBySide(t *testing.T) {
	stuck := make(chan struct{})
	defer close(stuck)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	var served atomic.Int64
	failed := errors.New("refused")
	err := perUser(ctx, []int{1000, 1000, 1001, 1002, 1001}, func(uid int) int { return uid }, func(uid int) error {
		switch uid {
		case 1000:
			<-stuck
		case 1002:
			return failed
		}
		served.Add(1)
		return nil
	})
	if served.Load() != 2 || !errors.Is(err, failed) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%d served, %v", served.Load(), err)
	}
	if err := perUser(t.Context(), []int{1, 2, 1}, func(uid int) int { return uid }, func(int) error { return nil }); err != nil {
		t.Error(err)
	}
}
