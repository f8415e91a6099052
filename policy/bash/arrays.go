package bash

import (
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// named reads a parameter whose name is text: an indirection or a reference.
// The text may have a subscript, which is evaluated.
func (a *analyzer) named(st *state, name string) list {
	if hasHole(name) {
		if hasAnyHole(name) {
			a.noteHere(ComputedCode, "subscript in a computed name")
		}
		return list{items: [][]string{{anyText}}, unset: true, multi: true, more: true}
	}
	base, sub, ok := strings.Cut(name, "[")
	if !ok {
		if name == "" {
			return list{items: [][]string{{""}}, unset: true}
		}
		return a.paramList(st, name, nil)
	}
	sub = strings.TrimSuffix(sub, "]")
	v := a.lookup(st, base)
	if sub == "@" || sub == "*" {
		return allElements(v, sub == "*")
	}
	if !v.assoc {
		if n, ok := a.arithText(st, sub, 0); ok {
			return pick(v, itoa(n))
		}
		return anyElement(v)
	}
	a.document(st, sub)
	return pick(v, sub)
}

// keys lists the subscripts of an array: ${!a[@]}. Those of an associative one
// are text that a script may have taken from anywhere.
func keys(v *variable) list {
	if !v.assoc {
		return list{multi: true, more: true}
	}
	l := list{multi: true}
	for _, e := range v.elems {
		l.items = append(l.items, []string{e.key})
	}
	if v.open {
		l.items = append(l.items, []string{anyText})
		l.more = true
	}
	return l
}

// indirect resolves ${!x}.
func (a *analyzer) indirect(st *state, p *syntax.ParamExp, l list) list {
	if p.Index != nil && l.multi {
		return keys(a.lookup(st, p.Param.Value))
	}
	if v, ok := st.vars[p.Param.Value]; ok && v.ref {
		return single(worldText)
	}
	var out list
	for _, it := range l.items {
		for _, name := range it {
			r := a.named(st, name)
			if len(l.items) == 1 && len(it) == 1 {
				r.unset = r.unset || l.unset
				return r
			}
			for _, x := range r.items {
				if len(out.items) == 0 {
					out.items = [][]string{nil}
				}
				out.items[0] = union(out.items[0], x)
			}
		}
	}
	out.unset = true
	if len(out.items) == 0 {
		return single("")
	}
	return out
}

// element reads ${a[index]}.
func (a *analyzer) element(st *state, v *variable, index syntax.ArithmExpr) list {
	if w, ok := index.(*syntax.Word); ok {
		switch w.Lit() {
		case "@", "*":
			return allElements(v, w.Lit() == "*")
		}
		if v.assoc {
			keys := a.scalar(st, w)
			if len(keys) == 1 && !hasHole(keys[0]) {
				return pick(v, keys[0])
			}
			return anyElement(v)
		}
	}
	if n, ok := a.arith(st, index); ok {
		if n < 0 {
			n += int64(len(v.elems))
			if !dense(v) {
				return anyElement(v)
			}
		}
		return pick(v, itoa(n))
	}
	return anyElement(v)
}

func allElements(v *variable, star bool) list {
	l := list{multi: true, star: star, more: v.open, array: true}
	if !v.array {
		l.items = [][]string{v.alts}
		l.more = v.unset
		return l
	}
	for _, e := range v.elems {
		l.items = append(l.items, e.alts)
	}
	return l
}

func pick(v *variable, key string) list {
	if !v.array {
		if key == "0" {
			return list{items: [][]string{v.alts}, unset: v.unset}
		}
		return list{items: [][]string{{worldOr(v)}}, unset: true}
	}
	for _, e := range v.elems {
		if e.key == key {
			return list{items: [][]string{e.alts}, unset: v.open}
		}
	}
	if v.open {
		return anyElement(v)
	}
	return list{items: [][]string{{""}}, unset: true}
}

// dense reports whether the elements are 0, 1, 2 and so on.
func dense(v *variable) bool {
	for i, e := range v.elems {
		if e.key != strconv.Itoa(i) {
			return false
		}
	}
	return !v.open
}

func anyElement(v *variable) list {
	alts := v.alts
	for _, e := range v.elems {
		alts = union(alts, e.alts)
	}
	if v.open || len(alts) == 0 {
		alts = addAlt(alts, worldText)
	}
	return list{items: [][]string{alts}, unset: true}
}
