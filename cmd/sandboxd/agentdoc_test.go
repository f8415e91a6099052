package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"sandboxd/agentloop"
	"sandboxd/agentloop/tools"
	"sandboxd/policy"
)

// The table of tools in docs/agent.md says what the code says.
func TestDocumentAndToolsAreTheSame(t *testing.T) {
	text, err := os.ReadFile("../../docs/agent.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "<!-- tools -->\n")
	table, _, ok := strings.Cut(table, "<!-- /tools -->")
	if !ok {
		t.Fatal("docs/agent.md has no table of tools")
	}
	rows := map[string][]string{}
	var order []string
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if name, ok := strings.CutPrefix(cells[0], "`"); ok && len(cells) == 5 {
			name = strings.TrimSuffix(name, "`")
			rows[name], order = cells[2:], append(order, name)
		}
	}
	words := map[agentloop.Interrupt]string{agentloop.InterruptCancel: "ends", agentloop.InterruptBlock: "finishes", agentloop.InterruptTerm: "stops"}
	yes := map[bool]string{true: "yes"}
	var offered []string
	for _, tool := range tools.All(tools.Options{}) {
		if _, ok := tool.(agentloop.Described); !ok {
			continue
		}
		traits := tool.Traits(policy.Args{})
		offered = append(offered, tool.Name())
		want := []string{yes[traits.ConcurrencySafe], yes[traits.ReadOnly], words[traits.Interrupt]}
		if got := rows[tool.Name()]; !slices.Equal(got, want) {
			t.Errorf("%s: docs/agent.md says %q, the code %q", tool.Name(), got, want)
		}
	}
	if !slices.Equal(order, offered) {
		t.Errorf("docs/agent.md has %q\nthe code has %q", order, offered)
	}
}
