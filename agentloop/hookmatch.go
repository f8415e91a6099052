package agentloop

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"sandboxd/policy"
)

// hookMatch says which events concern a command hook.
type hookMatch struct {
	kind  hookEvent
	names []string       // plain names; nil: the pattern, or all
	re    *regexp.Regexp // nil: the names, or all
	rules []*policy.RuleSet
}

// newHookMatch compiles matcher and condition. What cannot be compiled is an
// error: a guard that matches nothing guards nothing.
func newHookMatch(s HookSpec, kind hookEvent, base policy.Base) (hookMatch, error) {
	m := hookMatch{kind: kind}
	if isRuleMatcher(s.Matcher) {
		tool, _, _ := strings.Cut(s.Matcher, "(")
		if !policy.KnownTool(tool) {
			return m, fmt.Errorf("matcher %q is read as a rule, and no tool is called %s", s.Matcher, tool)
		}
		if err := m.addRule("matcher", s.Matcher, base, s.Source); err != nil {
			return m, err
		}
	} else if err := m.addTools(s.Matcher); err != nil {
		return m, err
	}
	if s.If != "" {
		if err := m.addRule("if", s.If, base, s.Source); err != nil {
			return m, err
		}
	}
	return m, nil
}

// isRuleMatcher reports whether a matcher has the form NAME(CONTENT). A
// parenthesis that opens it, or follows a pattern, groups.
func isRuleMatcher(s string) bool {
	name, _, ok := strings.Cut(s, "(")
	return ok && name != "" && strings.HasSuffix(s, ")") && !strings.ContainsFunc(name, func(r rune) bool { return !nameRune(r) })
}

func nameRune(r rune) bool {
	return r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
}

func (m *hookMatch) addTools(matcher string) error {
	matcher = strings.TrimSpace(matcher)
	if matcher == "" || matcher == "*" {
		return nil
	}
	if !strings.ContainsFunc(matcher, func(r rune) bool { return !nameRune(r) && r != '|' && r != ' ' }) {
		for name := range strings.SplitSeq(matcher, "|") {
			if name = strings.TrimSpace(name); name == "" {
				return fmt.Errorf("matcher %q names an empty tool", matcher)
			}
			m.names = append(m.names, name)
		}
		return nil
	}
	re, err := regexp.Compile(matcher)
	if err != nil {
		return fmt.Errorf("matcher %q: %w", matcher, err)
	}
	m.re = re
	return nil
}

func (m *hookMatch) addRule(field, pattern string, base policy.Base, from policy.Source) error {
	if !m.kind.tool {
		return fmt.Errorf("%s %q is a rule, and %s is about no tool call", field, pattern, m.kind.name)
	}
	// As a deny rule it also finds the command in what it is wrapped in, and
	// what may be meant: a hook is asked once too often rather than once too
	// rarely.
	set, err := policy.NewRuleSet([]policy.Rule{{Kind: policy.DenyRule, Pattern: pattern, Source: from}}, base)
	if err != nil {
		var re *policy.RuleError
		if errors.As(err, &re) {
			return fmt.Errorf("%s %q: %s", field, pattern, re.Problem)
		}
		return fmt.Errorf("%s %q: %w", field, pattern, err)
	}
	m.rules = append(m.rules, set)
	return nil
}

// matches reports whether e concerns the hook.
func (m *hookMatch) matches(e HookEvent) bool {
	if !m.subject(e) {
		return false
	}
	call := policy.Call{ID: e.Call, Tool: e.Tool, Args: e.Args, Cwd: e.Cwd, Session: e.Session, Agent: e.Agent}
	for _, set := range m.rules {
		if v, _, found := set.Check(call); !found || v != policy.Deny {
			return false
		}
	}
	return true
}

// subject compares the tool, or what the event is about, with names or pattern.
func (m *hookMatch) subject(e HookEvent) bool {
	if m.names == nil && m.re == nil {
		return true
	}
	subjects := []string{e.Reason}
	switch {
	case m.kind.tool:
		subjects = policy.ToolNames(e.Tool)
	case m.kind.name == EventSubagentStart, m.kind.name == EventSubagentStop:
		subjects = []string{e.AgentType, e.Agent}
	}
	for _, s := range subjects {
		if m.re != nil && m.re.MatchString(s) || slices.ContainsFunc(m.names, func(n string) bool {
			return n == s || m.kind.tool && mcpServerOf(n, s)
		}) {
			return true
		}
	}
	return false
}

// mcpServerOf reports whether name is mcp__SERVER and tool one of its tools.
func mcpServerOf(name, tool string) bool {
	return strings.HasPrefix(name, "mcp__") && strings.Count(name, "__") == 1 && strings.HasPrefix(tool, name+"__")
}
