package bash

import "strings"

// tar follows tar(1). The first word may be a bundle of options without dash.
func (a *analyzer) tar(v *invocation, p *program) {
	argv := v.argv
	if len(argv) > 1 && argv[1].Text != "" && argv[1].Text[0] != '-' && argv[1].Known() {
		argv = oldTar(p, argv)
	}
	g := parseArgs(p, argv)
	a.optionRoles(v, p, &g)
	st := v.st
	n := *v
	for _, o := range g.opts {
		switch o.name {
		case "checkpoint-action":
			act, code, _ := strings.Cut(o.val.Text, "=")
			if act == "exec" {
				a.startCode(v, code)
			}
			if hasHole(o.val.Text) {
				a.noteHere(UnknownOption, "tar --checkpoint-action")
			}
		case "C", "directory":
			n.st = a.fork(n.st)
			a.changeDir(n.st, o.val.Text)
		}
	}
	if g.computed {
		a.noteHere(UnknownOption, "tar")
	}
	file, hasFile := g.get("f", "file")
	create := g.has("c", "create", "r", "append", "u", "update", "A", "catenate", "delete")
	extract := g.has("x", "extract", "get")
	list := g.has("t", "list")
	if hasFile && file.Text != "-" {
		if host, _, remote := strings.Cut(file.Text, ":"); remote && !strings.Contains(host, "/") && !g.has("force-local") {
			a.effect(st, Effect{Kind: Network, Path: host, Command: a.cur})
		}
		if create {
			a.effect(st, Effect{Kind: Write, Path: file.Text, Source: Option, Command: a.cur})
			a.wrote(st, file.Text)
		} else {
			a.effect(st, Effect{Kind: Read, Path: file.Text, Source: Option, Command: a.cur})
		}
	}
	switch {
	case extract && !g.has("O", "to-stdout"):
		a.effect(n.st, Effect{Kind: Write, Path: ".", Tree: true, Some: true, Command: a.cur})
		for _, w := range g.ops {
			if !w.Glob {
				a.effect(n.st, Effect{Kind: Write, Path: w.Text, Tree: true, Command: a.cur})
			}
			a.wrote(n.st, w.Text)
		}
		if g.has("transform", "xform") || a.renamed && a.tarNew(st, file, hasFile) {
			a.noteHere(UnknownTarget, "names changed by tar --transform")
		}
		if a.tarNew(st, file, hasFile) || g.has("transform", "xform") {
			a.keepMade(&text{alts: []string{anyText}})
		}
	case create:
		if w, ok := g.get("T", "files-from"); ok {
			n.st.in = v.st.in
			a.listedIn(&n, w)
		}
		a.renamed = a.renamed || g.has("transform", "xform")
		a.each(&n, g.ops, Effect{Kind: Read, Tree: true})
		if g.has("remove-files") {
			a.each(&n, g.ops, Effect{Kind: Delete, Tree: true})
		}
	case list:
		if !g.odd && !g.computed && !g.has("I", "use-compress-program", "checkpoint-action", "to-command", "F", "info-script", "new-volume-script", "rsh-command") {
			a.setReadOnly()
		}
	}
	a.defaultOut(v)
	if v.st.out != nil {
		for _, w := range g.ops {
			v.st.out.from = appendFrom(v.st.out.from, w.Text)
		}
	}
}

// listedIn lists the files that a program reads because the file w names them,
// "-" for standard input.
func (a *analyzer) listedIn(v *invocation, w Word) {
	switch {
	case w.Text == "-":
		a.listed(v, v.st.in)
	case !w.Known():
		a.listed(v, &text{alts: []string{anyText}})
	default:
		a.listed(v, a.content(v.st, w.Text))
	}
}

// listed lists the files that a program reads because a list names them; one
// that is known at run time only may name any.
func (a *analyzer) listed(v *invocation, t *text) {
	if t == nil {
		return
	}
	for _, s := range t.alts {
		for _, f := range strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == 0 }) {
			if a.spend(1) {
				return
			}
			a.effect(v.st, Effect{Kind: Read, Path: f, Tree: true, Source: Code, Command: a.cur})
		}
	}
}

// tarNew reports whether an archive that is unpacked was made by the script, so
// that its content was chosen by it.
func (a *analyzer) tarNew(st *state, file Word, has bool) bool {
	if !has || file.Text == "-" {
		return !st.in.isWorld()
	}
	return a.written(st, file.Text) != nil
}

// oldTar rewrites "tar czf FILE" with options.
func oldTar(p *program, argv []Word) []Word {
	out := []Word{argv[0]}
	rest := argv[2:]
	for _, c := range argv[1].Text {
		out = append(out, Word{Text: "-" + string(c)})
		if strings.ContainsRune(p.vals, c) && len(rest) > 0 {
			out = append(out, rest[0])
			rest = rest[1:]
		}
	}
	return append(out, rest...)
}

// zip follows zip and unzip.
func (a *analyzer) zip(v *invocation, p *program) {
	argv := make([]Word, 0, len(v.argv))
	for i := 0; i < len(v.argv); i++ {
		w := v.argv[i]
		// -TT is an option of two letters with a value.
		if s, ok := strings.CutPrefix(w.Text, "-TT"); ok {
			if s == "" && i+1 < len(v.argv) {
				i++
				s = v.argv[i].Text
			}
			a.startCode(v, strings.TrimPrefix(s, "="))
			continue
		}
		argv = append(argv, w)
	}
	g := parseArgs(p, argv)
	a.optionRoles(v, p, &g)
	if g.computed {
		a.noteHere(UnknownOption, "zip")
	}
	if g.has("@") {
		a.listed(v, v.st.in)
	}
	if len(g.ops) > 1 && g.ops[0].Text == "-" {
		a.each(v, g.ops[1:], Effect{Kind: Read, Tree: true})
	}
	if len(g.ops) > 0 && g.ops[0].Text != "-" {
		name := g.ops[0].Text
		a.effect(v.st, Effect{Kind: Write, Path: name, Command: a.cur})
		a.wrote(v.st, name)
		a.each(v, g.ops[1:], Effect{Kind: Read, Tree: true})
		if g.has("m", "move") {
			a.each(v, g.ops[1:], Effect{Kind: Delete, Tree: true})
		}
	}
	a.defaultOut(v)
}

// splitFile follows split and csplit: --filter starts a command, the prefix
// names the files that are made.
func (a *analyzer) splitFile(v *invocation, p *program) {
	g := parseArgs(p, v.argv)
	a.optionRoles(v, p, &g)
	if g.computed {
		a.noteHere(UnknownOption, v.argv[0].Text)
	}
	if len(g.ops) > 0 {
		a.each(v, g.ops[:1], Effect{Kind: Read})
	}
	prefix := "x"
	if len(g.ops) > 1 && baseName(v.argv[0].Text) == "split" {
		prefix = g.ops[1].Text
	}
	if s, ok := g.get("f", "prefix"); ok {
		prefix = s.Text
	}
	if !g.has("filter") {
		a.effect(v.st, Effect{Kind: Write, Path: prefix + nameText, Command: a.cur})
		if len(g.ops) > 0 && a.written(v.st, g.ops[0].Text) != nil || !v.st.in.isWorld() {
			a.keepMade(&text{alts: []string{anyText}})
		}
	}
	a.defaultOut(v)
}
