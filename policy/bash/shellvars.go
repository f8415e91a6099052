package bash

import (
	"slices"
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
		st.set(name, nv)
	} else {
		a.assignNamed(st, name, lines)
	}
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

// test follows test and [: -v and -R evaluate a subscript in their operand.
func (a *analyzer) test(v *invocation, args []Word) {
	for i, w := range args {
		if (w.Text == "-v" || w.Text == "-R" || !w.Known()) && i+1 < len(args) {
			if !w.Known() && !strings.Contains(args[i+1].Text, "[") {
				continue
			}
			a.varTest(v.st, args[i+1].Text)
		}
	}
	a.setReadOnly()
}

// varTest evaluates the operand of -v.
func (a *analyzer) varTest(st *state, name string) {
	if strings.Contains(name, "[") || hasAnyHole(name) {
		a.named(st, name)
	}
}

func (a *analyzer) unset(v *invocation, args []Word) {
	fn := false
	for _, w := range args {
		s := w.Text
		switch {
		case s == "-f":
			fn = true
		case strings.HasPrefix(s, "-"):
		case strings.Contains(s, "[") || hasHole(s):
			a.named(v.st, s)
			a.unsetElement(v.st, s)
		case fn:
			v.st.dropFunc(s)
		default:
			if old := a.lookupRaw(v.st, s); isName(s) && !old.readonly {
				v.st.set(s, &variable{alts: []string{""}, unset: true})
			} else if isName(s) {
				n := *old
				n.unset = true
				v.st.set(s, &n)
			}
			if s == "IFS" {
				v.st.drop("IFS")
			}
		}
	}
}

// unsetElement removes one element of an array.
func (a *analyzer) unsetElement(st *state, s string) {
	base, key, ok := strings.Cut(s, "[")
	old, has := st.vars[base]
	if !ok || !has {
		return
	}
	key = strings.TrimSuffix(key, "]")
	v := *old
	v.elems = nil
	known := false
	for _, e := range old.elems {
		if e.key == key && !hasHole(key) {
			known = true
			continue
		}
		v.elems = append(v.elems, e)
	}
	if !known { // any of them may be gone
		for _, e := range old.elems {
			v.alts = union(v.alts, e.alts)
		}
		v.elems, v.open = nil, true
	}
	st.set(base, &v)
}

func (a *analyzer) waitBuiltin(v *invocation, args []Word) {
	for i, w := range args {
		if w.Text == "-p" && i+1 < len(args) {
			a.assign(v.st, args[i+1].Text, []string{nameText}, false)
		} else if s, ok := strings.CutPrefix(w.Text, "-p"); ok && s != "" {
			a.assign(v.st, s, []string{nameText}, false)
		}
	}
}

func (a *analyzer) aliasBuiltin(v *invocation, args []Word) {
	for _, w := range args {
		name, val, ok := strings.Cut(w.Text, "=")
		if !ok {
			continue
		}
		if hasHole(name) {
			a.noteHere(ComputedCode, "alias with a computed name")
			continue
		}
		v.st.setAlias(name, []string{val})
	}
}

// hashBuiltin follows hash -p PATH NAME; -t only tells.
func (a *analyzer) hashBuiltin(v *invocation, args []Word) {
	for i, w := range args {
		if s, ok := strings.CutPrefix(w.Text, "-p"); ok {
			rest := args[i+1:]
			if s == "" && len(rest) > 0 {
				s, rest = rest[0].Text, rest[1:]
			}
			for _, n := range rest {
				v.st.setHash(n.Text, union(v.st.hashed[n.Text], []string{s}))
				if !n.Known() || hasHole(s) {
					a.noteHere(ComputedWord, "hash -p "+s)
				}
			}
			return
		}
		if w.Text == "-r" || w.Text == "-t" || w.Text == "-l" {
			a.setReadOnly()
			return
		}
	}
}

func (a *analyzer) setBuiltin(v *invocation, args []Word) {
	st := v.st
	for i := 0; i < len(args); i++ {
		w := args[i]
		s := w.Text
		switch {
		case s == "--" || s == "-":
			st.params, st.more = wordTexts(a, st, args[i+1:])
			return
		case w.Known() && len(s) > 1 && (s[0] == '-' || s[0] == '+'):
			on := s[0] == '-'
			if strings.ContainsRune(s, 'o') && i+1 < len(args) {
				i++
				a.shellOption(st, args[i].Text, on)
			}
			for _, c := range s[1:] {
				switch c {
				case 'x':
					a.shellOption(st, "xtrace", on)
				case 'H':
					a.shellOption(st, "histexpand", on)
				case 'k':
					a.shellOption(st, "keyword", on)
				}
			}
		default:
			if w.Many && startsUnknown(s) {
				a.shellOption(st, "xtrace", true)
				a.shellOption(st, "keyword", true)
			}
			st.params, st.more = wordTexts(a, st, args[i:])
			return
		}
	}
}

func (a *analyzer) shellOption(st *state, name string, on bool) {
	if !on {
		return
	}
	switch name {
	case "xtrace":
		st.xtrace = true
		a.tracePrompt(st)
	case "keyword":
		st.keywords = true
	case "histexpand":
		a.noteHere(ComputedCode, "history expansion")
	case "xpg_echo":
		st.xpgEcho = true
	case "expand_aliases", "posix":
		st.aliasesOn = true
	}
}

func (a *analyzer) shopt(v *invocation, args []Word) {
	on := false
	for _, w := range args {
		if strings.HasPrefix(w.Text, "-") {
			on = on || strings.ContainsRune(w.Text, 's')
			continue
		}
		if !w.Known() {
			a.shellOption(v.st, "expand_aliases", on)
		}
		a.shellOption(v.st, w.Text, on)
	}
}

func (a *analyzer) shift(v *invocation, args []Word) {
	st := v.st
	n := 1
	if len(args) > 0 {
		m, err := strconv.Atoi(args[0].Text)
		if err != nil || m < 0 {
			// Any of them may be first now.
			all := a.anyParam(st)
			st.params, st.more = [][]string{all}, true
			return
		}
		n = m
	}
	if n > len(st.params) {
		if st.more {
			st.params = nil
		}
		return
	}
	st.params = st.params[n:]
}

// cd follows cd; the old directory stays possible until success is certain.
func (a *analyzer) cd(v *invocation, args []Word) {
	physical := false
	for len(args) > 0 && strings.HasPrefix(args[0].Text, "-") && len(args[0].Text) > 1 {
		s := args[0].Text
		args = args[1:]
		if s == "--" {
			break
		}
		physical = physical || strings.ContainsRune(s, 'P')
	}
	st := v.st
	if len(args) == 0 {
		if home := a.lookup(st, "HOME"); len(home.alts) > 0 {
			a.enterDirs(st, home.alts, physical)
		}
		return
	}
	w := args[0]
	if w.Text == "-" {
		old := a.lookup(st, "OLDPWD")
		a.enterDirs(st, old.alts, physical)
		return
	}
	targets := []string{w.Text}
	if w.Glob {
		targets = a.globTexts(st, w)
	}
	if st.has("CDPATH") && !strings.HasPrefix(w.Text, "/") && !strings.HasPrefix(w.Text, ".") {
		targets = append(targets, "/"+worldText)
	}
	a.enterDirs(st, targets, physical)
}

// enterDirs makes the working directory one of targets.
func (a *analyzer) enterDirs(st *state, targets []string, physical bool) {
	old := st.dirs
	var dirs []string
	certain := true
	for _, t := range targets {
		for _, d := range old {
			n := a.joinDir(d, t, physical)
			dirs = unionDirs(dirs, []string{n})
			certain = certain && a.surelyThere(n)
		}
	}
	if len(dirs) == 0 {
		return
	}
	if !certain {
		st.before = unionDirs(st.before, old)
	}
	st.dirs = dirs
	st.set("OLDPWD", &variable{alts: dirTexts(old)})
	st.drop("PWD")
}

// joinDir resolves a directory: as text by default, as Bash does; with -P the
// links are the kernel's.
func (a *analyzer) joinDir(dir, to string, physical bool) string {
	if hasHole(to) && !onlyNames(to) {
		return ""
	}
	p := absolute(dir, to)
	if !strings.HasPrefix(p, "/") && dir == "" {
		return ""
	}
	if hasHole(p) {
		return ""
	}
	if physical {
		return clean(a.resolve(p, true))
	}
	return clean(p)
}

// surelyThere reports whether a directory is known to exist.
func (a *analyzer) surelyThere(p string) bool {
	if p == "/" || p == a.opts.Home || p == a.opts.Cwd {
		return p != ""
	}
	if a.opts.Exists != nil && p != "" {
		return a.opts.Exists(p)
	}
	return false
}

func (a *analyzer) changeDir(st *state, to string) {
	a.enterDirs(st, []string{to}, false)
	st.before = nil
}

func (a *analyzer) pushd(v *invocation, args []Word) {
	for len(args) > 0 && strings.HasPrefix(args[0].Text, "-") && args[0].Text != "-" {
		if args[0].Text == "-n" {
			return
		}
		args = args[1:]
	}
	st := v.st
	old := st.dirs
	if len(args) == 0 || strings.HasPrefix(args[0].Text, "+") {
		if len(st.pushed) > 0 {
			top := st.pushed[len(st.pushed)-1]
			st.pushed = append(slices.Clip(st.pushed[:len(st.pushed)-1]), old)
			st.before = unionDirs(st.before, old)
			st.dirs = top
		}
		return
	}
	st.pushed = append(slices.Clip(st.pushed), old)
	a.enterDirs(st, []string{args[0].Text}, false)
}

func (a *analyzer) popd(v *invocation) {
	st := v.st
	if n := len(st.pushed); n > 0 {
		st.before = nil
		st.dirs = st.pushed[n-1]
		st.pushed = st.pushed[:n-1]
	}
}
