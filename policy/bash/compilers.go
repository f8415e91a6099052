package bash

import (
	"slices"
	"strings"
)

// compiler follows compilers and linkers: the output is code that was there
// before, unless the script wrote an input.
func (a *analyzer) compiler(v *invocation, p *program) {
	g := parseArgs(p, v.argv)
	safe := a.optionRoles(v, p, &g)
	chosen := !v.st.in.isWorld()
	for _, w := range g.ops {
		a.effect(v.st, Effect{Kind: Read, Path: w.Text, Glob: w.Glob, Command: a.cur})
		if a.written(v.st, w.Text) != nil || hasHole(w.Text) && len(a.files) > 0 || w.Glob && len(a.madeMatching(v.st, w.Text)) > 0 {
			chosen = true
		}
	}
	if given := v.st.in; given != nil && !given.isWorld() && (len(g.ops) == 0 || slices.ContainsFunc(g.ops, func(w Word) bool { return w.Text == "-" })) {
		a.compiles(v, given)
	}
	for _, w := range g.ops {
		if a.written(v.st, w.Text) != nil {
			a.compiles(v, a.content(v.st, w.Text))
		}
	}
	for i, w := range v.argv {
		switch s := w.Text; {
		case s == "-wrapper" && i+1 < len(v.argv):
			cmd, _, _ := strings.Cut(v.argv[i+1].Text, ",")
			a.startCode(v, cmd)
		case s == "-run" && chosen, strings.HasPrefix(s, "-B") && len(a.files) > 0, strings.HasPrefix(s, "@"), startsUnknown(s) && w.Many,
			strings.HasPrefix(s, "-specs") || strings.HasPrefix(s, "-fplugin") || strings.HasPrefix(s, "-fuse-ld=/"):
			a.noteHere(UnknownCode, "compiler option "+s)
		}
	}
	a.compilerFiles(v)
	out, ok := g.get("o", "output", "out")
	if !ok {
		out = Word{Text: "a.out"}
		if !safe {
			out.Text = "a.out"
		}
	}
	a.effect(v.st, Effect{Kind: Write, Path: out.Text, Source: Option, Command: a.cur})
	if t := a.open(v.st, out.Text, false); t != nil {
		if chosen {
			t.write([]string{anyText})
		} else {
			t.write([]string{worldText})
			for _, d := range v.st.dirs {
				a.file(clean(absolute(d, out.Text))).built = true
			}
		}
	}
	a.defaultOut(v)
}

// compiles reads source text that the script gives a compiler: one that takes in
// other files than the system's headers is unknown code.
func (a *analyzer) compiles(v *invocation, t *text) {
	if t == nil {
		return
	}
	for _, s := range t.alts {
		if a.spend(len(s)/64 + 1) {
			return
		}
		if hasAnyHole(s) || takesInFiles(s) {
			a.noteHere(UnknownCode, baseName(v.argv[0].Text)+" "+s)
			return
		}
	}
}

// takesInFiles reports text in which a directive of a preprocessor, an assembler
// or a macro may name a file: include, incbin, import, embed, in any case, and
// what is joined of pieces.
func takesInFiles(s string) bool {
	for line := range strings.Lines(strings.ToLower(s)) {
		if systemHeader(line) {
			continue
		}
		for _, word := range [...]string{"include", "incbin", ".inc", "macro", "import", "embed", "\\\n", "??/"} {
			if strings.Contains(line, word) {
				return true
			}
		}
	}
	return false
}

// systemHeader reports the line #include <name.h>.
func systemHeader(line string) bool {
	rest, ok := strings.CutPrefix(strings.TrimSpace(line), "#include")
	name, after, closed := strings.Cut(strings.TrimPrefix(strings.TrimSpace(rest), "<"), ">")
	name = strings.TrimPrefix(name, "sys/")
	return ok && closed && after == "" && strings.HasPrefix(strings.TrimSpace(rest), "<") && !strings.HasPrefix(name, ".") && !strings.Contains(name, "/")
}

// compilerFiles lists files that options of compilers, assemblers and linkers
// write: dependencies, maps, dumps, listings.
func (a *analyzer) compilerFiles(v *invocation) {
	for i, w := range v.argv[1:] {
		s := w.Text
		if len(s) < 2 || s[0] != '-' || startsUnknown(s) {
			continue
		}
		switch s {
		case "-MF", "-dumpdir", "-dumpbase", "-aux-info", "-Map":
			if i+2 < len(v.argv) {
				a.effect(v.st, Effect{Kind: Write, Path: v.argv[i+2].Text, Tree: s == "-dumpdir", Source: Option, Command: a.cur})
			}
			continue
		}
		if file, ok := strings.CutPrefix(s, "-MF"); ok {
			a.effect(v.st, Effect{Kind: Write, Path: file, Source: Option, Command: a.cur})
			continue
		}
		if !(strings.HasPrefix(s, "-Wa,") || strings.HasPrefix(s, "-Wl,") || strings.HasPrefix(s, "-Wp,") || strings.HasPrefix(s, "-f") && strings.Contains(s, "=")) ||
			readsOption(s) {
			continue
		}
		for _, piece := range strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == '=' }) {
			if strings.Contains(piece, "/") {
				a.effect(v.st, Effect{Kind: Write, Path: piece, Source: Option, Command: a.cur})
			}
		}
	}
}

// readsOption reports options of compilers whose path is searched, read or only
// named.
func readsOption(s string) bool {
	for _, f := range [...]string{"rpath", "prefix-map", "sysroot", "-L", "-I", "dynamic-linker", "soname", "version-script", "-T", "profile-use",
		"plugin", "use-ld", "sanitize", "module-file", "install-name", "whole-archive", "-l"} {
		if strings.Contains(s, f) {
			return true
		}
	}
	return false
}
