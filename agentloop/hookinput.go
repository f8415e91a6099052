package agentloop

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"sandboxd/policy"
)

// claudeToolNames are the names that hooks written for Claude Code know.
var claudeToolNames = map[string]string{
	"run_bash": "Bash", "read_file": "Read", "file_write": "Write", "file_edit": "Edit", "grep_files": "Grep", "glob_files": "Glob",
	"list_dir": "LS", "web_fetch": "WebFetch", "web_search": "WebSearch", "subagent": "Task", "load_skill": "Skill",
	"todo_write": "TodoWrite", "ask_user": "AskUserQuestion",
}

// hookMessage is what a hook reads: the fields of Claude Code's messages, and a
// few of ours. Fields that do not belong to an event are left out.
type hookMessage struct {
	SessionID      string `json:"session_id"`
	TranscriptPath string `json:"transcript_path"`
	Cwd            string `json:"cwd"`
	PermissionMode string `json:"permission_mode,omitempty"`
	HookEventName  string `json:"hook_event_name"`
	AgentID        string `json:"agent_id,omitempty"`
	AgentType      string `json:"agent_type,omitempty"`
	Step           int    `json:"step,omitempty"`
	ToolName       string `json:"tool_name,omitempty"`
	ToolInput      any    `json:"tool_input,omitempty"`
	ToolUseID      string `json:"tool_use_id,omitempty"`
	ToolResponse   any    `json:"tool_response,omitempty"`
	ToolStatus     Status `json:"tool_status,omitempty"`
	DurationMS     int64  `json:"duration_ms,omitempty"`
	Source         string `json:"source,omitempty"`
	Trigger        string `json:"trigger,omitempty"`
	Reason         string `json:"reason,omitempty"`
	Prompt         string `json:"prompt,omitempty"`
	StopHookActive *bool  `json:"stop_hook_active,omitempty"`
	LastMessage    string `json:"last_assistant_message,omitempty"`
}

// claudeResponse is the result of Bash as Claude Code tells it.
type claudeResponse struct {
	Stdout      string `json:"stdout"`
	Stderr      string `json:"stderr"`
	Interrupted bool   `json:"interrupted"`
	IsImage     bool   `json:"isImage"`
}

// input is the JSON text for standard input. The arguments stand under their
// main names, so that a guard that reads "command" sees a script that came as
// "cmd". A message past its bound is an error, never cut.
func (h *commandHook) input(e HookEvent) ([]byte, error) {
	m := hookMessage{SessionID: e.Session, Cwd: e.Cwd, HookEventName: h.kind.name, AgentID: e.Agent, AgentType: e.AgentType, Step: e.Step,
		ToolUseID: e.Call, ToolStatus: e.Status, DurationMS: e.Elapsed.Milliseconds(), Prompt: e.Prompt, LastMessage: e.LastMessage}
	if m.Cwd == "" {
		m.Cwd = h.env.Workspace
	}
	if h.env.Mode != nil {
		m.PermissionMode = h.env.Mode().String()
	}
	if h.kind.tool {
		args := policy.CanonicalArgs(e.Tool, e.Args)
		if args == nil {
			args = policy.Args{}
		}
		if !validText(map[string]any(args)) {
			return nil, errors.New("cannot be told of this call: its arguments are not UTF-8, and JSON would show others")
		}
		m.ToolName, m.ToolInput = h.toolName(e.Tool), args
	}
	switch h.kind.name {
	case EventPostToolUse:
		m.ToolResponse = e.Output
		if h.spec.ClaudeShape && policy.CanonicalTool(e.Tool) == "run_bash" {
			m.ToolResponse = claudeResponse{Stdout: e.Output, Interrupted: e.Status == StatusCancelled || e.Status == StatusTimeout}
		}
	case EventSessionStart:
		m.Source = e.Reason
	case EventPreCompact, EventPostCompact:
		m.Trigger = e.Reason
	case EventStop, EventSubagentStop:
		m.StopHookActive, m.Reason = &e.StopHookActive, e.Reason
	case EventSessionStop:
		m.Reason = e.Reason
		if h.spec.ClaudeShape {
			m.HookEventName = "SessionEnd"
		}
	default:
		m.Reason = e.Reason
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false) // a guard that looks for && with grep must find it
	if err := enc.Encode(m); err != nil {
		return nil, fmt.Errorf("cannot be told of this call: %w", err)
	}
	if text.Len() > maxHookInput {
		return nil, fmt.Errorf("cannot be told of this call: its message of %d bytes is larger than %d MiB", text.Len(), maxHookInput>>20)
	}
	return text.Bytes(), nil
}

// validText reports whether every text in v is UTF-8.
func validText(v any) bool {
	switch v := v.(type) {
	case string:
		return utf8.ValidString(v)
	case map[string]any:
		for k, x := range v {
			if !utf8.ValidString(k) || !validText(x) {
				return false
			}
		}
	case []any:
		for _, x := range v {
			if !validText(x) {
				return false
			}
		}
	}
	return true
}

// toolName is the name that the hook was written for.
func (h *commandHook) toolName(name string) string {
	canonical := policy.CanonicalTool(name)
	if h.spec.ClaudeShape {
		if known, ok := claudeToolNames[canonical]; ok {
			return known
		}
	}
	return canonical
}
