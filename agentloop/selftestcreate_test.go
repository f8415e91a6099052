package agentloop

import (
	"context"
	"errors"
	"testing"
)

// TestSessionWhoseSelfTestFailsIsNotMade: the test runs before anything else of a new
// session, and after a restart too.
func TestSessionWhoseSelfTestFailsIsNotMade(t *testing.T) {
	w := newWorld(t, denying())
	tested := 0
	leak := &SelfTestError{Path: "/secret"}
	w.m.o.SelfTest = func(context.Context, *Session) error { tested++; return leak }
	before := len(w.m.List(w.peer()))
	if s, err := w.m.Create(t.Context(), w.peer(), SessionRequest{}); s != nil || !errors.Is(err, leak) {
		t.Errorf("made %v, %v", s, err)
	}
	if _, err := w.m.restore(t.Context(), w.s.State()); !errors.Is(err, leak) {
		t.Errorf("restored: %v", err)
	}
	if n := len(w.m.List(w.peer())); n != before || tested != 2 {
		t.Errorf("%d sessions of %d, %d tests", n, before, tested)
	}
	w.m.o.SelfTest = func(context.Context, *Session) error { tested++; return nil }
	if _, err := w.m.Create(t.Context(), w.peer(), SessionRequest{}); err != nil || tested != 3 {
		t.Errorf("a sound one: %v, %d tests", err, tested)
	}
}
