package agentloop

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"sandboxd/exec"
	"sandboxd/policy"
)

// A hook of the managed policy judges what its client wants, so nothing of how it
// runs is the client's to choose: not its variables, its PATH, its home, the
// directory it starts in, what it can read, its limits, nor the program. What the
// client has to say is on standard input. It runs as the client all the same: a
// process of that user outside of any run may end it, which blocks, or trace it
// where the host permits that.

func managed(s policy.Source) bool { return s.Kind == policy.SourceManaged }

// order is the order in which the hooks of an event are asked. Where they may change
// the arguments those of the managed policy come last: they judge what will run.
func (r *HookRegistry) order(kind hookEvent) []Hook {
	if kind.name != EventPreToolUse {
		return r.hooks
	}
	own := func(h Hook) bool { c, ok := h.(*commandHook); return ok && managed(c.spec.Source) }
	first := slices.DeleteFunc(slices.Clone(r.hooks), own)
	return append(first, slices.DeleteFunc(slices.Clone(r.hooks), func(h Hook) bool { return !own(h) })...)
}

// managed is the environment without what the client chose. The home is that of
// the passwd file, for ~ in the policy and to hide its secrets.
func (env HookEnvironment) managed() HookEnvironment {
	who := CallerOf(env.Caller.UID, env.Caller.GID, env.Caller.Groups, nil)
	if env.View.MountView {
		who.StateDir, who.CacheDir = "", "" // all is fresh
	}
	who.ConfigDir = ""
	env.Caller, env.Grant, env.Trusts = who, env.Managed, nil
	env.View.Bare, env.View.plans = true, &planMemory{}
	return env
}

// managedEnv are the variables of such a hook that Build sets.
var managedEnv = []string{"HOME", "TMPDIR", "TMP", "TEMP", "USER", "LOGNAME"}

// detach gives the run of a managed hook its own variables and start directory. A
// start in the workspace would let its files in: python, node and git take code
// from where they stand.
func (h *commandHook) detach(spec *exec.Spec, report Report) {
	env := []string{"LANG=C.UTF-8", "SHELL=/bin/sh", "PWD=/"}
	if report.Home == "" && report.Temp != "" {
		env = append(env, "HOME="+report.Temp)
	}
	for _, entry := range spec.Env {
		if name, _, _ := strings.Cut(entry, "="); slices.Contains(managedEnv, name) {
			env = append(env, entry)
		}
	}
	for _, entry := range append(slices.Clone(h.env.Grant.EnvSet), h.told()...) {
		env = setEnv(env, entry)
	}
	slices.Sort(env)
	spec.Env, spec.Dir = env, "/"
}

// managedPath is PATH of such a hook: the system's directories, without one that
// the client can write.
func managedPath(c Caller) string {
	return strings.Join(slices.DeleteFunc(filepath.SplitList(defaultPath), func(dir string) bool { return changeable(dir, c) != nil }),
		string(filepath.ListSeparator))
}

// checkManaged refuses names of a managed hook's command that lead to what its
// client can write. Names in places that are fresh for each run lead nowhere yet.
func (p *hookProgram) checkManaged() error {
	if !managed(p.spec.Source) {
		return nil
	}
	for _, f := range p.files {
		return fmt.Errorf("%s lies in the workspace, where the client writes: the program of a managed hook lies outside", f.Path)
	}
	p.outside = slices.DeleteFunc(p.outside, func(path string) bool { return withinAny(path, privatePlaces) })
	for _, path := range append(p.starts(), p.outside...) {
		if err := changeable(path, p.env.Caller); err != nil {
			return fmt.Errorf("%s: what the command of a managed hook names is root's alone: %w", path, err)
		}
	}
	return nil
}

// starts are the directories outside of the workspace that the command changes to.
func (p *hookProgram) starts() (dirs []string) {
	for _, w := range hookWords(p.spec.Command, p.lookup) {
		if (w.head == "cd" || w.head == "pushd") && w.value != w.head && filepath.IsAbs(w.value) && !within(w.value, p.root) {
			dirs = append(dirs, w.value)
		}
	}
	return dirs
}

// privatePlaces are fresh for each run, or kernel file systems.
var privatePlaces = []string{"/tmp", "/var/tmp", "/dev", "/proc", "/sys"}

// changeable says who else than root can change what path leads to: the file, or a
// directory or link on the way. A directory that others may write counts also with
// the sticky bit: who makes a name first has it. Root as the client is as good as
// the administrator.
func changeable(path string, c Caller) error {
	if c.UID == 0 {
		return nil
	}
	r := newResolver(0)
	real, links, err := r.resolve(path)
	if err != nil {
		return unwrapPath(err)
	}
	ways := []string{real}
	for _, l := range links {
		ways = append(ways, filepath.Dir(l.Path))
	}
	for _, way := range ways {
		for at := way; ; at = filepath.Dir(at) {
			n := r.lstat(at)
			switch {
			case n.err != nil:
				return unwrapPath(n.err)
			case n.uid != 0:
				return fmt.Errorf("%s belongs to uid %d", at, n.uid)
			case n.mode&0o002 != 0, n.mode&0o020 != 0 && (int(n.gid) == c.GID || slices.Contains(c.Groups, int(n.gid))):
				return fmt.Errorf("%s can be written by the client", at)
			}
			if at == "/" {
				break
			}
		}
	}
	return nil
}
