package agentloop

import (
	"context"
	"slices"
)

// liveTurn is a turn of a loop that has not ended.
type liveTurn struct{ cancel context.CancelCauseFunc }

// beginTurn takes a turn in, unless the session has ended. The context it returns
// ends when the session is cancelled or ends; leave is called when the turn has
// ended. A session that was cancelled before gives a context that has ended: a
// cancellation that comes between a prompt and its turn is not lost.
func (s *Session) beginTurn(ctx context.Context, id string) (live context.Context, leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed != "" {
		return ctx, nil, ErrSessionClosed
	}
	live, cancel := context.WithCancelCause(ctx)
	s.turns[id] = &liveTurn{cancel: cancel}
	if s.cancelled {
		cancel(ErrCancelled)
	}
	return live, func() {
		cancel(nil)
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.turns, id)
		if len(s.turns) == 0 {
			s.uncancel()
		}
		s.rest()
	}, nil
}

// greet returns what the SessionStart hooks say to the model, once.
func (s *Session) greet() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	said := slices.Clone(s.greeting)
	s.greeting = nil
	return said
}
