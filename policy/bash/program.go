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
	for _, t := range [][]program{launcherTable, writerTable, readerTable, networkTable, codeTable, buildTable, consoleTable} {
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
	if strings.HasPrefix(name, "git-") {
		return m["git"] // git-SUB is git SUB
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
	a.spend(len(v.st.vars) / 16) // they are looked through for what the program obeys
	defer a.someOutput(v.st, v.argv)()
	p := findProgram(name)
	a.cur = a.record(Command{Argv: v.argv, Dir: v.st.dir(), InTable: p != nil, Assigns: a.assignWords(v)})
	cur := a.cur
	tail := a.tail
	a.tail = 0
	a.runWritten(v, path)
	a.cur = cur
	a.envCode(v, name, p)
	a.cur = cur
	a.injected(v)
	a.cur = cur
	a.helpers(v, p)
	a.cur = cur
	switch {
	case a.query(v):
	case p == nil:
		a.unknownProgram(v)
	default:
		a.consumes(v)
		a.understand(v, p)
	}
	a.cur = cur
	a.mentions(v, p)
	a.tail = tail
	a.flushProcs(v.argv)
	a.cur = cur
}

// unknownProgram is one that is not in the tables: what it does with its
// arguments and its input is not known.
func (a *analyzer) unknownProgram(v *invocation) {
	a.setOpaque()
	if in := v.st.in; in != nil && !in.pure && !in.isWorld() {
		// It may be ruled by what it reads, as dc and mail are.
		a.noteHere(UnknownCode, v.argv[0].Text+" from standard input")
	}
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
	a.usualOutput(v, &g)
	if safe && !g.computed && !(p.ops == opsInOut && len(g.ops) > 1) {
		a.setReadOnly()
	}
	if g.computed && strings.ContainsAny(p.roles, "PSKFL") {
		a.noteHere(UnknownOption, v.argv[0].Text)
	}
	a.defaultOut(v)
}

// usualOutput lists what a program writes when no file is named.
func (a *analyzer) usualOutput(v *invocation, g *args) {
	file := ""
	tree := ""
	switch baseName(v.argv[0].Text) {
	case "ctags":
		file = "tags"
		if g.has("e") {
			file = "TAGS"
		}
	case "etags":
		file = "TAGS"
	case "unzip":
		if !g.has("l", "p", "t", "v", "Z", "z", "c") {
			tree = "."
			if d, ok := g.get("d"); ok {
				tree = d.Text
			}
		}
	case "patch":
		if d, ok := g.get("d", "directory"); ok {
			tree = d.Text
		} else if len(g.ops) == 0 {
			tree = "."
		}
		if g.has("dry-run") {
			tree = ""
		}
	case "cpio", "pax":
		if g.has("o", "p", "w", "create", "pass-through") {
			a.listed(v, v.st.in)
		}
		if g.has("i", "p", "r", "extract", "pass-through") {
			tree = "."
		}
	case "ar":
		if len(g.ops) == 0 {
			break
		}
		op := strings.TrimLeft(g.ops[0].Text, "-")
		if strings.ContainsAny(op, "rqdms") && len(g.ops) > 1 {
			a.each(v, g.ops[1:2], Effect{Kind: Write})
		} else if strings.Contains(op, "x") {
			tree = "."
		}
	}
	if tree != "" {
		a.effect(v.st, Effect{Kind: Write, Path: tree, Tree: true, Some: true, Command: a.cur})
	}
	if file != "" && !g.has("f", "o", "x") {
		a.effect(v.st, Effect{Kind: Write, Path: file, Command: a.cur})
	}
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
		if r != roleRead && r != roleNames && r != rolePattern && r != roleDir {
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
	case roleNames:
		e.Kind = Read
		a.effect(v.st, e)
		a.listedIn(v, o.val)
	case roleBoth:
		for _, e.Kind = range []EffectKind{Read, Write} {
			a.effect(v.st, e)
		}
		a.wrote(v.st, o.val.Text)
	case roleWrite:
		if s := o.val.Text; len(s) > 1 && (s[0] == '|' || s[0] == '!') && baseName(v.argv[0].Text) == "strace" {
			a.startCode(v, s[1:])
			return
		}
		if o.has && o.val.Text != "-" {
			e.Kind = Write
			a.effect(v.st, e)
			a.wrote(v.st, o.val.Text)
		}
	case roleProgram:
		if o.has {
			a.start(v, []Word{o.val})
		}
	case roleNamed: // valgrind joins the name to its directory: ../ leads out of it
		if o.has && strings.Contains(o.val.Text, "/") {
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
		e.Kind, e.Path = Network, hostOf(e.Path)
		a.effect(v.st, e)
	}
}

// start runs a command line without a shell.
func (a *analyzer) start(v *invocation, argv []Word) {
	via, cur := a.via, a.cur
	a.via = append(slices.Clip(via), baseName(v.argv[0].Text))
	if len(argv) > 0 && strings.Contains(argv[0].Text, "://") { // what npx and the like fetch
		a.effect(v.st, Effect{Kind: Network, Path: hostOf(argv[0].Text), Command: a.cur})
	}
	n := *v
	n.argv, n.shell = argv, false
	a.run(&n)
	a.via, a.cur = via, cur
	if i := len(v.argv) - len(argv); i > 0 && len(argv) > 0 && &v.argv[i] == &argv[0] {
		a.tail = max(a.tail, len(argv))
	}
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
	if g := parseArgs(p, v.argv); baseName(v.argv[0].Text) == "logsave" && len(g.ops) > 0 {
		a.effect(v.st, Effect{Kind: Write, Path: g.ops[0].Text, Command: a.cur})
	}
	slices.Sort(starts)
	for _, i := range slices.Compact(starts) {
		a.start(&n, v.argv[i:])
	}
	if len(starts) == 0 && hasField(shellByDefault, baseName(v.argv[0].Text)) && !g.has("help", "version", "list", "V") {
		a.start(&n, []Word{{Text: "sh"}})
	}
}

func (a *analyzer) wordsOf(ws []Word) []string {
	out := make([]string, len(ws))
	for i, w := range ws {
		out[i] = w.Text
	}
	return out
}
