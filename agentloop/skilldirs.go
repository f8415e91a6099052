package agentloop

import (
	"os"
	"path/filepath"
	"slices"

	"sandboxd/policy"
)

// UseSkills makes directories of skills readable: for decisions and for every run
// (requirement 97). Those that are not there, or that the policy hides, are left
// out. It is called with the rights of the session's user.
func (p *PolicyInForce) UseSkills(home string, dirs []string) {
	from := policy.Source{Kind: policy.SourceDefault}
	for _, dir := range dirs {
		if !filepath.IsAbs(dir) || slices.Contains(p.Skills, dir) {
			continue
		}
		if info, err := os.Stat(dir); err != nil || !info.IsDir() || p.hides(home, dir) {
			continue
		}
		p.Skills = append(p.Skills, dir)
		p.Config.Roots = append(p.Config.Roots, policy.Root{Path: dir})
		p.Grant.Paths = append(slices.Clone(p.Grant.Paths), policy.PathGrant{Path: dir, Access: policy.GrantRead, Source: from})
	}
}

// hides reports whether dir, or where it leads, lies in what the policy denies.
func (p *PolicyInForce) hides(home, dir string) bool {
	real := realOr(dir)
	return slices.ContainsFunc(p.Grant.Paths, func(g policy.PathGrant) bool {
		if g.Access != policy.GrantDeny {
			return false
		}
		denied := g.Path
		if rest, ok := cutHome(denied); ok {
			denied = filepath.Join(home, rest)
		} else if !filepath.IsAbs(denied) {
			denied = filepath.Join(p.Config.Workspace, denied)
		}
		denied = filepath.Clean(denied)
		return within(dir, denied) || within(real, denied) || within(real, realOr(denied))
	})
}

// SkillDirs are the directories of skills that the policy in force has outside of
// the workspace.
func (s *Session) SkillDirs() []string { return s.inForce().Skills }
