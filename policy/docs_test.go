package policy

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestDocsHoldTheTables: what is published is what the code does.
func TestDocsHoldTheTables(t *testing.T) {
	text, err := os.ReadFile("../docs/dangerous-commands.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	if !strings.Contains(page, fmt.Sprintf("Version %d.", DangerTableVersion)) {
		t.Errorf("the page does not name version %d", DangerTableVersion)
	}
	for _, d := range Dangers() {
		row := fmt.Sprintf("| `%s` | %s | %s |\n", d.Pattern, d.Kind, d.Reason)
		if !strings.Contains(page, row) {
			t.Errorf("docs/dangerous-commands.md lacks %s", row)
		}
		page = strings.Replace(page, row, "", 1)
	}
	if strings.Contains(page, "| `") {
		t.Error("docs/dangerous-commands.md lists what the table does not hold")
	}
	text, err = os.ReadFile("../docs/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range Stages() {
		if row := fmt.Sprintf("| %d | `%s` |", i+1, s); !strings.Contains(string(text), row) {
			t.Errorf("docs/policy.md lacks %s", row)
		}
	}
	for _, m := range Modes() {
		if !strings.Contains(string(text), "| `"+m.String()+"` |") {
			t.Errorf("docs/policy.md lacks mode %v", m)
		}
	}
}

func ExampleEngine_Check() {
	e, err := NewEngine(Config{
		Workspace: "/w", Home: "/home/me", Default: Ask,
		Rules: []Rule{
			{Kind: DenyRule, Pattern: "run_bash(git push --force*)", Reason: "history is shared", Source: Source{Kind: SourceProject, File: "sandboxd.toml", Line: 3}},
			{Kind: AllowRule, Pattern: "run_bash(go test *)"},
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, script := range []string{"go test ./... | tail -3", "cd r && timeout 9 git -C x push origin -f", "make"} {
		d := e.Check(context.Background(), BashCall(script, "/w"))
		fmt.Println(d.Verdict, "-", d.Reason)
	}
	// Output:
	// allow - rule allow run_bash(go test *), managed policy
	// deny - rule deny run_bash(git push --force*), project policy sandboxd.toml:3: history is shared
	// ask - no rule allows make
}
