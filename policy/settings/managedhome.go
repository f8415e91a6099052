package settings

import (
	"path/filepath"
	"strings"

	"sandboxd/policy"
)

// accountHome returns the home that the account database gives to the user of the
// run, when it is another than HOME. The user sets HOME; what the administrator
// wrote with ~ must not move with it.
func (l *loader) accountHome(home string) string {
	if l.o.AccountHome == nil || !l.tilde() {
		return ""
	}
	account := l.o.AccountHome()
	if !filepath.IsAbs(account) || filepath.Clean(account) == filepath.Clean(home) {
		return ""
	}
	return filepath.Clean(account)
}

// tilde reports whether the managed policy begins anything at the home.
func (l *loader) tilde() bool {
	for _, layer := range l.layers {
		for _, r := range layer.Rules {
			if r.Source.Kind == policy.SourceManaged && strings.Contains(r.Pattern, "~") {
				return true
			}
		}
		for _, p := range layer.Paths {
			if p.Source.Kind == policy.SourceManaged && strings.HasPrefix(p.Path, "~") {
				return true
			}
		}
	}
	return false
}

// managedRules reads ~ in the rules of the managed policy as the home of the
// account. What denies or asks holds for HOME too.
func managedRules(rules []policy.Rule, account string) []policy.Rule {
	if account == "" {
		return rules
	}
	var out []policy.Rule
	for _, r := range rules {
		if r.Source.Kind != policy.SourceManaged || !strings.Contains(r.Pattern, "~") {
			out = append(out, r)
			continue
		}
		if r.Kind != policy.AllowRule {
			out = append(out, r)
		}
		r.Home, r.Match, r.NotMatch = account, nil, nil // the examples are of HOME
		out = append(out, r)
	}
	return out
}

// managedPaths does the same for [filesystem].
func managedPaths(paths []policy.PathGrant, account string) []policy.PathGrant {
	if account == "" {
		return paths
	}
	var out []policy.PathGrant
	for _, p := range paths {
		rest, tilde := strings.CutPrefix(p.Path, "~")
		if p.Source.Kind != policy.SourceManaged || !tilde {
			out = append(out, p)
			continue
		}
		if p.Access == policy.GrantDeny || p.Access == policy.GrantProtect {
			out = append(out, p)
		}
		p.Path = account + rest
		out = append(out, p)
	}
	return out
}
