package bash

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// segment is a piece of a word during expansion.
type segment struct {
	s      string
	quoted bool // not split, not a pattern
	brk    bool // a word ends here
	many   bool // unquoted unknown text: any number of words
}

// words expands ws as the arguments of a command: every possible list of words.
func (a *analyzer) words(st *state, ws []*syntax.Word) [][]Word {
	// Most commands are short and have one reading: one allocation.
	l := &struct {
		list  [1][]Word
		words [6]Word
	}{}
	alts := l.list[:]
	if alts[0] = l.words[:0]; len(ws) > len(l.words) {
		alts[0] = make([]Word, 0, len(ws)+2)
	}
	for _, w := range ws {
		if !hasBrace(w) {
			alts = a.appendWord(st, alts, w)
		} else {
			for _, b := range a.braces(w) {
				alts = a.appendWord(st, alts, b)
			}
		}
		if a.spent() {
			break
		}
	}
	return alts
}

// appendWord adds one word to every list in alts.
func (a *analyzer) appendWord(st *state, alts [][]Word, w *syntax.Word) [][]Word {
	if len(w.Parts) == 1 {
		if lit, ok := plainLiteral(w.Parts[0]); ok {
			for i := range alts {
				alts[i] = append(alts[i], Word{Text: lit})
			}
			return alts
		}
	}
	vs := a.fields(st, w)
	if len(vs) == 1 {
		for i := range alts {
			alts[i] = append(alts[i], vs[0]...)
		}
		return alts
	}
	if len(alts)*len(vs) > 2*maxAlts {
		// Too many combinations: keep the lists, and make this word unknown.
		for i := range alts {
			alts[i] = append(alts[i], Word{Text: anyText, Many: true})
		}
		return alts
	}
	out := make([][]Word, 0, len(alts)*len(vs))
	for _, v := range vs {
		for _, l := range alts {
			out = append(out, append(append(make([]Word, 0, len(l)+len(v)+2), l...), v...))
		}
	}
	return out
}

// plainLiteral returns the text of a part that stands for itself.
func plainLiteral(p syntax.WordPart) (string, bool) {
	switch p := p.(type) {
	case *syntax.Lit:
		if strings.ContainsAny(p.Value, "\\~*?[{") || hasHole(p.Value) {
			return "", false
		}
		return p.Value, true
	case *syntax.SglQuoted:
		if !p.Dollar {
			return p.Value, true
		}
	}
	return "", false
}

// fields expands one word (braces are done) into the words it may become.
func (a *analyzer) fields(st *state, w *syntax.Word) [][]Word {
	var out [][]Word
	for _, segs := range a.segments(st, w, false) {
		out = append(out, a.split(st, segs))
	}
	return out
}

// segments expands the parts of a word; each result is one possibility. With
// quoted the word stands where nothing is split or matched.
func (a *analyzer) segments(st *state, w *syntax.Word, quoted bool) [][]segment {
	alts := [][]segment{nil}
	if w == nil {
		return alts
	}
	for i, p := range w.Parts {
		alts = crossSegments(alts, a.part(st, p, quoted, i == 0, len(w.Parts) == 1))
	}
	a.spendText(alts)
	return alts
}

// spendText pays for the bytes of an expansion, at about 1 ns each.
func (a *analyzer) spendText(alts [][]segment) {
	n := 0
	for _, segs := range alts {
		n += len(segs)
		for i := range segs {
			n += len(segs[i].s) / 32
		}
	}
	a.spend(n / 4)
}

func crossSegments(a, b [][]segment) [][]segment {
	if len(b) == 1 {
		for i := range a {
			a[i] = append(a[i], b[0]...)
		}
		return a
	}
	if len(a)*len(b) > 2*maxAlts {
		for i := range a {
			a[i] = append(a[i], segment{s: anyText, many: true})
		}
		return a
	}
	out := make([][]segment, 0, len(a)*len(b))
	for _, x := range a {
		for _, y := range b {
			out = append(out, append(append(make([]segment, 0, len(x)+len(y)), x...), y...))
		}
	}
	return out
}

func one(s string, quoted bool) [][]segment { return [][]segment{{{s: s, quoted: quoted}}} }

// part expands one part of a word.
func (a *analyzer) part(st *state, p syntax.WordPart, quoted, first, only bool) [][]segment {
	if a.spend(1) {
		return one(anyText, quoted)
	}
	switch p := p.(type) {
	case *syntax.Lit:
		return [][]segment{a.literal(st, p.Value, quoted, first)}
	case *syntax.SglQuoted:
		if p.Dollar {
			return one(ansiC(p.Value), true)
		}
		return one(p.Value, true)
	case *syntax.DblQuoted:
		alts := [][]segment{nil}
		if len(p.Parts) == 0 {
			return one("", true)
		}
		hdoc := a.hdoc
		a.hdoc = false
		for _, q := range p.Parts {
			alts = crossSegments(alts, a.part(st, q, true, false, only && len(p.Parts) == 1))
		}
		a.hdoc = hdoc
		for i := range alts {
			if len(alts[i]) == 0 && !endsInList(p.Parts) {
				alts[i] = []segment{{quoted: true}}
			}
		}
		return alts
	case *syntax.ParamExp:
		return a.param(st, p, quoted, only)
	case *syntax.CmdSubst:
		return a.commandSubst(st, p, quoted)
	case *syntax.ArithmExp:
		if n, ok := a.arith(st, p.X); ok {
			return one(itoa(n), quoted)
		}
		return one(worldText, true)
	case *syntax.ProcSubst:
		return one(a.procSubst(st, p), true)
	case *syntax.ExtGlob:
		// The pattern may hold substitutions, which the parser leaves as text.
		a.document(st, p.Pattern.Value)
		return [][]segment{{{s: p.Op.String() + p.Pattern.Value + ")"}}}
	case *syntax.BraceExp:
		return one(anyText, quoted)
	}
	return one(anyText, quoted)
}

// endsInList reports whether parts is "$@" or the like, which may be no word.
func endsInList(parts []syntax.WordPart) bool {
	for _, p := range parts {
		if pe, ok := p.(*syntax.ParamExp); ok && pe.Param != nil {
			if pe.Param.Value == "@" || pe.Index != nil || pe.Excl {
				return true
			}
		}
	}
	return false
}

// literal resolves backslashes and a leading tilde of unquoted text, or the
// backslashes within double quotes.
func (a *analyzer) literal(st *state, s string, quoted, first bool) []segment {
	if quoted {
		if !strings.Contains(s, "\\") {
			return []segment{{s: s, quoted: true}}
		}
		var b strings.Builder
		for i := 0; i < len(s); i++ {
			if s[i] == '\\' && i+1 < len(s) && strings.IndexByte("$`\"\\\n", s[i+1]) >= 0 && (s[i+1] != '"' || !a.hdoc) {
				i++
				if s[i] == '\n' {
					continue
				}
			}
			b.WriteByte(s[i])
		}
		return []segment{{s: b.String(), quoted: true}}
	}
	var segs []segment
	if first && strings.HasPrefix(s, "~") {
		user, rest, _ := strings.Cut(s[1:], "/")
		if len(user)+1 < len(s) {
			rest = "/" + rest
		}
		if strings.IndexByte(user, '\\') < 0 {
			for _, h := range a.tilde(st, user)[:1] {
				segs = append(segs, segment{s: h, quoted: true})
			}
			s = rest
		}
	}
	if !strings.Contains(s, "\\") {
		return append(segs, segment{s: s})
	}
	start := 0
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 >= len(s) {
			continue
		}
		if i > start {
			segs = append(segs, segment{s: s[start:i]})
		}
		if s[i+1] != '\n' {
			segs = append(segs, segment{s: s[i+1 : i+2], quoted: true})
		}
		start = i + 2
		i++
	}
	if start < len(s) {
		segs = append(segs, segment{s: s[start:]})
	}
	return segs
}

// tilde expands ~user.
func (a *analyzer) tilde(st *state, user string) []string {
	switch user {
	case "":
		v := a.lookup(st, "HOME")
		if len(v.alts) == 1 && !v.unset {
			return v.alts
		}
	case "+":
		return dirTexts(st.dirs)[:1]
	case "-":
		return a.lookup(st, "OLDPWD").alts
	case "root":
		return []string{"/root"}
	}
	return []string{"/" + nameText}
}

// scalar expands a word where it is not split (assignments, redirect targets of
// here-strings, case words): every possible text.
func (a *analyzer) scalar(st *state, w *syntax.Word) []string {
	if w == nil {
		return []string{""}
	}
	if len(w.Parts) == 1 {
		if lit, ok := plainLiteral(w.Parts[0]); ok {
			return []string{lit}
		}
	}
	var out []string
	for _, segs := range a.segments(st, w, false) {
		out = addAlt(out, joinSegments(segs))
	}
	return out
}

// quotedText expands the body of a here-document: as within double quotes.
func (a *analyzer) quotedText(st *state, w *syntax.Word) []string {
	if w == nil {
		return []string{""}
	}
	var out []string
	for _, segs := range a.segments(st, w, true) {
		out = addAlt(out, joinSegments(segs))
	}
	return out
}

func joinSegments(segs []segment) string {
	if len(segs) == 1 {
		return segs[0].s
	}
	var b strings.Builder
	for i, g := range segs {
		if g.brk {
			if i > 0 {
				b.WriteByte(' ')
			}
			continue
		}
		if b.Len()+len(g.s) > maxText {
			return anyText
		}
		b.WriteString(g.s)
	}
	return b.String()
}
