package bash

import "strings"

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
