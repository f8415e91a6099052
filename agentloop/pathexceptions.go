package agentloop

import (
	"slices"

	"sandboxd/exec"
	"sandboxd/policy"
)

// exceptions bounds what rules leave out by what the view would show without the
// rules. Their exceptions are no grants: a deny rule is in force whoever wrote it, also
// in a file of a checkout that nobody trusted.
func (b *builder) exceptions(list []asked) []asked {
	kept := make([]asked, 0, len(list))
	for _, a := range list {
		if a.grant.Part == policy.RuleException {
			a.access = min(a.access, b.withoutRules(a.path, list))
			if a.access < exec.ReadOnly {
				continue
			}
		}
		kept = append(kept, a)
	}
	return kept
}

// withoutRules is the access to path by the entries of list that are no part of a rule,
// by what is granted to every run and by protected names; less than [exec.ReadOnly] is
// none. The longest path decides, and of several of that length the strictest.
func (b *builder) withoutRules(path string, list []asked) exec.Access {
	access, length, most := exec.Deny, -1, exec.ReadWrite
	if e, ok := b.set.at(path); ok && e.Kind == exec.Bind {
		access, length = e.Access, len(e.Path)
	}
	for _, p := range b.h.Protected {
		if p.Level == LevelKernel && b.h.MountView && within(path, p.Path) && !b.unprotected(p.Path) {
			most = exec.ReadOnly
		}
	}
	asked := false
	for _, a := range list {
		switch {
		case a.grant.Part != policy.NoRule || !within(path, a.path):
		case a.access == exec.Protect: // it opens nothing by itself
			most = exec.ReadOnly
		case len(a.path) > length, len(a.path) == length && !asked:
			access, length, asked = a.access, len(a.path), true
		case len(a.path) == length:
			access = min(access, a.access)
		}
	}
	for _, closed := range b.closedDirs() { // under a wide grant, unless one names it
		if within(path, closed) && length < len(closed) {
			return exec.Deny
		}
	}
	return min(access, most)
}

// closedDirs are the secrets of the home and our own directories.
func (b *builder) closedDirs() []string {
	dirs := slices.Clone(b.own)
	for _, rel := range homeSecrets {
		if b.realHome == "" {
			break
		}
		dirs = append(dirs, b.realHome+"/"+rel)
		if real, _, err := b.r.resolve(b.realHome + "/" + rel); err == nil {
			dirs = append(dirs, real)
		}
	}
	return dirs
}
