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

// stdinCode is a program whose input is code of a language that is not read: at,
// batch, psql, sqlite3, bc with system calls.
func (a *analyzer) stdinCode(v *invocation, p *program) {
	g := parseArgs(p, v.argv)
	a.optionRoles(v, p, &g)
	a.operands(v, p, &g)
	if in := v.st.in; in != nil && !in.pure {
		if baseName(v.argv[0].Text) == "at" || baseName(v.argv[0].Text) == "batch" {
			for _, s := range in.alts {
				a.startCode(v, s)
			}
		} else if !in.isWorld() {
			a.noteHere(UnknownCode, baseName(v.argv[0].Text)+" from standard input")
		}
	}
	if baseName(v.argv[0].Text) == "sqlite3" {
		g = a.sqlite(v)
	}
	if baseName(v.argv[0].Text) == "sqlite3" && len(g.ops) > 1 {
		for _, w := range g.ops[1:] {
			a.sql(v, w.Text)
		}
	}
	if baseName(v.argv[0].Text) == "crontab" {
		for _, w := range g.ops {
			a.codeFile(v, w)
		}
	}
	for _, o := range g.opts {
		switch o.name {
		case "c", "command", "e", "execute", "cmd", "init-command":
			a.sql(v, o.val.Text)
		}
	}
	if f, ok := g.get("f"); ok && (baseName(v.argv[0].Text) == "at" || baseName(v.argv[0].Text) == "batch") {
		for _, t := range a.scriptTexts(v.st, f.Text) {
			for _, s := range t.alts {
				a.startCode(v, s)
			}
		}
	}
	a.defaultOut(v)
}

// sqlite takes the command line of sqlite3 apart, whose long options have one
// dash; the data base is written.
func (a *analyzer) sqlite(v *invocation) args {
	p := program{single: true, long: "cmd= init= A append ascii bail batch box column csv deserialize echo header heap= help html interactive json line list lookaside== markdown maxsize= memtrace mmap= newline= nofollow noheader nonce= no-rowid-in-view nullvalue= pagecache== pcachetrace quote readonly safe separator= stats table tabs unsafe-testing version vfs= zip c x f= t u d C="}
	g := parseArgs(&p, v.argv)
	for _, w := range v.argv[1:] {
		if strings.HasPrefix(w.Text, "-A") && len(w.Text) > 2 { // -Acf ARCHIVE FILE
			a.noteHere(UnknownCode, "sqlite3 archive")
			a.each(v, g.ops, Effect{Kind: Write})
		}
	}
	for _, o := range g.opts {
		switch o.name {
		case "cmd":
			a.sql(v, o.val.Text)
		case "init":
			for _, s := range a.programFile(v, o.val) {
				a.noteHere(UnknownCode, "sqlite3 -init")
				for line := range strings.SplitSeq(s, "\n") {
					a.sql(v, line)
				}
			}
		case "f":
			a.effect(v.st, Effect{Kind: Write, Path: o.val.Text, Source: Option, Command: a.cur})
		case "A", "x":
			a.noteHere(UnknownCode, "sqlite3 archive")
			a.effect(v.st, Effect{Kind: Write, Path: ".", Tree: true, Command: a.cur})
		}
	}
	if len(g.ops) > 0 && g.ops[0].Text != ":memory:" && g.ops[0].Text != "" && !g.has("readonly") {
		db := g.ops[0]
		if s, ok := strings.CutPrefix(db.Text, "file:"); ok {
			s, _, _ = strings.Cut(strings.TrimPrefix(s, "//"), "?")
			db.Text = s
		}
		a.each(v, []Word{db}, Effect{Kind: Write})
	}
	return g
}

// sql follows statements for a data base client: its own commands and some
// functions reach outside the data base.
func (a *analyzer) sql(v *invocation, s string) {
	name, rest, _ := strings.Cut(strings.TrimSpace(s), " ")
	switch name {
	case ".shell", ".system", `\!`, "system":
		a.startCode(v, rest)
		return
	case ".tables", ".schema", ".headers", ".mode", ".databases", ".indexes", ".quit", ".exit", ".dump", ".help", ".width",
		`\d`, `\dt`, `\l`, `\q`, `\du`, `\dn`, `\x`, `\timing`, `\conninfo`:
		return
	}
	low := strings.ToLower(s)
	if i := strings.Index(low, "into '"); i >= 0 && strings.Contains(low, "vacuum") {
		file, _, _ := strings.Cut(s[i+len("into '"):], "'")
		a.effect(v.st, Effect{Kind: Write, Path: file, Source: Code, Command: a.cur})
	}
	odd := strings.HasPrefix(name, ".") || strings.Contains(s, `\`) || hasAnyHole(s)
	for _, f := range [...]string{"load_extension", "writefile", "vacuum", "edit(", "fts3_tokenizer", "attach", "program", "outfile", "dumpfile",
		"lo_export", "lo_import", "system", "source", "sys_exec", "pg_read", "pg_write", "create function", "language"} {
		odd = odd || strings.Contains(low, f)
	}
	if odd {
		a.noteHere(UnknownCode, baseName(v.argv[0].Text)+" "+s)
	}
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
