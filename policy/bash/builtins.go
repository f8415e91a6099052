package bash

import (
	"slices"
	"strings"
)

// builtin runs a builtin of Bash; false when the name is none.
func (a *analyzer) builtin(v *invocation, name string) bool {
	if !isBuiltin(name) {
		return false
	}
	defer a.someOutput(v.st, v.argv)()
	a.cur = a.record(Command{Kind: Builtin, Argv: v.argv, Dir: v.st.dir(), InTable: true, Assigns: a.assignWords(v)})
	args := v.argv[1:]
	st := v.st
	switch name {
	case "eval":
		a.evalBuiltin(v, args)
		return true
	case "source", ".":
		a.source(v, args)
		return true
	case "command":
		a.commandBuiltin(v, args)
		return true
	case "builtin":
		if len(args) > 0 && args[0].Text == "--" {
			args = args[1:]
		}
		a.wrapped(v, "builtin", args)
		return true
	case "exec":
		a.execBuiltin(v, args)
		return true
	case "trap":
		a.trapBuiltin(v, args)
		return true
	case "jobs":
		if len(args) > 1 && args[0].Text == "-x" {
			a.start(v, args[1:])
		}
	case "fc":
		a.fcBuiltin(v, args)
	case "bind":
		a.bindBuiltin(v, args)
	case "enable":
		a.enableBuiltin(v, args)
	case "compgen", "complete", "compopt":
		a.completion(v, args)
	case "mapfile", "readarray":
		a.mapfile(v, args)
	case "read":
		a.read(v, args)
	case "printf":
		a.printf(v, args)
		return true
	case "echo":
		a.setReadOnly()
		a.echo(v, args)
		return true
	case "let":
		for _, w := range args {
			a.arithText(st, w.Text, 0)
		}
	case "test", "[":
		a.test(v, args)
	case "unset":
		a.unset(v, args)
	case "wait":
		a.waitBuiltin(v, args)
	case "getopts":
		if len(args) > 1 {
			a.assign(st, args[1].Text, []string{nameText}, false)
			values := a.anyParam(st)
			for _, w := range args[2:] { // the arguments given, and what is attached to -o
				values = addAlt(values, w.Text)
				if len(w.Text) > 2 && w.Text[0] == '-' {
					values = addAlt(values, w.Text[2:])
				}
			}
			a.assign(st, "OPTARG", values, false)
		}
	case "declare", "typeset", "local", "export", "readonly":
		d := declaration{export: name == "export", readonly: name == "readonly", local: name == "local"}
		for _, w := range args {
			d = a.declareText(st, w, d)
		}
	case "alias":
		a.aliasBuiltin(v, args)
	case "unalias":
		// The alias may still be used on the same line: it stays.
	case "hash":
		a.hashBuiltin(v, args)
	case "set":
		a.setBuiltin(v, args)
	case "shopt":
		a.shopt(v, args)
	case "shift":
		a.shift(v, args)
	case "cd":
		a.cd(v, args)
	case "pushd":
		a.pushd(v, args)
	case "popd":
		a.popd(v)
	case "pwd":
		st.out.write(withNewline(dirTexts(st.dirs)))
	case "history":
		a.history(v, args)
	case "exit", "return", "logout":
		st.dead = true
	case "help", "type", "dirs", "times", "caller", "umask", "ulimit", "kill", "false", "true", ":":
		if name == "kill" {
			break
		}
		a.defaultOut(v)
	}
	if harmlessBuiltin(name) || tellsOnly(name, args) {
		a.setReadOnly()
	}
	a.flushProcs(v.argv)
	for _, b := range v.env {
		a.special(st, b.name, b.alts)
	}
	return true
}

func withNewline(alts []string) []string {
	return mapAlts(alts, func(s string) string { return s + "\n" })
}

func (a *analyzer) anyParam(st *state) []string {
	var out []string
	for _, p := range st.params {
		out = union(out, p)
	}
	if len(out) == 0 || st.more {
		out = addAlt(out, worldText)
	}
	return out
}

func isBuiltin(name string) bool {
	switch name {
	case ":", ".", "[", "alias", "bg", "bind", "break", "builtin", "caller", "cd", "command", "compgen", "complete",
		"compopt", "continue", "declare", "dirs", "disown", "echo", "enable", "eval", "exec", "exit", "export", "false",
		"fc", "fg", "getopts", "hash", "help", "history", "jobs", "kill", "let", "local", "logout", "mapfile", "popd",
		"printf", "pushd", "pwd", "read", "readarray", "readonly", "return", "set", "shift", "shopt", "source",
		"suspend", "test", "times", "trap", "true", "type", "typeset", "ulimit", "umask", "unalias", "unset", "wait":
		return true
	}
	return false
}

// tellsOnly reports builtins that change something, called so that they print.
func tellsOnly(name string, args []Word) bool {
	switch name {
	case "jobs", "history", "alias", "hash", "trap":
		return len(args) == 0
	case "kill": // -0 looks whether a process is there
		if len(args) == 0 || args[0].Text != "-0" && args[0].Text != "-l" && args[0].Text != "-L" {
			return false
		}
		// A later -s would send a signal after all, and a file may have that name.
		return !slices.ContainsFunc(args[1:], func(w Word) bool { return !w.Known() || w.Glob || strings.HasPrefix(w.Text, "-") })
	}
	return false
}

// harmlessBuiltin lists those that change nothing outside the shell.
func harmlessBuiltin(name string) bool {
	switch name {
	case "kill", "fc", "enable", "bind", "hash", "history", "suspend", "trap", "alias", "jobs", "complete", "compgen":
		return false
	}
	return true
}

// wrapped runs the rest of a command line through a builtin that takes one.
func (a *analyzer) wrapped(v *invocation, via string, argv []Word) {
	saved, cur := a.via, a.cur
	a.via = append(slices.Clip(saved), via)
	n := *v
	n.argv = argv
	if len(argv) > 0 {
		a.withoutFunctions(&n)
	}
	a.via, a.cur = saved, cur
}

// withoutFunctions runs a command line for which functions do not count.
func (a *analyzer) withoutFunctions(v *invocation) {
	if a.depth > maxDepth {
		a.bound("nesting")
		return
	}
	a.depth++
	defer func() { a.depth-- }()
	w := v.argv[0]
	if !w.Known() {
		a.computed(v)
		return
	}
	if a.builtin(v, w.Text) {
		return
	}
	a.program(v)
}

func (a *analyzer) evalBuiltin(v *invocation, args []Word) {
	if len(args) > 0 && args[0].Text == "--" {
		args = args[1:]
	}
	via := a.via
	a.via = append(slices.Clip(via), "eval")
	undo := a.temporary(v)
	for _, code := range a.joinedArgs(v.st, args) {
		a.evalCode(v.st, code)
	}
	undo()
	a.via = via
}

// joinedArgs joins arguments with blanks, as eval and ssh do.
func (a *analyzer) joinedArgs(st *state, args []Word) []string {
	out := []string{""}
	for i, w := range args {
		alts := []string{w.Text}
		if w.Glob {
			alts = a.globTexts(st, w)
		} else if w.Many && !hasHole(w.Text) {
			alts = []string{anyText}
		}
		if i > 0 {
			out = cross(out, []string{" "})
		}
		out = cross(out, alts)
	}
	return out
}

// commandBuiltin runs command NAME, which skips functions; -v and -V only tell.
func (a *analyzer) commandBuiltin(v *invocation, args []Word) {
	for len(args) > 0 {
		s := args[0].Text
		if s == "--" {
			args = args[1:]
			break
		}
		if !strings.HasPrefix(s, "-") || len(s) < 2 {
			break
		}
		if strings.ContainsAny(s, "vV") {
			a.setReadOnly()
			a.tellPath(v, args[1:])
			return
		}
		args = args[1:]
	}
	if len(args) > 0 {
		a.wrapped(v, "command", args)
	}
}

// tellPath is the output of command -v and type -P: where a program is.
func (a *analyzer) tellPath(v *invocation, names []Word) {
	var alts []string
	for _, w := range names {
		if w.Known() && !strings.HasPrefix(w.Text, "-") {
			alts = addAlt(alts, w.Text+"\n")
			alts = addAlt(alts, "/"+worldText+"/"+w.Text+"\n")
		}
	}
	if len(alts) == 0 {
		alts = []string{anyText}
	}
	v.st.out.write(alts)
}

func (a *analyzer) execBuiltin(v *invocation, args []Word) {
	for len(args) > 0 {
		s := args[0].Text
		if s == "--" {
			args = args[1:]
			break
		}
		if len(s) < 2 || s[0] != '-' {
			break
		}
		args = args[1:]
		if i := strings.IndexByte(s, 'a'); i > 0 && i == len(s)-1 && len(args) > 0 {
			args = args[1:]
		} else if i > 0 {
			continue
		}
	}
	if len(args) == 0 {
		return
	}
	via, cur := a.via, a.cur
	a.via = append(slices.Clip(via), "exec")
	n := *v
	n.argv = args
	if !args[0].Known() {
		a.computed(&n)
	} else {
		a.program(&n)
	}
	a.via, a.cur = via, cur
}

func (a *analyzer) trapBuiltin(v *invocation, args []Word) {
	if len(args) > 0 && args[0].Text == "--" {
		args = args[1:]
	}
	if len(args) < 2 || args[0].Text == "-" || args[0].Text == "" || args[0].Text == "-p" || args[0].Text == "-l" {
		if len(args) == 1 && !args[0].Known() {
			a.noteHere(ComputedCode, "trap")
		}
		return
	}
	via := a.via
	a.via = append(slices.Clip(via), "trap")
	code := args[0].Text
	c := a.fork(v.st)
	a.evalCode(c, code)
	if len(a.traps) < 64 {
		a.traps = append(a.traps, trapCode{code, a.fork(v.st)})
	} else {
		a.bound("traps")
	}
	a.via = via
}
