package policy

import (
	"fmt"
	"slices"
	"strings"

	"sandboxd/policy/bash"
)

// safety applies the built-in checks. It settles what is denied outright; the
// rest gives the call a floor.
func (r *run) safety(possible match) (denied bool) {
	defer r.trace.begin(StageSafety)()
	if why, ok := r.refused(); ok {
		r.trace.say(Deny, why)
		r.settle(Deny, why)
		return true
	}
	r.unreadable()
	r.dangers()
	r.changes()
	r.placesOutside()
	for i := range r.facts.hosts {
		h := &r.facts.hosts[i]
		if h.known && h.target.broken != "" {
			r.ask(h.command, SafetyReason{Check: "host", Text: readable(h.text) + ": " + h.target.broken})
		}
	}
	if possible.rule != nil && !r.heldByKernel(possible) {
		r.ask(possible.command, possible.reason())
	}
	return false
}

// ask gives the call, and the command it is about, a floor.
func (r *run) ask(command int, why Reason) {
	r.trace.say(Ask, why)
	r.raise(why)
	r.floorOn(command, why)
}

// refused are calls that make no sense for anybody to approve.
func (r *run) refused() (Reason, bool) {
	f := r.facts
	for _, p := range f.problems {
		if p.Check == "working-dir" {
			return p, true
		}
	}
	if !f.isScript {
		for i := range f.accesses {
			if a := &f.accesses[i]; a.err != "" && f.declared {
				return SafetyReason{Check: "path", Text: orText(a.raw, `""`) + ": " + a.err}, true
			}
		}
	}
	if limit := r.e.cfg.MaxFileSize; limit > 0 && int64(f.bodyBytes) > limit {
		return SafetyReason{Check: "max-file-size", Text: fmt.Sprintf("%d bytes, at most %d", f.bodyBytes, limit)}, true
	}
	if !f.isScript || !f.declared {
		return nil, false
	}
	if strings.TrimSpace(f.script) == "" {
		return SafetyReason{Check: "empty-command", Text: "there is no command"}, true
	}
	if name, ok := bareShell(&f.analysis); ok {
		return SafetyReason{Check: "bare-shell", Text: name + " without a script waits for input that never comes"}, true
	}
	return nil, false
}

// bareShell reports a script that is nothing but a shell without code.
func bareShell(a *bash.Analysis) (string, bool) {
	if len(a.Commands) != 1 || len(a.Effects) > 0 {
		return "", false
	}
	c := &a.Commands[0]
	switch c.Name() {
	case "bash", "sh", "dash", "zsh", "ksh", "fish", "csh", "tcsh", "rbash":
	default:
		return "", false
	}
	for _, w := range c.Argv[1:] {
		if !strings.HasPrefix(w.Text, "-") || w.Text == "--version" || w.Text == "--help" {
			return "", false
		}
	}
	return c.Name(), true
}

// maxWords is how many words of a command the analyser lists. One that long may
// have more, and a rule could be about them.
const maxWords = 4096

// unreadable: a command could hide in what the analyser could not read.
func (r *run) unreadable() {
	for i := range r.facts.analysis.Unknown {
		if u := &r.facts.analysis.Unknown[i]; u.Unreadable() {
			check := "unreadable"
			switch u.Kind {
			case bash.BareShell:
				check = "bare-shell"
			case bash.ShellInput:
				check = "shell-input"
			default:
			}
			r.ask(u.Command, SafetyReason{Check: check, Text: withText(u.Kind.String(), readable(u.Text))})
		}
	}
	for i := range r.facts.commands {
		if len(r.facts.commands[i].argv) >= maxWords {
			r.ask(i, SafetyReason{Check: "unreadable", Text: "a command with more words than are read"})
		}
	}
	for _, p := range r.facts.problems {
		r.ask(-1, p)
	}
}

// dangers are findings of the analyser and of the table of commands.
func (r *run) dangers() {
	a := &r.facts.analysis
	for i := range a.Dangers {
		if d := &a.Dangers[i]; d.Kind != bash.SecretRead {
			r.ask(d.Command, SafetyReason{Check: checkName(d.Kind), Text: readable(d.Text)})
		}
	}
	for i := range r.facts.commands {
		v := &r.facts.commands[i]
		if rule := r.e.danger.on.dangerRule(v); rule != nil {
			r.ask(i, SafetyReason{Check: "dangerous-command", Text: rule.content() + ": " + rule.Reason})
		} else if rule := r.e.danger.off.dangerRule(v); rule != nil {
			r.trace.note("dangerous command " + rule.content() + " is switched off by " + rule.Source.String())
		}
	}
}

func checkName(k bash.DangerKind) string { return strings.ReplaceAll(k.String(), " ", "-") }

// changes are writes and removals outside the roots or of protected names.
func (r *run) changes() {
	for i := range r.facts.accesses {
		a := &r.facts.accesses[i]
		if a.verb == effectRead || a.zone == discard || !r.facts.declared {
			continue
		}
		switch {
		case r.removesRoot(a):
			r.ask(a.command, SafetyReason{Check: "whole-root", Text: "removes the whole of " + a.real})
		case r.sweepsGit(a):
			r.ask(a.command, SafetyReason{Check: "protected-path", Text: a.verb.String() + " of whatever lies below " + a.walk.dir + ", .git too"})
		case a.protected != "":
			r.ask(a.command, SafetyReason{Check: "protected-path", Text: a.real + ": " + a.protected})
		case a.known() && a.zone < writeRoot:
			r.ask(a.command, SafetyReason{Check: "outside-roots", Text: a.verb.String() + " " + a.real})
		}
	}
}

// sweepsGit reports a change of all files found in a tree that holds a .git,
// whose settings and hooks start programs. Where the kernel protects what is
// there nothing is asked.
func (r *run) sweepsGit(a *access) bool {
	return a.some && a.glob && a.walk != nil && a.known() && a.zone >= writeRoot && r.e.cfg.Confinement != FullyConfined &&
		(a.wants("config") || a.wants("pre-commit")) && exists(a.walk.dir+"/.git/config")
}

// placesOutside are programs that run in a directory outside the writable roots.
// What a program does there is not told by its arguments, unless it only reads.
// What a shell elsewhere runs (ssh, docker exec) does not run here.
func (r *run) placesOutside() {
	f := r.facts
	for i := range f.commands {
		v := &f.commands[i]
		c := v.cmd
		if c.ReadOnly || c.Kind == bash.Function || c.Kind == bash.Builtin || len(v.argv) == 0 || !strings.HasPrefix(c.Dir, "/") ||
			c.Dir == r.e.cfg.Workspace || strings.Contains(c.Dir, bash.Hole) || slices.ContainsFunc(c.Via, runsElsewhere) || f.transparent(i) {
			continue
		}
		a := r.e.effectAccess(&bash.Effect{Kind: bash.Write, Path: c.Dir})
		if a.known() && a.zone < writeRoot {
			r.ask(i, SafetyReason{Check: "working-dir", Text: v.base + " runs in " + a.real + ", outside the roots"})
		}
	}
}

// runsElsewhere reports launchers whose command sees other directories.
func runsElsewhere(launcher string) bool {
	switch bashBase(launcher) {
	case "ssh", "autossh", "slogin", "mosh", "rsh", "docker", "podman", "nerdctl", "kubectl", "oc", "docker-compose", "vagrant", "lxc", "chroot", "machinectl",
		"systemd-nspawn", "flatpak", "adb", "multipass", "wsl", "incus", "toolbox", "distrobox":
		return true
	}
	return false
}

// removesRoot reports the removal or move of a root itself, with its .git.
// find(1) with a condition names the root too, and removes what it finds.
func (r *run) removesRoot(a *access) bool {
	if a.verb != effectDelete || a.some || a.zone < writeRoot || a.command < 0 || r.facts.commands[a.command].base == "find" {
		return false
	}
	root, _ := r.e.zoneOf(a.real)
	return a.real == root
}

// heldByKernel: a possible match of a rule about one path without wildcards
// needs no question where the kernel refuses the access anyhow (see
// [Engine.KernelDenials]).
func (r *run) heldByKernel(m match) bool {
	if r.e.cfg.Confinement != FullyConfined || !r.facts.isScript || m.from == nil {
		return false
	}
	p := &m.from.pat
	lit, ok := p.path.literal()
	if !ok || len(m.from.except) > 0 {
		return false
	}
	read := p.form == formEffect && p.verb == effectRead
	if p.form == formPath {
		tool, _ := builtinTool(p.tool.name)
		read = tool.ReadOnly
	} else if p.form != formEffect || p.verb != effectRead && p.verb != effectWrite && p.verb != effectDelete {
		return false
	}
	if read {
		return true // hidden, or there is nothing to read
	}
	if _, z := r.e.zoneOf(lit); z < writeRoot {
		return true
	}
	// Among what may be written, what exists is made read-only; nothing holds
	// that a name is not made or removed.
	return !(p.form == formEffect && p.verb == effectDelete) && exists(lit)
}
