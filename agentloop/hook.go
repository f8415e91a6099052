package agentloop

import (
	"context"
	"slices"
	"time"

	"sandboxd/policy"
)

// The events at which hooks are asked or told. Each fires once at its point, for
// the lead and for each sub-agent.
const (
	EventSessionStart      = "SessionStart"
	EventSessionStop       = "SessionStop"
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

// hookEvent is what the kind of an event decides.
type hookEvent struct {
	name    string
	aliases []string // of the design documents and of other clients
	// blocks: a Block stops what was about to happen, and ends the chain.
	blocks bool
	// failureBlocks: so does a hook that fails, unless it may continue.
	failureBlocks bool
	// tool: the event is about a tool call, and matchers name tools.
	tool bool
	// plainContext: standard output that is no JSON object is context for the
	// model, as in Claude Code. Elsewhere it is shown to the user, and with
	// failureBlocks it is a failure.
	plainContext bool
}

// hookEvents is the table of docs/hooks.md.
var hookEvents = []hookEvent{
	{name: EventSessionStart, aliases: []string{"on_session_start"}, plainContext: true},
	{name: EventSessionStop, aliases: []string{"on_session_stop", "SessionEnd"}},
	{name: EventPreToolUse, aliases: []string{"pre_tool_use", "BeforeTool"}, blocks: true, failureBlocks: true, tool: true},
	{name: EventPostToolUse, aliases: []string{"post_tool_use", "AfterTool"}, tool: true},
	{name: EventStepComplete, aliases: []string{"on_step_complete"}},
	{name: EventSubagentStart, aliases: []string{"on_subagent_start"}, blocks: true, failureBlocks: true},
	{name: EventSubagentStop, aliases: []string{"on_subagent_stop"}, blocks: true},
	{name: EventPreCompact, aliases: []string{"on_pre_compact", "PreCompress"}, blocks: true},
	{name: EventPostCompact, aliases: []string{"on_post_compact"}},
	{name: EventPermissionRequest, aliases: []string{"on_permission_request"}, failureBlocks: true, tool: true},
	{name: EventUserPromptSubmit, aliases: []string{"on_prompt_submit"}, blocks: true, failureBlocks: true, plainContext: true},
	{name: EventStop, aliases: []string{"on_stop"}, blocks: true},
}

// CanonicalHookEvent returns our name of an event that a client or a design
// document calls name.
func CanonicalHookEvent(name string) (string, bool) {
	e, ok := findHookEvent(name)
	return e.name, ok
}

func findHookEvent(name string) (hookEvent, bool) {
	for _, e := range hookEvents {
		if e.name == name || slices.Contains(e.aliases, name) {
			return e, true
		}
	}
	return hookEvent{}, false
}

// Hook is asked at events. It is safe for concurrent use, returns soon after ctx
// has ended, and answers HookContinue to events that it does not care for.
type Hook interface {
	Name() string
	// Handle answers one event. An error, and a panic, is a failure of the hook:
	// it blocks where docs/hooks.md says so.
	Handle(ctx context.Context, e HookEvent) (HookOutcome, error)
}

// HookEvent is one event. The fields that do not belong to it are zero.
type HookEvent struct {
	Event string
	// Session, Agent and Call name whose event it is; Agent is empty for the lead,
	// AgentType the kind of a sub-agent.
	Session, Agent, AgentType, Call string
	Step                            int
	// Tool is the name that the client used. Args are the hook's own copy.
	Tool string
	Args policy.Args
	Cwd  string
	// Output is what the tool returned, for PostToolUse; Status says how the call
	// ended, and Elapsed how long it took. Result, when it is there, gives both.
	Output  string
	Status  Status
	Elapsed time.Duration
	Result  *ToolResult
	// Reason is why: the source of a start ("startup"), the end of a session or
	// loop, the trigger of a compaction, the reason of a question.
	Reason string
	// Prompt is what the user submitted.
	Prompt string
	// LastMessage is the agent's last text, for Stop and SubagentStop.
	LastMessage string
	// StopHookActive: the loop goes on because a Stop hook asked for it.
	StopHookActive bool
	// Generation is that of the policy which decided the call.
	Generation int64

	session *Session // nil outside of a session
}

// HookAction is what a hook wants. They are ordered: the smallest that a chain
// saw is the action of the chain, so a HookContinue overwrites nothing.
type HookAction uint8

const (
	// HookBlock is the zero value: a forgotten answer blocks. For a
	// PermissionRequest it denies.
	HookBlock HookAction = iota
	// HookPermissionRequired raises an allowed call to a question.
	HookPermissionRequired
	// HookMutateInput replaces the arguments (PreToolUse).
	HookMutateInput
	// HookMutateOutput replaces the output (PostToolUse).
	HookMutateOutput
	// HookAllow answers a PermissionRequest. Elsewhere it is HookContinue: no
	// hook lifts a rule or a question.
	HookAllow
	HookContinue
)

func (a HookAction) String() string {
	names := [...]string{"block", "permission-required", "mutate-input", "mutate-output", "allow", "continue"}
	if int(a) < len(names) {
		return names[a]
	}
	return "block"
}

// HookOutcome is a hook's answer. The zero value blocks.
type HookOutcome struct {
	Action HookAction
	Reason string
	// Args belong to HookMutateInput and HookPermissionRequired, Output to
	// HookMutateOutput. Nil changes nothing.
	Args   policy.Args
	Output *string
	// Context is text for the model.
	Context string
	// Permission and Tool say what HookPermissionRequired is about.
	Permission, Tool string
	// Message is text for the user.
	Message string
	// StopLoop ends the agent's loop after this call.
	StopLoop bool
}

// HookNotice is text of a hook for the user: a failure that let pass, the error
// text of a PostToolUse hook, a systemMessage.
type HookNotice struct {
	Time    time.Time `json:"time"`
	Hook    string    `json:"hook"`
	Event   string    `json:"event"`
	Session string    `json:"session_id"`
	Agent   string    `json:"agent_name,omitempty"`
	Call    string    `json:"call_id,omitempty"`
	Text    string    `json:"text"`
	Failed  bool      `json:"failed"`
}

// HookRun is one hook of a chain in a trace.
type HookRun struct {
	Hook    string        `json:"hook"`
	Action  string        `json:"action"` // of HookAction, or "failed"
	Text    string        `json:"text,omitempty"`
	Elapsed time.Duration `json:"elapsed_ns"`
}

// HookChainResult is what the hooks of one event said together.
type HookChainResult struct {
	// Action is the strongest that any of them wanted; HookContinue without any.
	Action HookAction
	// Blocked says that Action is HookBlock, By is the hook that wanted Action, and
	// Reason why.
	Blocked    bool
	By, Reason string
	// Args and Output are the last change; nil without one.
	Args   policy.Args
	Output *string
	// Context holds the texts for the model, in the order of the hooks.
	Context          []string
	Permission, Tool string
	StopLoop         bool
	// StopReason says which hook wanted StopLoop first, and why.
	StopReason string
	// Failed are hooks that failed and let pass.
	Failed []string
	// Runs are the hooks that were asked, in their order.
	Runs []HookRun
}
