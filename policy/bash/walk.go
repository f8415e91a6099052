package bash

import (
	"slices"

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
