package policy

import (
	"errors"
	"testing"
)

func TestExamplesAreChecked(t *testing.T) {
	for _, tt := range []struct {
		name     string
		pattern  string
		kind     Kind
		match    []string
		notMatch []string
		ok       bool
	}{
		{"right", "run_bash(git push --force*)", DenyRule, []string{"git push --force origin x", "git push origin -f"}, []string{"git push origin x"}, true},
		{"match that does not", "run_bash(git push --force*)", DenyRule, []string{"git push origin x"}, nil, false},
		{"not_match that does", "run_bash(git *)", AskRule, nil, []string{"git log"}, false},
		{"path", "read_file(.env)", DenyRule, []string{".env", "a/.env"}, []string{"x.env"}, true},
		{"host", "web_fetch(*.a.test)", AllowRule, []string{"https://b.a.test/"}, []string{"https://a.test/"}, true},
		{"effect", "effect(write /etc/**)", DenyRule, []string{"/etc/passwd"}, []string{"/tmp/x"}, true},
		{"effect, delete", "effect(delete ./keep)", DenyRule, []string{"keep"}, []string{"drop"}, true},
		{"agent", "Agent(Explore)", DenyRule, []string{"Explore"}, []string{"Plan"}, true},
		{"server", "mcp__s__query(drop *)", DenyRule, []string{"drop table"}, []string{"select 1"}, true},
	} {
		_, err := NewRuleSet([]Rule{{Kind: tt.kind, Pattern: tt.pattern, Match: tt.match, NotMatch: tt.notMatch}}, Base{Workspace: "/w"})
		example, isExample := errors.AsType[*ExampleError](err)
		if (err == nil) != tt.ok || err != nil && !isExample {
			t.Errorf("%s: %v", tt.name, err)
		}
		if isExample && example.WantMatch != (len(tt.match) > 0) {
			t.Errorf("%s: %+v", tt.name, example)
		}
	}
}
