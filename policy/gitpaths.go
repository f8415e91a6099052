package policy

import (
	"os"
	"slices"
	"strings"

	"sandboxd/policy/bash"
)

// gitReads adds what a git command that only reads is told to read besides its
// own repository: another directory, files named by options, and the operands of
// a comparison without index, which git diff also makes when a path lies outside
// the checkout (git-diff(1)).
func (f *facts) gitReads(e *Engine, v *commandView) {
	if !v.gitCommand() {
		return
	}
	dir := v.gitDir()
	add := func(w bash.Word) {
		a := access{verb: effectRead, raw: w.Text, command: v.index}
		if w.Known() && (dir != "" || strings.HasPrefix(w.Text, "/")) {
			if a = e.access(effectRead, w.Text, dir, v.index); a.err != "" {
				a.real = ""
			}
		}
		f.byCommand[v.index] = append(f.byCommand[v.index], len(f.accesses))
		f.accesses = append(f.accesses, a)
	}
	if dir != "" && dir != f.dir {
		add(bash.Word{Text: dir})
	}
	if len(v.cmd.Plain) < 2 {
		return
	}
	sub, words := v.cmd.Plain[1].Text, v.cmd.Plain[2:]
	var operands []bash.Word
	noIndex, ended, pattern := false, false, sub == "grep"
	for i := 0; i < len(words); i++ {
		w := words[i]
		name, value, has := strings.Cut(w.Text, "=")
		switch {
		case !ended && gitTextOptions[w.Text] && !slices.Contains(gitFileOptions[sub], w.Text):
			pattern = pattern && w.Text != "-e"
			i++
		case ended || !strings.HasPrefix(w.Text, "-"):
			operands = append(operands, w)
		case w.Text == "--":
			ended = true
		case w.Text == "--no-index":
			noIndex = true
		case slices.Contains(gitFileOptions[sub], name):
			if has {
				w.Text = value
				add(w)
			} else if i+1 < len(words) {
				i++
				add(words[i])
			}
		default:
			for _, o := range gitFileOptions[sub] {
				if len(o) == 2 && strings.HasPrefix(w.Text, o) && len(w.Text) > 2 {
					w.Text = w.Text[2:]
					add(w)
				}
			}
		}
	}
	if pattern && len(operands) > 0 && !slices.ContainsFunc(words, func(w bash.Word) bool { return strings.HasPrefix(w.Text, "-f") || strings.HasPrefix(w.Text, "-e") }) {
		operands = operands[1:] // what git grep looks for
	}
	if sub == "diff" && len(operands) == 2 && !noIndex {
		noIndex = gitMayCompare(operands, dir)
	}
	for _, w := range operands {
		if noIndex || w.Known() && (strings.HasPrefix(w.Text, "/") || strings.HasPrefix(w.Text, "..") && !strings.HasPrefix(w.Text, "...")) {
			add(w)
		}
	}
}

// gitFileOptions are options whose value is a file that git reads (the manuals
// of git 2.47), by sub-command.
var gitFileOptions = map[string][]string{
	"blame": {"--contents", "--ignore-revs-file", "-S"}, "annotate": {"--contents", "--ignore-revs-file", "-S"},
	"grep": {"-f"}, "config": {"-f", "--file"}, "ls-files": {"-X", "--exclude-from", "--exclude-per-directory"},
	"status": {"--pathspec-from-file"}, "diff": {"--pathspec-from-file"}, "rev-list": {"--pathspec-from-file"},
}

// gitTextOptions have a value of their own that is no path.
var gitTextOptions = map[string]bool{"-e": true, "-S": true, "-G": true, "-n": true, "--author": true, "--grep": true, "--since": true, "--until": true}

// gitMayCompare reports two operands of git diff that may be files, although
// one is known at run time only: the other one is a file, or not known either.
func gitMayCompare(operands []bash.Word, dir string) bool {
	unknown := 0
	for _, w := range operands {
		if !w.Known() {
			unknown++
		}
	}
	if unknown != 1 {
		return unknown == 2
	}
	for _, w := range operands {
		if !w.Known() {
			continue
		}
		p := w.Text
		if !strings.HasPrefix(p, "/") {
			p = dir + "/" + p
		}
		if _, err := os.Lstat(p); err != nil {
			return false
		}
	}
	return true
}
