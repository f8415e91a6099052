package agentloop

import (
	"fmt"
	"sync/atomic"

	"sandboxd/policy"
)

// Bounds of what the sessions of one user make the daemon remember, in bytes.
const (
	// maxUserHeld bounds what their requests (the environments), their own rules and
	// their policies take together.
	maxUserHeld = 256 << 20
	// maxUserEvents bounds their kept events. Beyond it each session keeps its last
	// smallRing alone.
	maxUserEvents = 32 << 20
	// maxRing and smallRing bound the kept events of one session.
	maxRing   = 1 << 20
	smallRing = 8 << 10
	// maxReader bounds what waits for one reader of events.
	maxReader = 1 << 20
	// maxOwnRuleBytes bounds the texts of a session's own rules, which are written as
	// a whole when one is added.
	maxOwnRuleBytes = 256 << 10
	// entryBytes is what a small thing takes besides its text.
	entryBytes = 128
	// policyFactor is what a rule takes in memory for each byte of the file it stands
	// in: 50 were measured for rules of 40 characters.
	policyFactor = 64
)

// userMemory counts what the sessions of one user hold. It is safe for concurrent
// use; nil counts nothing.
type userMemory struct {
	sessions int // guarded by Sessions.mu
	held     atomic.Int64
	events   atomic.Int64
}

// hold counts n bytes more, or fewer. More than the user may have is refused.
func (u *userMemory) hold(n int64) error {
	if u == nil {
		return nil
	}
	if now := u.held.Add(n); n > 0 && now > maxUserHeld {
		u.held.Add(-n)
		return fmt.Errorf("%w: environments, rules and policies of this user's sessions would take %d MiB of memory, at most %d may be taken; close one",
			ErrTooManySessions, (now>>20)+1, maxUserHeld>>20)
	}
	return nil
}

// addEvents counts bytes of events, and reports whether the user has too many.
func (u *userMemory) addEvents(n int64) (tooMany bool) {
	return u != nil && u.events.Add(n) > maxUserEvents
}

// requestBytes is about what a session's request takes.
func requestBytes(r SessionRequest) (n int64) {
	for _, list := range [][]string{r.Environ, r.Policy, r.Grant.Unix, r.Grant.EnvPass, r.Grant.EnvSet, r.Grant.Network} {
		for _, s := range list {
			n += entryBytes + int64(len(s))
		}
	}
	for _, p := range r.Grant.Paths {
		n += entryBytes + int64(len(p.Path))
	}
	for name, key := range r.Keys {
		n += entryBytes + int64(len(name)+len(key))
	}
	return n + int64(len(r.Workspace)+len(r.Cwd)+len(r.Profile))
}

func (r SessionRule) bytes() int64 {
	return entryBytes + int64(len(r.Pattern)+len(r.Reason)+len(r.By))
}

func rulesBytes(list []SessionRule) (n int64) {
	for _, r := range list {
		n += r.bytes()
	}
	return n
}

// hold counts n bytes more for the session. s.mu is held, or nobody else has s.
func (s *Session) hold(n int64) error {
	if err := s.parts.memory.hold(n); err != nil {
		return err
	}
	s.held += n
	return nil
}

// release gives back all that the session holds.
func (s *Session) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.parts.memory.hold(-s.held)
	s.held = 0
	s.parts.memory = nil
}

// holdPolicy counts a policy in place of the one before.
func (s *Session) holdPolicy(p PolicyInForce) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := policyFactor * p.FileBytes
	if err := s.hold(n - s.heldPolicy); err != nil {
		return err
	}
	s.heldPolicy = n
	return nil
}

// holdRule counts one more rule of the session's own. s.mu is held.
func (s *Session) holdRule(r SessionRule) error {
	if have := rulesBytes(s.own); have+r.bytes() > maxOwnRuleBytes {
		return &policy.RuleError{Pattern: firstCharacters(r.Pattern, 100), Source: policy.Source{Kind: policy.SourceSession},
			Problem: fmt.Sprintf("the session's own rules take %d KiB, which is the most", have>>10), Fix: "put them into a policy file"}
	}
	return s.hold(r.bytes())
}
