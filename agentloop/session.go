package agentloop

import (
	"sandboxd/policy"
)

// Session is the state of one client: its policy, its own rules and mode, its
// queue and its events. Nothing of it is shared with another session. It is safe
// for concurrent use.
type Session struct {
	id     string
	peer   Peer
	events *Events
}

// ID names the session.
func (s *Session) ID() string { return s.id }

// Peer is who made the session; its calls run as that user.
func (s *Session) Peer() Peer { return s.peer }

// Events are what happens in the session.
func (s *Session) Events() *Events { return s.events }

// State is the session as it is shown and kept.
func (s *Session) State() SessionState { return SessionState{ID: s.id, UID: s.peer.UID()} }

// Rules returns all rules in force, the session's own among them
// (policy.SourceSession).
func (s *Session) Rules() []policy.Rule { return nil }

// AddRule adds a rule to this session alone, for every call that has not
// started. by is kept beside it: "uid 1000". The error is a *policy.RuleError.
func (s *Session) AddRule(kind policy.Kind, pattern, by string) error { return ErrNoSession }

// RemoveRule removes one of the session's own rules and says whether there was
// one. Rules of policy files are not removed here.
func (s *Session) RemoveRule(kind policy.Kind, pattern string) (bool, error) {
	return false, ErrNoSession
}

// Mode returns the mode in force.
func (s *Session) Mode() policy.Mode { return policy.ModeDefault }

// SetMode changes the mode for every call that has not started, also for those
// in the queue. The error is policy.ErrModeRefused.
func (s *Session) SetMode(m policy.Mode) error { return ErrNoSession }

// Cancel ends what the session does: calls that may be interrupted end at once,
// others finish, and no further call starts until the turn has ended
// ([Session.TurnEnded]). It may be called again.
func (s *Session) Cancel(by string) {}

// Cancelled reports whether the session was cancelled and its turn has not ended.
func (s *Session) Cancelled() bool { return false }

// TurnEnded lifts a cancellation: calls are accepted again.
func (s *Session) TurnEnded() {}

// Generation counts the policies of the session: it changes when one was read
// again. A rule or a mode of the session does not change it.
func (s *Session) Generation() int64 { return 0 }

// Hooks are the hooks that the policy in force declares.
func (s *Session) Hooks() []HookSpec { return nil }
