package bash

import (
	"slices"
	"strings"
)

// child is the state in which a shell started by the script begins.
func (a *analyzer) child(v *invocation) *state {
	st := a.fork(v.st)
	st.params, st.more = nil, false
	st.aliases, st.aliasesOn, st.keywords, st.dead = nil, false, false, false
	st.weakFuncs = true
	st.before = nil
	for name, w := range st.vars {
		if !w.export && !w.unset {
			n := *w
			n.unset = true
			st.set(name, &n)
		}
	}
	for _, b := range v.env {
		if fn, ok := strings.CutPrefix(b.name, "BASH_FUNC_"); ok {
			for _, s := range b.alts {
				a.evalCode(st, strings.TrimSuffix(strings.TrimSuffix(fn, "%%"), "()")+" "+s)
			}
			continue
		}
		if isName(b.name) {
			st.set(b.name, &variable{alts: b.alts, export: true})
		}
	}
	if st.has("SHELLOPTS") {
		a.shellOption(st, "xtrace", true)
	}
	return st
}

// shellCode runs text in a shell of its own.
func (a *analyzer) shellCode(v *invocation, code string, params []Word, arg0 string, posix bool) {
	st := a.child(v)
	st.posix = posix
	st.params, st.more = wordTexts(a, st, params)
	st.arg0 = []string{arg0}
	a.evalCode(st, code)
}

// shellArgs are the options of Bash and its kin.
type shellArgs struct {
	code        bool // -c
	stdin       bool // -s
	interactive bool
	login       bool
	noexec      bool
	xtrace      bool
	aliases     bool
	tell        bool // --version, --help
	rc          []Word
	odd         bool
	computed    bool
	rest        []Word
}

// parseShell takes the command line of a shell apart.
func parseShell(argv []Word) shellArgs {
	var g shellArgs
	i := 1
	for ; i < len(argv); i++ {
		s := argv[i].Text
		if argv[i].Many || startsUnknown(s) {
			g.computed = true
			if argv[i].Many {
				continue
			}
			break
		}
		if s == "--" || s == "-" {
			i++
			break
		}
		if strings.HasPrefix(s, "--") {
			i = g.long(argv, i)
			continue
		}
		if len(s) < 2 || s[0] != '-' && s[0] != '+' {
			break
		}
		takes := 0
		for _, c := range s[1:] {
			on := s[0] == '-'
			switch c {
			case 'c':
				g.code = g.code || on
			case 's':
				g.stdin = true
			case 'i':
				g.interactive = true
			case 'l':
				g.login = true
			case 'n':
				g.noexec = on
			case 'x':
				g.xtrace = true
			case 'o', 'O':
				takes++
			}
		}
		for ; takes > 0 && i+1 < len(argv); takes-- {
			i++
			switch argv[i].Text {
			case "expand_aliases", "posix":
				g.aliases = true
			case "xtrace":
				g.xtrace = true
			}
		}
	}
	g.rest = argv[min(i, len(argv)):]
	return g
}

func (g *shellArgs) long(argv []Word, i int) int {
	s := argv[i].Text
	switch name, val, has := strings.Cut(s, "="); name {
	case "--rcfile", "--init-file":
		if has {
			g.rc = append(g.rc, Word{Text: val})
		} else if i+1 < len(argv) {
			i++
			g.rc = append(g.rc, argv[i])
		}
	case "--version", "--help":
		g.tell = true
	case "--login":
		g.login = true
	case "--posix":
		g.aliases = true
	}
	return i
}

// shell follows bash, sh, dash and the shells whose language is not Bash.
func (a *analyzer) shell(v *invocation) {
	name := baseName(v.argv[0].Text)
	g := parseShell(v.argv)
	if g.tell {
		a.defaultOut(v)
		a.setReadOnly()
		return
	}
	via, cur := a.via, a.cur
	a.via = append(slices.Clip(via), name)
	defer func() { a.via, a.cur = via, cur }()
	if foreignShell(name) {
		a.noteHere(ForeignShell, name)
	}
	if g.computed {
		a.noteHere(ComputedCode, "arguments of "+name)
	}
	st := a.child(v)
	st.posix = name != "bash" && name != "rbash"
	st.aliasesOn = g.aliases || g.interactive || st.has("POSIXLY_CORRECT") || st.has("BASHOPTS") || st.has("SHELLOPTS")
	if g.xtrace {
		a.shellOption(st, "xtrace", true)
	}
	if !g.noexec {
		a.startFiles(v, st, &g)
	}
	n := *v
	n.st = st
	switch {
	case g.code:
		a.shellCommand(&n, &g)
	case g.stdin || len(g.rest) == 0:
		st.params, st.more = wordTexts(a, st, g.rest)
		a.shellInput(&n, &g)
	default:
		a.shellScript(&n, &g)
	}
}

func foreignShell(name string) bool {
	switch name {
	case "zsh", "fish", "csh", "tcsh", "ksh", "ksh93", "mksh", "rc", "es", "xonsh", "nu", "elvish", "pwsh", "osh", "ysh", "yash":
		return true
	}
	return false
}

// startFiles are what a shell reads before anything else.
func (a *analyzer) startFiles(v *invocation, st *state, g *shellArgs) {
	for _, w := range g.rc {
		a.startFile(v, st, w.Text)
	}
	names := []string{"BASH_ENV"}
	if g.interactive || st.posix {
		names = append(names, "ENV")
	}
	for _, n := range names {
		if w, ok := st.vars[n]; ok {
			for _, s := range w.alts {
				for _, p := range a.document(st, s) {
					a.startFile(v, st, p)
				}
			}
		}
	}
	if len(a.files) == 0 || !g.interactive && !g.login && !st.posix {
		return
	}
	for _, base := range []string{".bashrc", ".bash_profile", ".bash_login", ".profile", ".zshrc", ".zshenv", ".zprofile", "bash.bashrc", ".kshrc", ".login", ".cshrc"} {
		for _, p := range a.byName(base) {
			a.startFile(v, st, p)
		}
	}
}

func (a *analyzer) startFile(v *invocation, st *state, p string) {
	if p == "" || p == "/dev/null" {
		return
	}
	n := *v
	n.st = st
	if hasHole(p) {
		if !isWorld(p) {
			a.noteHere(ComputedCode, "start file "+p)
		}
		return
	}
	a.sourceText(&n, Word{Text: p}, nil)
}

// shellCommand runs the code of -c.
func (a *analyzer) shellCommand(v *invocation, g *shellArgs) {
	if len(g.rest) == 0 {
		return
	}
	st := v.st
	code := g.rest[0]
	rest := g.rest[1:]
	st.arg0 = []string{"bash"}
	if len(rest) > 0 {
		st.arg0 = []string{rest[0].Text}
		if rest[0].Many || rest[0].Glob {
			st.more = true
		}
		st.params, st.more = wordTexts(a, st, rest[1:])
		st.more = st.more || rest[0].Many
	}
	if g.noexec {
		return
	}
	if code.Glob || code.Many && !hasHole(code.Text) {
		a.noteHere(ComputedCode, code.Text)
		return
	}
	a.evalCode(st, code.Text)
	if g.interactive {
		a.interactivePrompts(st)
	}
}

func (a *analyzer) interactivePrompts(st *state) {
	for _, n := range []string{"PROMPT_COMMAND", "PS0", "PS1", "PS2"} {
		if w, ok := st.vars[n]; ok {
			a.special(st, n, w.alts)
		}
	}
}

// shellInput runs what comes on standard input.
func (a *analyzer) shellInput(v *invocation, g *shellArgs) {
	t := v.st.in
	if t == nil {
		// Nothing known is there: a terminal or the caller's input.
		if !g.interactive && a.depth > 0 {
			a.setOpaque()
		}
		a.noteHere(BareShell, baseName(v.argv[0].Text)+" without a script")
		return
	}
	if g.noexec {
		return
	}
	a.shellReads(v.argv[0].Text, t)
	a.evalText(v, t)
	if g.interactive {
		a.interactivePrompts(v.st)
	}
}

// shellReads notes that a shell runs text from standard input that is not known.
func (a *analyzer) shellReads(name string, t *text) {
	for _, s := range t.alts {
		if hasHole(s) && !t.pure {
			a.noteHere(ShellInput, baseName(name))
			return
		}
	}
}

// shellScript runs a script file.
func (a *analyzer) shellScript(v *invocation, g *shellArgs) {
	w := g.rest[0]
	if g.noexec {
		a.effect(v.st, Effect{Kind: Read, Path: w.Text, Command: a.cur})
		a.setReadOnly()
		return
	}
	v.st.params, v.st.more = wordTexts(a, v.st, g.rest[1:])
	v.st.arg0 = []string{w.Text}
	if !w.Known() && !a.isProc(w.Text) {
		a.sourceText(v, w, nil)
		return
	}
	texts := a.scriptTexts(v.st, w.Text)
	if texts == nil {
		a.sourceOld(v, g.rest)
		return
	}
	for _, t := range texts {
		a.evalText(v, t)
	}
}
