package bash

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// stmts reads statements that run one after the other.
func (a *analyzer) stmts(st *state, ss []*syntax.Stmt) {
	for _, s := range ss {
		if a.spent() {
			return
		}
		a.stmt(st, s)
		st.settle()
	}
}

// stmt reads one statement with its redirections.
func (a *analyzer) stmt(st *state, s *syntax.Stmt) {
	if s == nil || a.spend(1) {
		return
	}
	if a.nested == 0 {
		a.pos = pointOf(s.Position)
	}
	if a.depth > maxDepth*maxNesting {
		a.bound("nesting")
		return
	}
	if s.Disown || s.Coprocess {
		a.note(ForeignShell, "zsh or mksh job", s.Position)
	}
	if s.Background {
		a.concurrent = true
		st = a.fork(st) // a subshell; its files stay
	}
	if len(s.Redirs) == 0 {
		a.command(st, s.Cmd)
		return
	}
	if call, ok := s.Cmd.(*syntax.CallExpr); ok {
		a.call(st, call, s.Redirs)
		return
	}
	c := *st
	done := a.redirects(&c, s.Redirs, -1)
	a.command(&c, s.Cmd)
	c.in, c.out, c.err = st.in, st.out, st.err
	*st = c
	done()
}

func (a *analyzer) command(st *state, c syntax.Command) {
	switch c := c.(type) {
	case nil:
	case *syntax.CallExpr:
		a.call(st, c, nil)
	case *syntax.BinaryCmd:
		a.binary(st, c)
	case *syntax.Block:
		a.stmts(st, c.Stmts)
	case *syntax.Subshell:
		a.stmts(a.fork(st), c.Stmts)
	case *syntax.IfClause:
		a.ifClause(st, c)
	case *syntax.WhileClause:
		a.whileClause(st, c)
	case *syntax.ForClause:
		a.forClause(st, c)
	case *syntax.CaseClause:
		a.caseClause(st, c)
	case *syntax.FuncDecl:
		a.funcDecl(st, c)
	case *syntax.ArithmCmd:
		a.arith(st, c.X)
	case *syntax.LetClause:
		for _, e := range c.Exprs {
			a.arith(st, e)
		}
	case *syntax.TestClause:
		a.testExpr(st, c.X)
	case *syntax.DeclClause:
		a.declClause(st, c)
	case *syntax.TimeClause:
		if c.Stmt != nil {
			a.stmt(st, c.Stmt)
		}
	case *syntax.CoprocClause:
		a.concurrent = true
		if c.Name != nil {
			// In "coproc NAME simple" the name is the command: read it both ways.
			a.scalar(st, c.Name)
			if call, ok := c.Stmt.Cmd.(*syntax.CallExpr); ok && len(call.Args) > 0 {
				a.call(a.fork(st), &syntax.CallExpr{Args: append([]*syntax.Word{c.Name}, call.Args...)}, c.Stmt.Redirs)
			}
		}
		a.stmt(a.fork(st), c.Stmt)
	case *syntax.TestDecl:
		a.note(ForeignShell, "bats test", c.Position)
		a.stmt(st, c.Body)
	default:
		a.noteHere(UnreadableParse, "unknown syntax")
	}
}

func (a *analyzer) binary(st *state, c *syntax.BinaryCmd) {
	// Long chains lean to the left: walk them without recursion.
	var chain []*syntax.BinaryCmd
	for {
		chain = append(chain, c)
		x, ok := c.X.Cmd.(*syntax.BinaryCmd)
		if !ok || len(c.X.Redirs) > 0 || c.X.Negated || c.X.Background {
			break
		}
		if isPipe(x.Op) != isPipe(c.Op) && isPipe(c.Op) {
			break
		}
		c = x
	}
	slices.Reverse(chain)
	if isPipe(chain[0].Op) {
		n := 1
		for n < len(chain) && isPipe(chain[n].Op) {
			n++
		}
		a.pipeline(st, chain[:n])
		chain = chain[n:]
	} else {
		a.stmt(st, chain[0].X)
	}
	for _, b := range chain {
		if a.spent() {
			return
		}
		a.andOr(st, b)
	}
}

func isPipe(op syntax.BinCmdOperator) bool { return op == syntax.Pipe || op == syntax.PipeAll }

// andOr reads the right side of && or ||, which may run or not.
func (a *analyzer) andOr(st *state, b *syntax.BinaryCmd) {
	failed := st.before
	c := a.fork(st)
	c.before = nil
	if b.Op == syntax.OrStmt && failed != nil {
		c.dirs = failed
	}
	out, errOut := snapshot(st.out), snapshot(st.err)
	a.stmt(c, b.Y)
	restore(st.out, out)
	restore(st.err, errOut)
	if b.Op == syntax.OrStmt {
		st.before = nil
		a.join(c, st)
		*st = *c
		return
	}
	// Where the left side failed the old directory remains.
	dirs, before := c.dirs, c.before
	if failed != nil {
		before = unionDirs(before, failed)
	} else if !slices.Equal(dirs, st.dirs) {
		before = unionDirs(before, st.dirs)
	}
	a.join(c, st)
	c.dirs, c.before = dirs, before
	*st = *c
}

func snapshot(t *text) *text {
	if t == nil {
		return nil
	}
	c := *t
	return &c
}

// restore adds to t that the part since before may not have been written.
func restore(t, before *text) {
	if t == nil || before == nil {
		return
	}
	t.alts = union(t.alts, before.alts)
	if len(before.alts) == 0 && len(t.alts) > 0 {
		t.alts = addAlt(t.alts, "")
	}
}

// pipeline reads X | Y | Z; each stage is a subshell.
func (a *analyzer) pipeline(st *state, chain []*syntax.BinaryCmd) {
	stages := make([]*syntax.Stmt, 0, len(chain)+1)
	stages = append(stages, chain[0].X)
	for _, b := range chain {
		stages = append(stages, b.Y)
	}
	in := st.in
	a.concurrent = true
	for i, s := range stages {
		c := a.fork(st)
		c.in = in
		if i < len(chain) {
			t := &text{}
			c.out = t
			if chain[i].Op == syntax.PipeAll {
				c.err = t
			}
			in = t
		}
		a.stmt(c, s)
		if i == len(stages)-1 {
			// shopt -s lastpipe: the last stage may be the shell itself.
			c.in, c.out, c.err = st.in, st.out, st.err
			c.settle()
			if len(c.vars) > 0 || len(c.funcs) > 0 {
				a.join(st, c)
			}
		}
	}
}

// branch reads alternatives of which one runs, or none.
func (a *analyzer) branch(st *state, mayNone bool, runs ...func(*state)) {
	base := a.fork(st)
	outBase, errBase := snapshot(st.out), snapshot(st.err)
	var sum *state
	var outSum, errSum *text
	keep := func(c *state) {
		c.settle()
		if sum == nil {
			sum, outSum, errSum = c, snapshot(c.out), snapshot(c.err)
			return
		}
		a.join(sum, c)
		restore(outSum, c.out)
		restore(errSum, c.err)
	}
	for _, run := range runs {
		c := a.fork(base)
		reset(c.out, outBase)
		if c.err != c.out {
			reset(c.err, errBase)
		}
		run(c)
		keep(c)
	}
	if mayNone || sum == nil {
		c := a.fork(base)
		reset(c.out, outBase)
		if c.err != c.out {
			reset(c.err, errBase)
		}
		keep(c)
	}
	reset(st.out, outSum)
	if st.err != st.out {
		reset(st.err, errSum)
	}
	*st = *sum
}

func reset(t, to *text) {
	if t != nil && to != nil {
		*t = *to
	}
}

func (a *analyzer) ifClause(st *state, c *syntax.IfClause) {
	if len(c.Cond) == 0 { // else
		a.stmts(st, c.Then)
		return
	}
	a.conds(st, c.Cond)
	failed := st.before
	st.before = nil
	a.branch(st, c.Else == nil,
		func(s *state) { a.stmts(s, c.Then) },
		func(s *state) {
			if failed != nil {
				s.dirs = failed
			}
			if c.Else != nil {
				a.ifClause(s, c.Else)
			}
		})
}

// conds reads a condition; a cd in its last statement is not settled.
func (a *analyzer) conds(st *state, ss []*syntax.Stmt) {
	for i, s := range ss {
		if i > 0 {
			st.settle()
		}
		a.stmt(st, s)
	}
}

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

func (a *analyzer) caseClause(st *state, c *syntax.CaseClause) {
	a.scalar(st, c.Word)
	runs := make([]func(*state), 0, len(c.Items))
	for i := range c.Items {
		for _, p := range c.Items[i].Patterns {
			a.patternText(st, p)
		}
		runs = append(runs, func(s *state) {
			for j := i; j < len(c.Items); j++ {
				a.stmts(s, c.Items[j].Stmts)
				if c.Items[j].Op == syntax.Break {
					break
				}
			}
		})
	}
	a.branch(st, true, runs...)
}

func (a *analyzer) funcDecl(st *state, c *syntax.FuncDecl) {
	if c.Name == nil {
		a.note(ForeignShell, "zsh function", c.Position)
		a.stmt(st, c.Body)
		return
	}
	a.defineFunc(st, c.Name.Value, c.Body)
	if forks(c.Body, c.Name.Value) {
		a.danger(ForkBomb, c.Name.Value)
	}
}

func (a *analyzer) defineFunc(st *state, name string, body *syntax.Stmt) {
	f := &function{body: body, src: a.src}
	for _, g := range a.funcs {
		if g.body == body {
			f = g
		}
	}
	if len(a.funcs) < 1000 {
		a.funcs = append(a.funcs, f)
	}
	st.addFunc(name, f, true)
}

// forks reports whether a function's body starts the function itself in a
// pipeline or in the background.
func forks(body *syntax.Stmt, name string) bool {
	found := false
	calls := func(n syntax.Node) bool {
		hit := false
		syntax.Walk(n, func(n syntax.Node) bool {
			if c, ok := n.(*syntax.CallExpr); ok && len(c.Args) > 0 && c.Args[0].Lit() == name {
				hit = true
			}
			return !hit
		})
		return hit
	}
	syntax.Walk(body, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.BinaryCmd:
			if isPipe(n.Op) && (calls(n.X) || calls(n.Y)) {
				found = true
			}
		case *syntax.Stmt:
			if n.Background && n != body && calls(n) {
				found = true
			}
		}
		return !found
	})
	return found
}
