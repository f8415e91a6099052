package bash

import "strings"

func (a *analyzer) fcBuiltin(v *invocation, args []Word) {
	for i, w := range args {
		if strings.HasPrefix(w.Text, "-l") {
			return
		}
		if w.Text == "-e" && i+1 < len(args) {
			a.startCode(v, args[i+1].Text)
		}
	}
	a.noteHere(ComputedCode, "command of the history")
}

func (a *analyzer) bindBuiltin(v *invocation, args []Word) {
	for i, w := range args {
		if strings.HasPrefix(w.Text, "-x") {
			s := strings.TrimPrefix(w.Text, "-x")
			if s == "" && i+1 < len(args) {
				s = args[i+1].Text
			}
			if _, code, ok := strings.Cut(s, ":"); ok {
				a.evalCode(a.fork(v.st), strings.Trim(strings.TrimSpace(code), `"`))
			}
		}
	}
}

func (a *analyzer) enableBuiltin(v *invocation, args []Word) {
	for _, w := range args {
		if strings.HasPrefix(w.Text, "-") && strings.ContainsAny(w.Text, "f") {
			a.noteHere(UnknownCode, "builtin from a library")
			a.danger(LoaderVariable, "enable -f")
			return
		}
	}
}

// completion follows compgen and complete: -C runs a command, -F a function, -W
// expands its words.
func (a *analyzer) completion(v *invocation, args []Word) {
	for i := 0; i < len(args); i++ {
		s := args[i].Text
		if len(s) < 2 || s[0] != '-' {
			continue
		}
		for j := 1; j < len(s); j++ {
			if strings.IndexByte("ACFGWXPSo", s[j]) < 0 {
				continue
			}
			val := s[j+1:]
			if val == "" && i+1 < len(args) {
				i++
				val = args[i].Text
			}
			c := a.fork(v.st)
			switch s[j] {
			case 'C':
				a.evalCode(c, val)
			case 'F':
				n := *v
				n.st, n.argv = c, []Word{{Text: val}}
				a.run(&n)
			case 'W':
				a.document(c, val)
			}
			break
		}
	}
	a.defaultOut(v)
}

func (a *analyzer) mapfile(v *invocation, args []Word) {
	name := "MAPFILE"
	var code string
	shifted := false
	in := v.st.in
	for i := 0; i < len(args); i++ {
		s := args[i].Text
		if len(s) < 2 || s[0] != '-' {
			if s != "--" {
				name = s
			}
			continue
		}
		for j := 1; j < len(s); j++ {
			if s[j] == 't' {
				continue
			}
			val := s[j+1:]
			if val == "" && i+1 < len(args) {
				i++
				val = args[i].Text
			}
			if s[j] == 'C' {
				code = val
			}
			if s[j] == 'u' {
				in = v.st.input(val)
			}
			shifted = shifted || strings.IndexByte("snOd", s[j]) >= 0
			break
		}
	}
	lines, known := a.lines(in)
	nv := &variable{array: true, open: !known || shifted}
	for i, l := range lines {
		if shifted { // any of them may be anywhere
			nv.alts = addAlt(union(nv.alts, l), anyText)
			continue
		}
		nv.elems = append(nv.elems, element{itoa(int64(i)), l})
	}
	if isName(name) {
		a.setArray(v.st, name, nv)
		if name == "PROMPT_COMMAND" || name == "BASH_CMDS" {
			a.noteHere(ComputedCode, name)
		}
	} else {
		a.assignNamed(v.st, name, []string{""})
	}
	if code != "" {
		c := a.fork(v.st)
		arg := worldText
		if len(lines) > 0 {
			arg = lines[0][0]
		}
		a.evalCode(c, code+" 0 "+quoteWord(arg))
	}
}

// lines lists the lines of a stream; known is false when there may be others.
func (a *analyzer) lines(t *text) (lines [][]string, known bool) {
	if t == nil || len(t.alts) == 0 {
		return [][]string{{worldText}}, false
	}
	if len(t.alts) == 1 && !hasHole(t.alts[0]) {
		s := strings.TrimSuffix(t.alts[0], "\n")
		for _, l := range strings.SplitN(s, "\n", 64) {
			lines = append(lines, []string{l})
		}
		return lines, len(lines) < 64
	}
	var all []string
	for _, s := range t.alts {
		for _, l := range strings.Split(strings.TrimSuffix(s, "\n"), "\n") {
			all = addAlt(all, l)
		}
	}
	return [][]string{all}, false
}
