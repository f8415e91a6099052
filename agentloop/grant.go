package agentloop

import (
	"errors"
	"fmt"
	"slices"

	"sandboxd/exec"
	"sandboxd/policy"
)

// Level says how a protected name is held.
type Level string

const (
	// LevelKernel: read-only for the command. It needs a mount view.
	LevelKernel Level = "kernel"
	// LevelCheck: writable, and judged after the run.
	LevelCheck Level = "check"
	// LevelOff: not held.
	LevelOff Level = "off"
)

// ProtectedPath is a protected name that exists now, with links resolved.
type ProtectedPath struct {
	Path  string
	Level Level
}

// HostView is what of the host decides about the form of a view.
type HostView struct {
	// MountView says that fresh mounts are possible for this run, so that the
	// command sees only what is granted.
	MountView bool
	// Protected are the protected names of the workspace that exist.
	Protected []ProtectedPath
	// Daemon are directories of the daemon that starts the run, besides the usual
	// ones, and its socket.
	Daemon []string
	// Bare leaves out what is the caller's: the home is an empty one of this run
	// alone, and there are no toolchains besides those of the system.
	Bare bool
	// plans remembers what is known of the system, where the caller's cache is
	// not believed. Nil: the cache is used.
	plans *planMemory
	// BestEffort accepts what cannot be enforced, and is handed on.
	BestEffort bool
}

// Line is one grant of a plan, for people.
type Line struct {
	Path   string
	Access exec.Access
	Reason string
}

// Report tells what [Build] decided and why.
type Report struct {
	Workspace string
	// Home is HOME as the command sees it; HomeSource is the private directory
	// behind it. Both are empty when there is none.
	Home, HomeSource string
	// Temp is TMPDIR as the command sees it.
	Temp   string
	Grants []Line
	// Withheld are the variables that are not passed on; WithheldEnv are their
	// names.
	Withheld    []WithheldVar
	WithheldEnv []string
	// Protected are the protected names with the level that holds for this run.
	Protected []ProtectedPath
	Gaps      []exec.Gap
	// Added are the paths that were approved for this call alone.
	Added    []Line
	Warnings []string
	// UserNote says when the command runs as someone else than the caller.
	UserNote string
	// Cleanup removes what was made for this run alone. It is never nil, may
	// be called again, and is called after the command's tree has ended.
	Cleanup func() error
}

// builder holds one Build on its way. Every step reads the steps before it.
type builder struct {
	g policy.Grant
	c Caller
	h HostView
	r *resolver

	ws       Workspace
	id       identity
	own      []string // our own directories, links resolved
	realHome string   // the caller's home, links resolved; empty: none
	goEnv    map[string]string
	modCache string // as named
	cargo    string // cargo's home, links resolved
	base     string // of private homes and temporary directories
	baseErr  error
	home     privateHome
	denied   []string // what the user denied, links resolved
	temp     string
	set      *entrySet
	report   Report
	spec     exec.Spec
}

// Build turns a grant into everything about one run of argv. It starts no
// process, and creates files in our own directories only. After an error
// nothing is left to clean up.
func Build(g policy.Grant, c Caller, h HostView, argv []string) (exec.Spec, Report, error) {
	b := &builder{g: g, c: c, h: h, r: newResolver(usualPaths), set: newEntrySet()}
	b.report.Cleanup = func() error { return nil }
	for _, step := range []func() error{b.chooseWorkspace, b.limits, b.reach, b.chooseHome, b.view, b.startDir, b.environment} {
		if err := step(); err != nil {
			return exec.Spec{}, b.report, errors.Join(err, b.report.Cleanup())
		}
	}
	if err := b.program(argv); err != nil {
		return exec.Spec{}, b.report, errors.Join(err, b.report.Cleanup())
	}
	b.describe()
	return b.spec, b.report, nil
}

func (b *builder) warn(format string, args ...any) {
	b.report.Warnings = append(b.report.Warnings, fmt.Sprintf(format, args...))
}

func (b *builder) chooseWorkspace() error {
	for _, dir := range append([]string{b.c.StateDir, b.c.CacheDir, b.c.ConfigDir, "/etc/sandboxd", sharedBase}, b.daemonDirs()...) {
		if dir == "" {
			continue
		}
		if real, _, err := b.r.resolve(dir); err == nil {
			dir = real
		}
		b.own = append(b.own, dir)
	}
	ws, warnings, err := detectWorkspace(b.r, b.c.Cwd, b.g.Workspace, b.c)
	if err != nil {
		return err
	}
	b.ws, b.report.Workspace = ws, ws.Root
	b.report.Warnings = append(b.report.Warnings, warnings...)
	b.realHome, _ = b.r.realDir(b.c.Home)
	if b.realHome == "/" {
		b.realHome = ""
	}
	b.goEnv = readGoEnv(b.c.Environ, b.realHome)
	b.id, err = chooseIdentity(b.g.User, b.c, ws.node)
	if err != nil {
		return err
	}
	b.spec.User, b.report.UserNote = b.id.user, b.id.note
	return nil
}

// limits copies what needs no thought.
func (b *builder) limits() error {
	l := b.g.Limits
	b.spec.Limits = exec.Limits{
		Wall: l.Timeout, CPU: l.CPU, Memory: l.MemoryBytes, Tasks: l.Tasks, FileSize: l.FileBytes, OutputBytes: l.OutputBytes,
	}
	b.spec.Syscalls = b.g.Syscalls
	b.spec.NoExecWrite = b.g.NoExecWrite
	b.spec.BestEffort = b.h.BestEffort
	return nil
}

// view collects the entries, the weakest first.
func (b *builder) view() error {
	cache := planCache{dir: b.c.CacheDir, uid: b.c.UID, r: b.r, memory: b.h.plans}
	system := b.addSystem()
	b.addEtc(cache, system)
	if !b.h.Bare {
		b.addTools(cache, system)
	}
	b.addWorkspace()
	asked, err := b.pathGrants(b.g.Paths)
	if err != nil {
		return err
	}
	b.addAsked(asked)
	b.addProtected()
	b.addOwn()
	if err := b.addTemp(); err != nil {
		return err
	}
	b.addHome()
	b.hideSockets()
	if err := b.guardKernelMounts(); err != nil {
		return err
	}
	b.set.prune(b.ws.gitMounts(b.h))
	if err := b.fillHome(); err != nil {
		return err
	}
	if !b.h.MountView {
		b.set.carve()
	}
	b.finishView()
	return nil
}

// addWorkspace grants the workspace and what git needs with it.
func (b *builder) addWorkspace() {
	access, reason := exec.ReadWrite, "workspace"
	if b.g.ReadOnlyWorkspace {
		access, reason = exec.ReadOnly, "workspace, read-only by the mode"
	}
	b.set.addLinks(b.ws.Links)
	b.set.demand(exec.Entry{Path: b.ws.Root, Access: access, Reason: reason})
	for _, dir := range b.ws.GitDirs {
		b.set.add(exec.Entry{Path: dir, Access: access, Reason: "git directory of the workspace"})
	}
	for _, dir := range b.ws.gitMounts(b.h) {
		b.set.add(exec.Entry{Path: dir, Access: access, Reason: "git directory, held in its place"})
	}
}

// gitMounts are the .git directories that are bound onto themselves, so that
// they cannot be renamed away from the read-only names below them.
func (w Workspace) gitMounts(h HostView) []string {
	if !h.MountView || !w.Git {
		return nil
	}
	return []string{join(w.Root, ".git")}
}

// addAsked enters the paths of the policy.
func (b *builder) addAsked(list []asked) {
	for _, a := range list {
		if a.grant.OneCall {
			if up, ok := b.set.at(a.path); ok && up.Access >= a.access && up.Kind == exec.Bind {
				continue // granted anyhow
			}
			b.report.Added = append(b.report.Added, Line{Path: a.path, Access: a.access, Reason: "approved for this call"})
		} else if b.g.ReadOnlyWorkspace {
			a.access = min(a.access, exec.ReadOnly)
		}
		b.set.addLinks(a.links)
		e := exec.Entry{Path: a.path, Access: a.access, Demanded: a.access <= exec.Protect,
			Reason: fmt.Sprintf("%s %s (%s)", a.grant.Access, a.grant.Path, place(a.grant.Source))}
		if a.grant.Part == policy.RuleException {
			b.set.reopen(e)
			continue
		}
		b.set.demand(e)
		if a.access >= exec.ReadOnly {
			b.hideSecrets(a.path)
		}
		if a.access == exec.Deny {
			b.denied = append(b.denied, a.path)
		}
	}
	if b.realHome != "" && within(b.realHome, b.ws.Root) {
		b.hideSecrets(b.ws.Root)
	}
}

// hideSecrets keeps the secrets of the home out of a wide grant above them. An
// entry that names one of them opens it.
func (b *builder) hideSecrets(granted string) {
	if b.realHome == "" || !within(granted, b.realHome) && !within(b.realHome, granted) {
		return
	}
	for _, rel := range homeSecrets {
		secret := b.realHome + "/" + rel
		if secret == granted || !within(secret, granted) || b.r.lstat(secret).err != nil {
			continue
		}
		if real, _, err := b.r.resolve(secret); err == nil && real != b.ws.Root && !within(b.ws.Root, real) {
			b.set.add(exec.Entry{Path: real, Access: exec.Deny, Optional: true, Reason: "secret of the home; name it to open it"})
		}
	}
}

// addProtected holds the protected names at their level.
func (b *builder) addProtected() {
	lowered := 0
	for _, p := range b.h.Protected {
		if b.unprotected(p.Path) && p.Level == LevelKernel {
			p.Level = LevelCheck
		}
		if p.Level == LevelKernel && !b.h.MountView {
			p.Level = LevelCheck
			lowered++
		}
		b.report.Protected = append(b.report.Protected, p)
		if p.Level == LevelKernel && !b.g.ReadOnlyWorkspace {
			b.set.add(exec.Entry{Path: p.Path, Access: exec.Protect, Optional: true, Reason: "protected name; --unprotect opens it"})
		}
	}
	if lowered > 0 {
		b.gap("protected names", "no mount view on this host", "checked after the run, changes that run code are undone")
	}
}

func (b *builder) unprotected(path string) bool {
	return slices.ContainsFunc(b.g.Paths, func(g policy.PathGrant) bool {
		if g.Access != policy.GrantUnprotect {
			return false
		}
		named, err := b.expand(g)
		if err != nil {
			return false
		}
		if real, _, err := b.r.resolve(named); err == nil {
			named = real
		}
		return within(path, named)
	})
}

// addOwn keeps our state and policy out of a writable tree above them, which
// only a named workspace or a wide grant can be.
func (b *builder) addOwn() {
	for _, dir := range b.own {
		if up, ok := b.set.at(dir); ok && up.Access == exec.ReadWrite && b.r.lstat(dir).err == nil {
			b.set.demand(exec.Entry{Path: dir, Access: exec.Deny, Optional: true, Demanded: true, Reason: "sandboxd's own state"})
		} else if ok && up.Access != exec.Deny && b.r.lstat(dir).err == nil {
			b.set.add(exec.Entry{Path: dir, Access: exec.Deny, Optional: true, Reason: "sandboxd's own state"})
		}
	}
}

func (b *builder) gap(part, why, instead string) {
	b.report.Gaps = append(b.report.Gaps, exec.Gap{Part: part, Why: why, Instead: instead})
}

// finishView copies the entries into the Spec.
func (b *builder) finishView() {
	b.spec.View.Entries = b.set.sorted()
	if !b.h.MountView {
		return
	}
	for path, target := range b.set.links {
		if _, covered := b.set.above(path); !covered {
			b.spec.View.Links = append(b.spec.View.Links, exec.Link{Path: path, Target: target})
		}
	}
	slices.SortFunc(b.spec.View.Links, func(x, y exec.Link) int {
		if len(x.Path) != len(y.Path) {
			return len(x.Path) - len(y.Path)
		}
		if x.Path < y.Path {
			return -1
		}
		return 1
	})
}

// describe fills the report from the finished Spec.
func (b *builder) describe() {
	for _, e := range b.spec.View.Entries {
		b.report.Grants = append(b.report.Grants, Line{Path: e.Path, Access: e.Access, Reason: e.Reason})
	}
	for _, w := range b.report.Withheld {
		b.report.WithheldEnv = append(b.report.WithheldEnv, w.Name)
	}
}
