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
			a.assign(st, "OPTARG", a.anyParam(st), false)
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
	case "exit", "return", "logout":
		st.dead = true
	case "help", "type", "dirs", "times", "caller", "history", "umask", "ulimit", "kill", "false", "true", ":":
		if name == "kill" || name == "history" {
			break
		}
		a.defaultOut(v)
	}
	if harmlessBuiltin(name) {
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

func (a *analyzer) source(v *invocation, args []Word) {
	if len(args) > 0 && args[0].Text == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		return
	}
	via := a.via
	a.via = append(slices.Clip(via), v.argv[0].Text)
	defer func() { a.via = via }()
	a.sourceText(v, args[0], args[1:])
}

// sourceText reads a file into the present shell.
func (a *analyzer) sourceText(v *invocation, w Word, params []Word) {
	st := v.st
	if !w.Known() && !a.isProc(w.Text) {
		a.noteHere(ComputedCode, "file "+w.Text)
		if w.Glob {
			for _, m := range a.madeMatching(st, w.Text) {
				a.sourceText(v, Word{Text: m}, params)
			}
		}
		return
	}
	texts := a.scriptTexts(st, w.Text)
	if texts == nil {
		a.sourceOld(v, append([]Word{w}, params...))
		return
	}
	if len(params) > 0 {
		saved, more := st.params, st.more
		st.params, st.more = wordTexts(a, st, params)
		defer func() { st.params, st.more = saved, more }()
	}
	for _, t := range texts {
		a.evalText(v, t)
	}
}

// sourceOld reads a file that was there before: its commands are opaque, and so
// is what it does to the variables.
func (a *analyzer) sourceOld(v *invocation, argv []Word) {
	a.setOpaque()
	a.record(Command{Kind: ScriptFile, Argv: argv, Dir: v.st.dir(), Opaque: true, InTable: true})
	a.effect(v.st, Effect{Kind: Read, Path: argv[0].Text, Command: a.cur})
}

// scriptTexts lists the contents of a script operand that are known to come
// from the script; nil means a file that was there before.
func (a *analyzer) scriptTexts(st *state, p string) []*text {
	if t, ok := a.stream(st, p); ok {
		return []*text{t}
	}
	if f := a.written(st, p); f != nil {
		return f.contents
	}
	if !strings.Contains(p, "/") && st.has("PATH") {
		var out []*text
		for _, q := range a.byName(p) {
			out = append(out, a.files[q].contents...)
		}
		if len(out) > 0 {
			return out
		}
	}
	if t, ok := a.linkTarget(st, p); ok {
		return []*text{{alts: []string{worldText}, from: []string{t}, pure: true}}
	}
	if len(a.made) > 0 {
		return append([]*text{{alts: []string{worldText}, from: []string{p}, pure: true}}, a.made...)
	}
	return nil
}

// evalText runs a stream as code of the present shell.
func (a *analyzer) evalText(v *invocation, t *text) {
	if t.pure && len(t.from) > 0 {
		for _, f := range t.from {
			a.record(Command{Kind: ScriptFile, Argv: []Word{{Text: f}}, Dir: v.st.dir(), Opaque: true, InTable: true})
		}
		return
	}
	for _, f := range t.from {
		a.record(Command{Kind: ScriptFile, Argv: []Word{{Text: f}}, Dir: v.st.dir(), Opaque: true, InTable: true})
	}
	for _, s := range t.alts {
		a.evalCode(v.st, s)
		if t.touched {
			a.evalTails(v.st, s)
		}
	}
}

// evalTails reads what is left when lines were read away before.
func (a *analyzer) evalTails(st *state, s string) {
	for n := 0; n < 16; n++ {
		_, rest, ok := strings.Cut(s, "\n")
		if !ok || rest == "" {
			return
		}
		s = rest
		a.evalCode(a.fork(st), s)
	}
	a.noteHere(ComputedCode, "the rest of standard input")
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

func (a *analyzer) fcBuiltin(v *invocation, args []Word) {
	for i, w := range args {
		if strings.HasPrefix(w.Text, "-l") {
			return
		}
		if w.Text == "-e" && i+1 < len(args) {
			a.startCode(v, args[i+1].Text)
		}
	}
	a.noteHere(ComputedCode, "command of the history")
}

func (a *analyzer) bindBuiltin(v *invocation, args []Word) {
	for i, w := range args {
		if strings.HasPrefix(w.Text, "-x") {
			s := strings.TrimPrefix(w.Text, "-x")
			if s == "" && i+1 < len(args) {
				s = args[i+1].Text
			}
			if _, code, ok := strings.Cut(s, ":"); ok {
				a.evalCode(a.fork(v.st), strings.Trim(strings.TrimSpace(code), `"`))
			}
		}
	}
}

func (a *analyzer) enableBuiltin(v *invocation, args []Word) {
	for _, w := range args {
		if strings.HasPrefix(w.Text, "-") && strings.ContainsAny(w.Text, "f") {
			a.noteHere(UnknownCode, "builtin from a library")
			a.danger(LoaderVariable, "enable -f")
			return
		}
	}
}

// completion follows compgen and complete: -C runs a command, -F a function, -W
// expands its words.
func (a *analyzer) completion(v *invocation, args []Word) {
	for i := 0; i < len(args); i++ {
		s := args[i].Text
		if len(s) < 2 || s[0] != '-' {
			continue
		}
		for j := 1; j < len(s); j++ {
			if strings.IndexByte("ACFGWXPSo", s[j]) < 0 {
				continue
			}
			val := s[j+1:]
			if val == "" && i+1 < len(args) {
				i++
				val = args[i].Text
			}
			c := a.fork(v.st)
			switch s[j] {
			case 'C':
				a.evalCode(c, val)
			case 'F':
				n := *v
				n.st, n.argv = c, []Word{{Text: val}}
				a.run(&n)
			case 'W':
				a.document(c, val)
			}
			break
		}
	}
	a.defaultOut(v)
}

func (a *analyzer) mapfile(v *invocation, args []Word) {
	name := "MAPFILE"
	var code string
	shifted := false
	in := v.st.in
	for i := 0; i < len(args); i++ {
		s := args[i].Text
		if len(s) < 2 || s[0] != '-' {
			if s != "--" {
				name = s
			}
			continue
		}
		for j := 1; j < len(s); j++ {
			if s[j] == 't' {
				continue
			}
			val := s[j+1:]
			if val == "" && i+1 < len(args) {
				i++
				val = args[i].Text
			}
			if s[j] == 'C' {
				code = val
			}
			if s[j] == 'u' {
				in = v.st.input(val)
			}
			shifted = shifted || strings.IndexByte("snOd", s[j]) >= 0
			break
		}
	}
	lines, known := a.lines(in)
	nv := &variable{array: true, open: !known || shifted}
	for i, l := range lines {
		if shifted { // any of them may be anywhere
			nv.alts = addAlt(union(nv.alts, l), anyText)
			continue
		}
		nv.elems = append(nv.elems, element{itoa(int64(i)), l})
	}
	if isName(name) {
		v.st.set(name, nv)
		if name == "PROMPT_COMMAND" || name == "BASH_CMDS" {
			a.noteHere(ComputedCode, name)
		}
	} else {
		a.assignNamed(v.st, name, []string{""})
	}
	if code != "" {
		c := a.fork(v.st)
		arg := worldText
		if len(lines) > 0 {
			arg = lines[0][0]
		}
		a.evalCode(c, code+" 0 "+quoteWord(arg))
	}
}

// lines lists the lines of a stream; known is false when there may be others.
func (a *analyzer) lines(t *text) (lines [][]string, known bool) {
	if t == nil || len(t.alts) == 0 {
		return [][]string{{worldText}}, false
	}
	if len(t.alts) == 1 && !hasHole(t.alts[0]) {
		s := strings.TrimSuffix(t.alts[0], "\n")
		for _, l := range strings.SplitN(s, "\n", 64) {
			lines = append(lines, []string{l})
		}
		return lines, len(lines) < 64
	}
	var all []string
	for _, s := range t.alts {
		for _, l := range strings.Split(strings.TrimSuffix(s, "\n"), "\n") {
			all = addAlt(all, l)
		}
	}
	return [][]string{all}, false
}
