package settings

import (
	"time"

	"sandboxd/policy"
)

// Value is one setting with its source. The zero Value is not set.
type Value[T any] struct {
	V    T
	From policy.Source
	Set  bool
}

func set[T any](v T, from policy.Source) Value[T] { return Value[T]{V: v, From: from, Set: true} }

// Hook is one command hook as written. Its fields are those of
// agentloop.HookSpec, so that one converts to the other.
type Hook struct {
	Event   string // "PreToolUse", ...
	Matcher string // a tool pattern, or a rule when it holds a parenthesis
	If      string // a rule; empty means always
	Command string
	Timeout time.Duration // zero means the default
	// ContinueOnFailure is `on_failure = "continue"`: a hook that fails, times
	// out or cannot start lets the call pass.
	ContinueOnFailure bool
	Source            policy.Source
	// ClaudeShape is `shape = "claude"`: written for Claude Code.
	ClaudeShape bool
	// Write lets it write the workspace, Network reach hosts. Those of a project
	// are refused when hooks are made.
	Write   bool
	Network []string
}

// Entry is one string of a list.
type Entry struct {
	Text   string
	Source policy.Source
}

// Limits are the limits of one policy. A negative value means unlimited.
type Limits struct {
	Timeout, CPU               Value[time.Duration]
	Memory, FileSize, Output   Value[int64] // bytes
	Tasks                      Value[int64]
	MaxFileSize                Value[int64] // bytes a file tool reads or writes
	DenialsInRow, DenialsTotal Value[int64] // denials that end a loop
}

// Policy is one layer: what one file, the environment or the command line says.
// The zero Policy says nothing.
type Policy struct {
	Source policy.Source // kind and file; Line is 0
	// Extends names profiles and files that this one builds on.
	Extends []Entry
	Mode    Value[string]
	Default Value[string] // "ask", "allow" or "deny"
	// Confined is "allow" when a fully confined run_bash needs no question.
	Confined    Value[string]
	Rules       []policy.Rule
	Paths       []policy.PathGrant
	Tmp         Value[string] // "private" or "none"
	Network     []Entry       // hosts, "full" or "none"
	Unix        []Entry
	Limits      Limits
	EnvPass     []Entry // names
	EnvSet      []Entry // NAME=VALUE
	Syscalls    Value[string]
	NoExecWrite Value[bool]
	// StrictNames refuses names that mean something else on Windows.
	StrictNames Value[bool]
	ForbidModes []Entry // modes that may not be used
	Hooks       []Hook
	Profiles    map[string]*Policy
	// MCPServers are those of [mcp] and of [MCPFile].
	MCPServers []MCPServer
	// SkillDirs are further directories of skills; absolute once merged.
	SkillDirs []Entry
	Agent     Agent
	// Classifier is that of mode auto.
	Classifier Classifier
	Audit      Audit
}

// source is the place of something on a line of this layer.
func (p *Policy) source(line int) policy.Source {
	s := p.Source
	s.Line = line
	return s
}
