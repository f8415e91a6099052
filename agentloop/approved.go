package agentloop

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sandboxd/policy"
)

// maxApproved bounds the paths that one answer adds.
const maxApproved = 64

// addApproved adds the paths that were approved by name for this call: by a
// person, who saw them, or by a rule about that path. An allow rule about a
// command adds nothing: it says that the command may run in its confinement.
func (s *Session) addApproved(g *policy.Grant, r *ToolRun) {
	if s.onlyRules() {
		return
	}
	d := r.result.Decision
	_, person := d.Reason.(policy.UserReason)
	fileTool := !startsCommand(r.Call.Tool)
	if rule, ok := d.Reason.(policy.RuleReason); !person && !(ok && rule.Kind == policy.AllowRule && fileTool) {
		return
	}
	if fileTool {
		s.addOfFileTool(g, r, person)
		return
	}
	for _, o := range s.openings(g, d.Uses) {
		if o.path != "" {
			g.Paths = append(g.Paths, oneCall(o.path, o.access))
		}
		if o.other {
			r.Note("%s", o.text)
		}
	}
}

// addOfFileTool opens what our own helper needs for the paths of a call; it does
// nothing else there.
func (s *Session) addOfFileTool(g *policy.Grant, r *ToolRun, person bool) {
	add := func(p string, access policy.PathAccess) {
		if !filepath.IsAbs(p) || strings.ContainsAny(p, "*?[") {
			r.Note("%s was approved, but is no single path: it is not added", p)
			return
		}
		if _, err := os.Lstat(p); err != nil && access == policy.GrantRead {
			return
		}
		for p != "/" { // a new file is made in the nearest directory that is there
			if _, err := os.Lstat(p); err == nil {
				break
			}
			p = filepath.Dir(p)
		}
		if p == "/" {
			return
		}
		g.Paths = append(g.Paths, oneCall(p, access))
		if access == policy.GrantWrite && person {
			g.Paths = append(g.Paths, oneCall(p, policy.GrantUnprotect))
		}
	}
	d := r.result.Decision
	for _, p := range d.Reads[:min(len(d.Reads), maxApproved)] {
		add(p, policy.GrantRead)
	}
	for _, p := range d.Writes[:min(len(d.Writes), maxApproved)] {
		add(p, policy.GrantWrite)
	}
}

func oneCall(path string, access policy.PathAccess) policy.PathGrant {
	return policy.PathGrant{Path: path, Access: access, OneCall: true, Source: policy.Source{Kind: policy.SourceSession}}
}

// opening is what the answer of a person opens for one path of a command, or why it
// opens nothing.
type opening struct {
	path   string // empty: nothing
	access policy.PathAccess
	text   string // for people, before and after
	// other says that it is not just the path that was approved.
	other bool
}

// openings say what a command may use besides g once a person approves what it does
// to paths. What the kernel holds is a file that is there, or a directory with all
// below it: a name is made or removed by who may write its directory.
func (s *Session) openings(g *policy.Grant, uses []policy.PathUse) []opening {
	var out []opening
	add := func(o opening) {
		same := func(x opening) bool {
			return x.path == o.path && x.access == o.access && (x.path != "" || x.text == o.text)
		}
		if !slices.ContainsFunc(out, same) {
			out = append(out, o)
		}
	}
	for _, u := range uses {
		held := u.Write && g.ReadOnlyWorkspace && within(u.Path, s.workspace)
		switch {
		case u.Protected && s.heldName(g, u):
			add(opening{other: true, text: u.Path + " is not opened: it is a protected name, read-only for every command; --unprotect, or [filesystem] unprotect, opens it"})
		case !u.Outside && !held:
		case len(out) >= maxApproved:
			add(opening{other: true, text: fmt.Sprintf("at most %d paths are opened by one answer, the others are not", maxApproved)})
			return out
		case u.Pattern, !filepath.IsAbs(u.Path):
			add(opening{other: true, text: u.Path + " is not opened: it is no single path"})
		case u.Link: // its directory is opened where it is renamed
			if !slices.ContainsFunc(uses, func(x policy.PathUse) bool { return x.Remove && x.Path == u.Path }) {
				add(opening{other: true, text: u.Path + " is not opened: it is a link, and not what it leads to was approved"})
			}
		case !u.Write:
			add(opening{path: u.Path, access: policy.GrantRead, text: "opens " + u.Path + " for reading"})
		case !u.Missing && !u.Remove:
			add(opening{path: u.Path, access: policy.GrantWrite, text: "opens " + u.Path + " for writing"})
		default:
			add(s.openDirectory(u, held))
		}
	}
	return out
}

// heldName reports whether the kernel holds a protected name read-only.
func (s *Session) heldName(g *policy.Grant, u policy.PathUse) bool {
	if !s.parts.host.MountView || slices.ContainsFunc(g.Paths, func(p policy.PathGrant) bool {
		return p.Access == policy.GrantUnprotect && within(u.Path, realOr(s.expand(p.Path, s.workspace)))
	}) {
		return false
	}
	return slices.ContainsFunc(protectedNames(s.workspace, s.caller()), func(p ProtectedPath) bool {
		return p.Level == LevelKernel && (within(u.Path, p.Path) || u.Remove && within(p.Path, u.Path))
	})
}

// openDirectory is the opening for a name that is made or removed.
func (s *Session) openDirectory(u policy.PathUse, held bool) opening {
	r := newResolver(usualPaths)
	dir, home := filepath.Dir(u.Path), ""
	if h, ok := r.realDir(s.caller().Home); ok && h != "/" {
		home = h
	}
	not := func(format string, args ...any) opening {
		return opening{other: true, text: u.Path + " is not opened: " + fmt.Sprintf(format, args...)}
	}
	what := "is not there yet"
	if u.Remove {
		what = "is removed"
	}
	secret, secrets := homeSecretWithin(r, home, dir)
	switch n := r.lstat(dir); {
	case held:
		return not("it %s, and mode plan opens no directory of the workspace", what)
	case dir == home:
		return not("it %s, and the command has a private home in place of yours", what)
	case n.err != nil || !n.isDir():
		return not("it %s, and no directory %s is there", what, dir)
	case secrets:
		return not("it %s, and its directory holds secrets (%s)", what, secret)
	}
	if why := unfit(r, dir, s.caller()); why != "" {
		return not("it %s, and its directory %s, %s, is opened to no command", what, dir, why)
	}
	return opening{path: dir, access: policy.GrantWrite, other: true,
		text: fmt.Sprintf("opens the directory %s for writing, with all below it: %s %s", dir, u.Path, what)}
}

// openingTexts are the openings in words, for the question. The rights of the user hold.
func (s *Session) openingTexts(uses []policy.PathUse) []string {
	g := s.inForce().Grant
	g.ReadOnlyWorkspace = s.Mode() == policy.ModePlan
	var out []string
	for _, o := range s.openings(&g, uses) {
		out = append(out, ShowText(o.text))
	}
	return out
}
