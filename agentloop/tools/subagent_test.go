package tools

import (
	"strings"
	"testing"

	"sandboxd/agentloop"
	"sandboxd/policy"
)

func TestSubAgentAnswersItsParent(t *testing.T) {
	w := newWorld(t, denying("file_write"))
	w.file("deep/fact.txt", "the fact is 42\n")
	a, m := w.agent(
		calls("subagent", policy.Args{"prompt": "find the fact", "subagent_type": "explore", "description": "a search"}),
		calls("grep_files", policy.Args{"pattern": "fact is"}), calls("file_write", policy.Args{"file_path": "x", "content": "y"}), says("42, in deep/fact.txt"),
		says("it is 42"))
	if end := a.Run(t.Context(), "what is the fact?", nil); end.Text != "it is 42" {
		t.Fatalf("%+v", end)
	}
	if res := result(a); res.Status != agentloop.StatusOK || res.Text != "42, in deep/fact.txt" {
		t.Errorf("%+v", res)
	}
	var offered []string
	for _, s := range m.requests[1].Tools {
		offered = append(offered, s.Name)
	}
	if got := strings.Join(offered, " "); got != "glob_files grep_files list_dir read_file read_result" {
		t.Errorf("offered %s", got)
	}
	if !strings.Contains(m.sent(2), "\ndeep/fact.txt") || !strings.Contains(m.sent(3), "there is no tool") {
		t.Errorf("the child is told %s", m.sent(3))
	}
	if text := m.sent(0); !strings.Contains(text, "- explore: Reads and searches files") || strings.Contains(m.sent(1), "- explore: ") {
		t.Error("the types are not listed, or to the child too")
	}
}

func TestSubAgentsThatCannotStart(t *testing.T) {
	w := newWorld(t, nil)
	w.file(".claude/agents/bad.md", "---\nname: bad\ntols: Read\n---\n")
	for _, tt := range []struct {
		args policy.Args
		want string
	}{
		{policy.Args{}, "argument prompt is missing"},
		{policy.Args{"prompt": "x", "subagent_type": "nobody"}, `no sub-agent of type "nobody"; there are: explore, general`},
		{policy.Args{"prompt": "x", "subagent_type": "bad"}, "bad.md:3: unknown field"},
		{policy.Args{"prompt": "x", "mode": "all"}, "unknown mode"},
		{policy.Args{"prompt": "x", "max_turns": -1.0}, "argument max_turns"},
		{policy.Args{"prompt": "x", "tools": 3.0}, "argument tools"},
		{policy.Args{"prompt": "x", "run_in_background": true}, "is waited for"},
		{policy.Args{"prompt": strings.Repeat("x", 70_000)}, "at most"},
	} {
		a, m := w.agent(calls("subagent", tt.args), says("done"))
		a.Run(t.Context(), "go", nil)
		if res := result(a); res.Status != agentloop.StatusFail || !strings.Contains(res.Text, tt.want) || len(m.requests) != 2 {
			t.Errorf("%.60v: %+v", tt.args, res)
		}
	}
	if res := w.call("subagent", policy.Args{"prompt": "x"}); !strings.Contains(res.Error, "started by an agent") {
		t.Errorf("without a loop: %+v", res)
	}
}

// TestSubAgentAsksNobody is row 125: the error comes at once, although a person is
// there.
func TestSubAgentAsksNobody(t *testing.T) {
	w := newWorld(t, nil)
	a, m := w.agent(calls("subagent", policy.Args{"prompt": "x"}), calls("ask_user", policy.Args{"question": "may I?"}), says("x"), says("y"))
	a.Run(t.Context(), "go", nil)
	if !strings.Contains(m.sent(2), "a sub-agent works silently and asks nobody") {
		t.Errorf("told %s", m.sent(2))
	}
	for _, s := range m.requests[1].Tools {
		if s.Name == "ask_user" {
			t.Error("it is offered")
		}
	}
}

// TestSubAgentThatFails tells why, and what it said so far.
func TestSubAgentThatFails(t *testing.T) {
	w := newWorld(t, nil)
	a, _ := w.agent(calls("subagent", policy.Args{"prompt": "x", "max_turns": 1.0}), says("cut short"), calls("subagent", policy.Args{"prompt": "x"}))
	a.Run(t.Context(), "go", nil)
	var texts []string
	for _, msg := range a.Messages() {
		for _, b := range msg.Blocks {
			if b.Kind == agentloop.BlockToolResult {
				texts = append(texts, string(b.Status)+" "+b.Text)
			}
		}
	}
	if len(texts) != 2 || texts[0] != "ok cut short\n[it had to answer: step 1 of 1]" || !strings.Contains(texts[1], "fail [error: the sub-agent gave no answer (model-error)") {
		t.Errorf("%q", texts)
	}
}
