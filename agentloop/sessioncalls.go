package agentloop

import (
	"context"
	"errors"
	"slices"
	"time"
)

// liveCall is a call that has been taken and has not ended.
type liveCall struct {
	cancel    context.CancelCauseFunc
	interrupt Interrupt
	queued    bool
	ended     bool // at once, by a cancellation of the session
	// asked is closed when the call is to end, whatever it is; late ends one that
	// may finish first and does not.
	asked chan struct{}
	why   error
	late  *time.Timer
	// stop says why a hook wants the loop to end after the call.
	stop string
}

// blockTime is how long a call that may finish first has for it.
const blockTime = 2 * time.Second

// end asks a call to end: at once, or within blockTime when it may finish first.
// The session's lock is held.
func (c *liveCall) end(why error) {
	if c.why == nil {
		c.why = why
		close(c.asked)
	}
	switch {
	case c.queued, c.interrupt == InterruptCancel:
		c.ended = true
		c.cancel(why)
	case c.interrupt == InterruptTerm:
		c.cancel(why)
	case c.late == nil:
		c.late = time.AfterFunc(blockTime, func() { c.cancel(why) })
	}
}

// ErrSessionClosed reports that the session has ended.
var ErrSessionClosed = errors.New("the session has ended")

// enter takes a call in, unless the session has ended or was cancelled. The
// context it returns ends when the call is to end; leave is called when it has.
// The end of stop asks the call to end, as its traits say.
func (s *Session) enter(ctx, stop context.Context, h *handling) (live context.Context, leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed != "" {
		return ctx, nil, ErrSessionClosed
	}
	if s.cancelled {
		s.events.Publish(EventCancelBlocked, map[string]string{"call_id": h.c.ID})
		return ctx, nil, ErrCancelled
	}
	live, cancel := context.WithCancelCause(ctx)
	c := &liveCall{cancel: cancel, queued: true, asked: make(chan struct{})}
	s.calls[h.c.ID], h.interrupted = c, c.asked
	stopped := context.AfterFunc(stop, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		c.end(cancelCause(stop))
	})
	return live, func() {
		stopped()
		cancel(nil)
		s.mu.Lock()
		defer s.mu.Unlock()
		if c.late != nil {
			c.late.Stop()
		}
		if h.res.StopLoop == "" {
			h.res.StopLoop = c.stop
		}
		delete(s.calls, h.c.ID)
		if c.ended && s.cancelled {
			s.toolsReturned()
		}
		s.rest()
	}, nil
}

// stopAfter notes that a hook wants the loop to end after a live call.
func (s *Session) stopAfter(id, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.calls[id]; c != nil && c.stop == "" {
		c.stop = why
	}
}

// rest tells who waits for it that nothing runs any more. s.mu is held.
func (s *Session) rest() {
	if len(s.calls) == 0 && len(s.turns) == 0 && s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
}

// errDecidedBefore reports that rules, mode or policy changed after the decision.
var errDecidedBefore = errors.New("the policy changed after the decision")

// started says that a call runs now, as it was decided at a revision of the session,
// and how it may be interrupted. It returns what the call is confined by: all of the
// moment of the decision, since nothing changed until now. The error says why the
// call is not to run after all; with errDecidedBefore it is to be decided again.
func (s *Session) started(id string, decided int64, i Interrupt) (moment, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed != "":
		return moment{}, ErrSessionClosed
	case s.cancelled:
		return moment{}, ErrCancelled
	case s.revision.Load() != decided:
		return moment{}, errDecidedBefore
	}
	if c := s.calls[id]; c != nil {
		if c.why != nil {
			return moment{}, c.why
		}
		c.queued, c.interrupt = false, i
	}
	return s.momentLocked(), nil
}

// Cancel ends what the session does: turns, calls that wait, and running ones that
// may be interrupted end at once; others have two seconds to finish; and no
// further call starts until the turn has ended ([Session.TurnEnded]). It may be
// called again.
// Sub-agents are cancelled with it.
func (s *Session) Cancel(by string) {
	defer func() {
		for _, c := range s.heirs() {
			c.Cancel(by)
		}
	}()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancelled || s.closed != "" {
		return
	}
	s.cancelled = true
	s.events.Publish(EventCancelInserted, map[string]string{"by": by})
	for _, t := range s.turns {
		t.cancel(ErrCancelled)
	}
	for _, c := range s.calls {
		c.end(ErrCancelled)
	}
	s.toolsReturned()
}

// toolsReturned tells that every call which the cancellation ended has returned,
// and how many finish first. Where a turn runs this follows its [Session.LoopBroken],
// whoever of the two is quicker. s.mu is held.
func (s *Session) toolsReturned() {
	if s.toolsOwed = len(s.turns) > 0 && !s.loopBroken; s.toolsOwed {
		return
	}
	for _, c := range s.calls {
		if c.ended {
			return
		}
	}
	s.events.Publish(EventCancelTools, map[string]int{"finish_first": len(s.calls)})
}

// Cancelled reports whether the session was cancelled and its turn has not ended.
// A loop asks it before each step and says that it stops with [Session.LoopBroken].
func (s *Session) Cancelled() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cancelled
}

// LoopBroken tells that a turn stopped because of the cancellation.
func (s *Session) LoopBroken() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events.Publish(EventCancelLoop, nil)
	s.loopBroken = true
	if s.toolsOwed {
		s.toolsReturned()
	}
}

// TurnEnded lifts a cancellation: calls are accepted again.
func (s *Session) TurnEnded() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uncancel()
}

func (s *Session) uncancel() {
	if s.cancelled {
		s.loopBroken = true
		if s.toolsOwed {
			s.toolsReturned()
		}
		s.cancelled, s.loopBroken, s.toolsOwed = false, false, false
		s.events.Publish(EventCancelRemoved, nil)
	}
}

// CancelCall ends one call, whatever it is, and reports whether it was live. It may
// be a call of a sub-agent.
func (s *Session) CancelCall(id string) bool {
	s.mu.Lock()
	c := s.calls[id]
	s.mu.Unlock()
	if c != nil {
		c.cancel(ErrCancelled)
		return true
	}
	return slices.ContainsFunc(s.heirs(), func(c *Session) bool { return c.CancelCall(id) })
}

// LiveCalls are the ids of the calls that have not ended.
func (s *Session) LiveCalls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]string, 0, len(s.calls))
	for id := range s.calls {
		out = append(out, id)
	}
	return out
}

// end refuses further calls, ends the live ones and waits for them. It reports
// whether the session had not ended before.
func (s *Session) end(ctx context.Context, reason string) (first bool) {
	s.mu.Lock()
	first = s.closed == ""
	if first {
		s.closed = reason
	}
	for _, t := range s.turns {
		t.cancel(ErrSessionClosed)
	}
	for _, c := range s.calls {
		c.end(ErrSessionClosed)
	}
	var idle chan struct{}
	if len(s.calls) > 0 || len(s.turns) > 0 {
		if s.idle == nil {
			s.idle = make(chan struct{})
		}
		idle = s.idle
	}
	s.mu.Unlock()
	for _, c := range s.heirs() {
		c.end(ctx, reason)
	}
	if idle != nil {
		select {
		case <-idle:
		case <-ctx.Done():
		}
	}
	s.tasks.end(ctx)
	s.servers.end(ctx)
	s.callAtEnd()
	return first
}
