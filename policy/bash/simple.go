package bash

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/syntax"
)

// invocation is one command line that may run, in the state in which it runs.
type invocation struct {
	st   *state
	argv []Word
	// env are assignments for this command alone.
	env []binding
	// shell is true when the shell itself looks the word up, so that functions
	// and builtins count.
	shell bool
}

type binding struct {
	name string
	alts []string
}

// call reads a simple command.
func (a *analyzer) call(st *state, c *syntax.CallExpr, redirs []*syntax.Redirect) {
	if len(c.Args) == 0 {
		s := *st
		done := a.redirects(&s, redirs, -1)
		s.in, s.out, s.err = st.in, st.out, st.err
		*st = s
		a.assigns(st, c.Assigns)
		done()
		return
	}
	if a.aliasCall(st, c, redirs) {
		return
	}
	if st.posix {
		a.posixBackground(st, c, redirs)
	}
	alts := a.words(st, c.Args)
	env := a.bindings(st, c.Assigns)
	if st.keywords { // set -k: assignments anywhere
		alts = stripKeywords(alts)
	}
	cur := a.cur
	// Redirections of exec without a command stay.
	stays := len(alts) == 1 && len(redirs) > 0 && isExecOnly(alts[0])
	if len(redirs) == 0 && len(alts) == 1 {
		a.run(&invocation{st: st, argv: alts[0], env: env, shell: true})
		a.cur = cur
		return
	}
	s := *st
	done := a.redirects(&s, redirs, -1)
	for i, argv := range alts {
		run := &s
		if i > 0 || len(alts) > 1 {
			run = a.fork(&s)
		}
		a.run(&invocation{st: run, argv: argv, env: env, shell: true})
		if len(alts) > 1 {
			a.join(&s, run)
		}
	}
	if stays {
		a.late = append(a.late, done)
	} else {
		done()
	}
	if !stays {
		s.in, s.out, s.err = st.in, st.out, st.err
		if len(s.fds) == len(st.fds) { // {fd}>file stays open
			s.fds, s.sharedFDs = st.fds, true
		}
	}
	*st = s
	a.cur = cur
}

// posixBackground reads "cmd &>file word" as a POSIX shell does: a background
// command, and then another one.
func (a *analyzer) posixBackground(st *state, c *syntax.CallExpr, redirs []*syntax.Redirect) {
	for _, r := range redirs {
		if r.Op != syntax.RdrAll && r.Op != syntax.AppAll {
			continue
		}
		for i, w := range c.Args {
			if i > 0 && w.Pos().Offset() > r.OpPos.Offset() {
				a.call(a.fork(st), &syntax.CallExpr{Args: c.Args[i:]}, nil)
				break
			}
		}
	}
}

func isExecOnly(argv []Word) bool {
	if len(argv) == 0 {
		return false
	}
	for _, w := range argv[:len(argv)-1] {
		if w.Text != "command" && w.Text != "builtin" && w.Text != "--" {
			return false
		}
	}
	return argv[len(argv)-1].Text == "exec"
}

// stripKeywords removes NAME=VALUE words, which set -k takes for assignments.
func stripKeywords(alts [][]Word) [][]Word {
	out := alts
	for _, argv := range alts {
		kept := slices.DeleteFunc(slices.Clone(argv), func(w Word) bool {
			name, _, ok := strings.Cut(w.Text, "=")
			return ok && isName(name)
		})
		if len(kept) < len(argv) {
			out = append(out, kept)
		}
	}
	return out
}

// bindings expands the assignments before a command.
func (a *analyzer) bindings(st *state, as []*syntax.Assign) []binding {
	if len(as) == 0 {
		return nil
	}
	out := make([]binding, 0, len(as))
	for _, s := range as {
		if s.Index != nil {
			a.subscript(st, s)
		}
		if s.Name == nil {
			continue
		}
		alts := a.assignText(st, s.Value)
		if s.Append {
			alts = cross(a.lookup(st, s.Name.Value).alts, alts)
		}
		if countsItself(s.Name.Value) || a.lookup(st, s.Name.Value).integer {
			alts = a.integerAlts(st, alts)
		}
		out = append(out, binding{s.Name.Value, alts})
	}
	return out
}

// assignText expands the right side of an assignment, in which a tilde may also
// follow a colon.
func (a *analyzer) assignText(st *state, w *syntax.Word) []string {
	alts := a.scalar(st, w)
	if w == nil || len(w.Parts) == 0 {
		return alts
	}
	if lit, ok := w.Parts[0].(*syntax.Lit); !ok || !strings.Contains(lit.Value, ":~") {
		return alts
	}
	home := a.tilde(st, "")[0]
	out := make([]string, len(alts))
	for i, s := range alts {
		out[i] = strings.ReplaceAll(s, ":~", ":"+home)
	}
	return out
}

// quoteWord writes s so that the shell reads it back as one word.
func quoteWord(s string) string {
	if s != "" && strings.IndexFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./=:,+%@", r) || r >= holeAny && r <= holeName)
	}) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// maxArgs bounds the words of one command that are listed.
const maxArgs = 1 << 16

// record lists a command and makes it the current one.
func (a *analyzer) record(c Command) int {
	if len(a.result.Commands) >= maxCommands {
		a.bound("commands")
		return a.cur
	}
	if len(c.Argv) > maxArgs {
		c.Argv = c.Argv[:maxArgs]
		a.bound("arguments")
	}
	n := 0
	for _, w := range c.Argv {
		n += len(w.Text)
	}
	a.spend(n / 8) // what one word of the script is expanded to is kept for each command
	for i, w := range c.Argv {
		if hasHole(w.Text) {
			c.Argv = slices.Clone(c.Argv)
			for j := i; j < len(c.Argv); j++ {
				c.Argv[j].Text = publicText(c.Argv[j].Text)
			}
			break
		}
	}
	if c.Plain == nil {
		c.Plain = c.Argv
	}
	if len(a.via) > 0 {
		c.Via = slices.Clone(a.via)
	}
	c.Pos = a.pos
	if a.repeat > 0 {
		key := commandKey(&c)
		if a.seen == nil {
			a.seen = make(map[uint64]int)
			for i := range a.result.Commands {
				a.seen[commandKey(&a.result.Commands[i])] = i
			}
		}
		if i, ok := a.seen[key]; ok {
			return i
		}
		a.seen[key] = len(a.result.Commands)
	} else if a.seen != nil {
		a.seen[commandKey(&c)] = len(a.result.Commands)
	}
	a.result.Commands = append(a.result.Commands, c)
	return len(a.result.Commands) - 1
}

// commandKey identifies a command among those of this process: the seed is
// random, so that no script can be made to collide.
func commandKey(c *Command) uint64 {
	var h maphash.Hash
	h.SetSeed(keySeed())
	h.WriteString(c.Dir)
	h.WriteByte(byte(c.Kind))
	for n := c.Pos.Offset; n > 0; n >>= 8 {
		h.WriteByte(byte(n))
	}
	for _, w := range c.Argv {
		h.WriteByte(0)
		h.WriteString(w.Text)
	}
	for _, v := range c.Via {
		h.WriteByte(1)
		h.WriteString(v)
	}
	return h.Sum64()
}

var keySeed = sync.OnceValue(maphash.MakeSeed)

// run reads one command line.
func (a *analyzer) run(v *invocation) {
	if a.spend(4) {
		return
	}
	if len(v.argv) == 0 {
		for _, b := range v.env {
			a.assign(v.st, b.name, b.alts, false)
		}
		return
	}
	if a.depth > maxDepth {
		a.bound("nesting")
		return
	}
	a.depth++
	defer func() { a.depth-- }()
	w := v.argv[0]
	if !w.Known() {
		a.computed(v)
		return
	}
	if v.shell && !strings.Contains(w.Text, "/") {
		if fs := v.st.funcs[w.Text]; len(fs) > 0 {
			a.callFunc(v, fs)
			if !v.st.weakFuncs {
				return
			}
		}
		if a.builtin(v, w.Text) {
			return
		}
	}
	a.program(v)
}

// computed handles a command word that is not known.
func (a *analyzer) computed(v *invocation) {
	w := v.argv[0]
	if base := baseName(w.Text); base != w.Text && base != "" && !w.Many && !w.Glob && !hasHole(base) && !hasAnyHole(w.Text) {
		// Which program it is, is known, though not where it lies.
		a.program(v)
		return
	}
	a.cur = a.record(Command{Argv: v.argv, Dir: v.st.dir()})
	a.noteHere(ComputedWord, w.Text)
	if w.Glob {
		for _, m := range a.madeMatching(v.st, w.Text) {
			a.again(v, m)
		}
	}
	if w.Many && len(v.argv) > 1 {
		n := *v
		n.argv = v.argv[1:]
		a.run(&n)
	}
	v.st.out.derived(nil, anyText)
}

// again runs the same command line under another name.
func (a *analyzer) again(v *invocation, name string) {
	n := *v
	n.argv = slices.Clone(v.argv)
	n.argv[0] = Word{Text: name}
	a.run(&n)
}

// dir is the working directory when it is known.
func (s *state) dir() string {
	if len(s.dirs) == 1 {
		return s.dirs[0]
	}
	return ""
}

// evalCode reads text as shell code in the present shell.
func (a *analyzer) evalCode(st *state, code string) {
	if hasHole(code) {
		a.noteHere(ComputedCode, code)
		if strings.Trim(code, worldText+anyText+nameText+" \n\t") == "" {
			return
		}
	}
	if !a.enter() {
		return
	}
	a.script(st, code)
	st.settle()
	a.leave()
}
