package bash

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// assigns reads NAME=VALUE words that stand alone.
func (a *analyzer) assigns(st *state, as []*syntax.Assign) {
	for _, s := range as {
		a.assignNode(st, s, nil)
	}
}

// assignNode reads one assignment; with attr the variable gets attributes first.
func (a *analyzer) assignNode(st *state, s *syntax.Assign, attr func(*variable)) {
	if s.Name == nil {
		return
	}
	name := s.Name.Value
	if attr != nil {
		v := *a.lookupRaw(st, name)
		attr(&v)
		st.set(name, &v)
	}
	switch {
	case s.Array != nil:
		a.assignArray(st, name, s)
	case s.Index != nil:
		key, known := a.subscript(st, s)
		alts := a.assignText(st, s.Value)
		if s.Append {
			alts = cross(pick(a.lookup(st, name), key).items[0], alts)
		}
		a.assignElem(st, name, key, known, alts)
	case s.Naked:
	default:
		a.assign(st, name, a.assignText(st, s.Value), s.Append)
	}
}

// lookupRaw returns the variable itself, not what it refers to.
func (a *analyzer) lookupRaw(st *state, name string) *variable {
	if v, ok := st.vars[name]; ok {
		return v
	}
	return a.initial(name)
}

// subscript evaluates the index of an assignment.
func (a *analyzer) subscript(st *state, s *syntax.Assign) (key string, known bool) {
	v := a.lookup(st, s.Name.Value)
	if v.assoc || s.Name.Value == "BASH_CMDS" || s.Name.Value == "BASH_ALIASES" {
		if w, ok := s.Index.(*syntax.Word); ok {
			keys := a.scalar(st, w)
			return keys[0], len(keys) == 1 && !hasHole(keys[0])
		}
		return "", false
	}
	n, ok := a.arith(st, s.Index)
	return itoa(n), ok
}

func (a *analyzer) assignElem(st *state, name, key string, known bool, alts []string) {
	switch name {
	case "BASH_CMDS":
		st.setHash(key, alts)
	case "BASH_ALIASES":
		a.setAlias(st, key, alts)
	}
	old := a.lookupRaw(st, name)
	v := *old
	if v.integer || countsItself(name) {
		alts = a.integerAlts(st, alts)
	}
	if !v.array {
		v.array = true
		if !v.unset || st.has(name) {
			v.elems = []element{{"0", v.alts}}
		} else {
			v.open = true
		}
	}
	if known {
		v.elems = putElem(v.elems, key, alts, v.readonly)
	} else {
		v.open = true
		v.alts = union(v.alts, alts)
		for i := range v.elems {
			v.elems = putElem(v.elems, v.elems[i].key, alts, true)
		}
	}
	if len(v.elems) > 512 {
		v.open = true
		v.elems = v.elems[:512]
	}
	st.set(name, &v)
}

func (a *analyzer) assignArray(st *state, name string, s *syntax.Assign) {
	old := a.lookupRaw(st, name)
	v := *old
	v.array, v.unset = true, false
	if !s.Append {
		v.elems, v.open = nil, false
	}
	next := int64(len(v.elems))
	for _, e := range s.Array.Elems {
		if a.spend(1) {
			return
		}
		if e.Index != nil {
			key, known := "", false
			if w, ok := e.Index.(*syntax.Word); ok && (v.assoc || name == "BASH_CMDS" || name == "BASH_ALIASES") {
				keys := a.scalar(st, w)
				key, known = keys[0], len(keys) == 1
			} else if n, ok := a.arith(st, e.Index); ok {
				key, known, next = itoa(n), true, n+1
			}
			alts := a.scalar(st, e.Value)
			if known {
				v.elems = putElem(v.elems, key, alts, false)
			} else {
				v.open, v.alts = true, union(v.alts, alts)
			}
			continue
		}
		lists := a.words(st, []*syntax.Word{e.Value})
		for i, ws := range lists {
			for _, w := range ws {
				v.open = v.open || w.Many || w.Glob || len(lists) > 1
				alts := []string{w.Text}
				if w.Glob {
					alts = a.globTexts(st, w)
				}
				if i > 0 {
					v.alts = union(v.alts, alts)
				}
				v.elems = append(slices.Clip(v.elems), element{itoa(next), alts})
				next++
			}
		}
		if len(v.elems) > 512 {
			v.open = true
			v.elems = v.elems[:512]
			break
		}
	}
	v.integer = v.integer || countsItself(name)
	a.integerElems(st, &v)
	st.set(name, &v)
	for _, e := range v.elems {
		switch name {
		case "PROMPT_COMMAND":
			a.promptCommand(st, e.alts)
		case "BASH_CMDS":
			st.setHash(e.key, e.alts)
		case "BASH_ALIASES":
			a.setAlias(st, e.key, e.alts)
		}
	}
}

// assign stores the possible values of a variable, and follows what Bash does
// with the names that mean something to it.
func (a *analyzer) assign(st *state, name string, alts []string, appends bool) {
	if !isName(name) {
		a.assignNamed(st, name, alts)
		return
	}
	old := a.lookupRaw(st, name)
	if old.ref && len(old.alts) == 1 && old.alts[0] != name && st.has(name) {
		a.depth++
		if a.depth < maxDepth {
			a.assign(st, old.alts[0], alts, appends)
		}
		a.depth--
		return
	}
	v := *old
	if v.integer || countsItself(name) {
		alts = a.integerAlts(st, alts)
	}
	if appends {
		alts = cross(old.alts, alts)
	}
	a.noteAssign(name, alts)
	if name == "GLOBIGNORE" {
		a.hidden = true // bash(1): setting it is like dotglob
	}
	switch {
	case v.lower:
		alts = mapAlts(alts, strings.ToLower)
	case v.upper:
		alts = mapAlts(alts, strings.ToUpper)
	}
	if v.readonly {
		alts = union(v.alts, alts)
	}
	if v.array {
		v.elems = putElem(v.elems, "0", alts, v.readonly)
	}
	v.alts, v.unset = alts, false
	st.set(name, &v)
	a.special(st, name, alts)
}

func mapAlts(alts []string, f func(string) string) []string {
	out := make([]string, len(alts))
	for i, s := range alts {
		out[i] = f(s)
	}
	return out
}

// countsItself lists variables of Bash that have the integer attribute from the
// start (declare -p): what is assigned to them is evaluated.
func countsItself(name string) bool {
	switch name {
	case "RANDOM", "SRANDOM", "SECONDS", "LINENO", "HISTCMD", "OPTIND", "BASHPID", "EPOCHSECONDS", "EPOCHREALTIME", "BASH_SUBSHELL",
		"UID", "EUID", "PPID":
		return true
	}
	return false
}

// integerElems evaluates the elements of an integer array.
func (a *analyzer) integerElems(st *state, v *variable) {
	if !v.integer {
		return
	}
	v.elems = slices.Clone(v.elems)
	for i, e := range v.elems {
		v.elems[i].alts = a.integerAlts(st, e.alts)
	}
	v.alts = a.integerAlts(st, v.alts)
}

// integerAlts evaluates values that are assigned to an integer variable.
func (a *analyzer) integerAlts(st *state, alts []string) []string {
	var out []string
	for _, s := range alts {
		if n, ok := a.arithText(st, s, 0); ok {
			out = addAlt(out, itoa(n))
		} else {
			out = addAlt(out, nameText)
		}
	}
	return out
}

// assignNamed stores to a name that is text: read "a[$(x)]", printf -v "$n".
func (a *analyzer) assignNamed(st *state, name string, alts []string) {
	if hasHole(name) {
		if hasAnyHole(name) {
			a.noteHere(ComputedCode, "subscript in a computed name")
		}
		a.forget(st)
		return
	}
	base, sub, ok := strings.Cut(name, "[")
	if !ok || !isName(base) {
		return
	}
	sub = strings.TrimSuffix(sub, "]")
	if a.lookup(st, base).assoc || base == "BASH_CMDS" || base == "BASH_ALIASES" {
		keys := a.document(st, sub)
		a.assignElem(st, base, keys[0], len(keys) == 1, alts)
		return
	}
	n, known := a.arithText(st, sub, 0)
	a.assignElem(st, base, itoa(n), known, alts)
}

// forget makes every variable possibly something else: a name that is not known
// was assigned.
func (a *analyzer) forget(st *state) {
	a.spend(len(st.vars))
	for name, v := range st.vars {
		n := *v
		n.alts = addAlt(n.alts, anyText)
		st.set(name, &n)
	}
}

// forgetAll adds an unknown value to every variable that holds more than numbers,
// as after any number of further rounds.
func (a *analyzer) forgetAll(st *state, argv []Word) {
	a.spend(len(st.vars))
	for name, v := range st.vars {
		if isNumber(v.alts) && !v.array {
			continue
		}
		n := *v
		n.alts = addAlt(n.alts, anyText)
		n.open = n.open || n.array
		st.set(name, &n)
	}
}

// special follows variables by which the shell itself runs code.
func (a *analyzer) special(st *state, name string, alts []string) {
	switch name {
	case "PROMPT_COMMAND":
		a.promptCommand(st, alts)
	case "PS0", "PS1", "PS2", "PS3":
		for _, s := range alts {
			a.prompt(st, s)
		}
	case "PS4":
		if st.xtrace {
			a.tracePrompt(st)
		}
	case "POSIXLY_CORRECT":
		st.aliasesOn = true
	case "HISTFILE": // written when a shell with history ends
		for _, s := range alts {
			if s != "" && s != "/dev/null" && s != worldText {
				a.effect(st, Effect{Kind: Write, Path: s, Source: Code, Command: a.cur})
			}
		}
	case "BASH_ARGV0":
		st.arg0 = alts
	case "SHELLOPTS", "BASHOPTS":
		st.xtrace = true
		a.tracePrompt(st)
	}
}

func (a *analyzer) promptCommand(st *state, alts []string) {
	for _, s := range alts {
		a.evalCode(a.fork(st), s)
	}
}

// prompt runs the substitutions in a prompt string.
func (a *analyzer) prompt(st *state, s string) {
	if hasAnyHole(s) {
		a.noteHere(ComputedCode, "computed prompt")
	}
	if strings.ContainsAny(s, "$`\\") {
		a.document(st, strings.ReplaceAll(s, "\\$", "$"))
		a.document(st, escapes(s, true))
	}
}

// tracePrompt runs the substitutions of PS4, which set -x shows.
func (a *analyzer) tracePrompt(st *state) {
	v, ok := st.vars["PS4"]
	if !ok {
		return
	}
	for _, s := range v.alts {
		a.prompt(st, s)
	}
}
