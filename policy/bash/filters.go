package bash

import (
	"slices"
	"strings"
)

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
	a.each(v, g.ops, Effect{Kind: Write, Replaces: !g.has("a", "append")})
	if !g.odd && !g.computed && !slices.ContainsFunc(g.ops, func(w Word) bool { return !hasField("/dev/null /dev/stdout /dev/stderr", w.Text) }) {
		a.setReadOnly()
	}
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
	a.effect(v.st, Effect{Kind: Write, Path: out, Command: a.cur, Replaces: true})
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
	if alts := a.commandEnv(v, "TMPDIR"); len(alts) == 1 && !hasHole(alts[0]) && alts[0] != "" {
		dir = alts[0]
	} else if len(alts) > 1 || len(alts) == 1 && alts[0] != worldText && alts[0] != "" {
		dir = anyText
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

// commandEnv is what a variable holds for a command, nothing when it is not set
// by the script.
func (a *analyzer) commandEnv(v *invocation, name string) []string {
	for i := len(v.env) - 1; i >= 0; i-- {
		if v.env[i].name == name {
			return v.env[i].alts
		}
	}
	if t := a.lookup(v.st, name); !t.unset && v.st.has(name) {
		return t.alts
	}
	return nil
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
