package bash

import (
	"slices"
	"strings"
)

func (a *analyzer) source(v *invocation, args []Word) {
	if len(args) > 0 && args[0].Text == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		return
	}
	via := a.via
	a.via = append(slices.Clip(via), v.argv[0].Text)
	defer func() { a.via = via }()
	a.sourceText(v, args[0], args[1:])
}

// sourceText reads a file into the present shell.
func (a *analyzer) sourceText(v *invocation, w Word, params []Word) {
	st := v.st
	if !w.Known() && !a.isProc(w.Text) {
		a.noteHere(ComputedCode, "file "+w.Text)
		if w.Glob {
			for _, m := range a.madeMatching(st, w.Text) {
				a.sourceText(v, Word{Text: m}, params)
			}
		}
		return
	}
	texts := a.scriptTexts(st, w.Text)
	if texts == nil {
		a.sourceOld(v, append([]Word{w}, params...))
		return
	}
	if len(params) > 0 {
		saved, more := st.params, st.more
		st.params, st.more = wordTexts(a, st, params)
		defer func() { st.params, st.more = saved, more }()
	}
	n, stream := a.namesDescriptor(st, w.Text)
	for _, t := range texts {
		if stream && n == "0" {
			if t.isWorld() && st.in == nil {
				a.noteHere(BareShell, v.argv[0].Text+" "+w.Text)
			} else {
				a.shellReads(v.argv[0].Text+" "+w.Text, t)
			}
		}
		a.evalText(v, t)
	}
}

// sourceOld reads a file that was there before: its commands are opaque, and so
// is what it does to the variables.
func (a *analyzer) sourceOld(v *invocation, argv []Word) {
	a.setOpaque()
	if v.st.aliasesOn || v.st.posix {
		// Its commands may be aliases of this script.
		names := make([]string, 0, len(v.st.aliases))
		for n := range v.st.aliases {
			names = append(names, n)
		}
		slices.Sort(names)
		for _, n := range names {
			for _, code := range v.st.aliases[n] {
				a.evalCode(a.fork(v.st), code)
			}
		}
	}
	a.record(Command{Kind: ScriptFile, Argv: argv, Dir: v.st.dir(), Opaque: true, InTable: true})
	a.effect(v.st, Effect{Kind: Read, Path: argv[0].Text, Command: a.cur})
}

// scriptTexts lists the contents of a script operand that are known to come
// from the script; nil means a file that was there before.
func (a *analyzer) scriptTexts(st *state, p string) []*text {
	if t, ok := a.stream(st, p); ok {
		return []*text{t}
	}
	if f := a.written(st, p); f != nil {
		return f.contents
	}
	if !strings.Contains(p, "/") && st.has("PATH") {
		var out []*text
		for _, q := range a.byName(p) {
			out = append(out, a.files[q].contents...)
		}
		if len(out) > 0 {
			return out
		}
	}
	if t, ok := a.linkTarget(st, p); ok {
		return []*text{{alts: []string{worldText}, from: []string{t}, pure: true}}
	}
	if len(a.made) > 0 {
		return append([]*text{{alts: []string{worldText}, from: []string{p}, pure: true}}, a.made...)
	}
	return nil
}

// evalText runs a stream as code of the present shell.
func (a *analyzer) evalText(v *invocation, t *text) {
	if t.pure && len(t.from) > 0 {
		for _, f := range t.from {
			a.record(Command{Kind: ScriptFile, Argv: []Word{{Text: f}}, Dir: v.st.dir(), Opaque: true, InTable: true})
			a.unnamedFile(f)
		}
		return
	}
	for _, f := range t.from {
		a.record(Command{Kind: ScriptFile, Argv: []Word{{Text: f}}, Dir: v.st.dir(), Opaque: true, InTable: true})
		a.unnamedFile(f)
	}
	for _, s := range t.alts {
		a.evalCode(v.st, s)
		if t.touched {
			a.evalTails(v.st, s)
		}
	}
}

// unnamedFile notes that the file whose text is run could not be named: any file
// may match a pattern.
func (a *analyzer) unnamedFile(f string) {
	if hasHole(f) {
		a.noteHere(ComputedCode, "file "+f)
	}
}

// evalTails reads what is left when lines were read away before.
func (a *analyzer) evalTails(st *state, s string) {
	for n := 0; n < 16; n++ {
		_, rest, ok := strings.Cut(s, "\n")
		if !ok || rest == "" {
			return
		}
		s = rest
		a.evalCode(a.fork(st), s)
	}
	a.noteHere(ComputedCode, "the rest of standard input")
}
