package agentloop

import (
	"context"
	"sync"
	"sync/atomic"
)

// Sources of a SessionStart event, as clients name them.
const (
	startNew    = "startup"
	startResume = "resume"
)

// waking is whether the SessionStart hooks of a session that was restored are still to
// be told. They are told when it is used again: a start of the daemon waits for no hook.
type waking struct {
	asleep atomic.Bool
	mu     sync.Mutex // held while they are told
}

// wake tells the SessionStart hooks of a session that was restored, once.
func (s *Session) wake(ctx context.Context) {
	if !s.waking.asleep.Load() {
		return
	}
	s.waking.mu.Lock()
	defer s.waking.mu.Unlock()
	if s.waking.asleep.Load() {
		s.start(ctx, startResume)
		s.waking.asleep.Store(false)
	}
}

// start tells the SessionStart hooks; what they say waits for the next turn.
func (s *Session) start(ctx context.Context, source string) {
	said := s.parts.hooks.Fire(ctx, s, HookEvent{Event: EventSessionStart, Session: s.id, Cwd: s.workspace, Reason: source}).Context
	s.mu.Lock()
	defer s.mu.Unlock()
	s.greeting = append(s.greeting, said...)
}
