package agentloop

import (
	"fmt"
	"time"

	"sandboxd/exec"
	"sandboxd/policy"
)

// HookSpec is one command hook as a policy says it.
type HookSpec struct {
	Event string // of the table in docs/hooks.md, or an alias
	// Matcher names tools: a name, several with |, a pattern, or a rule. Empty
	// and * mean all.
	Matcher string
	// If is a rule that the call must match. Empty means always.
	If      string
	Command string // for sh -c
	Timeout time.Duration
	// ContinueOnFailure lets the call pass when the hook fails.
	ContinueOnFailure bool
	Source            policy.Source
	// ClaudeShape: the hook was written for Claude Code, and is told its names of
	// tools.
	ClaudeShape bool
	// Write lets the hook write the workspace, Network lets it reach hosts, as
	// in policy.Grant. Only what the administrator or the user wrote may ask.
	Write   bool
	Network []string
}

// HookEnvironment is what the command hooks of one session run with.
type HookEnvironment struct {
	Runner *exec.Runner
	// Caller is whose rights and directories are used.
	Caller Caller
	View   HostView
	Tier   exec.Tier
	// Grant is the session's. A hook gets its denials and what it may read.
	Grant policy.Grant
	// Managed is what the managed policy alone says: its hooks get this in place
	// of Grant.
	Managed policy.Grant
	// Workspace is its root, links resolved; hooks start there, but for those of
	// the managed policy, which start in /.
	Workspace string
	// Mode is told to hooks. Nil leaves it out.
	Mode func() policy.Mode
	// Trusts reports whether a person trusted exactly this content of the file at
	// path. Nil trusts nothing. It is called by several goroutines.
	Trusts func(path string, content []byte) bool
}

// HookError reports a hook that cannot be used as written. Nothing ran.
type HookError struct {
	Event, Command string
	Source         policy.Source
	Hint           string // what the user can do; may be empty
	Err            error
}

func (e *HookError) Error() string {
	return fmt.Sprintf("hook %s %s (%s): %v", e.Event, shortCommand(e.Command), e.Source, e.Err)
}

func (e *HookError) Unwrap() error { return e.Err }

// DefaultHookTimeout is how long a hook may take when its policy does not say:
// as in Claude Code.
const DefaultHookTimeout = 60 * time.Second
