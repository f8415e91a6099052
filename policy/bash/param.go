package bash

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// list is what a parameter stands for before operators apply: one value, or
// several as with "$@".
type list struct {
	items [][]string // possible texts of each item
	multi bool       // $@, ${a[@]}: items become words
	star  bool       // joined by the first character of IFS when quoted
	array bool       // the items are those of an array: offsets count from 0
	more  bool       // there may be further items
	unset bool
}

// param expands ${…}. only says that it is the whole word: then an unknown value
// stands for the unset one too.
func (a *analyzer) param(st *state, p *syntax.ParamExp, quoted, only bool) [][]segment {
	if p.Param == nil || p.NestedParam != nil || p.Flags != nil {
		a.note(ForeignShell, "zsh expansion", p.Pos())
		return one(anyText, quoted)
	}
	if p.Names != 0 {
		return [][]segment{{{s: worldText, quoted: quoted, many: true}}}
	}
	l := a.paramList(st, p.Param.Value, p.Index)
	if p.Excl {
		l = a.indirect(st, p, l)
	}
	switch {
	case p.Length:
		return one(lengthText(l), true)
	case p.Exp != nil:
		return a.paramExp(st, p, l, quoted)
	case p.Slice != nil:
		l = a.slice(st, p.Slice, l)
	case p.Repl != nil:
		l = a.replace(st, p.Repl, l)
	}
	if only && l.unset && !l.multi && len(l.items) == 1 && slices.Contains(l.items[0], worldText) {
		l.unset = false
	}
	return a.spread(st, l, quoted)
}

// paramList reads a parameter.
func (a *analyzer) paramList(st *state, name string, index syntax.ArithmExpr) list {
	switch name {
	case "@", "*":
		return list{items: st.params, multi: true, star: name == "*", more: st.more}
	case "#":
		if st.more {
			return single(worldText)
		}
		return single(strconv.Itoa(len(st.params)))
	case "?", "$", "!":
		return single(nameText)
	case "-":
		return single(nameText)
	case "_":
		// The last argument of the command before, which the script wrote.
		return single(anyText)
	case "0":
		return list{items: [][]string{st.arg0}}
	}
	if isDigits(name) {
		n, _ := strconv.Atoi(name)
		if n >= 1 && n <= len(st.params) {
			return list{items: [][]string{st.params[n-1]}}
		}
		if st.more {
			return list{items: [][]string{{worldText}}, unset: true}
		}
		return list{items: [][]string{{""}}, unset: true}
	}
	if index == nil && !st.has(name) && alwaysComputed(name) {
		return single(nameText)
	}
	if !st.has(name) && setByShell(name) {
		// Text that the script wrote may be in it.
		if w, ok := index.(*syntax.Word); index != nil && !(ok && (w.Lit() == "@" || w.Lit() == "*")) {
			a.arith(st, index)
		}
		return list{items: [][]string{{anyText}}, unset: true}
	}
	v := a.lookup(st, name)
	if v.ref && len(v.alts) == 1 && !isName(v.alts[0]) {
		return a.named(st, v.alts[0])
	}
	if index != nil {
		return a.element(st, v, index)
	}
	if v.array {
		for _, e := range v.elems {
			if e.key == "0" {
				return list{items: [][]string{e.alts}, unset: v.open}
			}
		}
		return list{items: [][]string{{worldOr(v)}}, unset: true}
	}
	return list{items: [][]string{v.alts}, unset: v.unset}
}

func (s *state) has(name string) bool { _, ok := s.vars[name]; return ok }

func worldOr(v *variable) string {
	if v.open {
		return anyText
	}
	return ""
}

func single(s string) list { return list{items: [][]string{{s}}} }

// alwaysComputed lists variables that Bash computes and that hold no slash, no
// blank and nothing that the script chose.
func alwaysComputed(name string) bool {
	switch name {
	case "RANDOM", "SRANDOM", "SECONDS", "LINENO", "BASHPID", "PPID", "UID", "EUID", "EPOCHSECONDS",
		"EPOCHREALTIME", "BASH_SUBSHELL", "SHLVL", "COLUMNS", "LINES", "HOSTNAME", "HOSTTYPE", "OSTYPE",
		"MACHTYPE", "BASH_VERSION", "USER", "LOGNAME":
		return true
	}
	return false
}

// setByShell lists variables in which Bash keeps text of the script itself.
func setByShell(name string) bool {
	switch name {
	case "BASH_COMMAND", "BASH_EXECUTION_STRING", "FUNCNAME", "DIRSTACK", "BASH_ARGV", "BASH_REMATCH", "COPROC", "COMP_LINE",
		"COMP_WORDS", "READLINE_LINE", "BASH_ALIASES", "BASH_CMDS":
		return true
	}
	return false
}

func lengthText(l list) string {
	if l.multi && !l.more {
		return strconv.Itoa(len(l.items))
	}
	if !l.unset && len(l.items) == 1 && len(l.items[0]) == 1 && !hasHole(l.items[0][0]) {
		return strconv.Itoa(utf8.RuneCountInString(l.items[0][0]))
	}
	return nameText
}

// spread turns a parameter's value into segments.
func (a *analyzer) spread(st *state, l list, quoted bool) [][]segment {
	if l.multi {
		return a.spreadList(st, l, quoted)
	}
	var out [][]segment
	for _, s := range l.items[0] {
		if quoted {
			out = append(out, []segment{{s: s, quoted: true}})
		} else {
			out = append(out, a.ifs(st, s))
		}
	}
	if l.unset && !slices.Contains(l.items[0], "") {
		out = append(out, []segment{{quoted: quoted}})
	}
	return out
}

func (a *analyzer) spreadList(st *state, l list, quoted bool) [][]segment {
	out := [][]segment{nil}
	sep := segment{brk: true}
	if l.star && quoted {
		sep = segment{s: a.starSeparator(st), quoted: true}
	}
	for i, it := range l.items {
		var alts [][]segment
		for _, s := range it {
			var segs []segment
			if i > 0 {
				segs = append(segs, sep)
			}
			if quoted {
				segs = append(segs, segment{s: s, quoted: true})
			} else {
				segs = append(segs, a.ifs(st, s)...)
			}
			alts = append(alts, segs)
		}
		out = crossSegments(out, alts)
	}
	if l.more {
		hole := segment{s: worldText, many: true, quoted: quoted && l.star}
		for i := range out {
			if len(l.items) > 0 {
				out[i] = append(out[i], sep)
			}
			out[i] = append(out[i], hole)
		}
	}
	return out
}

// starSeparator joins the words of "$*".
func (a *analyzer) starSeparator(st *state) string {
	v, ok := st.vars["IFS"]
	if !ok || v.unset || len(v.alts) != 1 {
		return " "
	}
	if v.alts[0] == "" || hasHole(v.alts[0]) {
		return v.alts[0]
	}
	return v.alts[0][:1]
}

// paramExp applies ${x:-w}, ${x#w}, ${x^}, ${x@Q} and their kin.
func (a *analyzer) paramExp(st *state, p *syntax.ParamExp, l list, quoted bool) [][]segment {
	e := p.Exp
	switch e.Op {
	case syntax.AlternateUnset, syntax.AlternateUnsetOrNull, syntax.DefaultUnset, syntax.DefaultUnsetOrNull,
		syntax.AssignUnset, syntax.AssignUnsetOrNull, syntax.ErrorUnset, syntax.ErrorUnsetOrNull:
		return a.paramDefault(st, p, l, quoted)
	case syntax.OtherParamOps:
		return a.transform(st, e.Word, l, quoted)
	}
	pats := a.patternText(st, e.Word)
	out := l
	out.items = nil
	for _, it := range l.items {
		var alts []string
		for _, s := range it {
			for _, pat := range pats {
				alts = addAlt(alts, trim(e.Op, s, pat))
			}
		}
		out.items = append(out.items, alts)
	}
	return a.spread(st, out, quoted)
}

// paramDefault evaluates the word always, since it may be used.
func (a *analyzer) paramDefault(st *state, p *syntax.ParamExp, l list, quoted bool) [][]segment {
	word := a.segments(st, p.Exp.Word, quoted)
	if !quoted {
		word = a.splitUnquoted(st, word)
	}
	mayBeSet, mayBeEmpty := len(l.items) > 0 || l.more, l.unset || len(l.items) == 0
	null := false
	if !l.multi {
		null = slices.Contains(l.items[0], "")
		mayBeSet = slices.ContainsFunc(l.items[0], func(s string) bool { return s != "" })
		if slices.ContainsFunc(l.items[0], hasHole) {
			null = true
		}
	}
	out := [][]segment{}
	switch p.Exp.Op {
	case syntax.AlternateUnset, syntax.AlternateUnsetOrNull:
		out = append(out, word...)
		if mayBeEmpty || null {
			out = append(out, []segment{{quoted: quoted}})
		}
		return out
	case syntax.ErrorUnset, syntax.ErrorUnsetOrNull:
		return a.spread(st, l, quoted)
	case syntax.AssignUnset, syntax.AssignUnsetOrNull:
		alts := a.scalar(st, p.Exp.Word)
		if mayBeSet && !l.multi {
			alts = union(alts, l.items[0])
		}
		a.assign(st, p.Param.Value, alts, false)
	}
	if mayBeEmpty || null {
		out = append(out, word...)
	}
	if mayBeSet || null && (p.Exp.Op == syntax.DefaultUnset || p.Exp.Op == syntax.AssignUnset) {
		l.unset = false
		out = append(out, a.spread(st, l, quoted)...)
	}
	if len(out) == 0 {
		return word
	}
	return out
}

// splitUnquoted splits the unquoted literal text in the word of ${x:-word}.
func (a *analyzer) splitUnquoted(st *state, alts [][]segment) [][]segment {
	for i, segs := range alts {
		for _, g := range segs {
			if !g.quoted && strings.ContainsAny(g.s, " \t\n") {
				var out []segment
				for _, g := range segs {
					if g.quoted || g.brk || g.many {
						out = append(out, g)
					} else {
						out = append(out, a.ifs(st, g.s)...)
					}
				}
				alts[i] = out
				break
			}
		}
	}
	return alts
}

// transform applies ${x@Q} and its kin; @P runs substitutions in the value.
func (a *analyzer) transform(st *state, op *syntax.Word, l list, quoted bool) [][]segment {
	out := l
	out.items = nil
	for _, it := range l.items {
		var alts []string
		for _, s := range it {
			switch op.Lit() {
			case "P":
				a.prompt(st, s)
				alts = addAlt(alts, anyText)
			case "E":
				alts = addAlt(alts, ansiC(s))
			case "U":
				alts = addAlt(alts, strings.ToUpper(s))
			case "L":
				alts = addAlt(alts, strings.ToLower(s))
			case "u":
				alts = addAlt(alts, caseFirst(s, strings.ToUpper))
			case "Q":
				if !hasHole(s) && isPlainText(s) {
					alts = addAlt(alts, "'"+s+"'")
					continue
				}
				alts = addAlt(alts, anyText)
			default:
				alts = addAlt(alts, anyText)
			}
		}
		out.items = append(out.items, alts)
	}
	return a.spread(st, out, quoted)
}

func isPlainText(s string) bool { return !strings.ContainsAny(s, "'\n\t\\") }
