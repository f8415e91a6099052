package bash

import "strings"

// unknownWrites is a program that writes files whose names and contents its input
// gives. When the script made that input, any file may hold what it says.
func (a *analyzer) unknownWrites(v *invocation, ops []Word) {
	made := v.st.in != nil && !v.st.in.pure
	for _, w := range ops {
		made = made || !w.Known() || a.written(v.st, w.Text) != nil
	}
	if in := v.st.in; in != nil {
		for _, f := range in.from {
			made = made || a.written(v.st, f) != nil
		}
	}
	if made {
		a.keepMade(&text{alts: []string{anyText}})
	}
	a.patchNames(v)
}

// patchNames lists the files that a patch from standard input names. One that is
// known at run time only may name any file.
func (a *analyzer) patchNames(v *invocation) {
	in := v.st.in
	if in == nil || in.pure {
		return
	}
	name := baseName(v.argv[0].Text)
	if name != "patch" && name != "git" && !strings.HasPrefix(name, "git-") {
		return
	}
	for _, s := range in.alts {
		if hasHole(s) && a.fromGit() {
			continue // names of the repository
		}
		if hasHole(s) {
			a.noteHere(UnknownTarget, name+" of a patch from a pipe")
			continue
		}
		for line := range strings.Lines(s) {
			for _, head := range [...]string{"+++ ", "--- ", "rename to ", "copy to "} {
				file, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), head)
				if !ok {
					continue
				}
				file, _, _ = strings.Cut(file, "\t")
				file = strings.Trim(file, `"`)
				if file == "/dev/null" {
					continue
				}
				a.effect(v.st, Effect{Kind: Write, Path: file, Source: Code, Command: a.cur})
				if _, rest, ok := strings.Cut(file, "/"); ok && !strings.HasPrefix(file, "/") { // a/FILE, b/FILE
					a.effect(v.st, Effect{Kind: Write, Path: rest, Source: Code, Command: a.cur})
				}
			}
		}
	}
}

// fromGit reports that the command before this one is git.
func (a *analyzer) fromGit() bool {
	return a.cur > 0 && a.cur <= len(a.result.Commands) && a.result.Commands[a.cur-1].Name() == "git"
}
