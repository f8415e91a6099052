package bash

import (
	"slices"
	"strings"
)

// make follows make(1): --eval and a makefile of the script are code; variables
// that name programs start them.
func (a *analyzer) make(v *invocation, p *program) {
	g := parseArgs(p, v.argv)
	n := *v
	n.st = v.st
	for _, o := range g.opts {
		switch o.name {
		case "C", "directory":
			n.st = a.fork(n.st)
			a.changeDir(n.st, o.val.Text)
		}
	}
	for _, o := range g.opts {
		switch o.name {
		case "eval", "E":
			a.noteHere(UnknownCode, "make --eval")
			a.recipeCommands(&n, o.val.Text)
		case "f", "file", "makefile":
			for _, s := range a.programFile(&n, o.val) {
				a.noteHere(UnknownCode, "makefile of the script")
				a.recipeCommands(&n, s)
			}
		}
	}
	for _, w := range g.ops {
		k, val, ok := strings.Cut(w.Text, "=")
		if !ok {
			continue
		}
		if strings.HasSuffix(k, "!") || makeProgram(strings.TrimRight(k, ":?+")) {
			a.startCode(&n, val)
		}
		a.makeValue(&n, val)
	}
	// Variables of the environment are make variables, too.
	for _, b := range v.env {
		for _, s := range b.alts {
			a.makeValue(&n, s)
		}
	}
	for _, s := range exportedTexts(v.st) {
		a.makeValue(&n, s)
	}
	if g.computed {
		a.noteHere(UnknownOption, "make")
	}
	a.consumes(&n)
	a.setOpaque()
	a.defaultOut(v)
}

// makeValue follows the value of a make variable, which make expands.
func (a *analyzer) makeValue(v *invocation, s string) {
	if !strings.Contains(s, "$") {
		return
	}
	for rest := s; ; {
		_, code, ok := strings.Cut(rest, "shell ")
		if !ok {
			break
		}
		a.startCode(v, strings.TrimRight(code, ")} "))
		rest = code
	}
	if strings.Contains(s, "$(") || strings.Contains(s, "${") {
		a.noteHere(UnknownCode, "make variable "+s)
	}
}

// exportedTexts lists the values of exported variables that make would expand,
// in a fixed order.
func exportedTexts(st *state) []string {
	var out []string
	for _, v := range st.vars {
		if !v.export {
			continue
		}
		for _, s := range v.alts {
			if strings.Contains(s, "$") {
				out = append(out, s)
			}
		}
	}
	slices.Sort(out)
	return out
}

// makeProgram lists make variables whose value is a program by convention.
func makeProgram(name string) bool {
	switch name {
	case "SHELL", "MAKE", "CC", "CXX", "CPP", "LD", "AR", "AS", "FC", "GO", "PYTHON", "PYTHON3", "PERL", "NODE", "NPM", "YARN",
		"CARGO", "RUSTC", "INSTALL", "RM", "CP", "MV", "SED", "AWK", "GREP", "LEX", "YACC", "BASH", "SH", "DOCKER", "CMAKE",
		"NINJA", "PIP", "TAR", "GZIP", "CURL", "WGET", "RUBY", "JAVA", "JAVAC", "MVN", "GRADLE", "STRIP", "RANLIB", "OBJCOPY",
		"GIT", "SUDO", "MKDIR", "LN", "TEST", "RUN", "EXEC", "LAUNCHER", "WRAPPER", "PRE", "CCACHE", "MAKEFLAGS", ".SHELLFLAGS":
		return true
	}
	return false
}

// recipeCommands lists what the recipes of a makefile plainly say; its own
// language is not evaluated.
func (a *analyzer) recipeCommands(v *invocation, s string) {
	for _, line := range strings.Split(s, "\n") {
		code := ""
		if rest, ok := strings.CutPrefix(line, "\t"); ok {
			code = rest
		} else if target, rest, ok := strings.Cut(line, ";"); ok && strings.Contains(target, ":") {
			code = rest
		} else if _, rest, ok := strings.Cut(line, "$(shell "); ok {
			code = strings.TrimSuffix(rest, ")")
		}
		code = strings.TrimLeft(strings.TrimSpace(code), "@-+")
		if code != "" && !strings.Contains(code, "$") {
			a.startCode(v, code)
		}
	}
}
