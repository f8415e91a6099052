// Package policy decides whether a tool call may run, and says why.
//
//	e, err := policy.NewEngine(policy.Config{
//		Workspace: "/w", Home: "/home/me", Default: policy.Ask,
//		Rules: []policy.Rule{{Kind: policy.DenyRule, Pattern: "run_bash(git push --force*)"}},
//	})
//	d := e.Decide(ctx, policy.BashCall("cd r && git push -f origin", "/w"))
//	// d.Verdict is Deny, d.Reason names the rule, d.Trace every stage.
//
// [Engine.Decide] asks hooks, classifier and person; [Engine.Check] asks nobody
// and suggests what would allow the call. [Lint] finds rules that do not do what
// they seem to. The order of a decision, the modes and the grammar of rules are
// written in docs/policy.md.
//
// # Limits
//
// A decision is advice until exec enforces the grant in the kernel: this package
// starts nothing and stops nothing. What a program does that was there before
// (a Makefile, a script, a test) is not looked at. Rules about commands are
// compared with text, and other programs have the same effects: [Lint] names
// them. A path is looked up at the moment of the decision; whoever opens it
// later must look again. A rule with wildcards about files does not reach into
// directories that a command walks by itself, beyond the names at their top.
package policy
