package agentloop

import (
	"fmt"
	"slices"
	"strings"

	"sandboxd/policy"
)

// AgentDef defines a kind of sub-agent: what a file in one of the directories of
// [Session.AgentDefs] says, or a built-in one.
//
// # What a definition may do
//
// It only narrows. Its tools are a part of what its parent's sub-agents may have,
// its deny and ask rules come on top of those in force, its mode is never wider
// than its parent's, and it adds no rule that allows. So a file that arrived with
// a checkout needs no trust for that. Until a person trusts it (sbx trust), its
// prompt is given to the sub-agent as data, and the model that it names is not
// used: that is a matter of money.
type AgentDef struct {
	Name        string
	Description string // for the agent that chooses one
	Prompt      string
	Model       string // empty: the parent's
	// Tools is what the sub-agent is offered. Nil: all that it may have. An entry
	// with a content, "run_bash(make *)", offers the tool for such calls alone.
	Tools []string
	// Disallowed tools are taken away; an entry with a content is a deny rule.
	Disallowed []string
	// Ask are ask rules.
	Ask []string
	// Delegate are tools that its own sub-agents may have besides Tools: an agent
	// that only coordinates has no tools itself. Nil: none.
	Delegate []string
	Mode     string // empty: the parent's
	MaxTurns int    // steps; 0: the parent's

	// File is where it stands; empty for a built-in one. Checkout: it arrived with
	// the project, Trusted: a person trusted exactly this content.
	File              string
	Checkout, Trusted bool

	content []byte // of the file
}

// Content is what was read of the file: what a person trusts.
func (d AgentDef) Content() []byte { return d.content }

// AgentDefError reports a definition that cannot be used, with its place.
type AgentDefError struct {
	File string
	Line int // 0: the whole file
	Text string
	Hint string
}

func (e *AgentDefError) Error() string {
	s := e.File
	if e.Line > 0 {
		s += fmt.Sprintf(":%d", e.Line)
	}
	s += ": " + e.Text
	if e.Hint != "" {
		s += "; " + e.Hint
	}
	return s
}

// builtinAgents are there in every session. A file of the user's with the same name
// stands in their place.
func builtinAgents() []AgentDef {
	return []AgentDef{
		{Name: "general", Description: "Works on a task of its own with all tools that a sub-agent may have.",
			Prompt: "You are a sub-agent. Do the task you are given, whole and nothing beyond it. Your last message is all that the one who sent you gets to see: say what you found or did, with names of files and lines, and what you could not do."},
		{Name: "explore", Description: "Reads and searches files, changes nothing.",
			Tools:  []string{"read_file", "read_result", "grep_files", "glob_files", "list_dir"},
			Prompt: "You are a sub-agent that looks things up in files and changes nothing. Your last message is all that the one who sent you gets to see: answer what was asked, with names of files and lines."},
	}
}

// generalAgents are other names of the general one, of other clients.
var generalAgents = []string{"", "general-purpose"}

// maxAgentName bounds the name of a definition.
const maxAgentName = 64

const nameCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

func validAgentName(name string) bool {
	return name != "" && len(name) <= maxAgentName && name[0] != '-' && strings.Trim(name, nameCharacters) == ""
}

// rules are the rules that a definition brings: they only deny and ask.
func (d AgentDef) rules() []policy.Rule {
	var rules []policy.Rule
	add := func(kind policy.Kind, patterns []string) {
		for _, p := range patterns {
			if kind == policy.AskRule || strings.Contains(p, "(") {
				rules = append(rules, policy.Rule{Kind: kind, Pattern: p, Source: policy.Source{Kind: policy.SourceSession, File: d.File},
					Reason: map[bool]string{true: "of the definition of the sub-agent " + d.Name}[kind == policy.DenyRule]})
			}
		}
	}
	add(policy.DenyRule, d.Disallowed)
	add(policy.AskRule, d.Ask)
	return rules
}

// toolset is what the definition itself offers, and what it leaves to its own
// sub-agents.
func (d AgentDef) toolset() (own, ceiling toolset) {
	own = newToolset(d.Tools)
	for _, t := range d.Disallowed {
		if !strings.Contains(t, "(") {
			own = own.without(t)
		}
	}
	if d.Delegate == nil {
		return own, own
	}
	return own, own.union(newToolset(d.Delegate))
}

// check looks at what can be judged without a session. place finds the line of a
// field.
func (d AgentDef) check(place func(field string) int) error {
	bad := func(field, format string, args ...any) error {
		return &AgentDefError{File: d.File, Line: place(field), Text: fmt.Sprintf(format, args...)}
	}
	switch {
	case d.Name == "":
		return bad("", "name is missing")
	case !validAgentName(d.Name):
		return bad("name", "name %q: want letters, digits, - and _, at most %d", firstCharacters(d.Name, maxAgentName), maxAgentName)
	case d.Description == "":
		return bad("", "description is missing: it says when the sub-agent is to be used")
	case d.MaxTurns < 0:
		return bad("maxTurns", "maxTurns %d: want a number from 1", d.MaxTurns)
	}
	if d.Mode != "" {
		if _, err := policy.ParseMode(d.Mode); err != nil {
			return bad("permissionMode", "permissionMode: %v", err)
		}
	}
	for _, f := range []struct {
		field string
		list  []string
	}{{"tools", d.Tools}, {"disallowedTools", d.Disallowed}, {"askTools", d.Ask}, {"delegateTools", d.Delegate}} {
		for _, entry := range f.list {
			rule := policy.Rule{Kind: policy.DenyRule, Pattern: entry}
			if _, err := policy.NewRuleSet([]policy.Rule{rule}, policy.Base{Workspace: "/", Home: "/"}); err != nil {
				return bad(f.field, "%s: %v", f.field, err)
			}
		}
	}
	return nil
}

// sameAgent reports whether a definition is meant by a name.
func (d AgentDef) sameAgent(name string) bool {
	return d.Name == name || d.Name == "general" && slices.Contains(generalAgents, name)
}
