package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"sandboxd/agentloop"
	"sandboxd/policy"
	"sandboxd/policy/settings"
)

// usageRows bounds how many rows of the log are counted.
const usageRows = 100_000

// ruleUse is how often one rule decided.
type ruleUse struct {
	Kind   policy.Kind `json:"kind"`
	Rule   string      `json:"rule"`
	Source string      `json:"source"`
	File   string      `json:"file,omitempty"`
	Line   int         `json:"line,omitempty"`
	Count  int         `json:"count"`
	Last   *time.Time  `json:"last,omitempty"`
}

func (p *program) permissionsUsage(c *cli.Context) error {
	if err := noOperands(c, "--unused lists the rules that decided nothing"); err != nil {
		return err
	}
	since, err := sinceTime("since", c.String("since"), time.Now())
	if err != nil {
		return err
	}
	e, err := p.loadSettings(c)
	if err != nil {
		return err
	}
	rows, err := p.auditRows(c, url.Values{"newest": {"1"}, "since": {since.UTC().Format(time.RFC3339Nano)}}, usageRows)
	if err != nil {
		return err
	}
	uses := countUses(e.Rules, rows)
	if c.Bool("unused") {
		uses = slices.DeleteFunc(uses, func(u ruleUse) bool { return u.Count > 0 })
	}
	if c.Bool("json") {
		return p.writeJSON(map[string]any{"rules": uses, "rows": len(rows), "since": since.UTC()})
	}
	for _, u := range uses {
		last := "never"
		if u.Last != nil {
			last = u.Last.Local().Format(time.DateTime)
		}
		from := settings.Label(policy.Source{Kind: sourceKind(u.Source), File: u.File, Line: u.Line})
		if err := p.writeOut("%s\n", oneLine(fmt.Sprintf("%6d  %-19s  %-5s %-50s %s", u.Count, last, u.Kind, u.Rule, from))); err != nil {
			return err
		}
	}
	if len(rows) == usageRows {
		p.note("note", fmt.Sprintf("only the newest %d rows were counted", usageRows))
	}
	return nil
}

type ruleReason struct{ Type, Kind, Pattern string }

// countUses counts the decisions that each rule made. A rule that agreed with a
// stronger one is not named in the log, and so not counted.
func countUses(rules []policy.Rule, rows []agentloop.AuditRecord) []ruleUse {
	type key struct{ kind, rule string }
	type seen struct {
		count int
		last  time.Time
	}
	made := map[key]*seen{}
	calls := map[string]bool{}
	for _, row := range rows {
		var why struct {
			ruleReason
			Asked ruleReason
		}
		if json.Unmarshal(row.Reason, &why) != nil {
			continue
		}
		reason := why.ruleReason
		if reason.Type != "rule" {
			reason = why.Asked // a question that the rule put
		}
		if reason.Type != "rule" {
			continue
		}
		// A call has a row for its decision and one for its end.
		id := fmt.Sprint(row.UID, " ", row.Session, " ", row.Call, " ", reason.Kind, " ", reason.Pattern)
		if calls[id] {
			continue
		}
		calls[id] = true
		k := key{reason.Kind, reason.Pattern}
		if made[k] == nil {
			made[k] = &seen{}
		}
		made[k].count++
		if row.Time.After(made[k].last) {
			made[k].last = row.Time
		}
	}
	uses := []ruleUse{}
	for _, kind := range []policy.Kind{policy.DenyRule, policy.AskRule, policy.AllowRule} {
		for _, r := range rules {
			if r.Kind != kind {
				continue
			}
			u := ruleUse{Kind: r.Kind, Rule: r.Pattern, Source: r.Source.Kind.String(), File: r.Source.File, Line: r.Source.Line}
			if s := made[key{r.Kind.String(), r.Pattern}]; s != nil {
				u.Count, u.Last = s.count, &s.last
			}
			uses = append(uses, u)
		}
	}
	return uses
}
