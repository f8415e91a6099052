package settings

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"sandboxd/policy"
)

// The form of Claude Code, of our own tables, and in YAML mean the same hooks.
func TestHookForms(t *testing.T) {
	group := Hook{Event: "PreToolUse", Matcher: "Bash", Command: "./guard", Timeout: 5 * time.Second, ClaudeShape: true}
	other := Hook{Event: "PreToolUse", Matcher: "Bash", If: "Bash(git *)", Command: "./second", ClaudeShape: true}
	for name, text := range map[string]string{
		"p.toml": "[[hooks.PreToolUse]]\nmatcher = \"Bash\"\nhooks = [{type = \"command\", command = \"./guard\", timeout = 5}, {command = \"./second\", if = \"Bash(git *)\"}]\n",
		"p.yaml": "hooks:\n  pre_tool_use:\n    - matcher: Bash\n      hooks:\n        - type: command\n          command: ./guard\n          timeout: 5s\n        - command: ./second\n          if: Bash(git *)\n",
		"q.toml": "[[hooks.PreToolUse]]\nmatcher = \"Bash\"\ncommand = \"./guard\"\ntimeout = \"5s\"\nshape = \"claude\"\n[[hooks.PreToolUse]]\nmatcher = \"Bash\"\nif = \"Bash(git *)\"\ncommand = \"./second\"\nshape = \"claude\"\n",
	} {
		p, err := Parse(policy.Source{Kind: policy.SourceUser, File: name}, []byte(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for i := range p.Hooks {
			p.Hooks[i].Source = policy.Source{}
		}
		if !reflect.DeepEqual(p.Hooks, []Hook{group, other}) {
			t.Errorf("%s: %+v", name, p.Hooks)
		}
	}
}

func TestHooksThatCannotBeRead(t *testing.T) {
	for _, text := range []string{
		"[[hooks.PreToolUse]]\nmatcher = \"Bash\"\n", "[[hooks.PreToolUse]]\nhooks = [{}]\n", "[[hooks.PreToolUse]]\nhooks = \"x\"\n",
		"[[hooks.PreToolUse]]\ncommand = \"a\"\nhooks = [{command = \"b\"}]\n", "[[hooks.PreToolUse]]\nhooks = [{hooks = [{command = \"b\"}]}]\n",
		"[[hooks.PreToolUse]]\ncommand = \"a\"\ntype = \"http\"\n", "[[hooks.PreToolUse]]\ncommand = \"a\"\nwrite = \"yes\"\n",
		"[[hooks.PreToolUse]]\ncommand = \"a\"\nshape = \"gemini\"\n", "[[hooks.PreToolUse]]\ncommand = \"a\"\non_failure = \"pass\"\n", "[[hooks.PreToolUze]]\ncommand = \"a\"\n",
	} {
		if p, err := Parse(policy.Source{Kind: policy.SourceUser, File: "p.toml"}, []byte(text)); err == nil || !strings.Contains(err.Error(), "p.toml") {
			t.Errorf("%q: %+v, %v", text, p, err)
		}
	}
}
