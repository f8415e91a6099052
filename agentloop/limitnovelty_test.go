package agentloop

import (
	"fmt"
	"strings"
	"testing"
)

// linesOf is a text of n lines of one kind.
func linesOf(kind string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%s line %d\n", kind, i)
	}
	return b.String()
}

// failing is an allowed call that could not be done.
func failing(text string) ToolResult {
	res := allowed("")
	res.Status, res.Error = StatusFail, text
	return res
}

func TestStepsWithoutNewsEndTheTurn(t *testing.T) {
	read := Traits{ReadOnly: true}
	for _, tt := range []struct {
		name  string
		tool  string
		t     Traits
		steps func(i int) ToolResult
		ends  bool
	}{
		{"the same listing by other means", "run_bash", Traits{}, func(i int) ToolResult { return allowed(linesOf("a", 20)) }, true},
		{"timings differ", "run_bash", Traits{}, func(i int) ToolResult {
			return allowed(fmt.Sprintf("ok  \tsandboxd/policy\t0.%d12s\n10:2%d:07 done in 1m%d.5s\n", i, i%10, i))
		}, true},
		{"searches that find nothing", "grep_files", read, func(i int) ToolResult { return allowed("no match\n") }, true},
		{"one line of many is new", "run_bash", Traits{}, func(i int) ToolResult { return allowed(linesOf("a", 40) + fmt.Sprint("new ", i)) }, true},
		{"the same error", "read_file", read, func(i int) ToolResult { return failing("no such file") }, true},
		{"pages of a file", "read_file", read, func(i int) ToolResult { return allowed(linesOf(fmt.Sprint("page", i), 20)) }, false},
		{"a tenth of a log is new", "run_bash", Traits{}, func(i int) ToolResult { return allowed(linesOf("a", 8) + fmt.Sprintf("line %d is new\n", i)) }, false},
		{"edits say the same", "file_edit", Traits{}, func(i int) ToolResult { return allowed("edited\n") }, false},
		{"commands that say nothing", "run_bash", Traits{}, func(i int) ToolResult { return allowed("") }, false},
		{"failing edits", "file_edit", Traits{}, func(i int) ToolResult { return failing("no match") }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, _ := testLimits(AgentLimits{MaxSteps: -1}, nil)
			for step := 1; step <= 40; step++ {
				if got := l.before(step, 0); got.End != "" {
					// The first step is new; four stale ones follow it.
					if !tt.ends || got.End != EndDiminishing || !got.Last || step != 6 {
						t.Fatalf("step %d: %+v", step, got)
					}
					return
				}
				l.result(tt.tool, tt.t, tt.steps(step))
			}
			if tt.ends {
				t.Error("it goes on for ever")
			}
		})
	}
}

func TestOneNewStepStartsTheCountAnew(t *testing.T) {
	l, _ := testLimits(AgentLimits{MaxSteps: -1}, nil)
	for step := 1; step <= 60; step++ {
		if got := l.before(step, 0); got.End != "" {
			t.Fatalf("step %d: %+v", step, got)
		}
		text := "same\n"
		if step%4 == 0 {
			text = fmt.Sprintf("found number%d\n", step)
		}
		l.result("grep_files", Traits{ReadOnly: true}, allowed(text))
	}
}

// TestWhatTheModelWroteIsNoNews: a model that reads back its own words learns
// nothing.
func TestWhatTheModelWroteIsNoNews(t *testing.T) {
	l, _ := testLimits(AgentLimits{MaxSteps: -1}, nil)
	for step := 1; step <= 20; step++ {
		if got := l.before(step, 0); got.End != "" {
			if got.End != EndDiminishing || step != 5 {
				t.Errorf("step %d: %+v", step, got)
			}
			return
		}
		text := fmt.Sprintf("progress mark%d", step)
		args := fmt.Sprintf(`{"command":"cat <<E\n%s\nE"}`, text)
		l.answer(Message{Blocks: []Block{{Kind: BlockText, Text: "I go on."}, {Kind: BlockToolUse, Tool: "run_bash", Args: args}}}, Usage{})
		l.result("run_bash", Traits{}, allowed(text+"\n"))
	}
	t.Error("it goes on for ever")
}

func TestWordsThatVary(t *testing.T) {
	for word, want := range map[string]bool{
		"0.31s": true, "12ms": true, "(0.00s)": true, "1m2.5s": true, "10:21:07.123": true, "2026-11-30T19:53:39Z": true,
		"2026-11-30": true, "0xc000012345": true, "17": false, "1.5": false, "v1.2.3": false, "3rd": false, "a": false, "": false,
		"0x1f": false, "192.168.0.1": false, "404": false, "12:30": false,
	} {
		if got := varies(word); got != want {
			t.Errorf("varies(%q) = %v", word, got)
		}
	}
}
