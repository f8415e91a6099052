package bash

import (
	"slices"
	"strings"
)

// runWritten runs a program that the script itself made.
func (a *analyzer) runWritten(v *invocation, path string) {
	if len(a.files) == 0 && len(a.made) == 0 && !a.concurrent {
		return
	}
	if strings.Contains(path, "/") {
		if f := a.written(v.st, path); f != nil {
			a.execFile(v, path, f)
		} else if t, ok := a.linkTarget(v.st, path); ok {
			a.again(v, t)
		} else if len(a.made) > 0 {
			for _, m := range a.made {
				a.execText(v, m)
			}
		}
		return
	}
	changed := a.pathChanged(v)
	for _, p := range a.byName(baseName(path)) {
		dir, _ := cutLast(p)
		if !changed && !strings.HasSuffix(dir, "/bin") && !strings.HasSuffix(dir, "/sbin") {
			continue
		}
		if f := a.files[p]; len(f.contents) > 0 {
			a.execFile(v, p, f)
		} else if f.target != "" {
			a.again(v, f.target)
		}
	}
}

// linkTarget is where a link of the script points, when that is no file of it.
func (a *analyzer) linkTarget(st *state, p string) (string, bool) {
	for _, d := range st.dirs {
		abs := clean(absolute(d, p))
		if r := clean(a.resolve(abs, true)); r != abs {
			return r, true
		}
	}
	return "", false
}

// pathChanged reports whether PATH was set, so that a name may be found elsewhere.
func (a *analyzer) pathChanged(v *invocation) bool {
	if v.st.has("PATH") {
		return true
	}
	return slices.ContainsFunc(v.env, func(b binding) bool { return b.name == "PATH" })
}

// helpers notes that a program which starts others by name may find those of the
// script, in a directory that the script put on PATH.
func (a *analyzer) helpers(v *invocation, p *program) {
	if len(a.files) == 0 || p != nil && !startsHelpers(p) || !a.pathChanged(v) {
		return
	}
	for _, list := range a.envValue(v, "PATH") {
		for dir := range strings.SplitSeq(list, ":") {
			if dir == "" {
				dir = "."
			}
			if isWorld(dir) {
				continue
			}
			for _, d := range v.st.dirs {
				prefix := strings.TrimSuffix(clean(absolute(d, dir)), "/") + "/"
				for _, f := range a.fileNames() {
					if a.files[f].target == "" && len(a.files[f].contents) == 0 || a.files[f].built {
						continue
					}
					if rest, ok := strings.CutPrefix(f, prefix); ok && !strings.Contains(rest, "/") {
						a.noteHere(UnknownCode, baseName(v.argv[0].Text)+" may start "+f)
						a.originCommands(v, f)
						return
					}
				}
			}
		}
	}
}

// startsHelpers reports programs that find others by PATH of their own accord.
func startsHelpers(p *program) bool {
	if p.ops == opsOpaque {
		return true
	}
	switch p.how {
	case howGit, howMan, howTar, howCompiler, howMake, howGo, howPackager, howRsync, howSSH, howSCP, howPython, howCode, howNode, howZip,
		howOpenFile, howVim, howParallel, howScript, howPrivileged, howSubRun, howGdb, howTmux, howStdinCode, howConsole:
		return true
	}
	return strings.Contains(p.names, "zgrep") || strings.Contains(p.names, "zcat") || strings.HasPrefix(p.names, "sort ") && strings.Contains(p.roles, "compress")
}

// execFile runs a file with contents that the script chose.
func (a *analyzer) execFile(v *invocation, path string, f *file) {
	if a.depth > maxDepth/2 {
		return
	}
	a.effect(v.st, Effect{Kind: Exec, Path: path, Command: a.cur})
	if f.built {
		return
	}
	for _, t := range f.contents {
		a.execText(v, t)
	}
}

// execText runs a text as the kernel or the shell would: by its first line, or
// as shell code.
func (a *analyzer) execText(v *invocation, t *text) {
	via := a.via
	a.via = append(slices.Clip(via), v.argv[0].Text)
	defer func() { a.via = via }()
	if t.pure && len(t.from) > 0 {
		for _, f := range t.from {
			if f != v.argv[0].Text {
				a.again(v, f)
			}
		}
		return
	}
	for _, f := range t.from {
		a.again(v, f)
	}
	for _, s := range t.alts {
		a.execCode(v, s)
	}
}

func (a *analyzer) execCode(v *invocation, s string) {
	interp, ok := strings.CutPrefix(s, "#!")
	if !ok {
		a.shellCode(v, s, v.argv[1:], v.argv[0].Text, true)
		return
	}
	line, body, _ := strings.Cut(interp, "\n")
	words := strings.Fields(line)
	if len(words) == 0 {
		return
	}
	prog := baseName(words[0])
	if prog == "env" && len(words) > 1 && strings.HasPrefix(words[1], "-") {
		// The kernel hands over the rest of the line as one argument.
		n := *v
		n.argv = append([]Word{{Text: words[0]}, {Text: strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), words[0]))}}, v.argv...)
		n.shell = false
		a.run(&n)
	}
	if prog == "env" {
		words = words[1:]
		for len(words) > 0 && (strings.HasPrefix(words[0], "-") || strings.Contains(words[0], "=")) {
			words = words[1:]
		}
		if len(words) == 0 {
			return
		}
		prog = baseName(words[0])
	}
	p := findProgram(prog)
	if p != nil && p.how == howShell {
		a.shellCode(v, body, v.argv[1:], v.argv[0].Text, true)
		return
	}
	argv := make([]Word, 0, len(words)+len(v.argv))
	for _, w := range words {
		argv = append(argv, Word{Text: w})
	}
	argv = append(argv, v.argv...)
	n := *v
	n.argv, n.shell = argv, false
	a.run(&n)
	if p != nil && (p.how == howPython || p.how == howCode) {
		a.noteHere(UnknownCode, prog+" program")
	}
}

// injected reads the command line once more with the file names that the script
// made and that a pattern among the arguments may bring in as options.
func (a *analyzer) injected(v *invocation) {
	if len(a.files) == 0 || a.depth > maxDepth/2 {
		return
	}
	for i, w := range v.argv {
		if !w.Glob || i == 0 {
			continue
		}
		var extra []Word
		for _, m := range a.madeMatching(v.st, w.Text) {
			if strings.HasPrefix(m, "-") {
				extra = append(extra, Word{Text: m})
			}
		}
		if len(extra) == 0 {
			continue
		}
		n := *v
		n.argv = append(append(append([]Word(nil), v.argv[:i]...), extra...), v.argv[i+1:]...)
		a.run(&n)
		return
	}
}

// codeFile is a file whose code a program runs.
func (a *analyzer) codeFile(v *invocation, w Word) {
	switch {
	case w.Text == "-" || w.Text == "/dev/stdin":
		a.noteHere(UnknownCode, baseName(v.argv[0].Text)+" from standard input")
	case !w.Known() && !onlyNames(w.Text):
		a.noteHere(UnknownCode, w.Text)
	case a.written(v.st, w.Text) != nil:
		a.noteHere(UnknownCode, "file of the script: "+w.Text)
		a.originCommands(v, w.Text)
	default:
		a.scriptFile(v, []Word{w})
	}
}

// scriptFile lists a file that was there before and is run by this command.
func (a *analyzer) scriptFile(v *invocation, argv []Word) {
	cur := a.cur
	via := a.via
	a.via = append(slices.Clip(via), baseName(v.argv[0].Text))
	a.record(Command{Kind: ScriptFile, Argv: argv, Dir: v.st.dir(), Opaque: true, InTable: true})
	a.via, a.cur = via, cur
	a.setOpaque()
}

// originCommands lists the files whose content a file of the script holds.
func (a *analyzer) originCommands(v *invocation, p string) {
	for _, f := range a.content(v.st, p).from {
		a.scriptFile(v, []Word{{Text: f}})
	}
}
