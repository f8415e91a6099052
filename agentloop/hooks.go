package agentloop

import (
	"context"
	"time"

	"sandboxd/policy"
)

// Hook is consulted or told at an event.
type Hook interface {
	Name() string
	Handle(ctx context.Context, e HookEvent) (HookOutcome, error)
}

// Names of hook events.
const (
	EventSessionStart      = "SessionStart"
	EventSessionEnd        = "SessionEnd"
	EventPreToolUse        = "PreToolUse"
	EventPostToolUse       = "PostToolUse"
	EventStepComplete      = "StepComplete"
	EventSubagentStart     = "SubagentStart"
	EventSubagentStop      = "SubagentStop"
	EventPreCompact        = "PreCompact"
	EventPostCompact       = "PostCompact"
	EventPermissionRequest = "PermissionRequest"
	EventUserPromptSubmit  = "UserPromptSubmit"
	EventStop              = "Stop"
)

// HookEvent is what a hook is told.
type HookEvent struct {
	Event                string
	Session, Agent, Call string
	Step                 int
	Tool                 string
	Args                 policy.Args
	Output               string
	Cwd                  string
	Reason               string
	// Result is set after a tool was used.
	Result *ToolResult
}

// HookAction is what a hook wants. The zero value blocks.
type HookAction uint8

const (
	HookBlock HookAction = iota
	HookContinue
	HookAsk
)

// HookOutcome is a hook's answer.
type HookOutcome struct {
	Action HookAction
	Reason string
	// Args replace the arguments (PreToolUse), Output the output (PostToolUse).
	Args    policy.Args
	Output  *string
	Context string
	// Permission is the answer to a PermissionRequest: "allow", "deny" or "".
	Permission string
	Tool       string
}

// HookChainResult is what a chain of hooks came to.
type HookChainResult struct {
	Blocked bool
	By      string // the hook that blocked
	Reason  string
	Args    policy.Args
	Output  *string
	Context []string
	// Permission is the first answer to a PermissionRequest.
	Permission string
	// Failed are hooks that failed and were told to let pass.
	Failed []string
}

// HookSpec is a command hook as a policy declares it.
type HookSpec struct {
	Event, Matcher, If, Command string
	Timeout                     time.Duration
	ContinueOnFailure           bool
	Source                      policy.Source
	// ClaudeShape: standard input has the shape that Claude Code gives it.
	ClaudeShape bool
	// Network and Write are granted by the hook's source.
	Network bool
	Write   []string
}

// HookRegistry holds the hooks of the process and starts those of a session. A
// nil *HookRegistry has none.
type HookRegistry struct{}

// Fire runs the hooks of one event in order. The first block ends the chain.
func (r *HookRegistry) Fire(ctx context.Context, s *Session, e HookEvent) HookChainResult {
	return HookChainResult{}
}

// PreToolUse returns the hooks of a session in the form that the decision takes.
func (r *HookRegistry) PreToolUse(s *Session) []policy.Hook { return nil }
