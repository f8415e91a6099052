package agentloop

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"sandboxd/policy"
)

// ErrNotHookMessage reports a message that is about no event of a hook.
var ErrNotHookMessage = errors.New("not a message to a hook")

// DecodeHookEvent reads the message that an agent client sends to a hook: Claude
// Code, Codex and Gemini CLI on standard input, opencode as the arguments of a
// plugin's function. Fields that are not known are left alone; names that stand
// twice are refused, since client and hook could read different calls.
func DecodeHookEvent(text []byte) (HookEvent, error) {
	m, err := policy.DecodeArgs(text)
	if err != nil {
		return HookEvent{}, fmt.Errorf("%w: %w", ErrNotHookMessage, err)
	}
	d := hookDecoder{m: m}
	e := d.event()
	if d.err != nil {
		return HookEvent{}, fmt.Errorf("%w: %w", ErrNotHookMessage, d.err)
	}
	return e, nil
}

// hookDecoder reads fields and keeps the first error.
type hookDecoder struct {
	m   map[string]any
	err error
}

func (d *hookDecoder) text(name string) string {
	s, ok := d.m[name].(string)
	if !ok && d.m[name] != nil && d.err == nil {
		d.err = fmt.Errorf("%s is no text", name)
	}
	return s
}

func (d *hookDecoder) object(name string) map[string]any {
	o, ok := d.m[name].(map[string]any)
	if !ok && d.m[name] != nil && d.err == nil {
		d.err = fmt.Errorf("%s is no object", name)
	}
	return o
}

func (d *hookDecoder) event() HookEvent {
	name := d.text("hook_event_name")
	if name == "" {
		return d.opencode()
	}
	kind, ok := findHookEvent(name)
	if !ok {
		d.err = fmt.Errorf("unknown event %q", name)
		return HookEvent{}
	}
	active, _ := d.m["stop_hook_active"].(bool)
	e := HookEvent{Event: kind.name, Session: d.text("session_id"), Agent: d.text("agent_id"), AgentType: d.text("agent_type"),
		Call: d.text("tool_use_id"), Tool: d.text("tool_name"), Args: d.object("tool_input"), Cwd: d.text("cwd"), Prompt: d.text("prompt"),
		LastMessage: d.text("last_assistant_message"), StopHookActive: active, Output: responseText(d.m["tool_response"])}
	for _, field := range []string{"source", "trigger", "reason"} {
		if s := d.text(field); s != "" {
			e.Reason = s
		}
	}
	if ms, ok := d.m["duration_ms"].(float64); ok {
		e.Elapsed = time.Duration(ms * float64(time.Millisecond))
	}
	if kind.tool && e.Tool == "" && d.err == nil {
		d.err = errors.New("tool_name is missing")
	}
	return e
}

// opencode reads {input, output} of tool.execute.before, and the event
// permission.asked.
func (d *hookDecoder) opencode() HookEvent {
	if event := d.object("event"); event != nil {
		d.m = event
		if d.text("type") != "permission.asked" {
			d.err = fmt.Errorf("event %q asks nothing", d.text("type"))
			return HookEvent{}
		}
		d.m = d.object("properties")
		e := HookEvent{Event: EventPermissionRequest, Session: d.text("sessionID"), Tool: d.text("permission"), Args: d.object("metadata")}
		d.m = d.object("tool")
		e.Call = d.text("callID")
		return e
	}
	in, out := d.object("input"), d.object("output")
	if in == nil || out == nil {
		d.err = errors.New("hook_event_name is missing")
		return HookEvent{}
	}
	d.m = in
	e := HookEvent{Event: EventPreToolUse, Session: d.text("sessionID"), Call: d.text("callID"), Tool: d.text("tool")}
	d.m = out
	e.Args = d.object("args")
	if e.Tool == "" && d.err == nil {
		d.err = errors.New("tool is missing")
	}
	return e
}

// responseText is the output of a tool: a text, or the text inside of what
// clients wrap it into, else the JSON as it is.
func responseText(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case map[string]any:
		if s, ok := v["stdout"].(string); ok {
			if e, ok := v["stderr"].(string); ok {
				s += e
			}
			return s
		}
		if s, ok := v["llmContent"].(string); ok {
			return s
		}
	}
	text, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(text)
}
