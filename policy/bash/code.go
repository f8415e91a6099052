package bash

import "strings"

// python follows python: -c and -m, a script, or code on standard input.
func (a *analyzer) python(v *invocation, p *program) {
	argv := v.argv
	i := 1
	for ; i < len(argv); i++ {
		s := argv[i].Text
		if argv[i].Many || startsUnknown(s) {
			break
		}
		if s == "-" || len(s) < 2 || s[0] != '-' {
			break
		}
		if s == "--version" || s == "--help" || s == "-V" || s == "-VV" || s == "-h" {
			a.setReadOnly()
			a.defaultOut(v)
			return
		}
		if strings.HasPrefix(s, "--") {
			if s == "--check-hash-based-pycs" {
				i++
			}
			continue
		}
		for j := 1; j < len(s); j++ {
			switch s[j] {
			case 'c':
				a.noteHere(UnknownCode, "python -c")
				a.defaultOut(v)
				return
			case 'm':
				mod := s[j+1:]
				rest := argv[i+1:]
				if mod == "" && len(rest) > 0 {
					mod, rest = rest[0].Text, rest[1:]
				}
				a.pythonModule(v, mod, rest)
				return
			case 'W', 'X':
				if j+1 == len(s) {
					i++
				}
				j = len(s)
			case 'i':
				a.noteHere(UnknownCode, "python -i")
			}
		}
	}
	a.programScript(v, argv[min(i, len(argv)):], "python")
}

// programScript runs a program file of another language, or standard input when there
// is none.
func (a *analyzer) programScript(v *invocation, rest []Word, lang string) {
	if len(rest) == 0 || rest[0].Text == "-" || rest[0].Text == "/dev/stdin" {
		if v.st.in != nil && v.st.in.pure && len(v.st.in.from) > 0 {
			for _, f := range v.st.in.from {
				a.scriptFile(v, []Word{{Text: f}})
			}
		} else {
			a.noteHere(UnknownCode, lang+" from standard input")
		}
		a.defaultOut(v)
		return
	}
	w := rest[0]
	switch {
	case !w.Known() && !a.isProc(w.Text):
		a.noteHere(UnknownCode, lang+" "+w.Text)
	case a.written(v.st, w.Text) != nil || a.isProc(w.Text):
		a.noteHere(UnknownCode, lang+" program of the script: "+w.Text)
		a.originCommands(v, w.Text)
	default:
		for _, ext := range [...]string{".js", ".mjs", ".cjs", ".ts", ".json", "/index.js", "/__main__.py", "/package.json"} {
			if a.written(v.st, w.Text+ext) != nil {
				a.noteHere(UnknownCode, lang+" program of the script: "+w.Text+ext)
			}
		}
		if t, ok := a.linkTarget(v.st, w.Text); ok {
			a.scriptFile(v, []Word{{Text: t}})
		} else if len(a.made) > 0 {
			a.noteHere(UnknownCode, lang+" "+w.Text)
		}
		a.scriptFile(v, rest)
		a.effect(v.st, Effect{Kind: Read, Path: w.Text, Command: a.cur})
	}
	a.defaultOut(v)
}

// pythonModule follows python -m: most modules are tools, some take code.
func (a *analyzer) pythonModule(v *invocation, mod string, rest []Word) {
	switch mod {
	case "timeit", "code", "asyncio", "idlelib":
		a.noteHere(UnknownCode, "python -m "+mod)
	case "pdb", "cProfile", "profile", "trace", "runpy", "coverage":
		for _, w := range rest {
			if strings.HasPrefix(w.Text, "-c") || strings.HasPrefix(w.Text, "--c") {
				a.noteHere(UnknownCode, "python -m "+mod+" "+w.Text)
			}
			if !strings.HasPrefix(w.Text, "-") && w.Text != "run" {
				if a.written(v.st, w.Text) != nil {
					a.noteHere(UnknownCode, w.Text)
				}
			}
		}
		a.setOpaque()
	case "venv", "virtualenv", "ensurepip":
		for _, w := range rest {
			if !strings.HasPrefix(w.Text, "-") {
				a.effect(v.st, Effect{Kind: Write, Path: w.Text, Tree: true, Command: a.cur})
			}
		}
		a.setOpaque()
	case "zipfile", "tarfile":
		if len(rest) > 1 && (strings.HasPrefix(rest[0].Text, "-c") || strings.HasPrefix(rest[0].Text, "--c")) {
			a.each(v, rest[1:2], Effect{Kind: Write})
			a.wrote(v.st, rest[1].Text)
		} else if len(rest) > 0 && (strings.HasPrefix(rest[0].Text, "-e") || strings.HasPrefix(rest[0].Text, "--e")) {
			dir := Word{Text: "."}
			if len(rest) > 2 {
				dir = rest[2]
			}
			a.effect(v.st, Effect{Kind: Write, Path: dir.Text, Tree: true, Command: a.cur})
			a.unknownWrites(v, rest[1:])
		}
		a.setOpaque()
	case "json.tool":
		if len(rest) > 1 {
			a.each(v, rest[1:2], Effect{Kind: Write})
		}
		if len(rest) > 0 {
			a.each(v, rest[:1], Effect{Kind: Read})
		}
	default:
		if a.written(v.st, strings.ReplaceAll(mod, ".", "/")+".py") != nil {
			a.noteHere(UnknownCode, "python -m "+mod)
		}
		a.setOpaque()
	}
	a.defaultOut(v)
}

// interpreter follows perl, ruby, node, php, lua and others by their table: code
// in options, program files, or standard input.
func (a *analyzer) interpreter(v *invocation, p *program) {
	g := parseInterpreter(p, v.argv)
	inline := false
	for _, o := range g.opts {
		switch p.role(o.name) {
		case roleCode:
			inline = true
			a.noteHere(UnknownCode, baseName(v.argv[0].Text)+" "+o.name)
			if o.name == "pi" {
				inline = true
			}
		case roleFile, roleLoad:
			if o.has {
				a.loaded(v, o.val)
			}
		case roleUnsafe:
			inline = true
		}
		if o.name == "version" || o.name == "help" || o.name == "v" && len(v.argv) == 2 {
			a.setReadOnly()
			a.defaultOut(v)
			return
		}
	}
	if g.computed {
		a.noteHere(UnknownOption, v.argv[0].Text)
	}
	if inline {
		inPlace := g.has("i")
		for _, w := range g.ops {
			kind := Read
			if inPlace {
				kind = Write
			}
			a.effect(v.st, Effect{Kind: kind, Path: w.Text, Glob: w.Glob, Command: a.cur})
		}
		a.defaultOut(v)
		return
	}
	a.programScript(v, g.ops, baseName(v.argv[0].Text))
}

// loaded is a library or start file that an interpreter is told to read.
func (a *analyzer) loaded(v *invocation, w Word) {
	if !w.Known() || strings.Contains(w.Text, ":") || a.written(v.st, w.Text) != nil || a.written(v.st, w.Text+".js") != nil {
		a.noteHere(UnknownCode, w.Text)
	}
}

// parseInterpreter parses options up to the program file; what follows belongs
// to the program.
func parseInterpreter(p *program, argv []Word) args {
	var g args
	for i := 1; i < len(argv); i++ {
		s := argv[i].Text
		if s == "--" {
			g.ops = argv[i+1:]
			return g
		}
		if startsUnknown(s) || len(s) < 2 || s[0] != '-' {
			g.computed = startsUnknown(s) && argv[i].Many
			g.ops = argv[i:]
			return g
		}
		i = g.option(p, argv, i)
	}
	return g
}

// jq follows jq: env prints secrets, the rest computes.
func (a *analyzer) jq(v *invocation, p *program) {
	g := parseArgs(p, v.argv)
	safe := !g.odd && !g.computed
	ops := g.ops
	if !g.has("f", "from-file") && len(ops) > 0 {
		if s := ops[0].Text; strings.Contains(s, "env") || strings.Contains(s, "$ENV") {
			for _, f := range strings.FieldsFunc(s, func(r rune) bool { return !isNameRune(r) }) {
				if f == "env" || f == "ENV" {
					a.danger(SecretRead, "jq "+s)
				}
			}
		}
		ops = ops[1:]
	}
	a.optionRoles(v, p, &g)
	if g.has("args", "jsonargs") {
		ops = nil
	}
	// --arg NAME VALUE and --slurpfile NAME FILE take two words.
	a.each(v, ops, Effect{Kind: Read})
	if g.has("in-place", "i") {
		safe = false
		a.each(v, ops, Effect{Kind: Write})
	}
	if safe {
		a.setReadOnly()
	}
	a.defaultOut(v)
}

func isNameRune(r rune) bool {
	return r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
}

// loader follows the dynamic loader called by name: its operand is a program.
func (a *analyzer) loader(v *invocation, p *program) {
	starts, _, computed := commandStarts(p, v.argv)
	if computed {
		a.noteHere(ComputedWord, "loader")
	}
	for _, i := range starts {
		a.start(v, v.argv[i:])
	}
}

// restToShell follows capsh: what stands behind -- are arguments of a shell.
func (a *analyzer) restToShell(v *invocation, p *program) {
	for i, w := range v.argv {
		if w.Text == "--" || w.Text == "==" {
			g := parseArgs(p, v.argv[:i])
			a.optionRoles(v, p, &g)
			a.start(v, append([]Word{{Text: "bash"}}, v.argv[i+1:]...))
			return
		}
	}
	a.defaultOut(v)
}

// busybox runs one of its applets, named by the first operand.
func (a *analyzer) busybox(v *invocation) {
	argv := v.argv[1:]
	if len(argv) > 0 && argv[0].Text == "--install" {
		for _, w := range argv[1:] {
			if !strings.HasPrefix(w.Text, "-") {
				a.effect(v.st, Effect{Kind: Write, Path: w.Text, Tree: true, Command: a.cur})
			}
		}
		a.setOpaque()
		return
	}
	if len(argv) == 0 || strings.HasPrefix(argv[0].Text, "--") {
		a.setReadOnly()
		return
	}
	a.start(v, argv)
}
