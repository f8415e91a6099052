package bash

import (
	"strconv"
	"strings"
)

// echo models echo: its output is known when its arguments are.
func (a *analyzer) echo(v *invocation, args []Word) {
	if v.st.out == nil {
		return
	}
	newline, esc := true, false
	for len(args) > 0 {
		s := args[0].Text
		if len(s) < 2 || s[0] != '-' || strings.Trim(s[1:], "neE") != "" {
			break
		}
		for _, c := range s[1:] {
			switch c {
			case 'n':
				newline = false
			case 'e':
				esc = true
			case 'E':
				esc = false
			}
		}
		args = args[1:]
	}
	end := ""
	if newline {
		end = "\n"
	}
	var out []string
	for _, s := range a.joinedArgs(v.st, args) {
		if esc {
			out = addAlt(out, escapes(s, true)+end)
			continue
		}
		out = addAlt(out, s+end)
		if (v.st.posix || v.st.xpgEcho) && strings.Contains(s, "\\") {
			out = addAlt(out, escapes(s, true)+end)
		}
	}
	v.st.out.write(out)
}

// printf models printf; -v stores instead, and evaluates a subscript.
func (a *analyzer) printf(v *invocation, args []Word) {
	target, store := "", false
	for len(args) > 0 {
		s := args[0].Text
		if s == "--" {
			args = args[1:]
			break
		}
		if val, ok := strings.CutPrefix(s, "-v"); ok {
			args = args[1:]
			store, target = true, val
			if val == "" && len(args) > 0 {
				target = args[0].Text
				args = args[1:]
			}
			continue
		}
		break
	}
	if !store {
		a.setReadOnly()
		if v.st.out == nil {
			return
		}
	}
	var alts []string
	switch {
	case len(args) == 0:
		alts = []string{""}
	default:
		known := true
		for _, w := range args {
			known = known && !w.Many && !w.Glob
		}
		if !known || hasHole(args[0].Text) {
			alts = []string{worst(a.wordsOf(args)...)}
			if args[0].Text != "" && !hasHole(args[0].Text) && !isPlainFormat(args[0].Text) {
				alts = []string{anyText}
			}
			if !hasHole(args[0].Text) {
				alts = []string{a.format(args[0].Text, args[1:])}
			}
		} else {
			alts = []string{a.format(args[0].Text, args[1:])}
		}
	}
	if store {
		a.assign(v.st, target, alts, false)
		return
	}
	v.st.out.write(alts)
}

func isPlainFormat(s string) bool { return !strings.Contains(s, "\\") }

// format fills in a printf format, which is used again while arguments are left.
func (a *analyzer) format(f string, args []Word) string {
	var b strings.Builder
	for round := 0; round == 0 || len(args) > 0 && round < 1000; round++ {
		before := len(args)
		var stop bool
		args, stop = a.formatOnce(&b, f, args)
		if stop || len(args) == before || b.Len() > maxText {
			break
		}
	}
	return b.String()
}

func (a *analyzer) formatOnce(b *strings.Builder, f string, args []Word) (rest []Word, stop bool) {
	next := func() string {
		if len(args) == 0 {
			return ""
		}
		s := args[0].Text
		if args[0].Glob || args[0].Many && !hasHole(s) {
			s = anyText
		}
		args = args[1:]
		return s
	}
	for i := 0; i < len(f); i++ {
		c := f[i]
		if c == '\\' && i+1 < len(f) {
			end := i + 2
			if strings.IndexByte("01234567xuU", f[i+1]) >= 0 {
				for end < len(f) && end < i+10 && strings.IndexByte("0123456789abcdefABCDEF", f[end]) >= 0 {
					end++
				}
				if f[i+1] >= '0' && f[i+1] <= '7' {
					end = i + 2
					for end < len(f) && end < i+4 && f[end] >= '0' && f[end] <= '7' {
						end++
					}
				} else if f[i+1] == 'x' {
					end = min(end, i+4)
				} else if f[i+1] == 'u' {
					end = min(end, i+6)
				}
			}
			if f[i+1] == 'c' {
				return nil, true
			}
			if f[i+1] == '"' {
				b.WriteByte('"')
			} else {
				b.WriteString(escapes(f[i:end], true))
			}
			i = end - 1
			continue
		}
		if c != '%' || i+1 >= len(f) {
			b.WriteByte(c)
			continue
		}
		j := i + 1
		for j < len(f) && strings.IndexByte("-+ 0#'123456789.*", f[j]) >= 0 {
			if f[j] == '*' {
				next()
			}
			j++
		}
		flags := f[i+1 : j]
		if j >= len(f) {
			b.WriteString(f[i:])
			break
		}
		i = j
		switch f[j] {
		case '%':
			b.WriteByte('%')
		case 's':
			b.WriteString(padded(next(), flags))
		case 'b':
			s := next()
			b.WriteString(escapes(s, true))
			if strings.Contains(s, "\\c") {
				return nil, true
			}
		case 'q', 'Q':
			b.WriteString(quoteWord(next()))
		case 'c':
			s := next()
			if hasHole(s) {
				b.WriteString(anyText)
			} else if s != "" {
				b.WriteString(s[:1])
			}
		case 'd', 'i', 'u', 'o', 'x', 'X':
			b.WriteString(formatNumber(next(), flags, f[j]))
		case 'e', 'f', 'g', 'E', 'G', 'a':
			next()
			b.WriteString(nameText)
		case '(':
			end := strings.IndexByte(f[j:], ')')
			if end < 0 {
				b.WriteString(anyText)
				return nil, true
			}
			next()
			b.WriteString(anyText)
			i = j + end + 1
		default:
			b.WriteString(anyText)
			next()
		}
	}
	return args, false
}

// padded applies the width and precision of %s.
func padded(s, flags string) string {
	if flags == "" {
		return s
	}
	if hasHole(s) || strings.Contains(flags, "*") {
		return worst(s)
	}
	width, prec, hasPrec := strings.Cut(flags, ".")
	if hasPrec {
		n, _ := strconv.Atoi(prec)
		if n < len(s) && n >= 0 {
			s = s[:n]
		}
	}
	left := strings.HasPrefix(width, "-")
	n, _ := strconv.Atoi(strings.Trim(width, "-+ 0#'"))
	if n > 4096 {
		return anyText
	}
	for len(s) < n {
		if left {
			s += " "
		} else {
			s = " " + s
		}
	}
	return s
}

func formatNumber(s, flags string, verb byte) string {
	if s == "" {
		return "0"
	}
	if c, ok := strings.CutPrefix(s, "'"); ok && c != "" {
		return strconv.Itoa(int(c[0]))
	}
	n, err := strconv.ParseInt(s, 0, 64)
	if err != nil || flags != "" {
		return nameText
	}
	switch verb {
	case 'o':
		return strconv.FormatInt(n, 8)
	case 'x':
		return strconv.FormatInt(n, 16)
	case 'X':
		return strings.ToUpper(strconv.FormatInt(n, 16))
	}
	return itoa(n)
}

// cat models cat: files and standard input in order.
func (a *analyzer) cat(v *invocation, p *program) {
	g := parseArgs(p, v.argv)
	if !g.odd {
		a.setReadOnly()
	}
	a.each(v, g.ops, Effect{Kind: Read})
	out := v.st.out
	if out == nil {
		return
	}
	if len(g.opts) > 0 || g.odd {
		a.defaultOut(v)
		return
	}
	if len(g.ops) == 0 {
		if v.st.in == nil {
			out.write([]string{worldText})
		} else {
			out.copyFrom(v.st.in)
		}
		return
	}
	for _, w := range g.ops {
		if w.Text == "-" {
			if v.st.in != nil {
				out.copyFrom(v.st.in)
			}
			continue
		}
		if w.Glob {
			for _, m := range a.madeMatching(v.st, w.Text) {
				out.derived(a.content(v.st, m), anyText)
			}
			out.write([]string{worldText})
			continue
		}
		if !w.Known() && !a.isProc(w.Text) {
			out.derived(nil, worst(w.Text))
			continue
		}
		out.copyFrom(a.content(v.st, w.Text))
	}
}

// tee models tee: its input goes to every operand and on.
func (a *analyzer) tee(v *invocation, p *program) {
	g := parseArgs(p, v.argv)
	a.each(v, g.ops, Effect{Kind: Write})
	in := v.st.in
	if in == nil {
		in = &text{alts: []string{worldText}}
	}
	for _, w := range g.ops {
		t := a.open(v.st, w.Text, g.has("a", "append"))
		t.copyFrom(in)
	}
	v.st.out.copyFrom(in)
}

// dd models dd: if= is copied to of=.
func (a *analyzer) dd(v *invocation) {
	in := v.st.in
	out := ""
	conv := false
	for _, w := range v.argv[1:] {
		k, val, _ := strings.Cut(w.Text, "=")
		if startsUnknown(w.Text) {
			a.noteHere(UnknownTarget, "dd "+w.Text)
		}
		switch k {
		case "if":
			a.effect(v.st, Effect{Kind: Read, Path: val, Command: a.cur})
			in = a.content(v.st, val)
		case "of":
			out = val
		case "skip", "bs", "count", "conv", "seek", "ibs", "obs", "cbs", "iflag":
			conv = true
		}
	}
	if in == nil {
		in = &text{alts: []string{worldText}}
	}
	t := &text{}
	if conv {
		t.derived(in, worst(in.alts...))
	} else {
		t.copyFrom(in)
	}
	if out == "" {
		v.st.out.copyFrom(t)
		return
	}
	a.effect(v.st, Effect{Kind: Write, Path: out, Command: a.cur})
	a.put(v.st, out, t)
}

// filter models programs that print a part of what they read, unchanged in
// places: the origin of the text is kept.
func (a *analyzer) filter(v *invocation, p *program) {
	g := parseArgs(p, v.argv)
	safe := p.ro && !g.odd && a.optionRoles(v, p, &g)
	a.operands(v, p, &g)
	if safe && !g.computed {
		a.setReadOnly()
	}
	a.defaultOut(v)
	if v.st.out == nil {
		return
	}
	for _, w := range g.ops {
		if w.Known() {
			v.st.out.from = appendFrom(v.st.out.from, w.Text)
		}
	}
}

func appendFrom(list []string, s string) []string {
	if len(list) >= maxAlts {
		return list
	}
	for _, x := range list {
		if x == s {
			return list
		}
	}
	return append(list, s)
}

// date models date: the fields of a format are unknown, its text is not.
func (a *analyzer) date(v *invocation, p *program) {
	g := parseArgs(p, v.argv)
	if a.optionRoles(v, p, &g) && !g.odd && !g.computed {
		a.setReadOnly()
	}
	if v.st.out == nil {
		return
	}
	f, ok := "", false
	for _, w := range g.ops {
		if w.Known() {
			f, ok = strings.CutPrefix(w.Text, "+")
		}
	}
	if !ok || strings.Contains(f, "%D") || strings.Contains(f, "%x") || strings.Contains(f, "%c") {
		a.defaultOut(v)
		return
	}
	var b strings.Builder
	for i := 0; i < len(f); i++ {
		if f[i] != '%' {
			b.WriteByte(f[i])
			continue
		}
		for i+1 < len(f) && strings.IndexByte("-_0^#:+123456789EO", f[i+1]) >= 0 {
			i++
		}
		i++
		b.WriteString(nameText)
	}
	v.st.out.write([]string{b.String() + "\n"})
}

// mktemp models mktemp: a new name below the temporary directory, or by a
// template.
func (a *analyzer) mktemp(v *invocation, p *program) {
	g := parseArgs(p, v.argv)
	dir := "/tmp"
	if t := a.lookup(v.st, "TMPDIR"); !t.unset && len(t.alts) == 1 && !hasHole(t.alts[0]) {
		dir = t.alts[0]
	}
	name := dir + "/tmp." + nameText
	if len(g.ops) > 0 {
		t := g.ops[0].Text
		for strings.Contains(t, "XXX") {
			i := strings.Index(t, "XXX")
			end := i
			for end < len(t) && t[end] == 'X' {
				end++
			}
			t = t[:i] + nameText + t[end:]
		}
		name = t
		if d, ok := g.get("p", "tmpdir"); ok && d.Text != "" {
			name = d.Text + "/" + t
		} else if g.has("t", "tmpdir", "p") {
			name = dir + "/" + t
		}
	} else if d, ok := g.get("p", "tmpdir"); ok && d.Text != "" {
		name = d.Text + "/tmp." + nameText
	}
	if !g.has("u", "dry-run") {
		a.effect(v.st, Effect{Kind: Write, Path: name, Command: a.cur})
	}
	v.st.out.write([]string{name + "\n"})
}

// baseNames models basename and dirname.
func (a *analyzer) baseNames(v *invocation) {
	a.setReadOnly()
	if v.st.out == nil {
		return
	}
	ws := v.argv[1:]
	if len(ws) == 0 || strings.HasPrefix(ws[0].Text, "-") || len(ws) > 2 || !ws[0].Known() {
		if len(ws) > 0 && hasHole(ws[0].Text) && isWorld(beforeSlash(ws[0].Text)) {
			v.st.out.write([]string{worldText})
			return
		}
		a.defaultOut(v)
		return
	}
	s := strings.TrimRight(ws[0].Text, "/")
	dir, base := cutLast(s)
	if baseName(v.argv[0].Text) == "dirname" {
		if dir == "" {
			dir = "."
		}
		v.st.out.write([]string{dir + "\n"})
		return
	}
	if len(ws) == 2 && base != ws[1].Text {
		base = strings.TrimSuffix(base, ws[1].Text)
	}
	v.st.out.write([]string{base + "\n"})
}

func beforeSlash(s string) string { return strings.ReplaceAll(s, "/", "") }
