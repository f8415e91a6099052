package bash

import (
	"slices"
	"strings"
)

// env follows env(1): assignments, -S, -C, then a command.
func (a *analyzer) env(v *invocation, p *program) {
	argv := v.argv
	n := *v
	n.st = v.st
	n.env = slices.Clip(v.env)
	i := 1
	for ; i < len(argv); i++ {
		w := argv[i]
		s := w.Text
		if w.Many {
			a.noteHere(ComputedWord, s)
			continue
		}
		if s == "--" {
			i++
			break
		}
		if s == "-" {
			continue
		}
		if len(s) < 2 || s[0] != '-' {
			break
		}
		var g args
		last := g.option(p, argv, i)
		for _, o := range g.opts {
			switch o.name {
			case "S", "split-string":
				n.argv = a.splitString(v.st, argv[0], o.val, argv[last+1:])
				if n.argv == nil {
					return
				}
				a.spendDepth(func() { a.env(&n, p) })
				return
			case "C", "chdir":
				n.st = a.fork(n.st)
				a.changeDir(n.st, o.val.Text)
			}
		}
		if g.odd && last+1 < len(argv) {
			a.start(&n, argv[min(last+2, len(argv)):])
		}
		i = last
	}
	for ; i < len(argv); i++ {
		name, val, ok := strings.Cut(argv[i].Text, "=")
		if argv[i].Many && !ok {
			a.noteHere(ComputedWord, argv[i].Text)
			continue
		}
		if !ok || hasHole(name) {
			break
		}
		n.env = append(n.env, binding{name, []string{val}})
	}
	if i >= len(argv) {
		a.danger(SecretRead, "env")
		a.setReadOnly()
		a.defaultOut(v)
		return
	}
	a.start(&n, argv[i:])
}

func (a *analyzer) spendDepth(f func()) {
	if a.depth >= maxDepth {
		a.bound("nesting")
		return
	}
	a.depth++
	f()
	a.depth--
}

// splitString splits the argument of env -S: blanks, quotes, backslashes and
// ${NAME}.
func (a *analyzer) splitString(st *state, arg0, val Word, rest []Word) []Word {
	out := []Word{arg0}
	s := val.Text
	var b strings.Builder
	has := false
	quote := byte(0)
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case quote == 0 && (c == ' ' || c == '\t' || c == '\n' || c == '\v' || c == '\f' || c == '\r'):
			if has {
				out = append(out, Word{Text: b.String()})
				b.Reset()
				has = false
			}
			continue
		case quote == 0 && (c == '\'' || c == '"'):
			quote, has = c, true
			continue
		case c == quote && quote != 0:
			quote = 0
			continue
		case c == '#' && !has && quote == 0:
			return append(out, rest...)
		case c == '\\' && quote != '\'' && i+1 < len(s):
			i++
			switch s[i] {
			case 'c':
				i = len(s)
				continue
			case '_':
				if quote == 0 {
					if has {
						out = append(out, Word{Text: b.String()})
						b.Reset()
						has = false
					}
					continue
				}
				b.WriteByte(' ')
			case 'n':
				b.WriteByte('\n')
			case 't':
				b.WriteByte('\t')
			default:
				b.WriteByte(s[i])
			}
			has = true
			continue
		case c == '$' && quote != '\'' && strings.HasPrefix(s[i:], "${"):
			name, after, ok := strings.Cut(s[i+2:], "}")
			if ok {
				v := a.lookup(st, name)
				b.WriteString(v.alts[0])
				if len(v.alts) > 1 {
					b.WriteString(anyText)
				}
				has = true
				i = len(s) - len(after) - 1
				continue
			}
		}
		b.WriteByte(c)
		has = true
	}
	if has {
		out = append(out, Word{Text: b.String()})
	}
	return append(out, rest...)
}

// privileged follows sudo, doas, pkexec and run0: assignments, then a command;
// -i and -s start a shell with the rest as its line.
func (a *analyzer) privileged(v *invocation, p *program) {
	name := baseName(v.argv[0].Text)
	a.danger(PrivilegeChange, name)
	starts, opts, computed := commandStarts(p, v.argv)
	g := args{opts: opts}
	if computed {
		a.noteHere(ComputedWord, name)
	}
	n := *v
	if d, ok := g.get("D", "chdir"); ok {
		n.st = a.fork(v.st)
		a.changeDir(n.st, d.Text)
	}
	if g.has("e", "edit") {
		for _, i := range starts {
			a.each(v, v.argv[i:], Effect{Kind: Write})
		}
		return
	}
	if len(starts) == 0 && (g.has("i", "s", "login", "shell") || name == "pkexec" || name == "run0" || name == "su-exec") {
		a.start(v, []Word{{Text: "sh"}})
	}
	for _, i := range starts {
		rest := v.argv[i:]
		env := slices.Clip(v.env)
		for len(rest) > 0 {
			k, val, ok := strings.Cut(rest[0].Text, "=")
			if !ok || !isName(k) {
				break
			}
			env = append(env, binding{k, []string{val}})
			rest = rest[1:]
		}
		if len(rest) == 0 {
			continue
		}
		n.env = env
		a.start(&n, rest)
	}
}

// su follows su and runuser: -c is shell code, and so is what follows --.
func (a *analyzer) su(v *invocation, p *program) {
	a.danger(PrivilegeChange, baseName(v.argv[0].Text))
	g := parseArgs(p, v.argv)
	code, ok := g.get("c", "command", "session-command", "C")
	if ok {
		a.startCode(v, code.Text)
	}
	if g.has("u", "user") && len(g.ops) > 0 {
		// runuser -u USER [--] COMMAND stops at the first operand.
		starts, _, _ := commandStarts(p, v.argv)
		for _, i := range starts {
			a.start(v, v.argv[i:])
		}
		return
	}
	if s, has := g.get("s", "shell"); has {
		a.start(v, []Word{s})
	}
	if !ok && len(g.ops) > 1 {
		argv := append([]Word{{Text: "sh"}}, g.ops[1:]...)
		if g.ops[0].Text == "-" && len(g.ops) > 2 {
			argv = append([]Word{{Text: "sh"}}, g.ops[2:]...)
		}
		a.start(v, argv)
	} else if !ok {
		a.noteHere(ComputedCode, "interactive shell")
	}
}

// flock follows flock(1): FILE COMMAND…, or FILE -c CODE.
func (a *analyzer) flock(v *invocation, p *program) {
	starts, _, computed := commandStarts(p, v.argv)
	if computed {
		a.noteHere(ComputedWord, "flock")
	}
	for _, i := range starts {
		if s := v.argv[i].Text; (s == "-c" || s == "--command") && i+1 < len(v.argv) {
			a.startCode(v, v.argv[i+1].Text)
			continue
		}
		a.start(v, v.argv[i:])
	}
	if g := parseArgs(p, v.argv); len(g.ops) > 0 && !isDigits(g.ops[0].Text) {
		a.effect(v.st, Effect{Kind: Write, Path: g.ops[0].Text, Command: a.cur})
	}
}

// watch joins its arguments for a shell, unless -x is given.
func (a *analyzer) watch(v *invocation, p *program) {
	starts, opts, computed := commandStarts(p, v.argv)
	g := args{opts: opts}
	if computed {
		a.noteHere(ComputedWord, "watch")
	}
	for _, i := range starts {
		if g.has("x", "exec") {
			a.start(v, v.argv[i:])
			continue
		}
		for _, code := range a.joinedArgs(v.st, v.argv[i:]) {
			a.startCode(v, code)
		}
	}
}

// script follows script(1).
func (a *analyzer) scriptCommand(v *invocation, p *program) {
	g := parseArgs(p, v.argv)
	if !a.optionRoles(v, p, &g) || len(g.ops) == 0 {
		if _, ok := g.get("c", "command"); !ok {
			a.noteHere(ComputedCode, "interactive shell")
		}
	}
	if _, ok := g.get("c", "command"); !ok && v.st.in != nil && len(g.ops) < 2 {
		a.start(v, []Word{{Text: "sh"}})
	}
	file := Word{Text: "typescript"}
	if len(g.ops) > 0 {
		file = g.ops[0]
	}
	a.effect(v.st, Effect{Kind: Write, Path: file.Text, Command: a.cur})
	if len(g.ops) > 1 { // BSD: script FILE COMMAND…
		a.start(v, g.ops[1:])
	}
}

// joined runs all operands as one shell line: ssh-like programs on this host.
func (a *analyzer) joined(v *invocation, ws []Word) {
	for _, code := range a.joinedArgs(v.st, ws) {
		a.startCode(v, code)
	}
}
