package bash

import "strings"

// sedProgram is what a sed script does besides editing text.
type sedProgram struct {
	run    []string // command lines of e and s///e
	input  bool     // e without command: the text itself is run
	writes []string
	reads  []string
	bad    bool // could not be read
}

// sed follows sed(1).
func (a *analyzer) sed(v *invocation, p *program) {
	g := parseArgs(p, v.argv)
	var code []string
	safe := !g.odd && !g.computed
	ops := g.ops
	given := false
	for _, o := range g.opts {
		switch o.name {
		case "e", "expression":
			given = true
			code = append(code, o.val.Text)
		case "f", "file":
			given = true
			code = append(code, a.programFile(v, o.val)...)
		case "i", "in-place", "s", "separate":
			if o.name[0] == 'i' {
				safe = false
			}
		}
	}
	if !given && len(ops) > 0 {
		if ops[0].Many || ops[0].Glob {
			a.noteHere(UnknownCode, "sed "+ops[0].Text)
		}
		code, ops = append(code, ops[0].Text), ops[1:]
	}
	if !a.sedCode(v, strings.Join(code, "\n")) {
		safe = false
	}
	suffix, inPlace := g.get("i", "in-place")
	a.each(v, ops, Effect{Kind: Read})
	if inPlace {
		follow := g.has("follow-symlinks")
		a.each(v, ops, Effect{Kind: Write, NoFollow: !follow})
		for _, w := range ops {
			t := &text{}
			t.derived(a.content(v.st, w.Text), anyText)
			a.put(v.st, w.Text, t)
			if suffix.Text != "" {
				b := w.Text + suffix.Text
				if strings.ContainsAny(suffix.Text, "*/") {
					dir, base := cutLast(w.Text)
					b = strings.ReplaceAll(suffix.Text, "*", base)
					if !strings.Contains(b, "/") && dir != "" {
						b = dir + "/" + b
					}
				}
				a.effect(v.st, Effect{Kind: Write, Path: b, Glob: w.Glob, Command: a.cur})
			}
		}
	}
	if safe {
		a.setReadOnly()
	}
	a.defaultOut(v)
	if v.st.out != nil {
		for _, w := range ops {
			v.st.out.from = appendFrom(v.st.out.from, w.Text)
		}
	}
}

// programFile is the text of a program file, when the script itself wrote it or
// feeds it; one that was there before is opaque.
func (a *analyzer) programFile(v *invocation, w Word) []string {
	if w.Text == "-" {
		w.Text = "/dev/stdin"
	}
	if !w.Known() && !a.isProc(w.Text) {
		a.noteHere(UnknownCode, w.Text)
		return nil
	}
	texts := a.scriptTexts(v.st, w.Text)
	if texts == nil {
		a.scriptFile(v, []Word{w})
		return nil
	}
	var out []string
	for _, t := range texts {
		if t.pure {
			for _, f := range t.from {
				a.scriptFile(v, []Word{{Text: f}})
			}
			continue
		}
		for _, s := range t.alts {
			if hasHole(s) {
				a.noteHere(UnknownCode, w.Text)
			}
			out = append(out, s)
		}
	}
	return out
}

// sedCode follows a sed script; true means that it only edits text.
func (a *analyzer) sedCode(v *invocation, code string) bool {
	if hasAnyHole(code) {
		a.noteHere(UnknownCode, "sed "+code)
	}
	if a.spend(len(code)/4 + 1) {
		return false
	}
	r := parseSed(code)
	if r.bad {
		a.noteHere(UnknownCode, "sed "+code)
	}
	for _, c := range r.run {
		a.startCode(v, c)
	}
	if r.input {
		a.runInput(v)
	}
	for _, f := range r.writes {
		if f != "/dev/stdout" && f != "/dev/stderr" {
			a.effect(v.st, Effect{Kind: Write, Path: f, Source: Code, Command: a.cur})
			a.wrote(v.st, f)
		}
	}
	for _, f := range r.reads {
		a.effect(v.st, Effect{Kind: Read, Path: f, Source: Code, Command: a.cur})
	}
	return !r.bad && !r.input && len(r.run) == 0 && len(r.writes) == 0
}

// runInput runs the standard input, or what became of it, as shell code.
func (a *analyzer) runInput(v *invocation) {
	a.noteHere(ComputedCode, "text that "+baseName(v.argv[0].Text)+" runs")
	if v.st.in == nil {
		return
	}
	for _, s := range v.st.in.alts {
		if !hasHole(s) {
			a.startCode(v, s)
		}
	}
}

// parseSed reads a GNU sed script (info sed, "sed scripts").
func parseSed(s string) (r sedProgram) {
	i := 0
	for i < len(s) && !r.bad {
		c := s[i]
		if c == ' ' || c == '\t' || c == '\n' || c == ';' || c == '{' || c == '}' {
			i++
			continue
		}
		if c == '#' {
			i = endOfLine(s, i)
			continue
		}
		i = r.address(s, i)
		if i >= len(s) {
			return r
		}
		i = r.command(s, i)
	}
	return r
}

func endOfLine(s string, i int) int {
	if n := strings.IndexByte(s[i:], '\n'); n >= 0 {
		return i + n
	}
	return len(s)
}

// address skips the addresses before a command.
func (r *sedProgram) address(s string, i int) int {
	for i < len(s) {
		switch c := s[i]; {
		case c >= '0' && c <= '9' || strings.IndexByte("$,~+! \t", c) >= 0:
			i++
		case c == '/' || c == '\\':
			delim := c
			if c == '\\' {
				if i+1 >= len(s) {
					r.bad = true
					return len(s)
				}
				i++
				delim = s[i]
			}
			end := delimited(s, i+1, delim)
			if end < 0 {
				r.bad = true
				return len(s)
			}
			i = end + 1
			for i < len(s) && (s[i] == 'I' || s[i] == 'M') {
				i++
			}
		case startsUnknown(s[i:]):
			i += 3
		default:
			return i
		}
	}
	return i
}

// delimited finds the next unescaped delimiter.
func delimited(s string, i int, delim byte) int {
	for ; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case delim:
			return i
		}
	}
	return -1
}

func (r *sedProgram) command(s string, i int) int {
	switch c := s[i]; c {
	case '{', '}', ';', '\n':
		return i + 1
	case 'a', 'i', 'c':
		return sedText(s, i+1)
	case ':', 'b', 't', 'T':
		for i < len(s) && s[i] != '\n' && s[i] != ';' && s[i] != '}' {
			i++
		}
		return i
	case 'r', 'R':
		end := endOfLine(s, i)
		r.reads = append(r.reads, strings.TrimSpace(s[i+1:end]))
		return end
	case 'w', 'W':
		end := endOfLine(s, i)
		r.writes = append(r.writes, strings.TrimSpace(s[i+1:end]))
		return end
	case 'e':
		end := endOfLine(s, i)
		if code := strings.TrimSpace(s[i+1 : end]); code == "" || code == ";" || code == "}" {
			r.input = true
		} else {
			r.run = append(r.run, code)
		}
		return end
	case 's':
		return r.substitute(s, i)
	case 'y':
		if i+1 >= len(s) {
			r.bad = true
			return len(s)
		}
		m := delimited(s, i+2, s[i+1])
		if m < 0 {
			r.bad = true
			return len(s)
		}
		end := delimited(s, m+1, s[i+1])
		if end < 0 {
			r.bad = true
			return len(s)
		}
		return end + 1
	case 'q', 'Q', 'l', 'L':
		i++
		for i < len(s) && (s[i] == ' ' || s[i] >= '0' && s[i] <= '9') {
			i++
		}
		return i
	case 'n', 'N', 'd', 'D', 'g', 'G', 'h', 'H', 'p', 'P', 'x', '=', 'z', 'F':
		return i + 1
	case 'v':
		for i < len(s) && s[i] != '\n' && s[i] != ';' {
			i++
		}
		return i
	}
	r.bad = true
	return len(s)
}

// sedText skips the text of a, i and c: to the end of the line, and further
// lines behind a backslash.
func sedText(s string, i int) int {
	for i < len(s) {
		switch s[i] {
		case '\\':
			i += 2
		case '\n':
			return i
		default:
			i++
		}
	}
	return len(s)
}

func (r *sedProgram) substitute(s string, i int) int {
	if i+1 >= len(s) || s[i+1] == '\n' || s[i+1] == '\\' {
		r.bad = true
		return len(s)
	}
	delim := s[i+1]
	if startsUnknown(s[i+1:]) {
		r.bad = true
		return len(s)
	}
	m := delimited(s, i+2, delim)
	if m < 0 {
		r.bad = true
		return len(s)
	}
	end := delimited(s, m+1, delim)
	if end < 0 {
		r.bad = true
		return len(s)
	}
	with := s[m+1 : end]
	for i = end + 1; i < len(s); i++ {
		switch c := s[i]; {
		case strings.IndexByte("gpiImM0123456789", c) >= 0:
		case c == 'e':
			r.run = append(r.run, replacementCode(with))
			r.input = true
		case c == 'w':
			n := endOfLine(s, i)
			r.writes = append(r.writes, strings.TrimSpace(s[i+1:n]))
			return n
		default:
			return i
		}
	}
	return i
}

// replacementCode is the replacement of s///e as a command line: what matched is
// not known.
func replacementCode(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '&':
			b.WriteString(anyText)
		case s[i] == '\\' && i+1 < len(s):
			i++
			if s[i] >= '0' && s[i] <= '9' {
				b.WriteString(anyText)
			} else if s[i] == 'n' {
				b.WriteByte('\n')
			} else {
				b.WriteByte(s[i])
			}
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String()
}
