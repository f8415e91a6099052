package bash

import "mvdan.cc/sh/v3/syntax"

// testExpr reads the expression of [[ … ]].
func (a *analyzer) testExpr(st *state, e syntax.TestExpr) {
	if e == nil || a.spend(1) {
		return
	}
	switch e := e.(type) {
	case *syntax.Word:
		a.scalar(st, e)
	case *syntax.ParenTest:
		a.testExpr(st, e.X)
	case *syntax.UnaryTest:
		w, ok := e.X.(*syntax.Word)
		if ok && (e.Op == syntax.TsVarSet || e.Op == syntax.TsRefVar) {
			for _, s := range a.scalar(st, w) {
				a.varTest(st, s)
			}
			return
		}
		a.testExpr(st, e.X)
	case *syntax.BinaryTest:
		switch e.Op {
		case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
			// Both sides are arithmetic.
			for _, x := range [...]syntax.TestExpr{e.X, e.Y} {
				if w, ok := x.(*syntax.Word); ok {
					a.arithAlts(st, a.scalar(st, w), 0)
				}
			}
			return
		}
		a.testExpr(st, e.X)
		a.testExpr(st, e.Y)
		if w, ok := e.X.(*syntax.Word); ok && e.Op == syntax.TsReMatch {
			hole := worst(a.scalar(st, w)...)
			st.set("BASH_REMATCH", &variable{array: true, open: true, alts: []string{hole}})
		}
	}
}
