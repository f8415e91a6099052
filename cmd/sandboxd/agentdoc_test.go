package main

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

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

// The tables of limits in docs/agent.md and docs/models.md have every limit of a turn,
// with the default that holds, and no other.
func TestDocumentedLimitsOfAgentsAreThoseOfTheLoop(t *testing.T) {
	want := map[string]string{}
	defaults := reflect.ValueOf(agentloop.AgentLimits{}.OrDefault())
	keys := maps.Clone(limitKeys)
	maps.Copy(keys, map[string]string{"Cost": "budget", "Time": "time", "Silence": "silence", "DenialsInARow": "denials_in_row", "DenialsTotal": "denials_total"})
	for i := range defaults.NumField() {
		name := defaults.Type().Field(i).Name
		if keys[name] == "" {
			t.Errorf("no key is known for %s", name)
			continue
		}
		want[keys[name]] = shownLimit(defaults.Field(i))
	}
	denials := want["denials_in_row"] + ", " + want["denials_total"]
	delete(want, "denials_in_row")
	delete(want, "denials_total")
	for _, name := range []string{"agent.md", "models.md"} {
		text, err := os.ReadFile("../../docs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		_, table, _ := strings.Cut(string(text), "\n| limit | default |")
		table, _, _ = strings.Cut(table, "\n\n")
		got, said := map[string]string{}, ""
		for _, line := range strings.Split(table, "\n")[2:] {
			cells := strings.Split(line, "|")
			if len(cells) < 4 {
				t.Fatalf("%s: %q is no row", name, line)
			}
			limits, usual := strings.TrimSpace(cells[1]), strings.TrimSpace(cells[2])
			if limits == "denials" {
				said = usual
				continue
			}
			many := strings.Split(limits, ", ")
			values := []string{usual}
			if len(many) > 1 {
				values = strings.Split(usual, ", ")
			}
			for i, limit := range many {
				if i < len(values) {
					got[strings.Trim(limit, "`")] = values[i]
				}
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s has the limits\n%v\nthe loop\n%v", name, got, want)
		}
		if name == "agent.md" && said != denials {
			t.Errorf("%s has denials %s, the loop %s", name, said, denials)
		}
	}
}

// shownLimit is a default as the documents write it.
func shownLimit(v reflect.Value) string {
	if v.IsZero() {
		return "none"
	}
	if d, ok := v.Interface().(time.Duration); ok {
		return fmt.Sprintf("%d min", int(d.Minutes()))
	}
	text := fmt.Sprint(v.Interface())
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}
