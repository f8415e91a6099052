package agentloop

import (
	"errors"
	"fmt"
	"slices"

	"sandboxd/policy"
)

// Rules returns all rules in force, the session's own among them
// (policy.SourceSession).
func (s *Session) Rules() []policy.Rule {
	if e := s.engineNow(); e != nil {
		return e.Rules().Rules()
	}
	return nil
}

// OwnRules returns the session's own rules, oldest first.
func (s *Session) OwnRules() []SessionRule {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.own)
}

// maxOwnRules bounds the rules of one session: each decision looks at them.
const maxOwnRules = 1000

// maxRuleReason bounds the reason of one of them, in bytes.
const maxRuleReason = 4096

// ErrTooManyRules reports that a session has as many rules as it may have.
var ErrTooManyRules = fmt.Errorf("a session has at most %d rules of its own", maxOwnRules)

// ErrSecretRule reports that a deny or ask rule holds a secret. It would be lost with
// the daemon, since secrets are not kept on disk.
var ErrSecretRule = errors.New("the rule holds a secret, and rules are kept on disk: write * in its place")

// errNoEngine: a session of sbx run takes no rules later.
var errNoEngine = errors.New("this session takes no rules")

// AddRule adds a rule to this session alone, for every call that has not
// started. by is kept beside it: "uid 1000". The error is a *policy.RuleError.
func (s *Session) AddRule(kind policy.Kind, pattern, by string) error {
	return s.AddRuleFor(kind, pattern, "", by)
}

// AddRuleFor is AddRule with a reason that is told when the rule denies or asks.
func (s *Session) AddRuleFor(kind policy.Kind, pattern, reason, by string) error {
	s.mu.Lock()
	if err := s.addRule(kind, pattern, reason, by); err != nil {
		s.mu.Unlock()
		return err
	}
	s.mu.Unlock()
	s.tellChildren()
	s.events.Publish(EventRulesChanged, map[string]string{"op": "add", "kind": kind.String(), "rule": pattern, "by": by})
	return s.keep()
}

func (s *Session) addRule(kind policy.Kind, pattern, reason, by string) error {
	if s.engine == nil {
		return errNoEngine
	}
	if len(s.own) >= maxOwnRules {
		return ErrTooManyRules
	}
	if len(reason) > maxRuleReason {
		return fmt.Errorf("the reason has %d bytes, at most %d are kept", len(reason), maxRuleReason)
	}
	own := SessionRule{Kind: kind.String(), Pattern: pattern, Reason: reason, Added: s.parts.now().UTC(), By: by}
	if slices.ContainsFunc(s.own, func(r SessionRule) bool { return r.Kind == own.Kind && r.Pattern == own.Pattern }) {
		return nil
	}
	if s.Kept().holds(pattern) {
		if kind != policy.AllowRule {
			return ErrSecretRule
		}
		own.Unkept = true
	}
	rule, err := own.rule()
	if err != nil {
		return err
	}
	if err := s.holdRule(own); err != nil {
		return err
	}
	if err := s.engine.AddRule(rule); err != nil {
		return errors.Join(err, s.hold(-own.bytes()))
	}
	s.own = append(s.own, own)
	s.unsaved++
	s.revision.Add(1)
	return nil
}

// RemoveRule removes one of the session's own rules and says whether there was
// one. Rules of policy files are not removed here.
func (s *Session) RemoveRule(kind policy.Kind, pattern string) (bool, error) {
	s.mu.Lock()
	n, had := len(s.own), rulesBytes(s.own)
	s.own = slices.DeleteFunc(s.own, func(r SessionRule) bool { return r.Kind == kind.String() && r.Pattern == pattern })
	if len(s.own) == n {
		s.mu.Unlock()
		return false, nil
	}
	_ = s.hold(rulesBytes(s.own) - had)
	s.unsaved++
	_, err := s.engine.RemoveRule(kind, pattern, policy.SourceSession)
	s.revision.Add(1)
	s.mu.Unlock()
	s.tellChildren()
	s.events.Publish(EventRulesChanged, map[string]string{"op": "remove", "kind": kind.String(), "rule": pattern})
	return true, errors.Join(err, s.keep())
}

// Mode returns the mode in force.
func (s *Session) Mode() policy.Mode {
	if e := s.engineNow(); e != nil {
		return e.Mode()
	}
	return policy.ModeDefault
}

// SetMode changes the mode for every call that has not started, also for those
// in the queue. The error is policy.ErrModeRefused.
func (s *Session) SetMode(m policy.Mode) error {
	s.mu.Lock()
	if s.engine == nil {
		s.mu.Unlock()
		return errNoEngine
	}
	old := s.engine.Mode()
	if err := s.engine.SetMode(m); err != nil {
		s.mu.Unlock()
		return err
	}
	s.mode = m.String()
	s.unsaved++
	if m != old {
		s.revision.Add(1)
	}
	s.mu.Unlock()
	s.tellChildren()
	s.events.Publish(EventModeChanged, map[string]string{"mode": m.String()})
	return s.keep()
}
