package bash

import "strings"

// man follows man(1): -P and -H start programs.
func (a *analyzer) man(v *invocation, p *program) {
	g := parseArgs(p, v.argv)
	safe := !g.odd && a.optionRoles(v, p, &g)
	for _, w := range g.ops {
		if strings.Contains(w.Text, "/") || g.has("l", "local-file") {
			a.effect(v.st, Effect{Kind: Read, Path: w.Text, Command: a.cur})
		}
	}
	if safe {
		a.setReadOnly()
	}
	if g.computed {
		a.noteHere(UnknownOption, "man")
	}
	a.defaultOut(v)
}
