package bash

import (
	"strings"
	"sync"

	"mvdan.cc/sh/v3/syntax"
)

// parsers is a pool: a parser keeps its buffers and is not safe for concurrent
// use.
var parsers = sync.Pool{New: func() any { return syntax.NewParser() }}

// parse reads code as a list of statements. The statements before a fault are
// returned with the fault, as Bash runs the lines before it.
func parse(code string, lang syntax.LangVariant) (stmts []*syntax.Stmt, err error) {
	p := parsers.Get().(*syntax.Parser)
	syntax.Variant(lang)(p)
	defer func() {
		if r := recover(); r != nil {
			err = errParser
			return // the parser is not put back
		}
		parsers.Put(p)
	}()
	f, err := p.Parse(strings.NewReader(code), "")
	if f != nil {
		stmts = f.Stmts
	}
	return stmts, err
}

func (a *analyzer) parseArith(s string) (e syntax.ArithmExpr) {
	if a.spend(len(s)/8 + 10) {
		return nil
	}
	p := parsers.Get().(*syntax.Parser)
	syntax.Variant(syntax.LangBash)(p)
	defer func() {
		if r := recover(); r != nil {
			e = nil
			return
		}
		parsers.Put(p)
	}()
	e, err := p.Arithmetic(strings.NewReader(s))
	if err != nil {
		return nil
	}
	return e
}

// document evaluates text in which substitutions run although it was quoted:
// prompts, subscripts.
func (a *analyzer) document(st *state, s string) []string {
	if !strings.ContainsAny(s, "$`") {
		return []string{s}
	}
	if a.spend(len(s)/8+10) || tooDeep(s) {
		a.bound("nesting")
		return []string{anyText}
	}
	w, err := parseDocument(s)
	if err != nil {
		a.noteHere(UnreadableParse, s)
	}
	if w == nil {
		return []string{anyText}
	}
	if !a.enter() {
		return []string{anyText}
	}
	defer a.leave()
	src := a.src
	a.src = s
	defer func() { a.src = src }()
	return a.quotedText(st, w)
}

func parseDocument(s string) (w *syntax.Word, err error) {
	p := parsers.Get().(*syntax.Parser)
	syntax.Variant(syntax.LangBash)(p)
	defer func() {
		if r := recover(); r != nil {
			w, err = nil, errParser
			return
		}
		parsers.Put(p)
	}()
	return p.Document(strings.NewReader(s))
}

// doubleNegation finds the "!" that the parser would not take after another.
func doubleNegation(code string, err error) (at int, ok bool) {
	pe, ok := err.(syntax.ParseError)
	if !ok || !strings.Contains(pe.Text, "negate a command multiple times") {
		return 0, false
	}
	at = int(pe.Pos.Offset())
	return at, at < len(code) && code[at] == '!'
}

// fault records a parse error and reads what a recovering reader still sees, so
// that a command behind the fault is named too.
func (a *analyzer) fault(st *state, code string, err error) {
	pos := a.pos
	if pe, ok := err.(syntax.ParseError); ok && a.nested == 0 {
		pos = pointOf(pe.Pos)
	}
	a.noteAt(UnreadableParse, err.Error(), pos)
	if a.nested > 0 || a.depth > 4 {
		return
	}
	lines := strings.SplitAfter(code, "\n")
	if len(lines) > 64 {
		return
	}
	// Bash runs whole lines before the fault: the longest readable head.
	for n := len(lines) - 1; n > 0; n-- {
		head := strings.Join(lines[:n], "")
		if stmts, err := parse(head, syntax.LangBash); err == nil {
			a.repeat++
			a.stmts(a.fork(st), stmts)
			a.repeat--
			return
		}
	}
}

// mayDiffer reports whether a POSIX shell may read code otherwise than Bash.
func mayDiffer(code string) bool {
	for _, s := range []string{"((", "[[", "&>", ">&", "<(", ">(", "$'", "$\"", "|&", "function", "<<<", "$[", "{"} {
		if strings.Contains(code, s) {
			return true
		}
	}
	return false
}
