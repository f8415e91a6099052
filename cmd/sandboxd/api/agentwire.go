package api

import (
	"context"
	"encoding/json"
	"math"
	"path/filepath"
	"slices"

	"sandboxd/agentloop"
)

// AgentRequest says which model works in a session, and within which limits. Zero
// fields leave what the table [agent] of the policy says.
type AgentRequest struct {
	Provider string `json:"provider,omitempty"` // anthropic, openai, openai-responses, scripted
	Model    string `json:"model,omitempty"`
	BaseURL  string `json:"base_url,omitempty"`
	// Script is the file of the scripted provider, absolute. It is opened with the
	// client's rights.
	Script Text `json:"script,omitempty"`
	// ScriptText is the script itself, in place of its file.
	ScriptText string `json:"script_text,omitempty"`
	// MaxSteps and TimeMS bound a turn, BudgetUSD the conversation.
	MaxSteps  int     `json:"max_steps,omitempty"`
	BudgetUSD float64 `json:"budget_usd,omitempty"`
	TimeMS    int64   `json:"time_ms,omitempty"`
	// Tools are the names that the model is offered; absent: all.
	Tools []string `json:"tools,omitempty"`
	// System is added to the system prompt.
	System string `json:"system,omitempty"`
	// Keys are variables that hold keys of model APIs. They are kept in memory and
	// nowhere else; after a restart of the daemon they are sent again. What env of
	// the session holds under the usual names is moved here.
	Keys map[string]string `json:"keys,omitempty"`
}

// Bounds of a request.
const (
	maxPromptBytes = 1 << 20
	// MaxDataBytes bounds what comes with a message, which the model gets whole: some
	// 16,000 tokens.
	MaxDataBytes   = 64 << 10
	maxSystemBytes = 256 << 10
	// MaxScriptBytes bounds a script of the scripted provider.
	MaxScriptBytes = 1 << 20
	maxKeys        = 16
	maxSteps       = 10_000
)

// check compares the fields with their bounds.
func (q *AgentRequest) check() error {
	switch {
	case q.Script != "" && !filepath.IsAbs(string(q.Script)):
		return fault(CodeBadRequest, "write it from / on", "the script %q is not absolute", q.Script)
	case q.Script != "" && q.ScriptText != "":
		return fault(CodeBadRequest, "", "script and script_text exclude each other")
	case len(q.ScriptText) > MaxScriptBytes:
		return fault(CodeTooLarge, "", "script_text is longer than %d bytes", MaxScriptBytes)
	case q.MaxSteps < 0 || q.MaxSteps > maxSteps || q.TimeMS < 0 || q.BudgetUSD < 0 || math.IsNaN(q.BudgetUSD) || math.IsInf(q.BudgetUSD, 0):
		return fault(CodeBadRequest, "", "max_steps, time_ms and budget_usd are bounds above zero")
	case len(q.System) > maxSystemBytes:
		return fault(CodeTooLarge, "", "system is longer than %d bytes", maxSystemBytes)
	case len(q.Keys) > maxKeys:
		return fault(CodeBadRequest, "", "more than %d keys", maxKeys)
	case q.Tools != nil && len(q.Tools) == 0:
		return fault(CodeBadRequest, "leave it out for all tools", "tools is empty")
	case slices.Contains(q.Tools, ""):
		return fault(CodeBadRequest, "", "a tool without a name")
	}
	return checkName("the script", q.Script)
}

// Config is the request in the words of the loop.
func (q *AgentRequest) Config() agentloop.AgentConfig {
	script := string(q.Script)
	if q.ScriptText != "" {
		script = "script_text"
	}
	return agentloop.AgentConfig{Provider: q.Provider, Model: q.Model, BaseURL: q.BaseURL, Script: script,
		Limits: agentloop.AgentLimits{MaxSteps: q.MaxSteps, Cost: q.BudgetUSD, Time: ownTime(q.TimeMS)}}
}

// Loop is the agent of one session, as [agentloop.Agent] is.
type Loop interface {
	RunAs(ctx context.Context, turn, prompt string, emit func(agentloop.TurnEvent)) agentloop.TurnEnd
	// Inject tells the model a text with the next request.
	Inject(origin agentloop.Origin, name, text string)
	Compact(ctx context.Context, focus string) (agentloop.TurnCompaction, error)
	// Conversation is the head of what it continues.
	Conversation() agentloop.Conversation
	// Held is how many bytes of it are in memory.
	Held() int64
	Close()
}

// AgentView is the agent of a session as it is shown.
type AgentView struct {
	Conversation string `json:"conversation_id"`
	Provider     string `json:"provider"`
	Model        string `json:"model"`
	Running      bool   `json:"running"`
	Turn         string `json:"turn_id,omitempty"` // the one that runs, or the last one
}

// MessageRequest is a message of a person, which begins a turn.
type MessageRequest struct {
	Text string `json:"text"`
	// Data comes with the text, 64 KiB at most: the model gets it framed as data, which
	// is nobody's words. DataName says what it is from.
	Data     string `json:"data,omitempty"`
	DataName string `json:"data_name,omitempty"`
	// Stream: the answer is the events of the turn, until its end.
	Stream bool `json:"stream,omitempty"`
	// Agent makes the agent of a session that has none, or replaces it.
	Agent *AgentRequest `json:"agent,omitempty"`
}

// TurnAccepted is the answer to a message: the turn runs.
type TurnAccepted struct {
	Session      string `json:"session_id"`
	Conversation string `json:"conversation_id"`
	Turn         string `json:"turn_id"`
	// After is the id of the last event before the turn: its events follow.
	After int64 `json:"after"`
}

// EventTurnAccepted tells which turn's events follow. Its data is a [TurnAccepted].
const EventTurnAccepted = "turn.accepted"

// MessageList is what was said in a session.
type MessageList struct {
	Session      string              `json:"session_id"`
	Conversation string              `json:"conversation_id,omitempty"`
	Running      bool                `json:"running"`
	Messages     []agentloop.Message `json:"messages"`
	// End is that of the last turn, if it has ended.
	End *agentloop.TurnEnd `json:"end,omitempty"`
}

// CompactRequest asks for the conversation of a session to be summarised.
type CompactRequest struct {
	// Focus is what the summary must keep.
	Focus string `json:"focus,omitempty"`
}

// ConversationList is the answer of GET /api/chat/conversations.
type ConversationList struct {
	Conversations []agentloop.Conversation `json:"conversations"`
}

// ConversationView is one conversation with all its entries.
type ConversationView struct {
	Conversation agentloop.Conversation `json:"conversation"`
	Entries      []agentloop.Entry      `json:"entries"`
}

// NewFault makes an error for the wire.
func NewFault(code Code, hint, format string, args ...any) error {
	return fault(code, hint, format, args...)
}

// TurnData decodes the data of an event of a turn, which is that of [agentloop.Event].
func TurnData[T any](e agentloop.Event) (T, error) {
	var v T
	err := json.Unmarshal(e.Data, &v)
	return v, err
}

// ResultData is TurnData of [agentloop.EventTurnResult], without the decision:
// its reason is of one of many types, and stands in the event call.decided.
func ResultData(e agentloop.Event) (agentloop.TurnResultBlock, error) {
	var v struct {
		agentloop.TurnResultBlock
		Verdict json.RawMessage `json:"decision"`
	}
	err := json.Unmarshal(e.Data, &v)
	return v.TurnResultBlock, err
}
