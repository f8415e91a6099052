package agentloop

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sandboxd/exec"
	"sandboxd/policy"
	"sandboxd/policy/path"
)

// confined is one call that was turned into a Spec.
type confined struct {
	spec   exec.Spec
	report Report
	grant  policy.Grant
}

// confine is hop 4: what was decided becomes what the kernel holds. All files are
// looked at with the rights of the session's user.
func (d *Dispatcher) confine(r *ToolRun, c Command) (*confined, error) {
	p := &confined{}
	var err error
	inner := r.Session.asUser(func() { err = d.build(p, r, c) })
	r.grant = p.grant
	return p, errors.Join(inner, err)
}

func (d *Dispatcher) build(p *confined, r *ToolRun, c Command) error {
	s := r.Session
	p.report.Cleanup = func() error { return nil }
	caller := s.caller()
	g, gaps, err := s.grantFor(r)
	p.grant = g
	if err != nil {
		return err
	}
	if c.Own != "" && c.Network != nil {
		g.Network = c.Network
	}
	if c.Own != "" {
		g.Paths = append(g.Paths, policy.PathGrant{Path: c.Own, Access: policy.GrantRead, Source: policy.Source{Kind: policy.SourceManaged}})
	}
	view := HostView{
		MountView:  d.o.Host.MountView && r.Call.Tier != exec.TierBase,
		Protected:  protectedNames(g.Workspace, caller),
		Daemon:     d.o.OwnDirs,
		BestEffort: r.Call.BestEffort,
	}
	spec, report, err := Build(g, caller, view, c.Argv)
	report.Gaps = append(report.Gaps, gaps...)
	p.spec, p.report = spec, report
	if err != nil {
		return err
	}
	if err := s.checkDir(spec.Dir, report, g); err != nil {
		return errors.Join(err, report.Cleanup())
	}
	p.spec.Tier = r.Call.Tier
	if r.traits.Interrupt == InterruptCancel {
		p.spec.Limits.CancelGrace = cancelGrace
	}
	for _, entry := range r.result.Decision.Env {
		p.spec.Env = setEnv(p.spec.Env, entry)
	}
	for _, a := range report.Added {
		r.Note("%s was added for this call alone (%s)", a.Path, accessText(a.Access))
	}
	return nil
}

// cleanUp removes what was made for this run alone.
func (p *confined) cleanUp(r *ToolRun) {
	var err error
	inner := r.Session.asUser(func() { err = p.report.Cleanup() })
	if err := errors.Join(inner, err); err != nil {
		r.Note("left behind: %v", err)
	}
}

func accessText(a exec.Access) string {
	if a == exec.ReadWrite {
		return "read and write"
	}
	return "read"
}

// setEnv replaces a variable, or adds it.
func setEnv(env []string, entry string) []string {
	name, _, _ := strings.Cut(entry, "=")
	env = slices.DeleteFunc(slices.Clone(env), func(e string) bool { return strings.HasPrefix(e, name+"=") })
	return append(env, entry)
}

// grantFor puts together what one call may use: the policy, the flags of the
// client, the rules that a kernel can hold, the mode, and what was approved for
// this call alone. gaps are rules that nothing holds for an unread command.
func (s *Session) grantFor(r *ToolRun) (policy.Grant, []exec.Gap, error) {
	at := s.moment()
	if r.at != nil {
		at = *r.at
	}
	in := at.force
	g := in.Grant
	g.Paths = slices.Concat(g.Paths, r.Call.Paths)
	g.NoExecWrite = g.NoExecWrite || r.Call.NoExecWrite
	if r.Call.NoNetwork {
		g.Network = nil
	}
	overrideLimits(&g.Limits, r.Call.Limits, in.ManagedLimits)
	if !in.Config.OnlyRules {
		if err := r.limitTime(&g.Limits, in.Grant.Limits); err != nil {
			return g, nil, err
		}
		g.Workspace = s.workspace
		// Also a change to plan that came after the decision: it means that nothing is written.
		g.ReadOnlyWorkspace = at.rules.In(policy.ModePlan) || s.Mode() == policy.ModePlan || slices.Contains(s.child.above(), policy.ModePlan)
		if r.traits.ReadOnly { // held to its word
			g.ReadOnlyWorkspace = true
		}
		dir, err := callDir(r.Call)
		if err != nil {
			return g, nil, err
		}
		g.Dir = dir
		if g.Dir == "" {
			g.Dir = s.workspace
		}
	}
	from := g.Dir
	if from == "" {
		from = s.peer.Caller.Cwd
	}
	if r.adjust != nil {
		r.adjust(&g)
	}
	gaps := s.addRules(&g, from, at.rules)
	s.addApproved(&g, r)
	return g, gaps, nil
}

// callDir is the start directory that a call names.
func callDir(c ToolCall) (string, error) {
	for _, f := range []string{"working_dir", "cwd", "workdir"} {
		if v, ok := c.Args[f]; ok && v != nil && startsCommand(c.Tool) {
			dir, isText := v.(string)
			if !isText {
				return "", fmt.Errorf("argument %s: want a text", f)
			}
			if dir != "" && !filepath.IsAbs(dir) && c.Cwd != "" && dir != "~" && !strings.HasPrefix(dir, "~/") {
				dir = filepath.Join(c.Cwd, dir)
			}
			return dir, nil
		}
	}
	return c.Cwd, nil
}

// checkDir limits the start of a call to the roots: the workspace and what is
// granted besides.
func (s *Session) checkDir(dir string, report Report, g policy.Grant) error {
	if s.onlyRules() {
		return nil
	}
	roots := []string{report.Workspace}
	for _, p := range g.Paths {
		if (p.Access == policy.GrantRead || p.Access == policy.GrantWrite) && !p.OneCall {
			roots = append(roots, realOr(s.expand(p.Path, report.Workspace)))
		}
	}
	if withinAny(dir, roots) {
		return nil
	}
	return &GrantError{Entry: "directory " + dir, Hint: "start in the workspace " + report.Workspace + ", or grant the directory",
		Err: errors.New("outside of the workspace and the granted directories")}
}

func realOr(p string) string {
	if real, err := filepath.EvalSymlinks(p); err == nil {
		return real
	}
	return filepath.Clean(p)
}

// addRules turns the deny rules about paths, and the allow rules about effects,
// into entries of the grant. What these cannot hold is returned.
func (s *Session) addRules(g *policy.Grant, dir string, e policy.Snapshot) []exec.Gap {
	ws := g.Workspace
	if ws == "" {
		ws = s.workspace
	}
	closed := s.closedPaths(g)
	var gaps []exec.Gap
	for _, d := range e.KernelDenials(s.depthDirs(g, ws, dir)) {
		if d.Network && !slices.Contains(g.Network, "full") {
			continue
		}
		gap := d.NotHeld
		for _, p := range d.Paths {
			if d.Delete || withinAny(p, closed) {
				continue
			}
			if within(ws, p) {
				if !d.Read {
					g.ReadOnlyWorkspace = true
					g.Paths = slices.DeleteFunc(slices.Clone(g.Paths), func(x policy.PathGrant) bool { return x.Access == policy.GrantWrite && !x.OneCall })
				} else {
					gap = "it covers the workspace itself, without which nothing runs"
				}
				continue
			}
			access := policy.GrantProtect
			if d.Read {
				access = policy.GrantDeny
			}
			g.Paths = append(g.Paths, policy.PathGrant{Path: p, Access: access, Source: d.Rule.Source, Part: policy.RuleDenial})
			s.addExceptions(g, d, p, ws)
		}
		if gap != "" && !(len(d.Paths) > 0 && d.Delete && allWithin(d.Paths, s.closedPaths(g))) {
			gaps = append(gaps, exec.Gap{Part: d.Rule.String(), Why: gap, Instead: "what can be read of the command beforehand, and the file tools"})
		}
	}
	for _, k := range e.KernelGrants() {
		if _, err := os.Lstat(k.Path); err != nil || within(k.Path, ws) {
			continue
		}
		access := policy.GrantRead
		if k.Write {
			access = policy.GrantWrite
		}
		g.Paths = append(g.Paths, policy.PathGrant{Path: k.Path, Access: access, Source: k.Rule.Source, Optional: k.Rule.Source.Kind == policy.SourceSession})
	}
	return gaps
}

// addExceptions opens again what a rule about p leaves out, as far as it was open
// without the rule, see [builder.exceptions].
func (s *Session) addExceptions(g *policy.Grant, d policy.KernelDenial, p, ws string) {
	for _, x := range d.Except {
		if _, err := os.Lstat(x); err != nil || x == p || !within(x, p) {
			continue
		}
		access := policy.GrantRead
		if within(x, ws) {
			access = policy.GrantWrite
		}
		g.Paths = append(g.Paths, policy.PathGrant{Path: x, Access: access, Source: d.Rule.Source, Part: policy.RuleException})
	}
}

// closedPaths are the paths that the grant hides or holds read-only already.
func (s *Session) closedPaths(g *policy.Grant) []string {
	var out []string
	for _, p := range g.Paths {
		if p.Access == policy.GrantDeny {
			out = append(out, s.expand(p.Path, g.Workspace))
		}
	}
	return out
}

func allWithin(paths, dirs []string) bool {
	return !slices.ContainsFunc(paths, func(p string) bool { return !withinAny(p, dirs) })
}

// depthDirs are where names at any depth are looked for: the tops of what the
// call can write or read, and the directories from the workspace down to where
// it starts.
func (s *Session) depthDirs(g *policy.Grant, ws, dir string) []string {
	dirs := []string{ws}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(ws, dir)
	}
	for d := filepath.Clean(dir); d != ws && within(d, ws); d = filepath.Dir(d) {
		dirs = append(dirs, d)
	}
	for _, p := range g.Paths {
		if p.Access == policy.GrantRead || p.Access == policy.GrantWrite {
			if real := realOr(s.expand(p.Path, ws)); !slices.Contains(dirs, real) {
				dirs = append(dirs, real)
			}
		}
	}
	return dirs
}

// protectedNames lists the protected names of the workspace that exist now.
func protectedNames(override string, c Caller) []ProtectedPath {
	ws, _, err := DetectWorkspace(c.Cwd, override, c)
	if err != nil {
		return nil // told by Build
	}
	var list []ProtectedPath
	for _, n := range path.Existing(ws.Root) {
		level := LevelCheck
		if n.Entry.Level == path.LevelKernel {
			level = LevelKernel
		}
		list = append(list, ProtectedPath{Path: realOr(n.Path), Level: level})
	}
	return list
}

// Plan says how a call would be confined, and starts nothing. The decision is not
// asked for. The caller calls Cleanup of the report.
func (d *Dispatcher) Plan(s *Session, c ToolCall) (exec.Spec, Report, error) {
	r := &ToolRun{Call: c, Session: s, d: d, result: &ToolResult{}}
	argv := []string{"true"}
	if startsCommand(c.Tool) {
		var err error
		if argv, _, err = c.Start(); err != nil {
			return exec.Spec{}, Report{Cleanup: func() error { return nil }}, err
		}
	}
	p, err := d.confine(r, Command{Argv: argv})
	if err == nil {
		p.connect(r, Command{})
	}
	return p.spec, p.report, err
}
