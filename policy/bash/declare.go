package bash

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// declClause reads declare, local, export, readonly, typeset and nameref.
func (a *analyzer) declClause(st *state, c *syntax.DeclClause) {
	d := declaration{export: c.Variant.Value == "export", readonly: c.Variant.Value == "readonly",
		ref: c.Variant.Value == "nameref", local: c.Variant.Value == "local"}
	argv := []Word{{Text: c.Variant.Value}}
	for _, s := range c.Args {
		if s.Name != nil {
			argv = append(argv, Word{Text: s.Name.Value})
			if s.Naked && s.Index != nil {
				a.subscript(st, s)
			}
			a.declare(st, s, d)
			continue
		}
		for _, ws := range a.words(st, []*syntax.Word{s.Value}) {
			for _, w := range ws {
				argv = append(argv, w)
				d = a.declareText(st, w, d)
			}
		}
	}
	defer a.someOutput(st, argv)()
	a.record(Command{Kind: Builtin, Argv: argv, Dir: st.dir(), InTable: true, ReadOnly: true})
}

// declaration are the attributes that options of declare give.
type declaration struct {
	export, readonly, ref, local, global, integer, assoc, array, lower, upper, function bool
	// noRef and noCase: the attribute was taken away. That of integers may stay
	// by mistake, which finds too much rather than too little.
	noRef, noCase bool
}

// hide remembers what a local variable hides.
func (a *analyzer) hide(st *state, name string, d declaration) {
	if a.scope == nil || d.export || d.readonly && !d.local || d.global {
		return
	}
	if _, ok := a.scope[name]; !ok {
		a.scope[name] = a.lookupRaw(st, name)
	}
}

func (a *analyzer) declare(st *state, s *syntax.Assign, d declaration) {
	a.hide(st, s.Name.Value, d)
	a.assignNode(st, s, d.apply)
	if s.Naked {
		v := *a.lookupRaw(st, s.Name.Value)
		if d.local && !st.has(s.Name.Value) {
			v = variable{alts: []string{""}, unset: true}
		}
		d.apply(&v)
		st.set(s.Name.Value, &v)
	}
	if d.ref && s.Value != nil || d.readonly {
		v := *a.lookupRaw(st, s.Name.Value)
		v.ref = v.ref || d.ref && s.Value != nil
		v.readonly = v.readonly || d.readonly
		st.set(s.Name.Value, &v)
	}
}

func (d declaration) apply(v *variable) {
	if d.noRef {
		v.ref = false
	}
	if d.noCase {
		v.lower, v.upper = false, false
	}
	v.export = v.export || d.export
	v.integer = v.integer || d.integer
	v.lower = v.lower || d.lower
	v.upper = v.upper || d.upper
	if d.ref {
		v.ref, v.alts, v.unset = false, nil, false // set by its value
	}
	if d.assoc && !v.assoc {
		v.assoc, v.array, v.elems, v.open = true, true, nil, false
	}
	if d.array && !v.array {
		v.array = true
		v.open = v.unset
		if !v.unset {
			v.elems = []element{{"0", v.alts}}
		}
	}
}

// declareText reads an argument of declare that is not literal: an option or an
// assignment in quotes, whose subscript is evaluated.
func (a *analyzer) declareText(st *state, w Word, d declaration) declaration {
	s := w.Text
	if strings.HasPrefix(s, "-") || strings.HasPrefix(s, "+") {
		if s[0] == '+' {
			d.noRef = d.noRef || strings.ContainsRune(s, 'n')
			d.noCase = d.noCase || strings.ContainsAny(s, "lu")
			return d
		}
		for _, c := range s[1:] {
			switch c {
			case 'x':
				d.export = true
			case 'i':
				d.integer = true
			case 'n':
				d.ref = true
			case 'A':
				d.assoc = true
			case 'a':
				d.array = true
			case 'l':
				d.lower = true
			case 'u':
				d.upper = true
			case 'g':
				d.global = true
			case 'r':
				d.readonly = true
			case 'f', 'F':
				d.function = true
			}
		}
		return d
	}
	if d.function {
		return d
	}
	name, val, ok := strings.Cut(s, "=")
	if hasHole(name) {
		a.assignNamed(st, name, []string{anyText})
		return d
	}
	appends := strings.HasSuffix(name, "+")
	name = strings.TrimSuffix(name, "+")
	base, _, _ := strings.Cut(name, "[")
	if isName(base) {
		a.hide(st, base, d)
		v := *a.lookupRaw(st, base)
		d.apply(&v)
		st.set(base, &v)
	}
	if !ok {
		if base != name {
			a.assignNamed(st, name, []string{""})
		}
		return d
	}
	if strings.HasPrefix(val, "(") { // a compound value in quotes is evaluated
		a.evalCode(st, base+"="+val)
		return d
	}
	a.assign(st, name, []string{val}, appends)
	if (d.ref || d.readonly) && isName(name) {
		v := *a.lookupRaw(st, name)
		v.ref = v.ref || d.ref
		v.readonly = v.readonly || d.readonly
		st.set(name, &v)
	}
	return d
}
