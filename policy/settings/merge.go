package settings

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sandboxd/policy"
)

// Note is something in a file that has no effect, and why.
type Note struct {
	Source policy.Source
	What   string
	Why    string
}

func (n Note) String() string {
	return Label(n.Source) + ": " + n.What + ": " + n.Why
}

// Untrusted reports whether trust would give it effect.
func (n Note) Untrusted() bool { return n.Why == untrusted }

// Label names a source for a person: "project sandboxd.toml:14".
func Label(s policy.Source) string {
	out := s.Kind.String()
	if variable, ok := strings.CutPrefix(s.File, "$"); ok {
		return "env " + variable
	}
	if s.File != "" {
		out += " " + s.File
		if s.Line > 0 {
			out += fmt.Sprintf(":%d", s.Line)
		}
	}
	return out
}

// Effective is the merged policy. Rules are in the order in which they count:
// strongest source first.
type Effective struct {
	Policy
	Workspace string // absolute
	Home      string // absolute, or empty
	// Ignored lists what a file says without effect.
	Ignored []Note
	// Files lists every file that was looked for, strongest first.
	Files []FileInfo

	managedAgent Agent
}

// layer is one policy with what its file may do.
type layer struct {
	*Policy
	trusted bool
}

// untrusted is why a loosening setting of a project file has no effect.
const untrusted = "this file came with the project and is not trusted; see: sbx trust"

// merger builds the effective policy from the weakest layer to the strongest.
type merger struct {
	out *Effective
	// account is the home of the account, when HOME is another.
	account string
}

// add merges a layer over what is there.
func (m *merger) add(l layer) {
	m.scalars(l)
	m.limits(l)
	m.rules(l)
	m.paths(l)
	m.network(l)
	m.startsAndPasses(l)
	m.mcpServers(l)
	m.skillDirs(l)
	m.agent(l)
	m.classifierTable(l)
	m.audit(l)
}

func (m *merger) ignore(from policy.Source, what, why string) {
	m.out.Ignored = append(m.out.Ignored, Note{from, what, why})
}

// pick lets the stronger value v replace dst, unless the layer is not trusted
// and v would loosen. With unset, the built-in default is not known here, and an
// untrusted value counts when bounded says that any value tightens.
func pick[T any](m *merger, l layer, name string, dst *Value[T], v Value[T], loosens func(old, new T) bool) {
	if !v.Set {
		return
	}
	if !l.trusted && dst.Set && loosens(dst.V, v.V) {
		m.ignore(v.From, fmt.Sprintf("%s = %v", name, v.V), untrusted)
		return
	}
	*dst = v
}

func (m *merger) scalars(l layer) {
	out := &m.out.Policy
	pick(m, l, "mode", &out.Mode, l.Mode, modeLoosens)
	pick(m, l, "default", &out.Default, l.Default, verdictLoosens)
	pick(m, l, "confined", &out.Confined, l.Confined, verdictLoosens)
	pick(m, l, "filesystem.tmp", &out.Tmp, l.Tmp, tmpLoosens)
	pick(m, l, "syscalls", &out.Syscalls, l.Syscalls, syscallsLoosen)
	pick(m, l, "filesystem.no_exec_write", &out.NoExecWrite, l.NoExecWrite, switchedOff)
	pick(m, l, "filesystem.strict_names", &out.StrictNames, l.StrictNames, switchedOff)
	// A forbidden mode stays forbidden, whoever says so.
	out.ForbidModes = append(slices.Clone(l.ForbidModes), out.ForbidModes...)
}

// Defaults that an untrusted limit is compared with while no trusted source says
// anything. They are the documented ones of DESIGN: 60 s for agent calls (120 s
// at most), 256 tasks, 3 and 20 denials. For sizes there is no default limit, so
// any bound tightens.
const (
	defaultTimeout      = 60 * time.Second
	defaultTasks        = 256
	defaultDenialsInRow = 3
	defaultDenialsTotal = 20
)

func (m *merger) limits(l layer) {
	out, in := &m.out.Policy.Limits, l.Limits
	pickLimit(m, l, "limits.timeout", &out.Timeout, in.Timeout, defaultTimeout)
	pickLimit(m, l, "limits.cpu", &out.CPU, in.CPU, -1)
	pickLimit(m, l, "limits.memory", &out.Memory, in.Memory, -1)
	pickLimit(m, l, "limits.file_size", &out.FileSize, in.FileSize, -1)
	pickLimit(m, l, "limits.output", &out.Output, in.Output, -1)
	pickLimit(m, l, "limits.max_file_size", &out.MaxFileSize, in.MaxFileSize, -1)
	pickLimit(m, l, "limits.tasks", &out.Tasks, in.Tasks, defaultTasks)
	pickLimit(m, l, "limits.denials_in_row", &out.DenialsInRow, in.DenialsInRow, defaultDenialsInRow)
	pickLimit(m, l, "limits.denials_total", &out.DenialsTotal, in.DenialsTotal, defaultDenialsTotal)
}

func pickLimit[T ~int64](m *merger, l layer, name string, dst *Value[T], v Value[T], unset T) {
	old := Value[T]{V: unset, Set: true}
	if dst.Set {
		old = *dst
	}
	pick(m, l, name, &old, v, moreThan[T])
	if v.Set && old.From == v.From {
		*dst = old
	}
}

func (m *merger) rules(l layer) {
	var kept []policy.Rule
	for _, r := range managedRules(l.Rules, m.account) {
		if !l.trusted && r.Kind == policy.AllowRule {
			m.ignore(r.Source, "allow rule "+r.Pattern, untrusted)
			continue
		}
		kept = append(kept, r)
	}
	m.out.Rules = append(kept, m.out.Rules...)
}

func (m *merger) paths(l layer) {
	var kept []policy.PathGrant
	for _, p := range managedPaths(l.Paths, m.account) {
		tightens := p.Access == policy.GrantDeny || p.Access == policy.GrantProtect
		if !l.trusted && !tightens {
			// The workspace is writable anyhow; saying so opens nothing.
			if p.Access != policy.GrantWrite || m.out.expand(p.Path) != m.out.Workspace {
				m.ignore(p.Source, "filesystem "+string(p.Access)+" "+p.Path, untrusted)
			}
			continue
		}
		kept = append(kept, p)
	}
	m.out.Paths = append(kept, m.out.Paths...)
}

// network: "none" and "full" replace what weaker sources say; hosts add up. A
// managed list is the whole list.
func (m *merger) network(l layer) {
	var unix []Entry
	for _, e := range l.Unix {
		if !l.trusted {
			m.ignore(e.Source, "network.unix "+e.Text, untrusted)
			continue
		}
		unix = append(unix, e)
	}
	m.out.Unix = append(unix, m.out.Unix...)
	var kept []Entry
	for _, e := range l.Network {
		if e.Text == "none" {
			m.out.Network = []Entry{e}
			return
		}
		if !l.trusted {
			m.ignore(e.Source, "network.allow "+e.Text, untrusted)
			continue
		}
		kept = append(kept, e)
	}
	if len(kept) == 0 {
		return
	}
	for _, e := range kept {
		if e.Text == "full" {
			m.out.Network = []Entry{e}
			return
		}
	}
	if l.Source.Kind == policy.SourceManaged || m.out.netIs("none") || m.out.netIs("full") {
		m.out.Network = kept
		return
	}
	m.out.Network = append(kept, m.out.Network...)
}

// netIs reports whether the network is the one word.
func (e *Effective) netIs(word string) bool { return len(e.Network) == 1 && e.Network[0].Text == word }

// startsAndPasses merges what starts programs or hands things to them: hooks and
// variables. An untrusted file has no say.
func (m *merger) startsAndPasses(l layer) {
	if !l.trusted {
		for _, h := range l.Hooks {
			m.ignore(h.Source, "hook "+h.Event+" "+h.Command, untrusted)
		}
		for _, e := range append(slices.Clone(l.EnvPass), l.EnvSet...) {
			name, _, _ := strings.Cut(e.Text, "=")
			m.ignore(e.Source, "env "+name, untrusted)
		}
		return
	}
	out := &m.out.Policy
	out.Hooks = append(slices.Clone(l.Hooks), out.Hooks...)
	out.EnvPass = append(slices.Clone(l.EnvPass), out.EnvPass...)
	out.EnvSet = append(out.EnvSet, l.EnvSet...) // the last assignment of a name counts
}

// finish applies what concerns the merged policy as a whole.
func (m *merger) finish() error {
	out := m.out
	for _, f := range out.ForbidModes {
		if f.Text != out.Mode.V {
			continue
		}
		if out.Mode.From.Kind == policy.SourceCLI {
			return &Error{File: f.Source.File, Line: f.Source.Line, Text: "mode " + f.Text + " is forbidden here"}
		}
		m.ignore(out.Mode.From, "mode = "+f.Text, "forbidden by "+Label(f.Source))
		out.Mode = set("default", f.Source)
	}
	if out.Mode.V == "bypassPermissions" && out.Mode.From.Kind != policy.SourceCLI {
		m.ignore(out.Mode.From, "mode = bypassPermissions", "a file does not start this mode; use --mode")
		out.Mode = set("default", policy.Source{Kind: policy.SourceDefault})
	}
	if out.Agent.Script.Set {
		out.Agent.Script.V = out.expand(out.Agent.Script.V)
	}
	out.Paths = slices.DeleteFunc(out.Paths, m.closed)
	slices.SortStableFunc(out.Ignored, func(a, b Note) int {
		if a.Source.Kind != b.Source.Kind {
			return int(a.Source.Kind) - int(b.Source.Kind)
		}
		if c := strings.Compare(a.Source.File, b.Source.File); c != 0 {
			return c
		}
		return a.Source.Line - b.Source.Line
	})
	return nil
}

// closed reports whether p opens what a stronger source closes: an entry of a
// stronger source is not opened by a weaker one, however long its path.
func (m *merger) closed(p policy.PathGrant) bool {
	if p.Access == policy.GrantDeny || p.Access == policy.GrantProtect {
		return false
	}
	path := m.out.expand(p.Path)
	for _, q := range m.out.Paths {
		if q.Source.Kind >= p.Source.Kind || !within(path, m.out.expand(q.Path)) {
			continue
		}
		// A protected tree may be read.
		if q.Access == policy.GrantDeny || q.Access == policy.GrantProtect && p.Access != policy.GrantRead {
			m.ignore(p.Source, "filesystem "+string(p.Access)+" "+p.Path, string(q.Access)+" by "+Label(q.Source))
			return true
		}
	}
	return false
}

// expand makes an entry absolute, without looking at the file system.
func (e *Effective) expand(path string) string {
	if rest, ok := strings.CutPrefix(path, "~"); ok && e.Home != "" {
		path = e.Home + rest
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(e.Workspace, path)
	}
	return filepath.Clean(path)
}

// within reports whether path is root or beneath it.
func within(path, root string) bool {
	return path == root || root == "/" || strings.HasPrefix(path, root+"/")
}

// Grant is the part of the policy that the kernel enforces.
func (e *Effective) Grant() policy.Grant {
	g := policy.Grant{
		Workspace:         e.Workspace,
		ReadOnlyWorkspace: e.Mode.V == "plan",
		Paths:             e.Paths,
		Network:           texts(e.Network),
		Unix:              texts(e.Unix),
		PrivateTmp:        e.Tmp.V != "none",
		EnvPass:           texts(e.EnvPass),
		EnvSet:            texts(e.EnvSet),
		Syscalls:          e.Syscalls.V,
		NoExecWrite:       e.NoExecWrite.V,
	}
	l := e.Limits
	g.Limits = policy.GrantLimits{
		Timeout: l.Timeout.V, CPU: l.CPU.V, MemoryBytes: l.Memory.V,
		Tasks: int(l.Tasks.V), FileBytes: l.FileSize.V, OutputBytes: int(l.Output.V),
	}
	return g
}

// ManagedGrant is what the managed policy says by itself, for the hooks that it
// declares: nothing of another source loosens or tightens it. Variables that it
// passes on are left out, since their values are the client's.
func (e *Effective) ManagedGrant() policy.Grant {
	from := func(s policy.Source) bool { return s.Kind == policy.SourceManaged }
	g := policy.Grant{Workspace: e.Workspace, PrivateTmp: !from(e.Tmp.From) || e.Tmp.V != "none", Limits: e.ManagedLimits()}
	for _, p := range e.Paths {
		if from(p.Source) {
			g.Paths = append(g.Paths, p)
		}
	}
	for _, v := range e.EnvSet {
		if from(v.Source) {
			g.EnvSet = append(g.EnvSet, v.Text)
		}
	}
	if from(e.Syscalls.From) {
		g.Syscalls = e.Syscalls.V
	}
	g.NoExecWrite = from(e.NoExecWrite.From) && e.NoExecWrite.V
	return g
}

func texts(entries []Entry) []string {
	var out []string
	for _, e := range entries {
		out = append(out, e.Text)
	}
	return out
}

// ManagedLimits are the limits that the managed policy sets; zero where it sets none.
func (e *Effective) ManagedLimits() policy.GrantLimits {
	l := e.Limits
	return policy.GrantLimits{Timeout: managed(l.Timeout), CPU: managed(l.CPU), MemoryBytes: managed(l.Memory),
		Tasks: int(managed(l.Tasks)), FileBytes: managed(l.FileSize), OutputBytes: int(managed(l.Output))}
}

func managed[T ~int64](v Value[T]) T {
	if v.Set && v.From.Kind == policy.SourceManaged {
		return v.V
	}
	return 0
}
