package policy

import (
	"strings"

	"sandboxd/policy/bash"
)

// partKind is what a part of a call is.
type partKind uint8

const (
	partTool     partKind = iota // the call of a tool as a whole
	partPath                     // a path argument of a tool
	partHost                     // an address argument of a tool
	partCommand                  // a simple command of a script
	partRedirect                 // a redirection of a script
)

// part is one thing that must be allowed before the call is. A call is allowed
// when all its parts are.
type part struct {
	kind  partKind
	index int // of commands, accesses or hosts
	// opaque is why neither the read-only set nor the setting "default" covers
	// this part: a denied command could hide in it. Empty when they do.
	opaque string
}

// parts lists what must be allowed.
func (f *facts) parts() []part {
	var parts []part
	if f.isScript {
		parts = f.scriptParts()
		if !f.declared {
			parts = append(parts, part{kind: partTool})
		}
		return parts
	}
	for i := range f.accesses {
		if f.declared {
			parts = append(parts, part{kind: partPath, index: i})
		}
	}
	for i := range f.hosts {
		if f.declared {
			parts = append(parts, part{kind: partHost, index: i})
		}
	}
	if len(parts) == 0 {
		parts = append(parts, part{kind: partTool})
	}
	return parts
}

func (f *facts) scriptParts() []part {
	var parts []part
	opaque := make(map[int]string)
	for i := range f.analysis.Unknown {
		u := &f.analysis.Unknown[i]
		if !u.Unreadable() && opaque[u.Command] == "" {
			opaque[u.Command] = u.Kind.String() + ": " + u.Text
		}
	}
	for i := range f.commands {
		v := &f.commands[i]
		switch {
		case len(v.argv) == 0, v.cmd.Kind == bash.Function:
			continue
		case v.base == "exec" && len(v.argv) == 1:
			continue // it applies its redirections only
		}
		if opaque[i] == "" && f.transparent(i) {
			continue
		}
		parts = append(parts, part{kind: partCommand, index: i, opaque: opaque[i]})
	}
	for i := range f.accesses {
		if f.accesses[i].redirect && f.accesses[i].zone != discard {
			parts = append(parts, part{kind: partRedirect, index: i, opaque: opaque[f.accesses[i].command]})
		}
	}
	return parts
}

// transparent reports a launcher that does nothing but start what is listed as
// a command of its own, with nothing in its environment that matters.
func (f *facts) transparent(i int) bool {
	v := &f.commands[i]
	if !transparentLaunchers[v.base] || v.name != v.base || v.cmd.Kind == bash.ScriptFile || !harmlessAssigns(v.cmd.Assigns) {
		return false
	}
	switch v.base {
	case "env":
		for _, w := range v.argv[1:] {
			if name, _, ok := strings.Cut(w.Text, "="); ok && !harmlessVariable(name) {
				return false
			}
		}
	case "bash", "sh", "dash":
		if len(v.argv) != 3 || v.argv[1].Text != "-c" {
			return false
		}
	}
	for j := i + 1; j < min(len(f.commands), i+maxBehind); j++ {
		via := f.commands[j].cmd.Via
		if len(via) > 0 && bashBase(via[len(via)-1]) == v.base && len(f.commands[j].argv) > 0 {
			return true
		}
		if len(via) == 0 {
			return false
		}
	}
	return false
}

// maxBehind bounds how far behind a launcher its command is looked for: it is
// listed next, or after what its operands substitute.
const maxBehind = 16

func bashBase(s string) string { return s[strings.LastIndexByte(s, '/')+1:] }

// transparentLaunchers run their operands and have no effect of their own. An
// allow rule about the inner command is enough.
var transparentLaunchers = map[string]bool{
	"timeout": true, "time": true, "nice": true, "nohup": true, "stdbuf": true, "setsid": true, "ionice": true,
	"taskset": true, "chrt": true, "command": true, "builtin": true, "exec": true, "env": true, "xargs": true,
	"bash": true, "sh": true, "dash": true,
}

// harmlessVariables change what a program prints or for whom it builds, never
// what it runs.
var harmlessVariables = map[string]bool{
	"CI": true, "LANG": true, "LANGUAGE": true, "TZ": true, "TERM": true, "NO_COLOR": true, "FORCE_COLOR": true, "CLICOLOR": true,
	"COLUMNS": true, "LINES": true, "NODE_ENV": true, "RAILS_ENV": true, "RACK_ENV": true, "APP_ENV": true,
	"GOOS": true, "GOARCH": true, "GOARM": true, "GOAMD64": true, "CGO_ENABLED": true, "GOMAXPROCS": true, "GODEBUG": true, "GOTRACEBACK": true,
	"RUST_BACKTRACE": true, "RUST_LOG": true, "PYTHONUNBUFFERED": true, "PYTHONDONTWRITEBYTECODE": true, "PYTHONHASHSEED": true,
	"DEBUG": true, "VERBOSE": true, "LOG_LEVEL": true, "PORT": true, "SOURCE_DATE_EPOCH": true, "DEBIAN_FRONTEND": true,
	"GIT_TERMINAL_PROMPT": true, "GIT_PAGER_IN_USE": true, "GIT_OPTIONAL_LOCKS": true,
}

// exports reports a builtin that puts variables into the environment of what
// follows, which may change what it runs. The analyser lists the names.
func (v *commandView) exports() bool {
	all := v.base == "export"
	switch v.base {
	case "export", "declare", "typeset", "local", "readonly":
	default:
		return false
	}
	for _, w := range v.argv[1:] {
		if strings.HasPrefix(w.Text, "-") && strings.Contains(w.Text, "x") {
			all = true
		}
	}
	for _, w := range v.argv[1:] {
		name, _, _ := strings.Cut(w.Text, "=")
		if all && !strings.HasPrefix(name, "-") && (!w.Known() || !harmlessVariable(name)) {
			return true
		}
	}
	return false
}

func harmlessVariable(name string) bool {
	return harmlessVariables[strings.TrimSuffix(name, "+")] || strings.HasPrefix(name, "LC_")
}

func harmlessAssigns(words []bash.Word) bool {
	for _, w := range words {
		name, _, _ := strings.Cut(w.Text, "=")
		if !harmlessVariable(name) {
			return false
		}
	}
	return true
}

// allow returns the allow rule that covers a part.
func (s *state) allow(f *facts, p *part, w when) match {
	find := finder{when: w, command: -1, maybe: -1}
	if s.rules == nil || s.rules.table[AllowRule].count == 0 {
		return find.result()
	}
	t := &s.rules.table[AllowRule]
	find.allowBare(t, f, p, s.rules)
	if f.isScript {
		find.wholeScript(&t.commands, strings.TrimSpace(f.script))
	}
	switch p.kind {
	case partCommand:
		v := &f.commands[p.index]
		find.allowCommand(&t.commands, v)
		if p.opaque == "" {
			find.allowExec(t, v)
		}
	case partPath, partRedirect:
		find.allowPath(t, &f.accesses[p.index])
	case partHost:
		find.allowHost(t.hosts, &f.hosts[p.index])
	case partTool:
		find.allowArguments(t, f)
	}
	return find.result()
}

// assignsAllowed: variables set for a command must be harmless, unless the rule
// itself is written with them.
func (v *commandView) assignsAllowed(c *compiled) bool {
	if harmlessAssigns(v.cmd.Assigns) && harmlessAssigns(v.inherits) || c.pat.form != formCommand || c.pat.command.hasScript {
		return true
	}
	return len(c.pat.command.words) > 0 && strings.Contains(c.pat.command.words[0].prefix(), "=")
}

// allowBare: a rule about the whole tool. For tools with paths it covers those
// inside the roots only; for scripts it does not cover what a deny or ask rule
// about commands could be hidden in.
func (f *finder) allowBare(t *ruleTable, fa *facts, p *part, rules *RuleSet) {
	switch p.kind {
	case partPath:
		if z := fa.accesses[p.index].zone; z == outside {
			return
		}
	case partCommand, partRedirect:
		if p.opaque != "" && rules.table[DenyRule].count+rules.table[AskRule].count > 0 {
			return
		}
	case partTool, partHost:
	}
	f.bare(t, fa.canonical, fa.call.Tool)
	f.paramAllows(t, fa)
}

func (f *finder) paramAllows(t *ruleTable, fa *facts) {
	for _, c := range t.params[fa.canonical] {
		if f.better(c) && c.pat.matchParam(fa.call.Args) {
			f.found(c, fullMatch, -1)
		}
	}
}

func (f *finder) allowExec(t *ruleTable, v *commandView) {
	for _, c := range t.exec {
		if f.better(c) && v.name != "" && c.pat.text.match(v.name) && harmlessAssigns(v.cmd.Assigns) && harmlessAssigns(v.inherits) {
			f.found(c, fullMatch, v.index)
		}
	}
}

func (f *finder) allowPath(t *ruleTable, a *access) {
	if !a.known() || a.err != "" {
		return
	}
	switch a.verb {
	case effectRead:
		f.onePath(&t.read, a.real, a.command)
	case effectWrite:
		f.onePath(&t.write, a.real, a.command)
	case effectDelete:
		f.onePath(&t.remove, a.real, a.command)
	}
}

func (f *finder) allowHost(rules []*compiled, h *hostAccess) {
	if !h.known || h.target.broken != "" {
		return
	}
	for _, c := range rules {
		if !f.better(c) {
			continue
		}
		ok := false
		if c.pat.re != nil {
			ok = matchRegexp(c.pat.re, h.text, AllowRule)
		} else {
			ok = c.pat.host.match(&h.target, false)
		}
		if ok && !c.excepts(func(p *pattern) bool { return p.host.match(&h.target, true) }) {
			f.found(c, fullMatch, h.command)
		}
	}
}

// allowArguments: a content rule about a tool matches when the call has one
// text in a field of known meaning and nothing that nobody looked at.
func (f *finder) allowArguments(t *ruleTable, fa *facts) {
	if len(fa.unmatched) > 0 || len(fa.texts) != 1 {
		return
	}
	for _, c := range t.texts {
		if !f.better(c) || !c.pat.tool.match(fa.canonical, fa.call.Tool) {
			continue
		}
		text := fa.texts[0].text
		if c.pat.re != nil && matchRegexp(c.pat.re, text, AllowRule) || c.pat.re == nil && c.pat.text.match(text) {
			f.found(c, fullMatch, -1)
		}
	}
}
