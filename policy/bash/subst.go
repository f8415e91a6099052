package bash

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// commandSubst reads $(…) and yields what it prints, as far as that is known.
func (a *analyzer) commandSubst(st *state, c *syntax.CmdSubst, quoted bool) [][]segment {
	if c.TempFile || c.ReplyVar {
		a.note(UnreadableParse, "substitution in the present shell", c.Left)
	}
	s := a.fork(st)
	out := &text{}
	s.out = out
	cur, hdoc := a.cur, a.hdoc
	a.hdoc = false
	if only := inputOnly(c.Stmts); only != nil {
		for _, p := range a.target(s, only.Word) {
			a.effect(s, Effect{Kind: Read, Path: p, Source: Redirect, Command: -1})
			out.copyFrom(a.content(s, p))
		}
	} else if code, ok := a.backquoted(c, quoted); ok {
		a.evalCode(s, code)
	} else {
		a.substStmts(s, c.Stmts)
	}
	a.cur, a.hdoc = cur, hdoc
	var res [][]segment
	for _, t := range out.alts {
		t = strings.TrimRight(t, "\n")
		if quoted {
			res = append(res, []segment{{s: t, quoted: true}})
		} else {
			res = append(res, a.ifs(st, t))
		}
	}
	if len(res) == 0 {
		res = append(res, []segment{{quoted: quoted}})
	}
	return res
}

// backquoted returns the text of `…` when backslashes nest in it: the parser
// undoes them once too often in the third level.
func (a *analyzer) backquoted(c *syntax.CmdSubst, quoted bool) (code string, ok bool) {
	from, to := int(c.Left.Offset())+1, int(c.Right.Offset())
	if !c.Backquotes || from > to || to >= len(a.src) || a.src[from-1] != '`' || a.src[to] != '`' {
		return "", false
	}
	s := a.src[from:to]
	if !strings.Contains(s, "\\\\") {
		return "", false
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && (strings.IndexByte("$`\\", s[i+1]) >= 0 || quoted && s[i+1] == '"') {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String(), true
}

// substStmts reads statements in a nested position.
func (a *analyzer) substStmts(s *state, ss []*syntax.Stmt) {
	if a.depth >= maxDepth*4 {
		a.bound("nesting")
		return
	}
	pos := a.pos
	a.stmts(s, ss)
	a.pos = pos
}

// inputOnly recognises $(<file).
func inputOnly(ss []*syntax.Stmt) *syntax.Redirect {
	if len(ss) != 1 || ss[0].Cmd != nil || len(ss[0].Redirs) != 1 || ss[0].Redirs[0].Op != syntax.RdrIn {
		return nil
	}
	return ss[0].Redirs[0]
}

// procSubst reads <(…) and >(…) and yields the name of its file.
func (a *analyzer) procSubst(st *state, p *syntax.ProcSubst) string {
	if p.Op == syntax.CmdInTemp {
		a.note(ForeignShell, "zsh =(…)", p.OpPos)
	}
	a.procs++
	a.concurrent = true
	name := procPrefix + itoa(int64(a.procs))
	s := a.fork(st)
	cur := a.cur
	defer func() { a.cur = cur }()
	if p.Op != syntax.CmdOut {
		out := &text{}
		s.out = out
		a.substStmts(s, p.Stmts)
		f := a.file(name)
		f.contents = append(f.contents, out)
		return name
	}
	if a.outProcs == nil {
		a.outProcs = make(map[string]*pendingProc)
	}
	pos, src := a.pos, a.src
	a.outProcs[name] = &pendingProc{run: func(in *text) {
		savedPos, savedSrc := a.pos, a.src
		a.pos, a.src = pos, src
		s.in = in
		a.stmts(s, p.Stmts)
		a.pos, a.src = savedPos, savedSrc
	}}
	return name
}

// flushProc runs a >(…) with what was written to it.
func (a *analyzer) flushProc(name string) {
	p := a.outProcs[name]
	if p == nil || p.done {
		return
	}
	p.done = true
	in := &text{alts: []string{worldText}}
	if f := a.files[name]; f != nil && len(f.contents) > 0 {
		in = &text{}
		for _, c := range f.contents {
			in.alts = union(in.alts, c.alts)
			in.from = append(in.from, c.from...)
			in.pure = c.pure
		}
	}
	cur := a.cur
	p.run(in)
	a.cur = cur
}

// flushProcs runs every >(…) among the arguments of a command.
func (a *analyzer) flushProcs(argv []Word) {
	if len(a.outProcs) == 0 {
		return
	}
	for _, w := range argv {
		if i := strings.Index(w.Text, procPrefix); i >= 0 {
			end := i + len(procPrefix)
			for end < len(w.Text) && w.Text[end] >= '0' && w.Text[end] <= '9' {
				end++
			}
			a.flushProc(w.Text[i:end])
		}
	}
}

func hasBrace(w *syntax.Word) bool {
	for _, p := range w.Parts {
		if l, ok := p.(*syntax.Lit); ok && strings.IndexByte(l.Value, '{') >= 0 {
			return true
		}
	}
	return false
}

// braces performs brace expansion.
func (a *analyzer) braces(w *syntax.Word) []*syntax.Word {
	if !hasBrace(w) {
		return []*syntax.Word{w}
	}
	c := &syntax.Word{Parts: append([]syntax.WordPart(nil), w.Parts...)}
	if !syntax.SplitBraces(c) {
		return []*syntax.Word{w}
	}
	n := braceCount(c)
	if n > 4096 || a.spend(int(n)*4) {
		a.bound("brace expansion")
		return []*syntax.Word{w}
	}
	out := make([]*syntax.Word, 0, n)
	for _, parts := range expandBraces(c.Parts) {
		if len(parts) == 0 {
			continue
		}
		out = append(out, &syntax.Word{Parts: parts})
	}
	return out
}

// braceCount is the number of words that come of a word, at most 1<<30.
func braceCount(w *syntax.Word) int64 {
	n := int64(1)
	for _, p := range w.Parts {
		b, ok := p.(*syntax.BraceExp)
		if !ok {
			continue
		}
		m := int64(0)
		if b.Sequence {
			m = int64(len(sequence(b)))
		} else {
			for _, e := range b.Elems {
				m += braceCount(e)
			}
		}
		if n *= max(m, 1); n > 1<<30 {
			return 1 << 30
		}
	}
	return n
}

func expandBraces(parts []syntax.WordPart) [][]syntax.WordPart {
	out := [][]syntax.WordPart{nil}
	for _, p := range parts {
		b, ok := p.(*syntax.BraceExp)
		if !ok {
			for i := range out {
				out[i] = append(out[i], p)
			}
			continue
		}
		var alts [][]syntax.WordPart
		if b.Sequence {
			for _, s := range sequence(b) {
				alts = append(alts, []syntax.WordPart{&syntax.Lit{Value: s}})
			}
		} else {
			for _, e := range b.Elems {
				alts = append(alts, expandBraces(e.Parts)...)
			}
		}
		next := make([][]syntax.WordPart, 0, len(out)*len(alts))
		for _, x := range out {
			for _, y := range alts {
				next = append(next, append(append([]syntax.WordPart(nil), x...), y...))
			}
		}
		out = next
	}
	return out
}

// maxSequence bounds {1..N}.
const maxSequence = 4097

// sequence lists {x..y..step}.
func sequence(b *syntax.BraceExp) []string {
	from, to := b.Elems[0].Lit(), b.Elems[1].Lit()
	step := int64(1)
	if len(b.Elems) > 2 {
		if n, _ := parseInt(b.Elems[2].Lit()); n != 0 {
			step = max(n, -n)
		}
	}
	x, okX := parseInt(from)
	y, okY := parseInt(to)
	letters := !okX || !okY
	if letters {
		x, y = int64(from[0]), int64(to[0])
	}
	width := 0
	if !letters && (paddedNumber(from) || paddedNumber(to)) {
		width = max(len(from), len(to))
	}
	var out []string
	add := func(n int64) {
		s := itoa(n)
		if letters {
			s = string(rune(n))
		}
		for len(s) < width {
			s = "0" + s
		}
		out = append(out, s)
	}
	if x <= y {
		for n := x; n <= y && len(out) < maxSequence; n += step {
			add(n)
		}
	} else {
		for n := x; n >= y && len(out) < maxSequence; n -= step {
			add(n)
		}
	}
	return out
}

func paddedNumber(s string) bool { return len(s) > 1 && s[0] == '0' }

func parseInt(s string) (int64, bool) {
	neg := strings.HasPrefix(s, "-")
	t := strings.TrimPrefix(strings.TrimPrefix(s, "-"), "+")
	if !isDigits(t) || len(t) > 18 {
		return 0, false
	}
	var n int64
	for _, c := range t {
		n = n*10 + int64(c-'0')
	}
	if neg {
		n = -n
	}
	return n, true
}
