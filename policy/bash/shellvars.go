package bash

import (
	"strconv"
	"strings"
)

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

// history follows history -w, -a, -r and -n, which write and read a file, HISTFILE
// or the one of the user's home unless one is named. The list may hold lines that
// -s put there.
func (a *analyzer) history(v *invocation, args []Word) {
	for i, w := range args {
		if !w.Known() {
			a.noteHere(UnknownOption, "history "+w.Text)
			return
		}
		if len(w.Text) < 2 || w.Text[0] != '-' || w.Text == "--" {
			return
		}
		if strings.ContainsAny(w.Text, "sdp") {
			return // what follows is no file
		}
		if !strings.ContainsAny(w.Text, "warn") {
			continue
		}
		e := Effect{Kind: Read, Source: Option, Command: a.cur}
		if strings.ContainsAny(w.Text, "wa") {
			e.Kind = Write
		}
		files := a.commandEnv(v, "HISTFILE")
		if i+1 < len(args) {
			files = []string{args[i+1].Text}
		}
		for _, e.Path = range files {
			a.effect(v.st, e)
			if e.Kind == Write {
				a.wrote(v.st, e.Path)
			}
		}
		return
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
	case "dotglob":
		a.hidden = true
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
