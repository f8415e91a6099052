package settings

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"sandboxd/policy"
)

// Finding is one thing that is wrong or doubtful in the policy.
type Finding struct {
	File     string `json:"file"`
	Line     int    `json:"line"`
	Severity string `json:"severity"` // "error", "warning" or "info"
	Text     string `json:"text"`
	Fix      string `json:"fix,omitempty"`
}

// Lint lists what is wrong: rules that cannot be compiled, what has no effect,
// and what package policy finds about the rules. installed reports whether a
// program is there; nil takes all to be.
func (e *Effective) Lint(installed func(string) bool, now time.Time) []Finding {
	var out []Finding
	cfg, err := e.Config()
	if err != nil {
		return append(out, Finding{Severity: "error", Text: err.Error()})
	}
	base := policy.Base{Workspace: e.Workspace, Home: e.Home}
	_, err = policy.NewRuleSet(cfg.Rules, base)
	for _, r := range RuleErrors(err) {
		out = append(out, Finding{r.Source.File, r.Source.Line, "error", "rule " + r.Pattern + ": " + r.Problem, r.Fix})
	}
	if err != nil && len(out) == 0 {
		out = append(out, Finding{Severity: "error", Text: err.Error()})
	}
	options := policy.LintOptions{Base: base, Installed: installed, Roots: cfg.Roots, Now: now}
	for _, f := range policy.Lint(e.Rules, options) {
		out = append(out, Finding{f.File, f.Line, f.Severity.String(), f.Kind.String() + " " + f.Rule + ": " + f.Text, f.Fix})
	}
	for _, n := range e.Ignored {
		out = append(out, Finding{n.Source.File, n.Source.Line, "warning", n.What + ": " + n.Why, ""})
	}
	for _, h := range e.Hooks {
		if strings.Contains(h.Matcher, "(") {
			out = append(out, Finding{h.Source.File, h.Source.Line, "info", fmt.Sprintf("hook matcher %s is read as a rule", quote(h.Matcher)), "Claude Code writes the rule in if, and the tool in matcher"})
		}
	}
	slices.SortStableFunc(out, func(a, b Finding) int {
		if c := strings.Compare(a.File, b.File); c != 0 {
			return c
		}
		return a.Line - b.Line
	})
	return out
}
