package bash

import (
	"slices"
	"strings"
)

// ed follows ed and red: commands come on standard input.
func (a *analyzer) ed(v *invocation, p *program) {
	g := parseArgs(p, v.argv)
	for _, w := range g.ops {
		if code, ok := strings.CutPrefix(w.Text, "!"); ok {
			a.startCode(v, code)
			continue
		}
		a.effect(v.st, Effect{Kind: Write, Path: w.Text, Command: a.cur})
		a.effect(v.st, Effect{Kind: Read, Path: w.Text, Command: a.cur})
		if v.st.in != nil && !v.st.in.pure {
			a.wrote(v.st, w.Text)
		}
	}
	if v.st.in == nil {
		a.noteHere(UnknownCode, "ed from the terminal")
		return
	}
	if v.st.in.pure && len(v.st.in.from) > 0 {
		for _, f := range v.st.in.from {
			a.scriptFile(v, []Word{{Text: f}})
		}
		return
	}
	for _, s := range v.st.in.alts {
		if hasAnyHole(s) || hasHole(s) {
			a.noteHere(UnknownCode, "ed commands")
		}
		a.edCommands(v, s)
	}
	a.defaultOut(v)
}

// edCommands reads the lines given to ed. Text that is inserted looks like
// commands too: it is skipped until the line with a dot.
func (a *analyzer) edCommands(v *invocation, s string) {
	inserting := false
	for _, line := range strings.Split(s, "\n") {
		if a.spend(2) {
			return
		}
		if inserting {
			inserting = line != "."
			continue
		}
		cmd := edStrip(line)
		if cmd == "" {
			continue
		}
		switch cmd[0] {
		case 'a', 'i', 'c':
			if rest := strings.TrimSpace(cmd[1:]); rest == "" || rest == "p" || rest == "n" || rest == "l" {
				inserting = true
				continue
			}
		case '!':
			a.startCode(v, cmd[1:])
			continue
		}
		a.edFile(v, cmd)
	}
}

// edStrip removes the addresses before a command.
func edStrip(s string) string {
	for i := 0; i < len(s); {
		switch c := s[i]; {
		case c == '/' || c == '?':
			end := delimited(s, i+1, c)
			if end < 0 {
				return ""
			}
			i = end + 1
		case c == '\'' && i+1 < len(s):
			i += 2
		case c >= '0' && c <= '9' || strings.IndexByte(".$,;+-^% \t", c) >= 0:
			i++
		case (c == 'g' || c == 'v' || c == 'G' || c == 'V') && i+1 < len(s):
			delim := s[i+1]
			if end := delimited(s, i+2, delim); end >= 0 && delim != ' ' {
				i = end + 1
				continue
			}
			return s[i:]
		default:
			return s[i:]
		}
	}
	return ""
}

// edFile follows r, e, w and their !command forms.
func (a *analyzer) edFile(v *invocation, cmd string) {
	if strings.IndexByte("reEwWf", cmd[0]) < 0 {
		return
	}
	rest := strings.TrimLeft(cmd[1:], "q")
	if !strings.HasPrefix(rest, " ") {
		return
	}
	rest = strings.TrimSpace(rest)
	if code, ok := strings.CutPrefix(rest, "!"); ok {
		a.startCode(v, code)
		return
	}
	if rest == "" {
		return
	}
	kind := Write
	if cmd[0] == 'r' {
		kind = Read
	}
	a.effect(v.st, Effect{Kind: kind, Path: rest, Source: Code, Command: a.cur})
	if kind == Write {
		a.wrote(v.st, rest)
	}
}

// vim follows vi, vim, ex, nvim and view: -c, --cmd and + carry commands.
func (a *analyzer) vim(v *invocation, p *program) {
	if baseName(v.argv[0].Text) == "ex" || slices.ContainsFunc(v.argv, func(w Word) bool {
		return len(w.Text) > 1 && w.Text[0] == '-' && w.Text[1] != '-' && strings.ContainsAny(w.Text, "eE")
	}) {
		q := *p // in Ex mode -s is silent, without value
		q.vals = strings.ReplaceAll(q.vals, "s", "")
		q.flags += "s"
		p = &q
	}
	g := parseArgs(p, v.argv)
	for _, w := range g.ops {
		if !strings.HasPrefix(w.Text, "+") {
			a.effect(v.st, Effect{Kind: Read, Path: w.Text, Glob: w.Glob, Command: a.cur})
		}
	}
	for _, o := range g.opts {
		switch o.name {
		case "c", "cmd":
			a.vimCommand(v, o.val.Text)
		case "S", "u", "U", "s", "l":
			if o.has && o.val.Text != "NONE" && o.val.Text != "" {
				a.codeFile(v, o.val)
			}
		case "w", "W":
			a.effect(v.st, Effect{Kind: Write, Path: o.val.Text, Source: Option, Command: a.cur})
		case "n":
		}
	}
	for _, w := range g.ops {
		if code, ok := strings.CutPrefix(w.Text, "+"); ok {
			a.vimCommand(v, code)
			continue
		}
		a.effect(v.st, Effect{Kind: Write, Path: w.Text, Command: a.cur})
	}
	if g.computed {
		a.noteHere(UnknownOption, v.argv[0].Text)
	}
	if in := v.st.in; in != nil && !in.pure {
		for _, s := range in.alts {
			for _, line := range strings.Split(s, "\n") {
				a.vimCommand(v, line)
			}
		}
	}
	a.setOpaque()
	a.defaultOut(v)
}

// vimCommand reads one ex command. Only the harmless few are known; those that
// start programs are followed, others are code that we do not read.
func (a *analyzer) vimCommand(v *invocation, s string) {
	s = strings.TrimLeft(s, " \t:")
	for _, pre := range [...]string{"silent!", "silent", "sil", "exe", "execute", "noautocmd", "keepjumps", "verbose"} {
		if rest, ok := strings.CutPrefix(s, pre); ok && (rest == "" || rest[0] == ' ' || rest[0] == '!') {
			s = strings.TrimLeft(rest, " \t:")
		}
	}
	body := edStrip(s)
	switch {
	case s == "" || body == "" || isQuit(s):
		return
	case body[0] == '!':
		code, _, _ := strings.Cut(body[1:], "|")
		a.startCode(v, code)
		a.startCode(v, body[1:])
		return
	case strings.Contains(body, "!"):
		_, code, _ := strings.Cut(body, "!")
		a.startCode(v, strings.TrimSpace(code))
		a.noteHere(UnknownCode, "ex command "+s)
		return
	}
	name, rest, _ := strings.Cut(body, " ")
	switch name {
	case "w", "write", "wq", "x", "xit", "sav", "saveas":
		if rest != "" {
			a.effect(v.st, Effect{Kind: Write, Path: rest, Source: Code, Command: a.cur})
		}
		return
	case "set", "se", "syntax", "d", "delete", "p", "print", "$", "normal", "noh", "nohlsearch", "number":
		if !strings.ContainsAny(rest, "!=(") {
			return
		}
	}
	if (body[0] == 's' || strings.HasPrefix(body, "substitute")) && len(body) > 1 && strings.IndexByte("/#,|", body[1]) >= 0 && !strings.Contains(body, "\\=") {
		return
	}
	a.noteHere(UnknownCode, "ex command "+s)
	a.quotedCommands(v, s)
}

// quotedCommands starts the strings in a text of another language: a help to
// name what may run, not a proof.
func (a *analyzer) quotedCommands(v *invocation, s string) {
	for i := 0; i < len(s); i++ {
		if s[i] != '"' && s[i] != '\'' && s[i] != '`' {
			continue
		}
		end := delimited(s, i+1, s[i])
		if end < 0 {
			return
		}
		if code := s[i+1 : end]; strings.Contains(s[:i], "system(") && !strings.Contains(s[:i], ")") {
			a.startCode(v, code)
		}
		i = end
	}
}

func isQuit(s string) bool {
	switch strings.TrimRight(s, "!") {
	case "q", "qa", "qall", "quit", "wq", "wqa", "x", "xa", "w", "wa", "cq", "e", "n", "1", "$":
		return true
	}
	return isDigits(s)
}

// editor follows other editors: they change their operands, and start what their
// user types.
func (a *analyzer) editor(v *invocation, p *program) {
	g := parseArgs(p, v.argv)
	a.optionRoles(v, p, &g)
	for _, w := range g.ops {
		if !strings.HasPrefix(w.Text, "+") {
			a.effect(v.st, Effect{Kind: Write, Path: w.Text, Command: a.cur})
			a.effect(v.st, Effect{Kind: Read, Path: w.Text, Command: a.cur})
		}
	}
	a.setOpaque()
}

// gdb follows gdb and lldb: -ex and -x carry commands, --args a program.
func (a *analyzer) gdb(v *invocation, p *program) {
	starts := -1
	for i, w := range v.argv {
		if w.Text == "--args" || w.Text == "-args" || w.Text == "--" {
			starts = i + 1
			break
		}
	}
	argv := v.argv
	if starts > 0 {
		argv = v.argv[:starts-1]
		if starts < len(v.argv) {
			a.start(v, v.argv[starts:])
		}
	}
	g := parseArgs(p, argv)
	for _, o := range g.opts {
		switch o.name {
		case "ex", "eval-command", "iex", "init-eval-command", "o", "O", "one-line", "k":
			a.gdbCommand(v, o.val.Text)
		case "x", "command", "ix", "init-command", "s", "source", "S":
			a.codeFile(v, o.val)
		}
	}
	if starts < 0 && len(g.ops) > 0 {
		a.start(v, g.ops[:1])
	}
	if in := v.st.in; in != nil && !in.pure {
		for _, s := range in.alts {
			for _, line := range strings.Split(s, "\n") {
				a.gdbCommand(v, line)
			}
		}
	}
	a.setOpaque()
	a.defaultOut(v)
}

// gdbArguments are given to the program by a shell.
func (a *analyzer) gdbArguments(v *invocation, s string) {
	if strings.ContainsAny(s, "$`;&|<>\n") || hasAnyHole(s) {
		a.startCode(v, ": "+s)
	}
}

// gdbSet follows set: some settings name a program, a file or a shell's words.
func (a *analyzer) gdbSet(v *invocation, s string) {
	name, val, _ := strings.Cut(s, " ")
	switch {
	case gitLong(name, "exec-wrapper", 6):
		a.startCode(v, val)
	case name == "args":
		a.gdbArguments(v, val)
	case name == "logging":
		if f, ok := strings.CutPrefix(val, "file "); ok {
			a.effect(v.st, Effect{Kind: Write, Path: strings.TrimSpace(f), Source: Code, Command: a.cur})
		} else {
			a.effect(v.st, Effect{Kind: Write, Path: "gdb.txt", Source: Code, Command: a.cur})
		}
	case name == "history", name == "environment", name == "auto-load", name == "sysroot", strings.ContainsAny(s, "("):
		a.noteHere(UnknownCode, "gdb set "+s)
	}
}

func (a *analyzer) gdbCommand(v *invocation, s string) {
	s = strings.TrimSpace(s)
	name, rest, _ := strings.Cut(s, " ")
	switch name {
	case "run", "r", "start", "starti":
		a.gdbArguments(v, rest)
		return
	case "set":
		a.gdbSet(v, rest)
		return
	case "", "quit", "q", "bt", "backtrace", "info", "break", "b", "continue", "c", "list", "l",
		"print", "p", "x", "next", "n", "step", "disassemble", "thread", "where", "up", "down", "frame", "kill", "show", "help", "detach":
		if strings.Contains(rest, "(") && (name == "print" || name == "p") {
			a.noteHere(UnknownCode, "gdb "+s)
		}
		return
	case "shell", "sh", "she", "shel", "make", "platform":
		if name == "make" {
			rest = "make " + rest
		}
		a.startCode(v, strings.TrimPrefix(rest, "shell "))
		return
	case "pipe", "|":
		if _, code, ok := strings.Cut(rest, "|"); ok {
			a.startCode(v, code)
		}
		return
	}
	if code, ok := strings.CutPrefix(s, "!"); ok {
		a.startCode(v, code)
		return
	}
	a.noteHere(UnknownCode, "gdb "+s)
}

// less follows less and more: LESSOPEN and +!command start programs, -o writes.
func (a *analyzer) less(v *invocation, p *program) {
	g := parseArgs(p, v.argv)
	safe := !g.odd && a.optionRoles(v, p, &g)
	var files []Word
	for _, w := range g.ops {
		s := w.Text
		if strings.HasPrefix(s, "+") {
			if _, code, ok := strings.Cut(s, "!"); ok {
				a.startCode(v, code)
				safe = false
			} else if strings.ContainsAny(s, "|sv") && len(s) > 1 && (s[1] == '|' || s[1] == 's' || s[1] == 'v') {
				safe = false
				a.noteHere(UnknownCode, "less "+s)
			}
			continue
		}
		files = append(files, w)
	}
	a.each(v, files, Effect{Kind: Read})
	if safe {
		a.setReadOnly()
	}
	if g.computed {
		a.noteHere(UnknownOption, "less")
	}
	a.defaultOut(v)
}
