package settings

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sandboxd/policy"
)

func TestAddAndRemoveRuleKeepTheRestOfTheFile(t *testing.T) {
	add := policy.Rule{Kind: policy.AllowRule, Pattern: "run_bash(make *)"}
	for _, tt := range []struct{ name, before, after string }{
		{"no file", "", "[rules]\nallow = [\n  \"run_bash(make *)\",\n]\n"},
		{"no rules", "mode = \"plan\" # keep", "mode = \"plan\" # keep\n\n[rules]\nallow = [\n  \"run_bash(make *)\",\n]\n"},
		{"table without the list", "[rules] # ours\ndeny = [\"x\"]\n[limits]\ntasks = 3\n",
			"[rules] # ours\nallow = [\n  \"run_bash(make *)\",\n]\ndeny = [\"x\"]\n[limits]\ntasks = 3\n"},
		{"one line", "[rules]\nallow = [\"a\", \"b\"]\n", "[rules]\nallow = [\n  \"run_bash(make *)\",\n\"a\", \"b\"]\n"},
		{"empty list", "[rules]\nallow = []\n", "[rules]\nallow = [\n  \"run_bash(make *)\",\n]\n"},
		{"many lines and comments", "[rules]\nallow = [ # first\n  \"a\", # one\n  { rule = \"b\", reason = \"}]\" },\n  # last\n]\n",
			"[rules]\nallow = [\n  \"run_bash(make *)\", # first\n  \"a\", # one\n  { rule = \"b\", reason = \"}]\" },\n  # last\n]\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "policy.toml")
			if tt.before != "" {
				if err := os.WriteFile(path, []byte(tt.before), 0o640); err != nil {
					t.Fatal(err)
				}
			}
			owners := []int{os.Geteuid()}
			for range 2 { // the second time changes nothing
				if err := AddRule(path, add, owners); err != nil {
					t.Fatal(err)
				}
			}
			got, _ := os.ReadFile(path)
			if string(got) != tt.after {
				t.Errorf("after adding\n%s\nwant\n%s", got, tt.after)
			}
			ok, err := RemoveRule(path, policy.AllowRule, add.Pattern, owners)
			if !ok || err != nil {
				t.Fatalf("RemoveRule = %v, %v", ok, err)
			}
			got, _ = os.ReadFile(path)
			p, err := Parse(policy.Source{File: "p.toml"}, got)
			if err != nil || strings.Contains(string(got), "make") {
				t.Fatalf("after removing: %v\n%s", err, got)
			}
			before, err := Parse(policy.Source{File: "p.toml"}, []byte(tt.before))
			if err != nil {
				t.Fatal(err)
			}
			if len(p.Rules) != len(before.Rules) {
				t.Errorf("after removing: %d rules, want %d\n%s", len(p.Rules), len(before.Rules), got)
			}
			if ok, err := RemoveRule(path, policy.AllowRule, add.Pattern, owners); ok || err != nil {
				t.Errorf("removing again = %v, %v; want false", ok, err)
			}
		})
	}
}

func TestRemoveAnyItem(t *testing.T) {
	for _, text := range []string{
		"[rules]\ndeny = [\"a\", \"b\", \"c\"]\n",
		"[rules]\ndeny = [\"a\",\"b\" , \"c\" ,]\n",
		"[rules]\ndeny = [\n  \"a\",\n  # note, \"x\"\n  { rule = \"b\", match = [\"q\"] }, # why\n  \"c\"\n]\n",
		"[rules]\ndeny = [\n  \"a\"\n  , \"b\"\n  , \"c\"\n]\nask = [\"b\"]\n",
	} {
		for _, pattern := range []string{"a", "b", "c"} {
			out, ok := deleteRule([]byte(text), policy.DenyRule, pattern)
			if !ok {
				t.Errorf("%q: %s not found", text, pattern)
				continue
			}
			p, err := Parse(policy.Source{File: "p.toml"}, out)
			if err != nil {
				t.Errorf("%q without %s: %v\n%s", text, pattern, err, out)
				continue
			}
			var left []string
			for _, r := range p.Rules {
				if r.Kind == policy.DenyRule {
					left = append(left, r.Pattern)
				}
			}
			if got, want := strings.Join(left, ""), strings.Replace("abc", pattern, "", 1); got != want {
				t.Errorf("%q without %s leaves %q, want %q", text, pattern, got, want)
			}
		}
	}
}

func TestAddRuleRefusesWhatIsNoRule(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.toml")
	if err := os.WriteFile(path, []byte("rules = { deny = [\"x\"] }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := AddRule(path, policy.Rule{Kind: policy.DenyRule, Pattern: "y"}, []int{os.Geteuid()}); err == nil {
		t.Error("an inline table of rules was edited")
	}
}

// A rule that is there for some modes or days only does not stand for one without
// such limits: what is said to be added is in force.
func TestAddRuleBesideALimitedOne(t *testing.T) {
	for _, limited := range []string{`modes = ["plan"]`, `expires = 2020-01-01T00:00:00Z`, `except = ["rm x"]`} {
		path := filepath.Join(t.TempDir(), "policy.toml")
		before := "[rules]\ndeny = [\n  { rule = \"run_bash(rm *)\", " + limited + " },\n]\n"
		if err := os.WriteFile(path, []byte(before), 0o640); err != nil {
			t.Fatal(err)
		}
		want := strings.Replace(before, "deny = [\n", "deny = [\n  \"run_bash(rm *)\",\n", 1)
		for range 2 { // the second time it is there
			if err := AddRule(path, policy.Rule{Kind: policy.DenyRule, Pattern: "run_bash(rm *)"}, []int{os.Geteuid()}); err != nil {
				t.Fatalf("%s: %v", limited, err)
			}
			if got, err := os.ReadFile(path); err != nil || string(got) != want {
				t.Errorf("beside %s: %v, got\n%s\nwant\n%s", limited, err, got, want)
			}
		}
	}
}
