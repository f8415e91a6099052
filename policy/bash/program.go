package bash

import (
	"slices"
	"strings"
	"sync"
)

// programs indexes the tables by name. It is built on first use, so that a
// program that links this package pays nothing at its start.
var programs = sync.OnceValue(func() map[string]*program {
	m := make(map[string]*program, 1024)
	for _, t := range [][]program{launcherTable, writerTable, readerTable, networkTable, codeTable, buildTable} {
		for i := range t {
			names := t[i].names
			for names != "" {
				var n string
				n, names, _ = strings.Cut(names, " ")
				m[n] = &t[i]
			}
		}
	}
	return m
})

// findProgram looks a program up; version suffixes (python3.12) are known.
func findProgram(name string) *program {
	m := programs()
	if p := m[name]; p != nil {
		return p
	}
	if base := strings.TrimRight(name, "0123456789.-"); base != name && base != "" {
		if p := m[base]; p != nil && (p.how == howPython || p.how == howCode || p.how == howShell || p.how == howCompiler) {
			return p
		}
	}
	return nil
}

// program reads a command line whose command is a file.
func (a *analyzer) program(v *invocation) {
	path := v.argv[0].Text
	name := baseName(path)
	if v.shell {
		for _, h := range v.st.hashed[name] {
			if h != path && a.depth < maxDepth {
				a.again(v, h)
			}
		}
	}
	defer a.someOutput(v.st, v.argv)()
	p := findProgram(name)
	a.cur = a.record(Command{Argv: v.argv, Dir: v.st.dir(), InTable: p != nil, Assigns: a.assignWords(v)})
	cur := a.cur
	a.runWritten(v, path)
	a.cur = cur
	a.envCode(v, name, p)
	a.cur = cur
	a.injected(v)
	a.cur = cur
	if p == nil {
		a.unknownProgram(v)
	} else {
		a.consumes(v)
		a.understand(v, p)
	}
	a.flushProcs(v.argv)
	a.cur = cur
}

// unknownProgram is one that is not in the tables: what it does with its
// arguments and its input is not known.
func (a *analyzer) unknownProgram(v *invocation) {
	a.setOpaque()
	for _, w := range v.argv[1:] {
		if w.Known() && a.written(v.st, w.Text) != nil {
			a.noteHere(UnknownCode, v.argv[0].Text+" reads a file that the script wrote")
			break
		}
	}
	a.defaultOut(v)
}

func (a *analyzer) setOpaque() {
	if a.cur >= 0 && a.cur < len(a.result.Commands) {
		a.result.Commands[a.cur].Opaque = true
	}
}

func (a *analyzer) setReadOnly() {
	if a.cur >= 0 && a.cur < len(a.result.Commands) {
		a.result.Commands[a.cur].ReadOnly = true
	}
}

func (a *analyzer) setPlain(ws []Word) {
	if a.cur >= 0 && a.cur < len(a.result.Commands) {
		c := make([]Word, len(ws))
		for i, w := range ws {
			w.Text = publicText(w.Text)
			c[i] = w
		}
		a.result.Commands[a.cur].Plain = c
	}
}

func (a *analyzer) assignWords(v *invocation) []Word {
	if len(v.env) == 0 {
		return nil
	}
	out := make([]Word, 0, len(v.env))
	for _, b := range v.env {
		for _, s := range b.alts {
			out = append(out, Word{Text: publicText(b.name + "=" + s)})
		}
	}
	return out
}

// defaultOut is the output of a program that is not modelled: unknown, and
// derived from what it was given.
func (a *analyzer) defaultOut(v *invocation) {
	if v.st.out == nil && v.st.err == nil {
		return
	}
	hole := worldText
	if !v.st.in.isWorld() {
		hole = anyText
	}
	for _, w := range v.argv[1:] {
		if strings.ContainsAny(w.Text, "$`\\") || hasAnyHole(w.Text) {
			hole = anyText
		}
		if len(a.files) > 0 && w.Known() && a.written(v.st, w.Text) != nil {
			hole = anyText
		}
	}
	v.st.out.derived(v.st.in, hole)
	if v.st.out != nil {
		for _, w := range v.argv[1:] {
			if w.Known() && !strings.HasPrefix(w.Text, "-") && len(v.st.out.from) < maxAlts {
				v.st.out.from = append(v.st.out.from, w.Text)
			}
		}
	}
	if v.st.err != v.st.out {
		v.st.err.derived(nil, hole)
	}
}

// someOutput sees to it that a command which was not modelled to print anything
// prints something unknown where its output is kept, also on standard error. Only
// what is known to be silent may leave nothing.
func (a *analyzer) someOutput(st *state, argv []Word) func() {
	if st.out == nil && st.err == nil {
		return func() {}
	}
	out, errOut := st.out, st.err
	before := snapshot(out)
	return func() {
		hole := worldText
		for _, w := range argv {
			if strings.ContainsAny(w.Text, "\n$`\\") || hasAnyHole(w.Text) {
				hole = anyText
			}
		}
		if out != nil && sameText(out, before) && !silent(argv) {
			out.write([]string{anyText})
		}
		if errOut != nil {
			// A message may come, and hold the arguments.
			if len(errOut.alts) == 0 {
				errOut.alts = []string{""}
			}
			if !neverFails(argv) {
				errOut.alts = addAlt(errOut.alts, hole)
			}
		}
	}
}

func sameText(t, u *text) bool {
	return len(t.alts) == len(u.alts) && (len(t.alts) == 0 || &t.alts[0] == &u.alts[0])
}

// neverFails lists commands without messages.
func neverFails(argv []Word) bool {
	switch argv[0].Text {
	case "echo", "printf", ":", "true", "false":
		return true
	}
	return false
}

// silent lists commands that print nothing with these arguments.
func silent(argv []Word) bool {
	first := ""
	if len(argv) > 1 {
		first = argv[1].Text
	}
	switch name := baseName(argv[0].Text); name {
	case ":", "true", "false", "test", "[", "sleep", "shift", "exit", "return", "break", "continue", "let", "read", "mapfile",
		"readarray", "unset", "wait", "getopts", "eval", "source", ".", "exec", "command", "builtin", "local", "kill", "disown", "printf", "echo", "suspend":
		return true
	case "cd":
		return first != "-"
	case "trap", "alias", "declare", "typeset", "export", "readonly", "umask", "ulimit", "enable", "hash", "shopt", "complete", "bind":
		return first != "" && !strings.HasPrefix(first, "-p") && (name != "declare" && name != "typeset" || !strings.ContainsAny(first, "pfF")) &&
			first != "-l" && first != "-t" && (name != "alias" || strings.Contains(first, "=")) && (name != "trap" || len(argv) > 2)
	case "set":
		return first != "" && first != "-o" && first != "+o" || len(argv) > 2
	case "mkdir", "touch", "rm", "cp", "mv", "ln", "chmod", "chown", "install", "rmdir", "truncate", "mkfifo":
		for _, w := range argv[1:] {
			if strings.HasPrefix(w.Text, "-") && strings.ContainsAny(w.Text, "vi") || hasHole(w.Text) && startsUnknown(w.Text) {
				return false
			}
		}
		return true
	}
	return false
}

// runWritten runs a program that the script itself made.
func (a *analyzer) runWritten(v *invocation, path string) {
	if len(a.files) == 0 && len(a.made) == 0 && !a.concurrent {
		return
	}
	if strings.Contains(path, "/") {
		if f := a.written(v.st, path); f != nil {
			a.execFile(v, path, f)
		} else if t, ok := a.linkTarget(v.st, path); ok {
			a.again(v, t)
		} else if len(a.made) > 0 {
			for _, m := range a.made {
				a.execText(v, m)
			}
		}
		return
	}
	changed := a.pathChanged(v)
	for _, p := range a.byName(baseName(path)) {
		dir, _ := cutLast(p)
		if !changed && !strings.HasSuffix(dir, "/bin") && !strings.HasSuffix(dir, "/sbin") {
			continue
		}
		if f := a.files[p]; len(f.contents) > 0 {
			a.execFile(v, p, f)
		} else if f.target != "" {
			a.again(v, f.target)
		}
	}
}

// linkTarget is where a link of the script points, when that is no file of it.
func (a *analyzer) linkTarget(st *state, p string) (string, bool) {
	for _, d := range st.dirs {
		abs := clean(absolute(d, p))
		if r := clean(a.resolve(abs, true)); r != abs {
			return r, true
		}
	}
	return "", false
}

// pathChanged reports whether PATH was set, so that a name may be found elsewhere.
func (a *analyzer) pathChanged(v *invocation) bool {
	if v.st.has("PATH") {
		return true
	}
	return slices.ContainsFunc(v.env, func(b binding) bool { return b.name == "PATH" })
}

// execFile runs a file with contents that the script chose.
func (a *analyzer) execFile(v *invocation, path string, f *file) {
	if a.depth > maxDepth/2 {
		return
	}
	a.effect(v.st, Effect{Kind: Exec, Path: path, Command: a.cur})
	if f.built {
		return
	}
	for _, t := range f.contents {
		a.execText(v, t)
	}
}

// execText runs a text as the kernel or the shell would: by its first line, or
// as shell code.
func (a *analyzer) execText(v *invocation, t *text) {
	via := a.via
	a.via = append(slices.Clip(via), v.argv[0].Text)
	defer func() { a.via = via }()
	if t.pure && len(t.from) > 0 {
		for _, f := range t.from {
			if f != v.argv[0].Text {
				a.again(v, f)
			}
		}
		return
	}
	for _, f := range t.from {
		a.again(v, f)
	}
	for _, s := range t.alts {
		a.execCode(v, s)
	}
}

func (a *analyzer) execCode(v *invocation, s string) {
	interp, ok := strings.CutPrefix(s, "#!")
	if !ok {
		a.shellCode(v, s, v.argv[1:], v.argv[0].Text, true)
		return
	}
	line, body, _ := strings.Cut(interp, "\n")
	words := strings.Fields(line)
	if len(words) == 0 {
		return
	}
	prog := baseName(words[0])
	if prog == "env" {
		words = words[1:]
		for len(words) > 0 && (strings.HasPrefix(words[0], "-") || strings.Contains(words[0], "=")) {
			words = words[1:]
		}
		if len(words) == 0 {
			return
		}
		prog = baseName(words[0])
	}
	p := findProgram(prog)
	if p != nil && p.how == howShell {
		a.shellCode(v, body, v.argv[1:], v.argv[0].Text, true)
		return
	}
	argv := make([]Word, 0, len(words)+len(v.argv))
	for _, w := range words {
		argv = append(argv, Word{Text: w})
	}
	argv = append(argv, v.argv...)
	n := *v
	n.argv, n.shell = argv, false
	a.run(&n)
	if p != nil && (p.how == howPython || p.how == howCode) {
		a.noteHere(UnknownCode, prog+" program")
	}
}

// injected reads the command line once more with the file names that the script
// made and that a pattern among the arguments may bring in as options.
func (a *analyzer) injected(v *invocation) {
	if len(a.files) == 0 || a.depth > maxDepth/2 {
		return
	}
	for i, w := range v.argv {
		if !w.Glob || i == 0 {
			continue
		}
		var extra []Word
		for _, m := range a.madeMatching(v.st, w.Text) {
			if strings.HasPrefix(m, "-") {
				extra = append(extra, Word{Text: m})
			}
		}
		if len(extra) == 0 {
			continue
		}
		n := *v
		n.argv = append(append(append([]Word(nil), v.argv[:i]...), extra...), v.argv[i+1:]...)
		a.run(&n)
		return
	}
}

// understand reads the arguments of a program in the tables.
func (a *analyzer) understand(v *invocation, p *program) {
	if p.how != 0 {
		a.handle(v, p)
		return
	}
	if p.ops == opsLaunch {
		a.launch(v, p)
		return
	}
	g := parseArgs(p, v.argv)
	safe := p.ro && !g.odd
	if !a.optionRoles(v, p, &g) {
		safe = false
	}
	a.operands(v, p, &g)
	if safe && !g.computed && !(p.ops == opsInOut && len(g.ops) > 1) {
		a.setReadOnly()
	}
	if g.computed && strings.ContainsAny(p.roles, "PSKFL") {
		a.noteHere(UnknownOption, v.argv[0].Text)
	}
	a.defaultOut(v)
}

// optionRoles follows the values of options; false when one is not harmless.
func (a *analyzer) optionRoles(v *invocation, p *program, g *args) (safe bool) {
	safe = true
	if p.roles == "" {
		return safe
	}
	for _, o := range g.opts {
		r := p.role(o.name)
		if r == 0 {
			continue
		}
		if r != roleRead && r != rolePattern && r != roleDir {
			safe = false
		}
		a.optionRole(v, r, o)
	}
	return safe
}

func (a *analyzer) optionRole(v *invocation, r byte, o option) {
	e := Effect{Path: o.val.Text, Source: Option, Command: a.cur}
	switch r {
	case roleRead:
		e.Kind = Read
		a.effect(v.st, e)
	case roleWrite:
		if o.has && o.val.Text != "-" {
			e.Kind = Write
			a.effect(v.st, e)
			a.wrote(v.st, o.val.Text)
		}
	case roleProgram:
		if o.has {
			a.start(v, []Word{o.val})
		}
	case roleShell:
		if o.has {
			a.startCode(v, o.val.Text)
		}
	case roleCode:
		a.noteHere(UnknownCode, baseName(v.argv[0].Text)+" "+o.val.Text)
	case roleFile, roleLoad:
		e.Kind = Read
		a.effect(v.st, e)
		a.codeFile(v, o.val)
	case roleNet:
		e.Kind = Network
		a.effect(v.st, e)
	}
}

// codeFile is a file whose code a program runs.
func (a *analyzer) codeFile(v *invocation, w Word) {
	switch {
	case w.Text == "-" || w.Text == "/dev/stdin":
		a.noteHere(UnknownCode, baseName(v.argv[0].Text)+" from standard input")
	case !w.Known() && !onlyNames(w.Text):
		a.noteHere(UnknownCode, w.Text)
	case a.written(v.st, w.Text) != nil:
		a.noteHere(UnknownCode, "file of the script: "+w.Text)
		a.originCommands(v, w.Text)
	default:
		a.scriptFile(v, []Word{w})
	}
}

// scriptFile lists a file that was there before and is run by this command.
func (a *analyzer) scriptFile(v *invocation, argv []Word) {
	cur := a.cur
	via := a.via
	a.via = append(slices.Clip(via), baseName(v.argv[0].Text))
	a.record(Command{Kind: ScriptFile, Argv: argv, Dir: v.st.dir(), Opaque: true, InTable: true})
	a.via, a.cur = via, cur
	a.setOpaque()
}

// originCommands lists the files whose content a file of the script holds.
func (a *analyzer) originCommands(v *invocation, p string) {
	for _, f := range a.content(v.st, p).from {
		a.scriptFile(v, []Word{{Text: f}})
	}
}

// start runs a command line without a shell.
func (a *analyzer) start(v *invocation, argv []Word) {
	via, cur := a.via, a.cur
	a.via = append(slices.Clip(via), baseName(v.argv[0].Text))
	n := *v
	n.argv, n.shell = argv, false
	a.run(&n)
	a.via, a.cur = via, cur
}

// startCode runs text by a shell that a program starts.
func (a *analyzer) startCode(v *invocation, code string) {
	via, cur := a.via, a.cur
	a.via = append(slices.Clip(via), baseName(v.argv[0].Text))
	a.shellCode(v, code, nil, "sh", true)
	a.via, a.cur = via, cur
}

// launch unwraps a launcher of the tables.
func (a *analyzer) launch(v *invocation, p *program) {
	starts, opts, computed := commandStarts(p, v.argv)
	g := args{opts: opts}
	a.optionRoles(v, p, &g)
	if computed {
		a.noteHere(ComputedWord, strings.Join(a.wordsOf(v.argv), " "))
	}
	n := *v
	if d, ok := g.get("C", "chdir", "D", "wd", "cwd"); ok && p.role("C") == roleDir {
		n.st = a.fork(v.st)
		a.changeDir(n.st, d.Text)
	}
	slices.Sort(starts)
	for _, i := range slices.Compact(starts) {
		a.start(&n, v.argv[i:])
	}
}

func (a *analyzer) wordsOf(ws []Word) []string {
	out := make([]string, len(ws))
	for i, w := range ws {
		out[i] = w.Text
	}
	return out
}
