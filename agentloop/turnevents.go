package agentloop

import (
	"encoding/json"
	"time"

	"sandboxd/policy"
)

// Types of events of a turn. They are published in the events of the session and
// given by [Agent.Turn], in this order for each step: step, text and thinking,
// tool call; then the events of its calls, of which decision, question, started
// and finished are those of the session ([EventCallDecided] and the others); then
// usage.
const (
	EventTurnStarted = "turn.started" // TurnStart
	EventTurnStep    = "turn.step"    // TurnStep
	// EventTurnText and EventTurnThinking are pieces of what the model says. They
	// are not kept: who comes later gets EventTurnMessage.
	EventTurnText     = "turn.text"     // TurnText
	EventTurnThinking = "turn.thinking" // TurnText
	EventTurnRetry    = "turn.retry"    // TurnRetry
	EventTurnMessage  = "turn.message"  // Message, whole
	EventTurnTool     = "turn.tool"     // TurnTool: a call is asked for
	EventTurnOutput   = "turn.output"   // TurnOutput: a piece of a command's output, not kept
	EventTurnResult   = "turn.result"   // TurnResultBlock: what the model is told
	EventTurnUsage    = "turn.usage"    // TurnUsage
	EventTurnNotice   = "turn.notice"   // TurnNotice: a limit nears, a reminder was put in
	EventTurnCompact  = "turn.compact"  // TurnCompaction
	EventTurnEnded    = "turn.ended"    // TurnEnd, the last one
)

// TurnEvent is one event of a turn with its data decoded: one of the types that
// stand beside the constants.
type TurnEvent struct {
	Type  string    `json:"type"`
	Time  time.Time `json:"time"`
	Agent string    `json:"agent,omitempty"` // empty for the lead
	Data  any       `json:"data"`
}

type TurnStart struct {
	Turn         string `json:"turn_id"`
	Conversation string `json:"conversation"`
	Prompt       string `json:"prompt"`
	Model        string `json:"model"`
	Provider     string `json:"provider"`
}

type TurnStep struct {
	Step int  `json:"step"`
	Max  int  `json:"max"`
	Last bool `json:"last,omitempty"` // the model must answer without tools
}

type TurnText struct {
	Step int    `json:"step"`
	Text string `json:"text"`
}

type TurnRetry struct {
	Attempt int           `json:"attempt"`
	Wait    time.Duration `json:"wait_ns"`
	Error   string        `json:"error"`
}

type TurnTool struct {
	Step   int             `json:"step"`
	CallID string          `json:"call_id"` // of the conversation
	Audit  string          `json:"audit_call_id"`
	Tool   string          `json:"tool"`
	Args   json.RawMessage `json:"args,omitempty"` // masked; absent when malformed
	Batch  int             `json:"batch"`          // calls of one batch run at once
}

type TurnOutput struct {
	CallID string `json:"call_id"`
	Stream string `json:"stream"` // stdout or stderr
	Text   string `json:"text"`
}

type TurnResultBlock struct {
	CallID  string           `json:"call_id"`
	Audit   string           `json:"audit_call_id,omitempty"`
	Tool    string           `json:"tool"`
	Status  Status           `json:"status"`
	Text    string           `json:"text"` // what the model is told
	File    string           `json:"file,omitempty"`
	Diff    string           `json:"diff,omitempty"`  // of a file that was changed
	Error   string           `json:"error,omitempty"` // one line: what went wrong
	Elapsed time.Duration    `json:"elapsed_ns"`
	Verdict *policy.Decision `json:"decision,omitempty"`
}

type TurnUsage struct {
	Step  int     `json:"step"`
	Usage Usage   `json:"usage"` // of this step
	Total Usage   `json:"total"` // of the turn
	Cost  float64 `json:"cost_usd,omitempty"`
}

type TurnNotice struct {
	Kind string `json:"kind"`
	Text string `json:"text"`
}

type TurnCompaction struct {
	Kind   string `json:"kind"` // micro, auto, manual
	Before int64  `json:"tokens_before"`
	After  int64  `json:"tokens_after"`
	Error  string `json:"error,omitempty"`
}

// EndReason is why a turn ended.
type EndReason string

const (
	EndCompleted   EndReason = "completed"   // the model answered
	EndMaxSteps    EndReason = "max-steps"   // it answered because it had to
	EndRepeated    EndReason = "repeated"    // the same calls again and again
	EndDiminishing EndReason = "diminishing" // steps without anything new
	EndTokens      EndReason = "tokens"      // the hard limit, and compaction does not help
	EndCost        EndReason = "cost"
	EndTime        EndReason = "time"
	EndDenials     EndReason = "denials"
	EndCancelled   EndReason = "cancelled"
	EndModel       EndReason = "model-error"
	EndRefusal     EndReason = "refusal"  // by the model
	EndHook        EndReason = "hook"     // a hook blocked the prompt or stopped the loop
	EndStore       EndReason = "store"    // the conversation could not be kept
	EndClosed      EndReason = "closed"   // the session ended
	EndSandbox     EndReason = "sandbox"  // no command of the session can be confined
	EndInternal    EndReason = "internal" // a bug of ours: the agent takes no more prompts
	EndBusy        EndReason = "busy"     // another turn of the agent runs: nothing was done
)

// TurnEnd is the result of a turn.
type TurnEnd struct {
	Reason EndReason `json:"reason"`
	// Text is the last answer of the model, or empty.
	Text  string `json:"text"`
	Error string `json:"error,omitempty"` // one line
	Steps int    `json:"steps"`
	Calls int    `json:"calls"`
	Usage Usage  `json:"usage"`
	// Cost is in US dollars; absent when no price is known.
	Cost    *float64      `json:"cost_usd,omitempty"`
	Elapsed time.Duration `json:"elapsed_ns"`

	Err error `json:"-"`
}
