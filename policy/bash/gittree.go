package bash

import "strings"

// gitTree lists what a sub-command does to the files of the checkout: what git
// brings back, takes away or stores is named by its data, not by its arguments,
// so that only some of a tree is meant.
func (a *analyzer) gitTree(v *invocation, sub string, argv []Word) {
	ops, dash := gitOperands(argv)
	all := func(kinds ...EffectKind) {
		for _, k := range kinds {
			a.effect(v.st, Effect{Kind: k, Path: a.gitTop(v.st), Tree: true, Some: true, NoFollow: k == Delete, Command: a.cur})
		}
	}
	each := func(ws []Word, kinds ...EffectKind) {
		for _, k := range kinds {
			a.each(v, ws, Effect{Kind: k, Tree: true, NoFollow: k == Delete})
		}
	}
	first := ""
	if len(ops) > 0 {
		first = ops[0].Text
	}
	switch sub {
	case "checkout", "switch":
		paths := ops
		switch makes := gitFlag(argv, "bBcC", "--orphan", "--create", "--force-create"); {
		case dash >= 0:
			paths = ops[dash:]
		case makes && len(ops) < 2: // a branch from where we are
			return
		default:
			all(Write, Delete)
		}
		if sub == "checkout" {
			each(paths, Write, Delete)
		}
	case "restore":
		if !gitFlag(argv, "S", "--staged") || gitFlag(argv, "W", "--worktree") {
			each(ops, Write, Delete)
		}
	case "reset":
		if hasLong(argv, "--hard", "--merge", "--keep") {
			all(Write, Delete)
		}
	case "clean":
		if gitFlag(argv, "n", "--dry-run") {
			return
		}
		if len(ops) == 0 {
			a.effect(v.st, Effect{Kind: Delete, Path: ".", Tree: true, Some: true, NoFollow: true, Command: a.cur})
		}
		each(ops, Delete)
	case "stash":
		switch first {
		case "list", "show", "drop", "clear", "create", "store":
		case "pop", "apply", "branch":
			all(Write)
		default:
			all(Write, Delete)
			if gitFlag(argv, "ua", "--include-untracked", "--all") {
				all(Read)
			}
		}
	case "apply", "am":
		if hasLong(argv, "--check", "--stat", "--numstat", "--summary", "--cached") && !hasLong(argv, "--apply") {
			return
		}
		all(Write, Delete)
		for _, w := range argv[1:] {
			if d, ok := strings.CutPrefix(w.Text, "--directory="); ok {
				a.effect(v.st, Effect{Kind: Write, Path: d, Tree: true, Source: Option, Command: a.cur})
			}
		}
		a.each(v, ops, Effect{Kind: Read})
	case "pull", "merge", "rebase", "cherry-pick", "revert", "read-tree", "checkout-index", "bisect":
		all(Write)
	case "add", "stage", "commit", "hash-object":
		switch {
		case gitFlag(argv, "n", "--dry-run") && sub == "add":
		case sub != "hash-object" && gitFlag(argv, "Aua", "--all", "--update"):
			all(Read)
		default:
			a.each(v, ops, Effect{Kind: Read, Tree: true, Some: true})
		}
	case "grep":
		if !hasOption(argv, "-e", "-f") && len(ops) > 0 {
			ops = ops[1:]
		}
		if len(ops) == 0 {
			ops = []Word{{Text: "."}}
		}
		a.each(v, ops, Effect{Kind: Read, Tree: true, Some: true, Tracked: !hasLong(argv, "--no-index", "--untracked", "--no-exclude")})
	case "worktree":
		if first == "remove" {
			each(ops[1:], Delete)
		}
	}
}

// gitOperands are the words that are no options; values of options that stand
// apart are left out where they are text. dash is how many stand before "--", -1
// without it.
func gitOperands(argv []Word) (ops []Word, dash int) {
	dash = -1
	for i := 1; i < len(argv); i++ {
		s := argv[i].Text
		switch {
		case dash >= 0:
			ops = append(ops, argv[i])
		case s == "--":
			dash = len(ops)
		case len(s) < 2 || s[0] != '-':
			ops = append(ops, argv[i])
		case s == "-m" || s == "--message" || s == "-F" || s == "--author" || s == "--date" || s == "-C" && argv[0].Text == "commit" ||
			argv[0].Text == "grep" && len(s) == 2 && strings.Contains("efmABC", s[1:]) || s == "-s" && argv[0].Text == "restore" || s == "--source" || s == "-e" && argv[0].Text == "clean":
			i++
		}
	}
	return ops, dash
}

// gitFlag reports a short option among bundled letters, or a long one.
func gitFlag(argv []Word, letters string, long ...string) bool {
	for _, w := range argv[1:] {
		s := w.Text
		if s == "--" {
			return false
		}
		if len(s) > 1 && s[0] == '-' && s[1] != '-' {
			name, _, _ := strings.Cut(s[1:], "m") // what follows -m is text
			if strings.ContainsAny(name, letters) {
				return true
			}
		}
		for _, l := range long {
			if len(s) > 4 && strings.HasPrefix(l, s) {
				return true
			}
		}
	}
	return false
}

// gitTop is the top of the checkout that the working directory is in, as far as
// it is known.
func (a *analyzer) gitTop(st *state) string {
	d := st.dir()
	if a.opts.Exists == nil || !strings.HasPrefix(d, "/") || hasHole(d) {
		return "."
	}
	for p := d; p != ""; {
		if a.opts.Exists(p + "/.git") {
			return p
		}
		p = p[:strings.LastIndexByte(p, '/')]
	}
	return "."
}

// gitTemplate lists the hooks that git init and git clone copy from a template.
func (a *analyzer) gitTemplate(v *invocation, sub string, argv []Word) {
	ops, _ := gitOperands(argv)
	dir := ""
	if n := len(ops); sub == "init" && n > 0 || n > 1 {
		dir = strings.TrimSuffix(ops[n-1].Text, "/") + "/"
	}
	a.effect(v.st, Effect{Kind: Write, Path: dir + ".git/hooks/" + nameText, Source: Option, Command: a.cur})
}
