package bash

import "strings"

// someOutput sees to it that a command which was not modelled to print anything
// prints something unknown where its output is kept, also on standard error. Only
// what is known to be silent may leave nothing.
func (a *analyzer) someOutput(st *state, argv []Word) func() {
	if st.out == nil && st.err == nil {
		return func() {}
	}
	out, errOut := st.out, st.err
	before := snapshot(out)
	return func() {
		hole := worldText
		for _, w := range argv {
			if strings.ContainsAny(w.Text, "\n$`\\") || hasAnyHole(w.Text) {
				hole = anyText
			}
		}
		if out != nil && sameText(out, before) && !silent(argv) {
			out.write([]string{anyText})
		}
		if errOut != nil {
			// A message may come, and hold the arguments.
			if len(errOut.alts) == 0 {
				errOut.alts = []string{""}
			}
			if !neverFails(argv) {
				errOut.alts = addAlt(errOut.alts, hole)
			}
		}
	}
}

func sameText(t, u *text) bool {
	return len(t.alts) == len(u.alts) && (len(t.alts) == 0 || &t.alts[0] == &u.alts[0])
}

// neverFails lists commands without messages.
func neverFails(argv []Word) bool {
	switch argv[0].Text {
	case "echo", "printf", ":", "true", "false":
		return true
	}
	return false
}

// silent lists commands that print nothing with these arguments.
func silent(argv []Word) bool {
	first := ""
	if len(argv) > 1 {
		first = argv[1].Text
	}
	switch name := baseName(argv[0].Text); name {
	case ":", "true", "false", "test", "[", "sleep", "shift", "exit", "return", "break", "continue", "let", "read", "mapfile",
		"readarray", "unset", "wait", "getopts", "eval", "source", ".", "exec", "command", "builtin", "local", "kill", "disown", "printf", "echo", "suspend":
		return true
	case "cd":
		return first != "-"
	case "trap", "alias", "declare", "typeset", "export", "readonly", "umask", "ulimit", "enable", "hash", "shopt", "complete", "bind":
		return first != "" && !strings.HasPrefix(first, "-p") && (name != "declare" && name != "typeset" || !strings.ContainsAny(first, "pfF")) &&
			first != "-l" && first != "-t" && (name != "alias" || strings.Contains(first, "=")) && (name != "trap" || len(argv) > 2)
	case "set":
		return first != "" && first != "-o" && first != "+o" || len(argv) > 2
	case "mkdir", "touch", "rm", "cp", "mv", "ln", "chmod", "chown", "install", "rmdir", "truncate", "mkfifo":
		for _, w := range argv[1:] {
			if strings.HasPrefix(w.Text, "-") && strings.ContainsAny(w.Text, "vi") || hasHole(w.Text) && startsUnknown(w.Text) {
				return false
			}
		}
		return true
	}
	return false
}
