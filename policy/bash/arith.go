package bash

import (
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// maxArithDepth bounds variables that name variables in arithmetic.
const maxArithDepth = 4

// arith evaluates an arithmetic expression as far as it is constant. Values that
// reach it are expressions too: Bash runs the substitutions in their subscripts.
func (a *analyzer) arith(st *state, e syntax.ArithmExpr) (int64, bool) {
	if e == nil || a.spend(1) {
		return 0, false
	}
	switch e := e.(type) {
	case *syntax.Word:
		return a.arithWord(st, e)
	case *syntax.ParenArithm:
		return a.arith(st, e.X)
	case *syntax.UnaryArithm:
		return a.arithUnary(st, e)
	case *syntax.BinaryArithm:
		return a.arithBinary(st, e)
	case *syntax.FlagsArithm:
		a.note(ForeignShell, "zsh subscript flags", e.Pos())
		return a.arith(st, e.X)
	}
	return 0, false
}

func (a *analyzer) arithWord(st *state, w *syntax.Word) (int64, bool) {
	if len(w.Parts) == 1 {
		switch p := w.Parts[0].(type) {
		case *syntax.Lit:
			if n, ok := number(p.Value); ok {
				return n, true
			}
			if isName(p.Value) {
				return a.arithVar(st, p.Value, 0)
			}
			return a.arithText(st, p.Value, 0)
		case *syntax.ParamExp:
			if !p.Dollar.IsValid() && p.Index != nil { // a[i]
				l := a.paramList(st, p.Param.Value, p.Index)
				return a.arithAlts(st, l.items[0], 1)
			}
		}
	}
	return a.arithAlts(st, a.quotedText(st, w), 0)
}

func (a *analyzer) arithAlts(st *state, alts []string, depth int) (int64, bool) {
	var n int64
	known := len(alts) == 1
	for _, s := range alts {
		v, ok := a.arithText(st, s, depth)
		n, known = v, known && ok
	}
	return n, known
}

func (a *analyzer) arithVar(st *state, name string, depth int) (int64, bool) {
	if depth > maxArithDepth {
		return 0, false
	}
	if alwaysComputed(name) && !st.has(name) {
		return 0, false
	}
	v := a.lookup(st, name)
	if v.array {
		l := pick(v, "0")
		return a.arithAlts(st, l.items[0], depth+1)
	}
	if v.ref && len(v.alts) == 1 && !isName(v.alts[0]) {
		a.named(st, v.alts[0])
		return 0, false
	}
	n, ok := a.arithAlts(st, v.alts, depth+1)
	return n, ok && !v.unset
}

// arithText evaluates text that Bash reads as an expression at run time.
func (a *analyzer) arithText(st *state, s string, depth int) (int64, bool) {
	s = strings.TrimSpace(s)
	if n, ok := number(s); ok {
		return n, true
	}
	if s == "" {
		return 0, true
	}
	if hasAnyHole(s) {
		a.noteHere(ComputedCode, "computed text in arithmetic")
		return 0, false
	}
	if isName(s) {
		return a.arithVar(st, s, depth+1)
	}
	if strings.ContainsAny(s, "$`") {
		// A subscript runs its substitutions although the text was quoted.
		a.document(st, s)
		return 0, false
	}
	if depth < maxArithDepth && !hasHole(s) && len(s) < 4096 {
		if e := a.parseArith(s); e != nil {
			return a.arithNested(st, e, depth)
		}
	}
	return 0, false
}

// arithNested evaluates a parsed text; it only follows names.
func (a *analyzer) arithNested(st *state, e syntax.ArithmExpr, depth int) (int64, bool) {
	a.depth++
	defer func() { a.depth-- }()
	if a.depth > maxDepth {
		a.bound("nesting")
		return 0, false
	}
	return a.arith(st, e)
}

func (a *analyzer) arithUnary(st *state, e *syntax.UnaryArithm) (int64, bool) {
	n, ok := a.arith(st, e.X)
	switch e.Op {
	case syntax.Inc, syntax.Dec:
		if w, isWord := e.X.(*syntax.Word); isWord && isName(w.Lit()) {
			v := n + 1
			if e.Op == syntax.Dec {
				v = n - 1
			}
			a.assignNumber(st, w.Lit(), v, ok)
			if !e.Post {
				n = v
			}
		}
		return n, ok
	case syntax.Minus:
		return -n, ok
	case syntax.Plus:
		return n, ok
	case syntax.BitNegation:
		return ^n, ok
	case syntax.Not:
		return truth(n == 0), ok
	}
	return 0, false
}

func truth(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func (a *analyzer) assignNumber(st *state, name string, n int64, known bool) {
	s := nameText
	if known {
		s = itoa(n)
	}
	a.assign(st, name, []string{s}, false)
}

func (a *analyzer) arithBinary(st *state, e *syntax.BinaryArithm) (int64, bool) {
	y, okY := a.arith(st, e.Y)
	if w, ok := e.X.(*syntax.Word); ok && isAssignOp(e.Op) {
		name := w.Lit()
		x, okX := int64(0), true
		if e.Op != syntax.Assgn {
			x, okX = a.arith(st, e.X)
		} else if len(w.Parts) == 1 {
			if pe, ok := w.Parts[0].(*syntax.ParamExp); ok && pe.Index != nil {
				a.arith(st, pe.Index)
			}
		}
		n, ok := compute(assignedOp(e.Op), x, y)
		if isName(name) {
			a.assignNumber(st, name, n, ok && okX && okY)
		}
		return n, ok && okX && okY
	}
	x, okX := a.arith(st, e.X)
	switch e.Op {
	case syntax.TernQuest, syntax.TernColon:
		return 0, false
	case syntax.Comma:
		return y, okY
	}
	n, ok := compute(e.Op, x, y)
	return n, ok && okX && okY
}

func isAssignOp(op syntax.BinAritOperator) bool {
	switch op {
	case syntax.Assgn, syntax.AddAssgn, syntax.SubAssgn, syntax.MulAssgn, syntax.QuoAssgn, syntax.RemAssgn,
		syntax.AndAssgn, syntax.OrAssgn, syntax.XorAssgn, syntax.ShlAssgn, syntax.ShrAssgn:
		return true
	}
	return false
}

func assignedOp(op syntax.BinAritOperator) syntax.BinAritOperator {
	switch op {
	case syntax.AddAssgn:
		return syntax.Add
	case syntax.SubAssgn:
		return syntax.Sub
	case syntax.MulAssgn:
		return syntax.Mul
	case syntax.QuoAssgn:
		return syntax.Quo
	case syntax.RemAssgn:
		return syntax.Rem
	case syntax.AndAssgn:
		return syntax.And
	case syntax.OrAssgn:
		return syntax.Or
	case syntax.XorAssgn:
		return syntax.Xor
	case syntax.ShlAssgn:
		return syntax.Shl
	case syntax.ShrAssgn:
		return syntax.Shr
	}
	return op
}

// compute applies one operator; false where Bash would fail.
func compute(op syntax.BinAritOperator, x, y int64) (int64, bool) {
	switch op {
	case syntax.Assgn:
		return y, true
	case syntax.Add:
		return x + y, true
	case syntax.Sub:
		return x - y, true
	case syntax.Mul:
		return x * y, true
	case syntax.Quo, syntax.Rem:
		if y == 0 || y == -1 {
			return 0, false
		}
		if op == syntax.Quo {
			return x / y, true
		}
		return x % y, true
	case syntax.Pow:
		if y < 0 || y > 63 {
			return 0, false
		}
		n := int64(1)
		for range y {
			n *= x
		}
		return n, true
	case syntax.And:
		return x & y, true
	case syntax.Or:
		return x | y, true
	case syntax.Xor:
		return x ^ y, true
	case syntax.Shl:
		return x << uint(y&63), true
	case syntax.Shr:
		return x >> uint(y&63), true
	case syntax.Eql:
		return truth(x == y), true
	case syntax.Neq:
		return truth(x != y), true
	case syntax.Lss:
		return truth(x < y), true
	case syntax.Gtr:
		return truth(x > y), true
	case syntax.Leq:
		return truth(x <= y), true
	case syntax.Geq:
		return truth(x >= y), true
	case syntax.AndArit:
		return truth(x != 0 && y != 0), true
	case syntax.OrArit:
		return truth(x != 0 || y != 0), true
	}
	return 0, false
}

// number reads a constant as Bash does: 0x, leading 0, base#digits.
func number(s string) (int64, bool) {
	if s == "" || s[0] < '0' || s[0] > '9' {
		return 0, false
	}
	if base, digits, ok := strings.Cut(s, "#"); ok {
		b, err := strconv.Atoi(base)
		if err != nil || b < 2 || b > 36 {
			return 0, false
		}
		n, err := strconv.ParseInt(digits, b, 64)
		return n, err == nil
	}
	n, err := strconv.ParseInt(s, 0, 64)
	return n, err == nil && !strings.ContainsAny(s, "_bo")
}
