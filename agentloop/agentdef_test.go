package agentloop

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"sandboxd/policy"
)

func TestDefinitionsAreRead(t *testing.T) {
	text := "---\r\nname: reviewer\r\ndescription: \"Reads: a change\"\ntools: Read, Grep, Bash(git diff *), Bash(git log -n 5, HEAD)\ndisallowedTools:\n  - Write\n  - Read(/private/**)\n" +
		"askTools: [\"Bash(git fetch *)\"]\ndelegateTools: Glob\nmodel: small\npermissionMode: plan\nmaxTurns: 5\ncolor: red\nhooks:\n  PreToolUse:\n    - x\n---\n\nYou review.\n---\nmore\n"
	got, err := ParseAgentDef("r.md", []byte(text))
	want := AgentDef{
		Name: "reviewer", Description: "Reads: a change", Prompt: "You review.\n---\nmore", Model: "small", Mode: "plan", MaxTurns: 5, File: "r.md",
		Tools: []string{"Read", "Grep", "Bash(git diff *)", "Bash(git log -n 5, HEAD)"}, Disallowed: []string{"Write", "Read(/private/**)"},
		Ask: []string{"Bash(git fetch *)"}, Delegate: []string{"Glob"},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v %v", got, err)
	}
	for text, want := range map[string][]string{"": nil, "tools: '*'\n": nil, "tools:\n": {}, "tools: []\n": {}, "tools: [Read, '*']\n": nil, "tools: Read\n": {"Read"}} {
		got, err := ParseAgentDef("x.md", []byte("---\nname: x\ndescription: y\n"+text+"---\n"))
		if err != nil || !reflect.DeepEqual(got.Tools, want) {
			t.Errorf("%q: %#v %v", text, got.Tools, err)
		}
	}
}

func TestBadDefinitionsHaveOneErrorWithItsPlace(t *testing.T) {
	for _, tt := range []struct {
		head string
		line int
		want string
	}{
		{"name: x\n", 0, "description is missing"},
		{"description: x\n", 0, "name is missing"},
		{"description: y\nname: ../x\n", 3, `name "../x"`},
		{"name: x\ndescription: y\npermissionMode: all\n", 4, "unknown mode"},
		{"name: x\ndescription: y\ndissallowedTools: Read\n", 4, `unknown field "dissallowedTools"`},
		{"name: x\ndescription: y\ndisallowed_tools: Read\n", 4, "did you mean disallowedTools?"},
		{"name: x\ndescription: y\nmaxTurns: -1\n", 4, "whole number"},
		{"name: x\ndescription: y\nmaxTurns: many\n", 4, "want a number"},
		{"name: x\ndescription: y\ntools: 7\n", 4, "want a list"},
		{"name: x\ndescription: y\ntools: [[a]]\n", 4, "list of texts"},
		{"name: x\ndescription: y\ntools: {a: b}\n", 4, "not read here"},
		{"name: x\ndescription: y\ntools: \"Bash(re:[)\"\n", 4, "tools: "},
		{"name: x\nname: y\ndescription: z\n", 3, ""},
		{"name: &a x\ndescription: *a\n", 2, "not read here"},
		{"name: x\ndescription: a: b\n", 3, "between quotes"},
		{"- a\n- b\n", 2, "field: value"},
		{"name: x\n", 0, ""},
		{strings.Repeat(" ", 100) + "name: x\n", 1, "nested too deep"},
		{"name: x\ndescription: " + strings.Repeat("y", maxFrontMatter) + "\n", 1, "bytes"},
	} {
		_, err := ParseAgentDef("dir/x.md", []byte("---\n"+tt.head+"---\nprompt\n"))
		bad, ok := errors.AsType[*AgentDefError](err)
		if !ok || bad.Line != tt.line || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "dir/x.md:") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, want line %d %q", tt.head, err, tt.line, tt.want)
		}
	}
	for _, text := range []string{"", "no front matter", "---\nname: x\n", "\xff", strings.Repeat("x", maxAgentDef+1)} {
		if _, err := ParseAgentDef("x.md", []byte(text)); err == nil {
			t.Errorf("%.20q is read", text)
		}
	}
}

func FuzzParseAgentDef(f *testing.F) {
	f.Add("---\nname: x\ndescription: y\ntools: Read, Bash(a, b)\n---\nprompt")
	f.Add("---\n? a\n: &x [*x]\n---\n")
	f.Fuzz(func(t *testing.T, text string) {
		d, err := ParseAgentDef("x.md", []byte(text))
		if err == nil && (!validAgentName(d.Name) || d.Description == "" || d.MaxTurns < 0) {
			t.Errorf("%q: %+v", text, d)
		}
		for _, r := range d.rules() {
			if r.Kind == policy.AllowRule {
				t.Errorf("%q allows %s", text, r.Pattern)
			}
		}
	})
}

func TestDefinitionsOfAUserComeFirstAndBadOnesHarmNobody(t *testing.T) {
	w := newWorld(t, func(p *PolicyInForce) {
		p.Config.Rules = []policy.Rule{rule(policy.DenyRule, "read_file(.claude/agents/hidden.md)")}
		p.TrustsHook = func(path string, content []byte) bool {
			return strings.HasSuffix(path, "/trusted.md") && strings.Contains(string(content), "honest")
		}
	})
	def := func(name, prompt string) string {
		return fmt.Sprintf("---\nname: %s\ndescription: d\n---\n%s\n", name, prompt)
	}
	write := func(rel, content string) { w.host.file(rel, content, 0o644) }
	write("home/u/.claude/agents/same.md", def("same", "the user's"))
	write("home/u/w/.claude/agents/same.md", def("same", "the checkout's"))
	write("home/u/w/.claude/agents/both.md", def("both", "claude"))
	write("home/u/w/.sandboxd/agents/both.md", def("both", "ours"))
	write("home/u/w/.claude/agents/trusted.md", def("trusted", "honest"))
	write("home/u/w/.claude/agents/hidden.md", def("hidden", "x"))
	write("home/u/w/.claude/agents/bad.md", "---\nname: bad\n---\n")
	write("home/u/w/.claude/agents/general.md", def("general", "of the checkout"))
	write("home/u/w/.claude/agents/notes.txt", def("notes", "x"))
	write("home/u/outside.md", def("outside", "a file of the user's"))
	dir := w.host.path("home/u/w/.claude/agents")
	if err := errors.Join(os.Symlink(w.host.path("home/u/outside.md"), filepath.Join(dir, "link.md")), syscall.Mkfifo(filepath.Join(dir, "fifo.md"), 0o644)); err != nil {
		t.Fatal(err)
	}
	w.s = w.session()
	defs, problems := w.s.AgentDefs(t.Context())
	got := map[string]string{}
	for _, d := range defs {
		got[d.Name] = fmt.Sprintf("%.8s %v %v", d.Prompt, d.Checkout, d.Trusted)
	}
	want := map[string]string{"same": "the user false true", "both": "ours true false", "trusted": "honest true true", "general": "You are  false false", "explore": "You are  false false"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("definitions %v", got)
	}
	if text := fmt.Sprint(problems); len(problems) != 3 || !strings.Contains(text, "bad.md: description is missing") || !strings.Contains(text, "link.md: ") || !strings.Contains(text, "fifo.md: no regular file") {
		t.Errorf("problems %v", problems)
	}
	if _, err := w.s.agentDef(t.Context(), "bad"); err == nil || !strings.Contains(err.Error(), "bad.md") {
		t.Errorf("a bad one: %v", err)
	}
	if d, err := w.s.agentDef(t.Context(), "general-purpose"); err != nil || d.Name != "general" {
		t.Errorf("%+v %v", d, err)
	}
	if _, err := w.s.agentDef(t.Context(), "nobody"); err == nil || !strings.Contains(err.Error(), "there are: both, explore, general, same, trusted") {
		t.Errorf("unknown: %v", err)
	}
}
