package test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRuleKindsRoundTrip is row 21: what a rule of each kind says goes from a
// policy file, and from the API, into the list of rules, the answer and the log.
func TestRuleKindsRoundTrip(t *testing.T) {
	d := startDaemon(t, os.Getuid())
	s := d.scene
	policy := filepath.Join(s.Out, "policy.toml")
	s.file(policy, `[rules]
deny = [{ rule = "run_bash(git push *)", reason = "reason of the file" }]
ask = [{ rule = "run_bash(make *)", message = "message of the file" }]
allow = ["run_bash(true file)"]
`)
	s.must(os.Chmod(policy, 0o644))
	session := strings.TrimSpace(s.sbxTo(d, "sessions", "new", "--policy", policy, "--workspace", s.Work).Stdout)
	for _, args := range [][]string{
		{"deny", "--reason", "reason of the session", session, "run_bash(git fetch *)"},
		{"ask", "--reason", "message of the session", session, "run_bash(ninja *)"},
		{"allow", session, "run_bash(true session)"},
	} {
		if r := s.sbxTo(d, append([]string{"sessions"}, args...)...); r.Code != 0 {
			t.Fatalf("%q: exit %d: %s", args, r.Code, r.Stderr)
		}
	}
	rules := s.sbxTo(d, "sessions", "rules", "--json", session).Stdout
	for _, tt := range []struct {
		kind, rule, reason, source string
		argv                       []string
		code                       int
	}{
		{"deny", "run_bash(git push *)", "reason of the file", "cli", []string{"git", "push", "x"}, 126},
		{"ask", "run_bash(make *)", "message of the file", "cli", []string{"make", "x"}, 126},
		{"allow", "run_bash(true file)", "", "cli", []string{"true", "file"}, 0},
		{"deny", "run_bash(git fetch *)", "reason of the session", "session", []string{"git", "fetch", "x"}, 126},
		{"ask", "run_bash(ninja *)", "message of the session", "session", []string{"ninja", "x"}, 126},
		{"allow", "run_bash(true session)", "", "session", []string{"true", "session"}, 0},
	} {
		var list struct {
			Rules []struct{ Kind, Rule, Source, Reason string }
		}
		s.must(json.Unmarshal([]byte(rules), &list))
		found := false
		for _, r := range list.Rules {
			found = found || r.Kind == tt.kind && r.Rule == tt.rule && r.Source == tt.source && r.Reason == tt.reason
		}
		if !found {
			t.Errorf("%s %s is not in the list as written:\n%s", tt.kind, tt.rule, rules)
		}
		r := s.sbxTo(d, append([]string{"exec", "--session", session, "--"}, tt.argv...)...)
		if r.Code != tt.code || tt.kind == "deny" && !strings.Contains(r.Stderr, tt.reason) {
			t.Errorf("%q exits %d, want %d: %s", tt.argv, r.Code, tt.code, r.Stderr)
		}
		rows := s.sbxTo(d, "audit", "--json", "--session", session, "--text", strings.Join(tt.argv, " ")).Stdout
		if !strings.Contains(rows, `"pattern":"`+tt.rule+`"`) || !strings.Contains(rows, `"kind":"`+tt.kind+`"`) || !strings.Contains(rows, tt.reason) {
			t.Errorf("the log of %q does not name the rule:\n%s", tt.argv, rows)
		}
	}
}
