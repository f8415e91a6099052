package agentloop

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"sandboxd/policy"
)

type payloadFile struct {
	Client  string         `json:"client"`
	Channel string         `json:"channel"`
	Payload map[string]any `json:"payload"`
}

// TestHookPayloadsOfClients reads each message that a client was seen to send,
// fires its event at a real script, and compares what the script read with what
// the client had said.
func TestHookPayloadsOfClients(t *testing.T) {
	files, err := filepath.Glob("testdata/hooks/*.json")
	if err != nil || len(files) < 18 {
		t.Fatalf("%d fixtures, error %v", len(files), err)
	}
	b := newHookBench(t)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		if name == "answers-seen" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			b.t = t
			var f payloadFile
			text, err := os.ReadFile(file)
			if err == nil {
				err = json.Unmarshal(text, &f)
			}
			if err != nil {
				t.Fatal(err)
			}
			message, err := json.Marshal(f.Payload)
			if err != nil {
				t.Fatal(err)
			}
			e, err := DecodeHookEvent(message)
			if name == "opencode-event-permission-replied" {
				if !errors.Is(err, ErrNotHookMessage) {
					t.Errorf("an answer was read as a question: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			comparePayload(t, f, toldBy(b, e))
		})
	}
}

// toldBy is what a script reads on its standard input at e.
func toldBy(b *hookBench, e HookEvent) map[string]any {
	b.t.Helper()
	s := HookSpec{Event: e.Event, Command: "cat >&2; exit 2", ClaudeShape: true, Source: user()}
	h, err := newCommandHook(s, b.env)
	if err != nil {
		b.t.Fatal(err)
	}
	if !h.concerns(e) {
		b.t.Fatalf("%+v does not concern a hook for everything", e)
	}
	input, err := h.input(e)
	if err != nil {
		b.t.Fatal(err)
	}
	run, err := h.run(b.t.Context(), input)
	if err != nil {
		b.t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(run.stderr), &got); err != nil {
		b.t.Fatalf("the script read %q: %v", run.stderr, err)
	}
	return got
}

// ours are the names under which we tell what clients tell by others; empty
// fields are the client's own business.
var ours = map[string]string{"transcript_path": "", "prompt_id": "", "turn_id": "", "effort": "", "model": "", "timestamp": "",
	"permission_mode": "", "background_tasks": "", "session_crons": "", "hook_event_name": "", "tool_name": ""}

func comparePayload(t *testing.T, f payloadFile, got map[string]any) {
	t.Helper()
	if got["tool_name"] != nil {
		sent, _ := f.Payload["tool_name"].(string)
		if sent == "" {
			sent = "bash"
		}
		if policy.CanonicalTool(sent) != policy.CanonicalTool(got["tool_name"].(string)) {
			t.Errorf("tool %v, sent %v", got["tool_name"], sent)
		}
	}
	if name, ok := f.Payload["hook_event_name"].(string); ok {
		want, _ := CanonicalHookEvent(name)
		if told, _ := CanonicalHookEvent(got["hook_event_name"].(string)); told != want {
			t.Errorf("event %v, sent %v", got["hook_event_name"], name)
		}
		for field, sent := range f.Payload {
			if _, other := ours[field]; other {
				continue
			}
			told := got[field]
			if field == "tool_response" {
				told, sent = responseText(told), responseText(sent)
			}
			if !reflect.DeepEqual(told, sent) {
				t.Errorf("%s: the script read %v, the client sent %v", field, told, sent)
			}
		}
		return
	}
	input, _ := got["tool_input"].(map[string]any)
	if input["command"] != "touch made.txt && ls -la" || got["tool_use_id"] != "call_1" || got["session_id"] != "ses_x" {
		t.Errorf("the script read %v", got)
	}
}

// TestAnswersAsClientsTakeThem gives the answers of answers-seen.json. Where a
// client blocked we block; where one let a broken hook pass, only a hook that
// may fail does.
func TestAnswersAsClientsTakeThem(t *testing.T) {
	text, err := os.ReadFile("testdata/hooks/answers-seen.json")
	if err != nil {
		t.Fatal(err)
	}
	var seen map[string]json.RawMessage
	var claude map[string]string
	if err := errors.Join(json.Unmarshal(text, &seen), json.Unmarshal(seen["claude-code 2.1.197"], &claude)); err != nil {
		t.Fatal(err)
	}
	nested := func(decision, more string) string {
		return `echo '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"` + decision + `","permissionDecisionReason":"why"` + more + `}}'`
	}
	commands := map[string]string{
		"exit 2 + stderr": "echo why >&2; exit 2", "JSON deny, exit 0": nested("deny", ""), "JSON deny, exit 1": nested("deny", "") + "; exit 1",
		"JSON ask, headless": nested("ask", ""), "JSON allow": nested("allow", ""), "JSON allow + updatedInput": nested("allow", `,"updatedInput":{"command":"echo changed"}`),
		"top-level decision block (old form)": `echo '{"decision":"block","reason":"why"}'`, "exit 1, no JSON": "exit 1", "hook killed at its timeout": "sleep 100",
		"stdout not JSON, exit 0": "echo fine",
	}
	b := newHookBench(t)
	for answer, became := range claude {
		command, ok := commands[answer]
		if !ok {
			t.Errorf("answer %q is not tried", answer)
			continue
		}
		for _, mayFail := range []bool{false, true} {
			r := b.registry(HookSpec{Event: "PreToolUse", Matcher: "Bash", Command: command, Timeout: 1e9, ContinueOnFailure: mayFail, ClaudeShape: true, Source: user()})
			e, err := policy.NewEngine(policy.Config{Default: policy.Allow, Workspace: b.Cwd, Home: b.Home, Hooks: r.PreToolUse(nil)})
			if err != nil {
				t.Fatal(err)
			}
			d := e.Decide(t.Context(), bashCall("make test"))
			blocks := strings.HasPrefix(became, "blocked")
			want := policy.Allow
			if blocks || became == "RUNS" && !mayFail {
				want = policy.Deny
			}
			if d.Verdict != want {
				t.Errorf("%s (may fail: %v): %v because of %v; Claude Code: %s", answer, mayFail, d.Verdict, d.Reason, became)
			}
			if became == "the changed command runs" && d.Args["command"] != "echo changed" {
				t.Errorf("%s: runs %v", answer, d.Args)
			}
			if blocks && !strings.Contains(d.Reason.String(), "why") && answer != "JSON ask, headless" {
				t.Errorf("%s: the reason is %v", answer, d.Reason)
			}
		}
	}
}

func TestMessagesThatAreNoHookMessage(t *testing.T) {
	for _, text := range []string{"", "{}", "[]", "x", `{"hook_event_name":"Nothing"}`, `{"hook_event_name":5}`, `{"hook_event_name":"PreToolUse"}`,
		`{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_name":"Read"}`, `{"hook_event_name":"PreToolUse","tool_name":["Bash"]}`,
		`{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":"ls"}`, `{"input":{},"output":{}}`, `{"method":"initialize","id":0}`} {
		if e, err := DecodeHookEvent([]byte(text)); !errors.Is(err, ErrNotHookMessage) {
			t.Errorf("%s was read as %+v", text, e)
		}
	}
	// Fields and tools that are not known are no error.
	e, err := DecodeHookEvent([]byte(`{"hook_event_name":"PreToolUse","tool_name":"BrandNewTool","new_field":{"a":1}}`))
	if err != nil || e.Tool != "BrandNewTool" {
		t.Errorf("%+v, %v", e, err)
	}
}

// FuzzHookAnswer: no panic, and no text that holds a deny comes out milder.
func FuzzHookAnswer(f *testing.F) {
	for _, s := range []string{`{}`, `{"decision":"deny"}`, `{"hookSpecificOutput":{"permissionDecision":"deny"},"decision":"approve"}`, `{"continue":false}`, `{"decision":{"behavior":"allow"}}`, `{"a":{"b":[`} {
		f.Add(s, "PreToolUse")
	}
	f.Fuzz(func(t *testing.T, text, event string) {
		kind, ok := findHookEvent(event)
		if !ok {
			return
		}
		h := &commandHook{kind: kind}
		out, err := h.answer(hookRunResult{stdout: strings.TrimSpace(text)})
		a, bad := parseHookAnswer(text, kind)
		if bad == nil && (a.decision == "deny" || a.stop) && strings.HasPrefix(text, "{") && kind.blocks && (err != nil || out.Action != HookBlock) {
			t.Fatalf("%q at %s: %v, %v", text, event, out.Action, err)
		}
		if kind.failureBlocks && err == nil && out.Action != HookBlock && !strings.HasPrefix(strings.TrimSpace(text), "{") && strings.TrimSpace(text) != "" && !kind.plainContext {
			t.Fatalf("rubbish %q passed at %s", text, event)
		}
	})
}

func FuzzDecodeHookEvent(f *testing.F) {
	f.Add([]byte(`{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"}}`))
	f.Add([]byte(`{"input":{"tool":"bash"},"output":{"args":{}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		e, err := DecodeHookEvent(text)
		if err == nil {
			if kind, ok := findHookEvent(e.Event); !ok || kind.tool && e.Tool == "" {
				t.Fatalf("%q was read as %+v", text, e)
			}
		}
	})
}
