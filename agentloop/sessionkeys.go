package agentloop

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
)

// keyVariables hold the keys of model APIs, by the names that their vendors' own
// programs read.
var keyVariables = []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY"}

// KeyVariables are the names of the variables that hold keys of model APIs, with
// those that a configuration names.
func KeyVariables(configured ...string) []string {
	out := slices.Clone(keyVariables)
	for _, name := range configured {
		if name != "" && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// providerKeys are the keys of one session. They live in memory alone: no state, no
// event and no run has them, and texts that hold one are masked. It is safe for
// concurrent use.
type providerKeys struct {
	mu     sync.Mutex
	byName map[string]string
}

// SetProviderKeys gives the session keys, also those that a client sends again after
// a restart of the daemon. Those that it has of other names stay.
func (s *Session) SetProviderKeys(keys map[string]string) {
	s.keys.mu.Lock()
	defer s.keys.mu.Unlock()
	if s.keys.byName == nil {
		s.keys.byName = map[string]string{}
	}
	maps.Copy(s.keys.byName, keys)
	if s.secrets != nil {
		s.secrets.Learn(slices.Collect(maps.Values(keys))...)
	}
}

// ProviderEnv looks a variable up for a provider: a key of the session, else the
// environment of the client as far as it is known. Empty: it is not set.
func (s *Session) ProviderEnv(name string) string {
	s.keys.mu.Lock()
	defer s.keys.mu.Unlock()
	if v, ok := s.keys.byName[name]; ok {
		return v
	}
	return lookupEnv(s.caller().Environ, name)
}

// withholdKeys moves variables out of what runs and hooks of the session can get,
// and reports whether there were any. It is called before the session is known to
// anybody.
func (s *Session) withholdKeys(names []string) bool {
	keys := map[string]string{}
	var rest []string
	for _, entry := range s.peer.Caller.Environ {
		name, value, _ := strings.Cut(entry, "=")
		if !slices.Contains(names, name) {
			rest = append(rest, entry)
		} else if _, given := s.request.Keys[name]; !given {
			keys[name] = value
		}
	}
	if len(rest) == len(s.peer.Caller.Environ) {
		return false
	}
	s.peer.Caller.Environ, s.request.Environ = rest, rest
	s.SetProviderKeys(keys)
	return true
}

// loadWithoutKeys is load for a session that may be an agent's: no hook of its
// policy, and nothing else that knows the caller, gets the keys.
func (m *Sessions) loadWithoutKeys(ctx context.Context, s *Session) error {
	if !s.request.Agent {
		return m.load(ctx, s)
	}
	s.withholdKeys(KeyVariables())
	if err := m.load(ctx, s); err != nil {
		return err
	}
	if name := s.inForce().Agent.KeyEnv; name != "" && s.withholdKeys([]string{name}) {
		return m.load(ctx, s)
	}
	return nil
}

// AgentConfig is the table [agent] of the policy in force with what the client asks
// for above it, within the limits of a managed policy.
func (s *Session) AgentConfig(flags AgentConfig) AgentConfig {
	p := s.inForce()
	return p.Agent.WithFlags(flags, p.ManagedAgent)
}
