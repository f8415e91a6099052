package main

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"sandboxd/policy"
	"sandboxd/policy/settings"
)

// shown is one line of sbx policy show.
type shown struct {
	Key    string `json:"key"`
	Value  any    `json:"value"`
	Source string `json:"source"`
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
}

func show(key string, value any, from policy.Source) shown {
	return shown{key, value, from.Kind.String(), from.File, from.Line}
}

// effectiveLines lists every value and rule with its source.
func effectiveLines(e *settings.Effective) []shown {
	lines := []shown{
		show("mode", e.Mode.V, e.Mode.From),
		show("default", e.Default.V, e.Default.From),
		show("confined", e.Confined.V, e.Confined.From),
		show("syscalls", e.Syscalls.V, e.Syscalls.From),
		show("filesystem.tmp", e.Tmp.V, e.Tmp.From),
		show("filesystem.no_exec_write", e.NoExecWrite.V, e.NoExecWrite.From),
		show("filesystem.strict_names", e.StrictNames.V, e.StrictNames.From),
	}
	for _, g := range e.Paths {
		key := map[policy.PathAccess]string{policy.GrantRead: "read", policy.GrantWrite: "write", policy.GrantDeny: "deny",
			policy.GrantProtect: "protect", policy.GrantUnprotect: "unprotect"}[g.Access]
		lines = append(lines, show("filesystem."+key, g.Path, g.Source))
	}
	lists := []struct {
		key   string
		items []settings.Entry
	}{{"network.allow", e.Network}, {"network.unix", e.Unix}, {"env.pass", e.EnvPass}, {"env.set", e.EnvSet}, {"modes.forbid", e.ForbidModes}}
	for _, l := range lists {
		for _, item := range l.items {
			lines = append(lines, show(l.key, item.Text, item.Source))
		}
	}
	lines = append(lines, limitLines(e.Limits)...)
	if a := e.Audit; a.OnFailure.Set {
		lines = append(lines, show("audit.on_failure", a.OnFailure.V, a.OnFailure.From))
	}
	if a := e.Audit; a.Run.Set {
		lines = append(lines, show("audit.run", a.Run.V, a.Run.From))
	}
	for _, v := range e.Agent.Values() {
		lines = append(lines, show(v.Key, v.Value, v.From))
	}
	for _, v := range e.Classifier.Values() {
		lines = append(lines, show(v.Key, v.Value, v.From))
	}
	for _, h := range e.Hooks {
		lines = append(lines, show("hooks."+h.Event, strings.TrimSpace(h.Matcher+" "+h.Command), h.Source))
	}
	for _, r := range e.Rules {
		lines = append(lines, show("rules."+r.Kind.String(), r.Pattern, r.Source))
	}
	return lines
}

func limitLines(l settings.Limits) []shown {
	var lines []shown
	add := func(key string, set bool, value any, from policy.Source) {
		if set {
			lines = append(lines, show("limits."+key, value, from))
		}
	}
	add("timeout", l.Timeout.Set, l.Timeout.V.String(), l.Timeout.From)
	add("cpu", l.CPU.Set, l.CPU.V.String(), l.CPU.From)
	for _, n := range []struct {
		key string
		v   settings.Value[int64]
	}{{"memory", l.Memory}, {"file_size", l.FileSize}, {"output", l.Output}, {"max_file_size", l.MaxFileSize},
		{"tasks", l.Tasks}, {"denials_in_row", l.DenialsInRow}, {"denials_total", l.DenialsTotal}} {
		add(n.key, n.v.Set, n.v.V, n.v.From)
	}
	return lines
}

func (p *program) policyShow(c *cli.Context) error {
	if err := noOperands(c, "name a file by --policy FILE"); err != nil {
		return err
	}
	e, err := p.loadSettings(c)
	if err != nil {
		return err
	}
	lines := effectiveLines(e)
	if c.Bool("json") {
		ignored := []shown{}
		for _, n := range e.Ignored {
			ignored = append(ignored, show(n.What, n.Why, n.Source))
		}
		return p.writeJSON(map[string]any{"workspace": e.Workspace, "values": lines, "ignored": ignored})
	}
	for _, l := range lines {
		from := settings.Label(policy.Source{Kind: sourceKind(l.Source), File: l.File, Line: l.Line})
		if err := p.writeOut("%s\n", oneLine(fmt.Sprintf("%-26s %-44v %s", l.Key, l.Value, from))); err != nil {
			return err
		}
	}
	p.reportIgnored(e)
	return nil
}

// sourceKind reads the name of a source level.
func sourceKind(name string) policy.SourceKind {
	for k := policy.SourceManaged; k < policy.SourceDefault; k++ {
		if k.String() == name {
			return k
		}
	}
	return policy.SourceDefault
}

func importSummary(counts map[settings.Outcome]int) string {
	return fmt.Sprintf("%d kept, %d narrowed, %d refused, %d not part of a policy",
		counts[settings.Kept], counts[settings.Narrowed], counts[settings.Refused], counts[settings.Skipped])
}
