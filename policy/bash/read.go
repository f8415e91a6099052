package bash

import (
	"strconv"
	"strings"
)

// read sets variables from a line of the input: any of its lines, since earlier
// ones may have been read away.
func (a *analyzer) read(v *invocation, args []Word) {
	st := v.st
	var names []string
	array := ""
	raw, odd := false, false
	in := st.in
	for i := 0; i < len(args); i++ {
		s := args[i].Text
		if len(s) < 2 || s[0] != '-' || s == "--" {
			if s != "--" {
				names = append(names, s)
			}
			continue
		}
		for j := 1; j < len(s); j++ {
			raw = raw || s[j] == 'r'
			if strings.IndexByte("adinNptu", s[j]) < 0 {
				continue
			}
			val := s[j+1:]
			if val == "" && i+1 < len(args) {
				i++
				val = args[i].Text
			}
			switch s[j] {
			case 'a':
				array = val
			case 'd', 'n', 'N', 'i':
				odd = true
			case 'u':
				in = st.input(val)
			}
			break
		}
	}
	lines := a.anyLine(in)
	if in != nil {
		in.touched = true
	}
	if odd && in != nil { // another end than a newline
		lines = addAlt(union(lines, trimNewlines(in.alts)), anyText)
	}
	if !raw {
		lines = withoutBackslashes(lines)
	}
	env := a.fork(st)
	for _, b := range v.env {
		if b.name == "IFS" {
			env.set("IFS", &variable{alts: b.alts})
		}
	}
	if array != "" {
		a.readArray(st, env, array, lines)
	}
	if len(names) == 0 {
		if array == "" {
			a.assign(st, "REPLY", lines, false)
		}
		return
	}
	vals := make([][]string, len(names))
	for _, l := range lines {
		fields := a.lineFields(env, l, len(names))
		for i := range names {
			s := ""
			if i < len(fields) {
				s = fields[i]
			}
			vals[i] = addAlt(vals[i], s)
		}
	}
	for i, n := range names {
		a.assign(st, n, vals[i], false)
	}
}

func trimNewlines(alts []string) []string {
	return mapAlts(alts, func(s string) string { return strings.TrimSuffix(s, "\n") })
}

// withoutBackslashes undoes the backslashes that read takes away without -r; one
// at the end joins lines.
func withoutBackslashes(lines []string) []string {
	var out []string
	for _, l := range lines {
		if !strings.Contains(l, "\\") {
			out = addAlt(out, l)
			continue
		}
		var b strings.Builder
		for i := 0; i < len(l); i++ {
			if l[i] == '\\' {
				if i++; i >= len(l) {
					b.WriteString(anyText)
					break
				}
				if l[i] == '\n' {
					continue
				}
			}
			b.WriteByte(l[i])
		}
		out = addAlt(out, b.String())
	}
	return out
}

func (a *analyzer) readArray(st, env *state, name string, lines []string) {
	nv := &variable{array: true, open: len(lines) != 1}
	for i, l := range lines {
		for j, f := range a.lineFields(env, l, 0) {
			if i == 0 {
				nv.elems = append(nv.elems, element{strconv.Itoa(j), []string{f}})
			} else {
				nv.alts = addAlt(nv.alts, f)
			}
		}
		nv.open = nv.open || hasHole(l)
	}
	if isName(name) {
		a.setArray(st, name, nv)
	} else {
		a.assignNamed(st, name, lines)
	}
}

// setArray stores an array that a builtin filled, under the attributes that the
// name had.
func (a *analyzer) setArray(st *state, name string, v *variable) {
	v.integer = a.lookupRaw(st, name).integer || countsItself(name)
	a.integerElems(st, v)
	st.set(name, v)
}

// anyLine lists the lines that read may get.
func (a *analyzer) anyLine(t *text) []string {
	lines, _ := a.lines(t)
	var out []string
	for _, l := range lines {
		out = union(out, l)
	}
	return out
}

// lineFields splits a line for read: the last of n names gets the rest.
func (a *analyzer) lineFields(st *state, line string, n int) []string {
	if n == 1 {
		return []string{strings.Trim(line, " \t")}
	}
	var out []string
	segs := a.ifs(st, line)
	cur, has := "", false
	for i, g := range segs {
		if !g.brk {
			cur, has = cur+g.s, true
			continue
		}
		if n > 0 && len(out) == n-1 {
			for _, r := range segs[i:] {
				if r.brk {
					cur += " "
				} else {
					cur += r.s
				}
			}
			has = true
			break
		}
		if has {
			out = append(out, cur)
		}
		cur, has = "", false
	}
	if has {
		out = append(out, cur)
	}
	if hasHole(line) && !onlyNames(line) {
		for len(out) < n {
			out = append(out, worst(line))
		}
	}
	return out
}
