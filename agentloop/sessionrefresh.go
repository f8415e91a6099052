package agentloop

import (
	"context"
	"fmt"
	"time"
)

const (
	// retryEvery is how long a policy that could not be read is left alone.
	retryEvery = time.Second
	// reloadTime bounds how long the policies of all sessions are waited for: a file
	// can lie on a server that does not answer.
	reloadTime = 30 * time.Second
)

// policyLook is when a session last looked for changes of its policy. Each session has
// its own, and nothing of it is shared with other sessions: whose files change
// often, or answer late, delays the calls of that session alone.
type policyLook struct {
	at     time.Time
	failed string // why the changed policy is not in force
}

// refresh reads the policy of the session again if what it was read from changed
// before the call came: who wrote a rule, or trusted a file, has it in the next call. A
// call that comes meanwhile waits and is decided by the new policy; of those that wait
// one looks for all. One that cannot be read leaves the old one in force, and is tried
// again; stale says why, as long as it is so.
func (s *Session) refresh(ctx context.Context) (stale string) {
	if s.parts.reload == nil {
		return ""
	}
	came := time.Now()
	s.looking.Lock()
	defer s.looking.Unlock()
	if s.look.at.After(came) || s.look.failed != "" && came.Sub(s.look.at) < retryEvery {
		return s.look.failed
	}
	s.look.at = time.Now()
	if s.look.failed == "" && !s.policyChanged() {
		return ""
	}
	_ = s.parts.reload(context.WithoutCancel(ctx), s) // told by its event
	return s.look.failed
}

// policyChanged looks with the rights of the session's user.
func (s *Session) policyChanged() (changed bool) {
	look := s.inForce().Changed
	if look == nil {
		return false
	}
	if err := s.asUser(func() { changed = look() }); err != nil {
		return true
	}
	return changed
}

// reload reads the policy of one session and tells of it; s.looking is held. A
// failure that is the same as before is told of once.
func (m *Sessions) reload(ctx context.Context, s *Session) error {
	if err := m.load(ctx, s); err != nil {
		m.o.Metrics.add(1, "sandboxd_policy_reloads_total", "refused")
		if s.look.failed != err.Error() {
			s.events.Publish(EventPolicyRefused, map[string]any{"error": err.Error(), "generation": s.Generation()})
			if m.o.PolicyRefused != nil {
				m.o.PolicyRefused(s.id, err)
			}
		}
		s.look.failed = err.Error()
		return fmt.Errorf("session %s keeps policy %d: %w", s.id, s.Generation(), err)
	}
	s.look.failed = ""
	m.o.Metrics.add(1, "sandboxd_policy_reloads_total", "ok")
	s.events.Publish(EventPolicyReloaded, map[string]any{"generation": s.Generation(), "warnings": s.Warnings()})
	return nil
}
