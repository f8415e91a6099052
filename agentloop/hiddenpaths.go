package agentloop

import (
	"context"
	"slices"

	"sandboxd/policy"
)

// HiddenPaths reports which of the files that a search found the caller may not
// read: a deny rule is about them, or an ask rule, unless a person approved the
// search. The kernel hides most of them already; rules about names at any depth it
// does not hold. Paths are absolute.
func (r *ToolRun) HiddenPaths(paths []string) map[string]bool {
	s := r.Session
	hidden := map[string]bool{}
	if !slices.ContainsFunc(s.Rules(), func(rule policy.Rule) bool { return rule.Kind != policy.AllowRule }) {
		return hidden
	}
	_, person := r.result.Decision.Reason.(policy.UserReason)
	engine := s.engineNow()
	ctx := context.Background() // each check is short, and asks nobody
	err := s.asUser(func() {
		for _, p := range paths {
			d := engine.Check(ctx, policy.Call{Tool: "read_file", Args: policy.Args{"file_path": p}, Cwd: s.workspace, Agent: r.Call.Agent})
			_, noRule := d.Reason.(policy.DefaultReason)
			rule, byRule := d.Reason.(policy.RuleReason)
			if d.Verdict == policy.Deny && !noRule || d.Verdict == policy.Ask && byRule && rule.Kind == policy.AskRule && !person {
				hidden[p] = true
			}
		}
	})
	if err != nil { // not looked at: nothing is shown
		for _, p := range paths {
			hidden[p] = true
		}
	}
	return hidden
}
