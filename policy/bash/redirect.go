package bash

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// redirects applies redirections to st and lists their effects. done is called
// after the command, when output to a process substitution is complete.
func (a *analyzer) redirects(st *state, rs []*syntax.Redirect, cmd int) (done func()) {
	if len(rs) == 0 {
		return func() {}
	}
	var pending []string
	forked := false
	for _, r := range rs {
		fd := ""
		if r.N != nil {
			fd = r.N.Value
			if !forked {
				forked = true
				a.spend(len(st.fds) / 16)
				c := make(map[string]*text, len(st.fds)+1)
				for k, t := range st.fds {
					c[k] = t
				}
				st.fds, st.sharedFDs = c, false
			}
			if strings.HasPrefix(fd, "{") {
				a.fds++
				number := itoa(int64(9 + a.fds)) // Bash counts from 10
				name := strings.Trim(fd, "{}")
				if i := strings.IndexByte(name, '['); i >= 0 {
					a.arithText(st, strings.TrimSuffix(name[i+1:], "]"), 0)
				} else {
					a.assign(st, name, []string{number}, false)
				}
				fd = number
			}
		}
		switch r.Op {
		case syntax.Hdoc, syntax.DashHdoc:
			t := a.heredoc(st, r)
			st.setInput(fd, t)
		case syntax.WordHdoc:
			t := &text{}
			for _, s := range a.scalar(st, r.Word) {
				t.alts = addAlt(t.alts, s+"\n")
			}
			st.setInput(fd, t)
		case syntax.DplIn, syntax.DplOut:
			pending = append(pending, a.dup(st, r, fd)...)
		case syntax.RdrIn:
			for _, p := range a.target(st, r.Word) {
				a.effect(st, Effect{Kind: Read, Path: p, Source: Redirect, Command: cmd})
				st.setInput(fd, a.content(st, p))
			}
		case syntax.RdrInOut:
			for _, p := range a.target(st, r.Word) {
				a.effect(st, Effect{Kind: Write, Path: p, Source: Redirect, Command: cmd})
				a.effect(st, Effect{Kind: Read, Path: p, Source: Redirect, Command: cmd})
				st.setInput(fd, a.content(st, p))
				if fd != "" && fd != "0" {
					st.setOutput(fd, a.open(st, p, true))
				}
			}
		default:
			pending = append(pending, a.output(st, r, fd, cmd)...)
		}
	}
	if len(pending) == 0 {
		return func() {}
	}
	return func() {
		for _, p := range pending {
			a.flushProc(p)
		}
	}
}

// output opens the target of > and its kin; it returns process substitutions
// that must run after the command.
func (a *analyzer) output(st *state, r *syntax.Redirect, fd string, cmd int) (procs []string) {
	appends := r.Op == syntax.AppOut || r.Op == syntax.AppAll
	both := r.Op == syntax.RdrAll || r.Op == syntax.AppAll
	switch r.Op {
	case syntax.AppClob, syntax.RdrAllClob, syntax.AppAllClob:
		a.note(ForeignShell, "zsh redirection", r.OpPos)
	}
	for _, p := range a.target(st, r.Word) {
		if a.isProc(p) {
			procs = append(procs, p)
		}
		a.effect(st, Effect{Kind: Write, Path: p, Source: Redirect, Command: cmd, Replaces: !appends})
		t := a.open(st, p, appends)
		if fd == "" {
			fd = "1"
		}
		st.setOutput(fd, t)
		if both {
			st.setOutput("2", t)
		}
	}
	return procs
}

// dup handles <& and >&; ">&word" with a word that is no descriptor is &>word.
func (a *analyzer) dup(st *state, r *syntax.Redirect, fd string) (procs []string) {
	for _, s := range a.scalar(st, r.Word) {
		s = strings.TrimSuffix(s, "-")
		switch {
		case s == "" || isDigits(s):
			if s == "" {
				continue
			}
			if r.Op == syntax.DplIn {
				if t := st.input(s); t != nil {
					st.setInput(fd, t)
				} else if t := st.output(s); t != nil {
					st.setInput(fd, t)
				}
			}
			to := fd
			if to == "" {
				to = "1"
				if r.Op == syntax.DplIn {
					to = "0"
				}
			}
			if r.Op == syntax.DplOut || to != "0" {
				st.setOutput(to, st.output(s))
			}
		case hasHole(s):
			if r.Op == syntax.DplOut {
				a.noteHere(UnknownTarget, "descriptor "+s)
			} else {
				st.setInput(fd, &text{alts: []string{anyText}})
			}
		case r.Op == syntax.DplOut:
			n := *r
			n.Op = syntax.RdrAll
			procs = append(procs, a.output(st, &n, fd, -1)...)
		}
	}
	return procs
}

func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

func (a *analyzer) heredoc(st *state, r *syntax.Redirect) *text {
	t := &text{}
	if r.Hdoc == nil {
		return newText("")
	}
	quoted := false
	for _, p := range r.Word.Parts {
		switch p := p.(type) {
		case *syntax.Lit:
			quoted = quoted || strings.Contains(p.Value, "\\")
		default:
			quoted = true
		}
	}
	if quoted {
		var b strings.Builder
		for _, p := range r.Hdoc.Parts {
			if lit, ok := p.(*syntax.Lit); ok {
				b.WriteString(lit.Value)
			}
		}
		t.alts = []string{b.String()}
	} else {
		t.alts = a.heredocText(st, r.Hdoc)
	}
	if r.Op == syntax.DashHdoc {
		for i, s := range t.alts {
			lines := strings.Split(s, "\n")
			for j, l := range lines {
				lines[j] = strings.TrimLeft(l, "\t")
			}
			t.alts[i] = strings.Join(lines, "\n")
		}
	}
	return t
}

// heredocText expands an unquoted body; a double quote needs no backslash there.
func (a *analyzer) heredocText(st *state, w *syntax.Word) []string {
	if len(w.Parts) == 1 {
		if lit, ok := w.Parts[0].(*syntax.Lit); ok && !strings.Contains(lit.Value, "\\") {
			return []string{lit.Value}
		}
	}
	saved := a.hdoc
	a.hdoc = true
	defer func() { a.hdoc = saved }()
	return a.quotedText(st, w)
}

// target expands the word of a redirection to the files it may name.
func (a *analyzer) target(st *state, w *syntax.Word) []string {
	if len(w.Parts) == 1 {
		if lit, ok := plainLiteral(w.Parts[0]); ok {
			return []string{lit}
		}
	}
	var out []string
	for _, b := range a.braces(w) {
		for _, ws := range a.fields(st, b) {
			for _, f := range ws {
				s := f.Text
				if f.Glob {
					for _, m := range a.globTexts(st, f) {
						out = addAlt(out, m)
					}
					continue
				}
				out = addAlt(out, s)
			}
		}
	}
	return out
}

// input is the stream that can be read from a descriptor.
func (s *state) input(fd string) *text {
	if fd == "" || fd == "0" {
		return s.in
	}
	return s.fds["<"+fd]
}

func (s *state) setInput(fd string, t *text) {
	if fd == "" || fd == "0" {
		s.in = t
		return
	}
	s.setFD("<"+fd, t)
}

func (s *state) output(fd string) *text {
	switch fd {
	case "1":
		return s.out
	case "2":
		return s.err
	}
	return s.fds[">"+fd]
}

func (s *state) setOutput(fd string, t *text) {
	switch fd {
	case "1":
		s.out = t
	case "2":
		s.err = t
	default:
		s.setFD(">"+fd, t)
	}
}
