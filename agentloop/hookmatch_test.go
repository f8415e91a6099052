package agentloop

import (
	"errors"
	"strings"
	"testing"

	"sandboxd/policy"
)

func TestHookMatchers(t *testing.T) {
	b := newHookBench(t)
	bash := func(script string) HookEvent {
		return HookEvent{Tool: "run_bash", Args: policy.Args{"command": script}}
	}
	edit := HookEvent{Tool: "file_edit", Args: policy.Args{"file_path": "src/a.ts"}}
	mcp := HookEvent{Tool: "mcp__github__create_issue"}
	for _, tt := range []struct {
		matcher, condition string
		e                  HookEvent
		want               bool
	}{
		{"", "", bash("ls"), true}, {"*", "", edit, true},
		{"Bash", "", bash("ls"), true}, {"run_bash", "", bash("ls"), true}, {"run_shell_command", "", bash("ls"), true}, {"Bash", "", edit, false},
		{"bash|Edit", "", edit, true}, {"Edit | Write", "", edit, true}, {"Ed", "", edit, false},
		{"Write|MultiEdit", "", edit, true}, // MultiEdit is another name of the same tool
		{"Edit.*", "", edit, true}, {"^Bash$", "", bash("ls"), true}, {"(Edit|Write)", "", edit, true}, {".*", "", mcp, true},
		{"mcp__github__.*", "", mcp, true}, {"mcp__github", "", mcp, true}, {"mcp__git", "", mcp, false}, {"mcp__.*__create.*", "", mcp, true}, {"mcp__slack__.*", "", mcp, false},
		{"Bash(rm *)", "", bash("rm -rf x"), true}, {"Bash(rm *)", "", bash("ls"), false}, {"Bash(rm *)", "", edit, false},
		{"Bash(rm *)", "", bash("cd x && sudo rm -rf y"), true}, {"Bash(rm *)", "", bash("sh -c 'rm x'"), true},
		{"Bash", "Bash(git push *)", bash("git -C r push origin"), true}, {"Bash", "Bash(git push *)", bash("git pull"), false},
		{"Edit", "Edit(src/**)", edit, true}, {"Edit", "Edit(docs/**)", edit, false}, {"Write", "Edit(src/**)", HookEvent{Tool: "file_write", Args: policy.Args{"file_path": "x"}}, false},
	} {
		s := HookSpec{Event: "PreToolUse", Matcher: tt.matcher, If: tt.condition, Command: "true", Source: user()}
		h, err := newCommandHook(s, b.env)
		if err != nil {
			t.Errorf("matcher %q, if %q: %v", tt.matcher, tt.condition, err)
			continue
		}
		if got := h.concerns(tt.e); got != tt.want {
			t.Errorf("matcher %q, if %q of %s %v: %v, want %v", tt.matcher, tt.condition, tt.e.Tool, tt.e.Args, got, tt.want)
		}
	}
}

func TestMatchersOfOtherEvents(t *testing.T) {
	b := newHookBench(t)
	for _, tt := range []struct {
		event, matcher string
		e              HookEvent
		want           bool
	}{
		{"SessionStart", "startup|resume", HookEvent{Reason: "resume"}, true}, {"SessionStart", "startup", HookEvent{Reason: "clear"}, false},
		{"PreCompact", "manual", HookEvent{Reason: "auto"}, false}, {"PreCompact", "", HookEvent{Reason: "auto"}, true},
		{"SubagentStop", "reviewer", HookEvent{AgentType: "reviewer", Agent: "a1"}, true}, {"SubagentStop", "reviewer", HookEvent{AgentType: "worker"}, false},
	} {
		h, err := newCommandHook(HookSpec{Event: tt.event, Matcher: tt.matcher, Command: "true", Source: user()}, b.env)
		if err != nil {
			t.Fatal(err)
		}
		if got := h.concerns(tt.e); got != tt.want {
			t.Errorf("%s %q: %v, want %v", tt.event, tt.matcher, got, tt.want)
		}
	}
}

// A guard that cannot be read is refused, it never guards nothing.
func TestHooksThatCannotBeUsedAreRefused(t *testing.T) {
	b := newHookBench(t)
	good := HookSpec{Event: "PreToolUse", Command: "true", Source: project()}
	for name, change := range map[string]func(*HookSpec){
		"a broken pattern":                   func(s *HookSpec) { s.Matcher = "Edit[" },
		"a pattern of another language":      func(s *HookSpec) { s.Matcher = "(?!Bash).*" },
		"an empty name":                      func(s *HookSpec) { s.Matcher = "Edit||Write" },
		"a rule of no tool":                  func(s *HookSpec) { s.Matcher = "mcp__(a|b)" },
		"a misspelled tool in a rule":        func(s *HookSpec) { s.Matcher = "Bsh(rm *)" },
		"a rule that cannot be read":         func(s *HookSpec) { s.If = "Bash(rm" },
		"a condition that cannot be read":    func(s *HookSpec) { s.If = "Bash(re:[)" },
		"a rule at an event without a call":  func(s *HookSpec) { s.Event, s.If = "SessionStart", "Bash(rm *)" },
		"a matching rule without a call":     func(s *HookSpec) { s.Event, s.Matcher = "Stop", "Bash(rm *)" },
		"an unknown event":                   func(s *HookSpec) { s.Event = "PreToolUs" },
		"no command":                         func(s *HookSpec) { s.Command = " \n" },
		"a NUL byte":                         func(s *HookSpec) { s.Command = "true\x00false" },
		"a negative timeout":                 func(s *HookSpec) { s.Timeout = -1 },
		"writing asked for by a project":     func(s *HookSpec) { s.Write = true },
		"the network asked for by a project": func(s *HookSpec) { s.Network = []string{"full"} },
	} {
		s := good
		change(&s)
		r, err := NewHookRegistry(HookRegistryOptions{Specs: []HookSpec{good, s}, Env: b.env})
		var he *HookError
		if r != nil || !errors.As(err, &he) || !strings.Contains(err.Error(), "sandboxd.toml:7") {
			t.Errorf("%s: registry %v, error %v", name, r != nil, err)
		}
	}
	if _, err := NewHookRegistry(HookRegistryOptions{Specs: []HookSpec{good}, Env: b.env}); err != nil {
		t.Errorf("the good one: %v", err)
	}
}
