package bash

import (
	"slices"
	"strings"
)

// find follows find(1): -exec and its kin start commands, -delete and -fprint
// change files.
func (a *analyzer) find(v *invocation) {
	argv := v.argv
	i := 1
	for i < len(argv) {
		s := argv[i].Text
		if s == "-H" || s == "-L" || s == "-P" || strings.HasPrefix(s, "-O") {
			i++
		} else if s == "-D" {
			i += 2
		} else {
			break
		}
	}
	var roots []Word
	for ; i < len(argv); i++ {
		s := argv[i].Text
		if strings.HasPrefix(s, "-") || s == "(" || s == "!" || s == ")" || s == "," {
			break
		}
		if argv[i].Many {
			a.noteHere(UnknownOption, "find "+s)
		}
		roots = append(roots, argv[i])
	}
	if i := slices.IndexFunc(argv, func(w Word) bool { return w.Text == "-files0-from" }); i >= 0 {
		roots = []Word{{Text: anyText}} // what -exec and -delete find may be anywhere
	} else if len(roots) == 0 {
		roots = []Word{{Text: "."}}
	}
	a.each(v, roots, Effect{Kind: Read, Tree: true, Names: true})
	safe := true
	for ; i < len(argv); i++ {
		w := argv[i]
		if startsUnknown(w.Text) {
			a.noteHere(UnknownOption, "find "+w.Text)
			safe = false
		}
		switch w.Text {
		case "-exec", "-execdir", "-ok", "-okdir":
			// What -exec starts is listed as commands of their own. -execdir
			// finds programs in the directories that it works in.
			safe = safe && w.Text == "-exec" && findsFiles(argv)
			i = a.findExec(v, i, roots, strings.HasSuffix(w.Text, "dir"))
		case "-delete":
			safe = false
			a.each(v, roots, Effect{Kind: Delete, Tree: true, NoFollow: true, Source: Option})
		case "-fprint", "-fprint0", "-fls", "-fprintf":
			safe = false
			if i+1 < len(argv) {
				i++
				a.effect(v.st, Effect{Kind: Write, Path: argv[i].Text, Source: Option, Command: a.cur})
				a.wrote(v.st, argv[i].Text)
				if w.Text == "-fprintf" {
					i++
				}
			}
		case "-files0-from":
			if i+1 < len(argv) {
				i++
				a.effect(v.st, Effect{Kind: Read, Path: argv[i].Text, Source: Option, Command: a.cur})
				a.listedIn(v, argv[i])
			}
		case "-newer", "-anewer", "-cnewer", "-samefile":
			i++
		case "-name", "-iname", "-path", "-ipath", "-wholename", "-regex", "-iregex", "-type", "-size", "-mtime",
			"-maxdepth", "-mindepth", "-user", "-group", "-perm", "-printf", "-lname", "-ilname", "-mmin", "-amin",
			"-cmin", "-atime", "-ctime", "-inum", "-links", "-uid", "-gid", "-fstype", "-regextype", "-context", "-xtype", "-used":
			i++
		}
	}
	if safe {
		a.setReadOnly()
	}
	a.defaultOut(v)
}

// findsFiles reports a find that names regular files alone: what it starts does
// not follow a link that lies in the tree.
func findsFiles(argv []Word) bool {
	files := false
	for i, w := range argv {
		switch w.Text {
		case "-L", "-follow", "-o", "-or", "!", "-not", "(", ",":
			return false
		case "-type":
			files = files || i+1 < len(argv) && argv[i+1].Text == "f"
		}
	}
	return files
}

// findExec reads the command of one -exec; {} stands for file names below the
// roots.
func (a *analyzer) findExec(v *invocation, i int, roots []Word, inDir bool) (last int) {
	argv := v.argv
	end := i + 1
	for end < len(argv) && argv[end].Text != ";" && !(argv[end].Text == "+" && argv[end-1].Text == "{}") {
		end++
	}
	cmd := slices.Clone(argv[i+1 : min(end, len(argv))])
	name := a.foundName(v, roots, inDir)
	for j, w := range cmd {
		if strings.Contains(w.Text, "{}") {
			cmd[j].Text = strings.ReplaceAll(w.Text, "{}", name)
			cmd[j].Many = false
		}
	}
	n := *v
	if inDir {
		n.st = a.fork(v.st)
		n.st.dirs = []string{""}
	}
	if len(cmd) > 0 {
		only := a.only
		a.only = findName(argv[:i])
		a.start(&n, cmd)
		a.only = only
	}
	return end
}

// findName is the pattern of -name that everything found must match, "" when
// there is none or it is not certain.
func findName(argv []Word) string {
	pattern := ""
	for i, w := range argv {
		switch w.Text {
		case "-o", "-or", ",", "!", "-not", "-prune":
			return ""
		case "-name":
			if i+1 < len(argv) && !hasHole(argv[i+1].Text) && !argv[i+1].Many {
				pattern = argv[i+1].Text
			}
		}
	}
	return pattern
}

// foundName is what {} may be.
func (a *analyzer) foundName(v *invocation, roots []Word, inDir bool) string {
	if inDir {
		return "./" + nameText
	}
	if len(roots) == 1 && roots[0].Known() && !strings.HasPrefix(roots[0].Text, "-") {
		return strings.TrimSuffix(roots[0].Text, "/") + "/" + belowText
	}
	return worldText
}

// xargs appends words from its input to a command.
func (a *analyzer) xargs(v *invocation, p *program) {
	starts, opts, computed := commandStarts(p, v.argv)
	g := args{opts: opts}
	if computed {
		a.noteHere(ComputedWord, "xargs")
	}
	in := v.st.in
	if f, ok := g.get("a", "arg-file"); ok {
		a.effect(v.st, Effect{Kind: Read, Path: f.Text, Source: Option, Command: a.cur})
		in = a.content(v.st, f.Text)
	}
	n := *v
	n.st = a.fork(v.st)
	n.st.in = newText("")
	if len(starts) == 0 {
		a.start(&n, append([]Word{{Text: "echo"}}, a.inputWords(in, &g)...))
		return
	}
	mark, replace := "", false
	for _, o := range opts {
		switch o.name {
		case "I", "i", "replace":
			replace, mark = true, o.val.Text
			if mark == "" {
				mark = "{}"
			}
		}
	}
	for _, i := range starts {
		cmd := v.argv[i:]
		if !replace {
			words := a.inputWords(in, &g)
			a.start(&n, append(slices.Clone(cmd), words...))
			if len(words) > 1 && (g.has("n", "max-args", "L", "l", "max-lines") || len(words) > 32) {
				for _, w := range words[:min(len(words), 32)] {
					a.start(&n, append(slices.Clone(cmd), w))
				}
			}
			continue
		}
		for _, line := range a.anyLine(in) {
			c := slices.Clone(cmd)
			for j := range c {
				if strings.Contains(c[j].Text, mark) {
					c[j].Text = strings.ReplaceAll(c[j].Text, mark, strings.TrimLeft(line, " \t"))
				}
			}
			a.start(&n, c)
		}
	}
}

// inputWords splits the input of xargs into arguments.
func (a *analyzer) inputWords(in *text, g *args) []Word {
	if in == nil || len(in.alts) != 1 {
		if in == nil {
			return []Word{{Text: worldText, Many: true}}
		}
		return []Word{{Text: anyText, Many: true}}
	}
	s := in.alts[0]
	if hasHole(s) {
		return []Word{{Text: worst(s), Many: true}}
	}
	var out []Word
	if g.has("0", "null", "d", "delimiter") {
		sep := "\x00"
		if d, ok := g.get("d", "delimiter"); ok {
			sep = escapes(d.Text, false)
		}
		for _, f := range strings.Split(strings.TrimSuffix(s, sep), sep) {
			out = append(out, Word{Text: f})
		}
		return out
	}
	return xargsWords(s)
}

// xargsWords splits as xargs does: blanks and newlines, with quotes and
// backslashes.
func xargsWords(s string) []Word {
	var out []Word
	var b strings.Builder
	has, quote := false, byte(0)
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			} else {
				b.WriteByte(c)
			}
		case c == '\'' || c == '"':
			quote, has = c, true
		case c == '\\' && i+1 < len(s):
			i++
			b.WriteByte(s[i])
			has = true
		case isBlank(c):
			if has {
				out = append(out, Word{Text: b.String()})
				b.Reset()
				has = false
			}
		default:
			b.WriteByte(c)
			has = true
		}
	}
	if has {
		out = append(out, Word{Text: b.String()})
	}
	return out
}

// parallel follows GNU parallel: a command line for a shell, with arguments from
// ::: or the input.
func (a *analyzer) parallel(v *invocation, p *program) {
	argv := v.argv
	cut := slices.IndexFunc(argv, func(w Word) bool { return strings.HasPrefix(w.Text, ":::") })
	head, sources := argv, []Word(nil)
	if cut >= 0 {
		head, sources = argv[:cut], argv[cut+1:]
	}
	starts, _, computed := commandStarts(p, head)
	if computed {
		a.noteHere(ComputedWord, "parallel")
	}
	var items []string
	for _, w := range sources {
		if !strings.HasPrefix(w.Text, ":::") {
			items = addAlt(items, w.Text)
		}
	}
	if cut < 0 {
		items = a.anyLine(v.st.in)
	}
	if len(items) == 0 {
		items = []string{worldText}
	}
	if len(starts) == 0 {
		for _, it := range items {
			a.startCode(v, it)
		}
		return
	}
	for _, i := range starts {
		for _, code := range a.joinedArgs(v.st, head[i:]) {
			for _, it := range items {
				if strings.Contains(code, "{") {
					a.startCode(v, replaceMarks(code, it))
				} else {
					a.startCode(v, code+" "+quoteWord(it))
				}
			}
		}
	}
}

// replaceMarks fills in the replacement strings of parallel and fd.
func replaceMarks(code, item string) string {
	for _, m := range [...]string{"{}", "{.}", "{/}", "{//}", "{/.}", "{1}", "{2}", "{#}", "{%}"} {
		code = strings.ReplaceAll(code, m, quoteWord(item))
	}
	return code
}

// fd follows fd(1): -x and -X start a command with what is found.
func (a *analyzer) fd(v *invocation, p *program) {
	argv := v.argv
	for i := 1; i < len(argv); i++ {
		s := argv[i].Text
		name, val, has := strings.Cut(s, "=")
		var cmd []Word
		switch {
		case s == "-x" || s == "--exec" || s == "-X" || s == "--exec-batch":
			cmd = slices.Clone(argv[i+1:])
		case has && (name == "--exec" || name == "--exec-batch"):
			cmd = append([]Word{{Text: val}}, argv[i+1:]...)
		case len(s) > 2 && s[0] == '-' && s[1] != '-' && strings.ContainsAny(s, "xX"):
			at := strings.IndexAny(s, "xX")
			cmd = slices.Clone(argv[i+1:])
			if at+1 < len(s) {
				cmd = append([]Word{{Text: s[at+1:]}}, cmd...)
			}
		case s == "--":
			i = len(argv)
			continue
		default:
			if startsUnknown(s) && argv[i].Many {
				a.noteHere(UnknownOption, "fd")
			}
			continue
		}
		if end := slices.IndexFunc(cmd, func(w Word) bool { return w.Text == ";" }); end >= 0 {
			cmd = cmd[:end]
		}
		found := false
		for j, w := range cmd {
			r := replaceMarks(w.Text, worldText)
			found = found || r != w.Text
			cmd[j].Text = r
		}
		if !found {
			cmd = append(cmd, Word{Text: worldText})
		}
		if len(cmd) > 0 {
			a.start(v, cmd)
		}
		return
	}
	g := parseArgs(p, argv)
	if !g.odd {
		a.setReadOnly()
	}
	if len(g.ops) > 1 {
		a.each(v, g.ops[1:], Effect{Kind: Read, Tree: true, Names: true})
	} else {
		a.effect(v.st, Effect{Kind: Read, Path: ".", Tree: true, Names: true, Command: a.cur})
	}
	a.defaultOut(v)
}
