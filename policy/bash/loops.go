package bash

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

func (a *analyzer) whileClause(st *state, c *syntax.WhileClause) {
	a.loop(st, func(s *state) {
		a.conds(s, c.Cond)
		s.settle()
		a.stmts(s, c.Do)
	})
}

// maxRounds bounds how often a loop body is read before its variables become
// unknown.
const maxRounds = 5

// loop reads a body that runs any number of times, until nothing new comes.
func (a *analyzer) loop(st *state, body func(*state)) {
	outBase := snapshot(st.out)
	a.concurrent = true // a later round runs files that this one wrote
	for round := 0; ; round++ {
		c := a.fork(st)
		if round > 0 {
			a.repeat++
		}
		body(c)
		if round > 0 {
			a.repeat--
		}
		c.settle()
		same := a.covered(c, st) && slices.Equal(c.dirs, st.dirs) && len(c.funcs) == len(st.funcs) &&
			len(c.aliases) == len(st.aliases) && len(c.params) == len(st.params)
		if round >= maxRounds {
			widen(c, st)
			a.join(st, c)
			if round > maxRounds {
				break
			}
			continue
		}
		a.join(st, c)
		if same || a.spent() {
			break
		}
	}
	if st.out != nil && outBase != nil && len(st.out.alts) > 0 && !slices.Equal(st.out.alts, outBase.alts) {
		// Any number of rounds wrote: keep one round, and what follows unknown.
		hole := worst(st.out.alts...)
		st.out.alts = union(union(outBase.alts, st.out.alts), []string{hole})
	}
}

// covered reports whether every value in c is possible in st already.
func (a *analyzer) covered(c, st *state) bool {
	if c.version == st.version {
		return true
	}
	for name, v := range c.vars {
		w, ok := st.vars[name]
		if v == w {
			continue
		}
		if !ok {
			w = a.initial(name)
		}
		if !subset(v.alts, w.alts) || len(v.elems) != len(w.elems) || v.unset && !w.unset || v.array != w.array || v.ref != w.ref {
			return false
		}
		for i := range v.elems {
			if !subset(v.elems[i].alts, w.elems[i].alts) {
				return false
			}
		}
	}
	return true
}

func subset(a, b []string) bool {
	for _, s := range a {
		if !slices.Contains(b, s) {
			return false
		}
	}
	return true
}

// widen makes unknown what still changes after many rounds.
func widen(c, st *state) {
	for name, v := range c.vars {
		w := st.vars[name]
		if w == nil || v == w || subset(v.alts, w.alts) && len(v.elems) == len(w.elems) {
			continue
		}
		n := *v
		hole := anyText
		if isNumber(v.alts) && isNumber(w.alts) {
			hole = nameText
		}
		n.alts = addAlt(union(v.alts, w.alts), hole)
		n.open = n.open || n.array
		c.set(name, &n)
	}
	if len(c.dirs) > 1 {
		c.dirs = []string{""}
	}
}

func isNumber(alts []string) bool {
	for _, s := range alts {
		if s != nameText && strings.Trim(s, "-0123456789") != "" {
			return false
		}
	}
	return true
}

func (a *analyzer) forClause(st *state, c *syntax.ForClause) {
	switch l := c.Loop.(type) {
	case *syntax.CStyleLoop:
		a.arith(st, l.Init)
		a.loop(st, func(s *state) {
			a.arith(s, l.Cond)
			a.stmts(s, c.Do)
			a.arith(s, l.Post)
		})
	case *syntax.WordIter:
		items, known := a.iterItems(st, l)
		if c.Select {
			for _, it := range items {
				a.assign(st, l.Name.Value, it, false)
			}
			known = false
			a.assign(st, "REPLY", []string{worldText}, false)
		}
		if known && len(items) <= 16 {
			for i, it := range items {
				s := a.fork(st)
				a.assign(s, l.Name.Value, it, false)
				if i > 0 {
					a.repeat++
				}
				a.stmts(s, c.Do)
				if i > 0 {
					a.repeat--
				}
				a.join(st, s)
			}
			if len(items) == 0 {
				a.assign(st, l.Name.Value, []string{""}, false)
				a.stmts(a.fork(st), c.Do)
			}
			return
		}
		var all []string
		for _, it := range items {
			all = union(all, it)
		}
		if len(all) == 0 {
			all = []string{worldText}
		}
		none := a.fork(st)
		a.assign(st, l.Name.Value, all, false)
		a.join(st, none)
		a.loop(st, func(s *state) {
			a.assign(s, l.Name.Value, all, false)
			a.stmts(s, c.Do)
		})
	}
}

// iterItems lists the values a for loop goes through; known is false when there
// may be others.
func (a *analyzer) iterItems(st *state, l *syntax.WordIter) (items [][]string, known bool) {
	if !l.InPos.IsValid() {
		items = slices.Clone(st.params)
		if st.more {
			items = append(items, []string{worldText})
		}
		return items, !st.more
	}
	alts := a.words(st, l.Items)
	known = len(alts) == 1
	for i, ws := range alts {
		for j, w := range ws {
			vals := []string{w.Text}
			if w.Glob {
				vals = a.globTexts(st, w)
				known = false
			}
			if w.Many {
				known = false
			}
			if i == 0 {
				items = append(items, vals)
			} else if j < len(items) {
				items[j] = union(items[j], vals)
			} else {
				items = append(items, vals)
			}
		}
	}
	return items, known
}

// globTexts lists what a pattern may stand for.
func (a *analyzer) globTexts(st *state, w Word) []string {
	out := []string{globHole(w.Text)}
	for _, m := range a.madeMatching(st, w.Text) {
		out = addAlt(out, m)
	}
	return out
}

// globHole makes unknown parts of the wild cards of a pattern.
func globHole(pat string) string {
	var b strings.Builder
	for i := 0; i < len(pat); i++ {
		switch pat[i] {
		case '\\':
			if i+1 < len(pat) {
				i++
				b.WriteByte(pat[i])
			}
		case '*', '?':
			b.WriteString(nameText)
		case '[', '(':
			end := strings.IndexAny(pat[i:], "])")
			if end < 0 {
				b.WriteByte(pat[i])
				continue
			}
			b.WriteString(nameText)
			i += end
		default:
			b.WriteByte(pat[i])
		}
	}
	return b.String()
}
