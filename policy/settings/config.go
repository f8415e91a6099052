package settings

import (
	"errors"
	"fmt"
	"strings"

	"sandboxd/policy"
)

// checkRule reports why a rule cannot be used, whatever the place. Patterns that
// begin at the workspace or the home are checked against made-up ones.
func checkRule(r policy.Rule) error {
	_, err := policy.NewRuleSet([]policy.Rule{r}, policy.Base{Workspace: "/workspace", Home: "/home/user"})
	return err
}

// Config is the part of the policy that decides. The caller adds what is not in
// files: hooks, askers, a classifier, and what the host confines.
//
// The mode bypassPermissions is enabled when the caller asked for it (flag or
// environment), never by a file.
func (e *Effective) Config() (policy.Config, error) {
	mode, err := policy.ParseMode(e.Mode.V)
	if err != nil {
		return policy.Config{}, fmt.Errorf("%s: %w", Label(e.Mode.From), err)
	}
	verdict, err := policy.ParseVerdict(e.Default.V)
	if err != nil {
		return policy.Config{}, fmt.Errorf("%s: %w", Label(e.Default.From), err)
	}
	c := policy.Config{
		Rules:         append(e.hiddenRules(), e.Rules...),
		Mode:          mode,
		Default:       verdict,
		AllowConfined: e.Confined.V == "allow",
		Workspace:     e.Workspace,
		Home:          e.Home,
		PrivateTmp:    e.Tmp.V != "none",
		Strict:        e.StrictNames.V,
		MaxFileSize:   max(e.Limits.MaxFileSize.V, 0),
		Bypass:        policy.Bypass{EnabledAtStart: e.Mode.From.Kind == policy.SourceCLI},
	}
	c.Thresholds, c.ClassifierTimeout, c.ClassifierPatience = e.Classifier.thresholds(), e.Classifier.Timeout.V, e.Classifier.Patience.V
	for _, f := range e.ForbidModes {
		c.Bypass.Forbidden = c.Bypass.Forbidden || f.Text == "bypassPermissions"
	}
	for _, p := range e.Paths {
		switch p.Access {
		case policy.GrantRead, policy.GrantWrite:
			c.Roots = append(c.Roots, policy.Root{Path: e.expand(p.Path), Write: p.Access == policy.GrantWrite})
		case policy.GrantProtect:
			c.Protect = append(c.Protect, escapePattern(e.expand(p.Path)))
		}
	}
	for _, h := range e.Network {
		switch h.Text {
		case "none":
		case "full":
			c.Hosts = append(c.Hosts, "*")
		default:
			c.Hosts = append(c.Hosts, strings.TrimPrefix(strings.TrimPrefix(h.Text, "udp:"), "tcp:"))
		}
	}
	return c, nil
}

// hiddenRules are the rules that [filesystem] deny stands for: what the kernel
// hides from a command is denied to the file tools and foreseen for a command.
// A longer entry that opens a part again is an exception, since the longest path
// wins.
func (e *Effective) hiddenRules() []policy.Rule {
	var out []policy.Rule
	for _, p := range e.Paths {
		if p.Access != policy.GrantDeny {
			continue
		}
		root := e.expand(p.Path)
		var read, write []string
		for _, q := range e.Paths {
			path := e.expand(q.Path)
			if path == root || !within(path, root) || q.Access == policy.GrantDeny {
				continue
			}
			read = append(read, escapePattern(path))
			if q.Access == policy.GrantWrite {
				write = append(write, escapePattern(path))
			}
		}
		for _, v := range []struct {
			verb   string
			except []string
		}{{"read", read}, {"write", write}, {"delete", write}} {
			out = append(out, policy.Rule{Kind: policy.DenyRule, Pattern: "effect(" + v.verb + " " + escapePattern(root) + ")",
				Except: v.except, Source: p.Source, Reason: "filesystem.deny " + p.Path})
		}
	}
	return out
}

// escapePattern writes a path as a pattern that means just that path.
func escapePattern(path string) string {
	if !strings.ContainsAny(path, `*?[]{}\`) {
		return path
	}
	var b strings.Builder
	for _, c := range []byte(path) {
		if strings.IndexByte(`*?[]{}\`, c) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	return b.String()
}

// RuleErrors returns the errors of single rules in err.
func RuleErrors(err error) []*policy.RuleError {
	var out []*policy.RuleError
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			out = append(out, RuleErrors(e)...)
		}
		return out
	}
	if r, ok := errors.AsType[*policy.RuleError](err); ok {
		out = append(out, r)
	}
	return out
}
