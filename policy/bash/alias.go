package bash

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// setAlias defines an alias.
func (a *analyzer) setAlias(st *state, name string, alts []string) {
	if renamesSyntax(name) {
		a.noteHere(ComputedCode, "alias of "+name)
	}
	st.setAlias(name, alts)
}

// aliasBuiltin follows alias NAME=TEXT.
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
		a.setAlias(v.st, name, []string{val})
	}
}

// aliasCall expands an alias. It reports true when nothing is left to do.
func (a *analyzer) aliasCall(st *state, c *syntax.CallExpr, redirs []*syntax.Redirect) bool {
	if len(st.aliases) == 0 || !(st.aliasesOn || st.posix) {
		return false
	}
	name := c.Args[0].Lit()
	alts, ok := st.aliases[name]
	if !ok || name == "" || a.depth > 8 {
		return false
	}
	rest := ""
	for _, w := range c.Args[1:] {
		for i, s := range a.scalar(st, w) {
			if i == 0 {
				rest += " " + quoteWord(s)
			}
		}
	}
	s := *st
	done := a.redirects(&s, redirs, -1)
	saved := s.aliases
	s.aliases = nil
	for n, v := range saved {
		if n != name {
			(&s).setAlias(n, v)
		}
	}
	for _, code := range alts {
		a.evalCode(&s, code+rest)
		for _, code := range a.aliasChain(st, code, c.Args[1:]) {
			a.evalCode(&s, code)
		}
	}
	done()
	s.aliases = saved
	s.in, s.out, s.err = st.in, st.out, st.err
	*st = s
	return false // the plain reading too: aliases may be off
}

// maxAliasChain bounds the words behind an alias that are aliases themselves, and
// the texts that come of them.
const maxAliasChain = 16

// aliasChain gives the texts of an alias that ends in a blank: the word behind it
// is taken for an alias too, wherever it stands (bash(1), ALIASES).
func (a *analyzer) aliasChain(st *state, code string, words []*syntax.Word) []string {
	texts := []string{code}
	var out []string
	for i := 0; i < len(words) && len(texts) > 0; i++ {
		var next []string
		for _, text := range texts {
			alts, ok := st.aliases[words[i].Lit()]
			if !ok || !strings.HasSuffix(text, " ") && !strings.HasSuffix(text, "\t") {
				continue
			}
			for _, s := range alts {
				next = append(next, text+s)
			}
		}
		if len(next) > maxAliasChain || i == maxAliasChain {
			a.noteHere(ComputedCode, "chain of aliases")
			break
		}
		rest := ""
		for _, w := range words[i+1:] {
			if alts := a.scalar(st, w); len(alts) > 0 {
				rest += " " + quoteWord(alts[0])
			}
		}
		for _, text := range next {
			out = append(out, text+rest)
		}
		texts = next
	}
	return out
}

// renamesSyntax reports an alias of a name that the parser reads as more than a
// word: its text comes before the construct, or instead of it.
func renamesSyntax(name string) bool {
	switch name {
	case "if", "then", "else", "elif", "fi", "case", "esac", "for", "select", "while", "until", "do", "done", "in", "function", "time", "coproc", "{", "}", "!", "[[", "]]",
		"declare", "typeset", "local", "export", "readonly", "nameref", "let":
		return true
	}
	return false
}
