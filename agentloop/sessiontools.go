package agentloop

import (
	"fmt"
	"maps"
	"slices"

	"sandboxd/policy"
)

// SetTools gives the session tools of its own, those of its MCP servers, in place
// of the ones it had. The Dispatcher finds them beside its own, and decisions hear
// of their rules. Names of built-in tools are not taken. Nothing changes when that
// fails.
func (s *Session) SetTools(tools []Tool) error {
	own := make(map[string]Tool, len(tools))
	for _, t := range tools {
		name := t.Name()
		switch {
		case name == "" || policy.CanonicalTool(name) != name || policy.KnownTool(name) && !policy.IsMCPTool(name):
			return fmt.Errorf("tool %q: the name is taken by a built-in tool", name)
		case own[name] != nil:
			return fmt.Errorf("tool %q is there twice", name)
		}
		own[name] = t
	}
	s.installing.Lock()
	defer s.installing.Unlock()
	if err := s.put(s.inForce(), own); err != nil {
		return err
	}
	s.tellChildren()
	return nil
}

// ownTool is the session's own tool of a canonical name, or nil.
func (s *Session) ownTool(name string) Tool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tools[name]
}

// Tools are the session's own tools, in the order of their names.
func (s *Session) Tools() []Tool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return sortedTools(s.tools)
}

func sortedTools(tools map[string]Tool) []Tool {
	out := make([]Tool, 0, len(tools))
	for _, name := range slices.Sorted(maps.Keys(tools)) {
		out = append(out, tools[name])
	}
	return out
}

// declareTools tells the decision what tools say of themselves.
func declareTools(cfg *policy.Config, shared []Tool, own map[string]Tool) {
	cfg.Tools = slices.Clone(cfg.Tools)
	cfg.ToolRules, cfg.Summaries = maps.Clone(cfg.ToolRules), maps.Clone(cfg.Summaries)
	for _, t := range slices.Concat(shared, sortedTools(own)) {
		if d, ok := t.(Declared); ok {
			declared := d.Policy()
			declared.Name = t.Name()
			cfg.Tools = append(cfg.Tools, declared)
		}
		if r, ok := t.(Ruled); ok {
			if cfg.ToolRules == nil {
				cfg.ToolRules = map[string]policy.ToolRule{}
			}
			cfg.ToolRules[t.Name()] = bothRules(cfg.ToolRules[t.Name()], r.Rule)
		}
		if d, ok := t.(Summarised); ok {
			if cfg.Summaries == nil {
				cfg.Summaries = map[string]func(policy.Args) string{}
			}
			cfg.Summaries[t.Name()] = d.Summary
		}
	}
}

// bothRules asks two rules of one tool; the stricter one counts.
func bothRules(first policy.ToolRule, own func(policy.Args) (policy.Verdict, string)) policy.ToolRule {
	guarded := func(a policy.Args) (v policy.Verdict, text string) {
		defer func() {
			if p := recover(); p != nil {
				v, text = policy.Ask, fmt.Sprintf("bug: the rules of the tool panicked: %v", p)
			}
		}()
		return own(a)
	}
	if first == nil {
		return guarded
	}
	return func(a policy.Args) (policy.Verdict, string) {
		if v, text := first(a); v != policy.Allow {
			return v, text
		}
		return guarded(a)
	}
}
