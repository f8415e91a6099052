package bash

import (
	"slices"

	"mvdan.cc/sh/v3/syntax"
)

func (a *analyzer) funcDecl(st *state, c *syntax.FuncDecl) {
	if c.Name == nil {
		a.note(ForeignShell, "zsh function", c.Position)
		a.stmt(st, c.Body)
		return
	}
	if _, ok := st.aliases[c.Name.Value]; ok && (st.aliasesOn || st.posix) {
		a.noteHere(ComputedCode, "alias in place of the name "+c.Name.Value)
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

// callFunc reads the body of a function with its arguments.
func (a *analyzer) callFunc(v *invocation, fs []*function) {
	a.cur = a.record(Command{Kind: Function, Argv: v.argv, Dir: v.st.dir(), InTable: true})
	if a.running == nil {
		a.running = make(map[*function]int)
	}
	for _, f := range fs {
		f.called = true
		if a.running[f] > 3 {
			continue
		}
		n := *v
		if a.running[f] == 3 {
			// Deeper calls have other arguments and variables: any.
			n.st = a.fork(v.st)
			a.forgetAll(n.st, v.argv)
			n.argv = []Word{v.argv[0], {Text: anyText, Many: true}}
		}
		a.running[f]++
		a.nestedCall(&n, f)
		a.running[f]--
	}
}

func (a *analyzer) nestedCall(v *invocation, f *function) {
	if !a.enter() {
		return
	}
	defer a.leave()
	st := v.st
	params, more := st.params, st.more
	st.params, st.more = wordTexts(a, st, v.argv[1:])
	undo := a.temporary(v)
	scope := a.scope
	a.scope = map[string]*variable{}
	src := a.src
	a.src = f.src
	a.stmt(st, f.body)
	a.src = src
	st.settle()
	for _, name := range sortedNames(a.scope) {
		// local may not have been reached: both values are possible.
		st.set(name, joinVars(a.lookupRaw(st, name), a.scope[name]))
	}
	a.scope = scope
	undo()
	st.params, st.more = params, more
}

// temporary makes the assignments before a command, and undoes them.
func (a *analyzer) temporary(v *invocation) (undo func()) {
	if len(v.env) == 0 {
		return func() {}
	}
	st := v.st
	old := make([]*variable, len(v.env))
	for i, b := range v.env {
		old[i] = a.lookupRaw(st, b.name)
		a.assign(st, b.name, b.alts, false)
	}
	return func() {
		for i, b := range v.env {
			if !isName(b.name) {
				continue
			}
			if st.posix { // there they stay
				old[i] = joinVars(old[i], a.lookupRaw(st, b.name))
			}
			st.set(b.name, old[i])
		}
	}
}

func sortedNames(m map[string]*variable) []string {
	out := make([]string, 0, len(m))
	for n := range m {
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}

// wordTexts turns arguments into positional parameters.
func wordTexts(a *analyzer, st *state, ws []Word) (params [][]string, more bool) {
	for _, w := range ws {
		switch {
		case w.Glob:
			params = append(params, a.globTexts(st, w))
			more = true
		case w.Many:
			params = append(params, []string{w.Text})
			more = true
		default:
			params = append(params, []string{w.Text})
		}
	}
	return params, more
}
