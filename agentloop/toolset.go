package agentloop

import (
	"maps"
	"slices"
	"strings"

	"sandboxd/policy"
)

// toolset is which tools an agent may use, by canonical name. The zero toolset has
// none; see [allTools].
type toolset struct {
	all bool // but for those in out
	// in maps a name to the rules that a call must match; nil for every call.
	in  map[string][]string
	out map[string]bool
}

// allTools has every tool.
var allTools = toolset{all: true}

// newToolset reads names, and rules such as "run_bash(make *)". Nil means every
// tool, an empty list none.
func newToolset(list []string) toolset {
	if list == nil {
		return allTools
	}
	t := toolset{in: map[string][]string{}}
	for _, entry := range list {
		name, content, limited := strings.Cut(entry, "(")
		name = policy.CanonicalTool(strings.TrimSpace(name))
		rules, there := t.in[name]
		switch {
		case !limited || content == "*)" || content == ")":
			t.in[name] = nil
		case !there || rules != nil:
			t.in[name] = append(rules, entry)
		}
	}
	return t
}

// without takes a tool away.
func (t toolset) without(name string) toolset {
	name = policy.CanonicalTool(name)
	out := toolset{all: t.all, in: maps.Clone(t.in), out: maps.Clone(t.out)}
	delete(out.in, name)
	if t.all {
		if out.out == nil {
			out.out = map[string]bool{}
		}
		out.out[name] = true
	}
	return out
}

// has reports whether a tool is in the set, for some calls at least. A name
// mcp__SERVER in the set stands for all tools of that server.
func (t toolset) has(name string) bool {
	_, ok := t.find(policy.CanonicalTool(name))
	return ok
}

func (t toolset) find(name string) (rules []string, ok bool) {
	if t.all {
		return nil, !inNames(t.out, name)
	}
	if rules, ok := t.in[name]; ok {
		return rules, true
	}
	for n, rules := range t.in {
		if serverOf(n, name) {
			return rules, true
		}
	}
	return nil, false
}

func inNames(names map[string]bool, name string) bool {
	if names[name] {
		return true
	}
	for n := range names {
		if serverOf(n, name) {
			return true
		}
	}
	return false
}

// serverOf reports whether name is a tool of the MCP server that server names.
func serverOf(server, name string) bool {
	return policy.IsMCPTool(name) && strings.HasPrefix(server, "mcp__") && !policy.IsMCPTool(server) && strings.HasPrefix(name, server+"__")
}

// union has what one of two sets has.
func (t toolset) union(o toolset) toolset {
	switch {
	case t.all && o.all:
		out := toolset{all: true, out: map[string]bool{}}
		for n := range t.out {
			if o.out[n] {
				out.out[n] = true
			}
		}
		return out
	case o.all:
		t, o = o, t
		fallthrough
	case t.all:
		out := toolset{all: true, out: maps.Clone(t.out)}
		for n := range o.in {
			delete(out.out, n)
		}
		return out
	}
	out := toolset{in: maps.Clone(t.in)}
	for n, rules := range o.in {
		have, there := out.in[n]
		switch {
		case there && (have == nil || rules == nil):
			out.in[n] = nil
		default:
			out.in[n] = slices.Concat(have, rules)
		}
	}
	return out
}

// toolsets are the sets of an agent and of all agents above it that bind it: what
// it may call must be in each of them, so the rights only shrink with depth.
type toolsets []toolset

func (s toolsets) has(name string) bool {
	for _, t := range s {
		if !t.has(name) {
			return false
		}
	}
	return true
}

// refusal says why a call is outside of the sets, or nothing.
func (s toolsets) refusal(c policy.Call, base policy.Base) string {
	name := policy.CanonicalTool(c.Tool)
	for _, t := range s {
		rules, ok := t.find(name)
		if !ok {
			return "this agent has no tool " + name
		}
		if rules == nil {
			continue
		}
		list := make([]policy.Rule, len(rules))
		for i, p := range rules {
			list[i] = policy.Rule{Kind: policy.AllowRule, Pattern: p}
		}
		set, err := policy.NewRuleSet(list, base)
		if err != nil {
			return "the tools of this agent cannot be read: " + err.Error()
		}
		if v, _, found := set.Check(c); !found || v != policy.Allow {
			return "this agent has " + name + " only for " + strings.Join(rules, ", ")
		}
	}
	return ""
}
