package bash

import "strings"

// gitSub follows one sub-command; odd is true when global options make even a
// reading one uncertain.
func (a *analyzer) gitSub(v *invocation, argv []Word, odd bool) {
	sub := argv[0].Text
	if hasHole(sub) {
		a.noteHere(ComputedWord, "git "+sub)
		return
	}
	for _, w := range argv[1:] {
		s := w.Text
		if name, _, ok := strings.Cut(s, "::"); ok && isName(strings.ReplaceAll(name, "-", "_")) && gitTalks(sub) {
			a.gitURL(v, s)
		}
		if w.Many && startsUnknown(s) && gitStarts(sub) && hasAnyHole(s) {
			a.noteHere(UnknownOption, "git "+sub)
		}
	}
	if a.pathChanged(v) || odd {
		for _, p := range a.byName("git-" + sub) {
			a.start(v, append([]Word{{Text: p}}, argv[1:]...))
		}
	}
	a.gitStartOptions(v, sub, argv)
	switch sub {
	case "config":
		a.gitConfigCommand(v, argv)
		return
	case "bisect":
		if len(argv) > 2 && argv[1].Text == "run" {
			a.start(v, argv[2:])
		}
	case "submodule":
		a.gitSubmodule(v, argv)
	case "filter-branch":
		for i, w := range argv {
			name, val, has := strings.Cut(w.Text, "=")
			if strings.HasSuffix(name, "-filter") || name == "--setup" {
				if !has && i+1 < len(argv) {
					val = argv[i+1].Text
				}
				a.startCode(v, val)
			}
		}
	case "for-each-repo":
		rest := argv[1:]
		for len(rest) > 0 && strings.HasPrefix(rest[0].Text, "-") {
			end := rest[0].Text == "--"
			rest = rest[1:]
			if end {
				break
			}
		}
		a.start(v, append([]Word{{Text: "git"}}, rest...))
	case "difftool", "mergetool":
		for i, w := range argv {
			if s, ok := strings.CutPrefix(w.Text, "--extcmd="); ok {
				a.startCode(v, s)
			} else if (w.Text == "-x" || w.Text == "--extcmd") && i+1 < len(argv) {
				a.startCode(v, argv[i+1].Text)
			} else if s, ok := strings.CutPrefix(w.Text, "-x"); ok && s != "" {
				a.startCode(v, s)
			}
		}
	case "push", "fetch", "pull", "clone", "ls-remote", "remote", "archive", "send-email", "svn", "request-pull":
		a.gitNetwork(v, sub, argv)
	}
	a.gitWrites(v, sub, argv)
	a.gitTree(v, sub, argv)
	if !odd && a.gitReads(sub, argv) {
		a.setReadOnly()
	}
}

// gitTalks reports sub-commands whose operands are remotes.
func gitTalks(sub string) bool {
	switch sub {
	case "clone", "fetch", "pull", "push", "ls-remote", "remote", "archive", "submodule", "fetch-pack", "send-pack", "request-pull":
		return true
	}
	return false
}

// gitStarts reports sub-commands with options that start programs.
func gitStarts(sub string) bool {
	switch sub {
	case "rebase", "fetch", "pull", "clone", "ls-remote", "push", "bisect", "submodule", "difftool", "grep", "filter-branch",
		"archive", "fetch-pack", "send-pack", "config", "diff", "log", "show":
		return true
	}
	return false
}

// gitStartOptions follows options by which sub-commands start programs.
func (a *analyzer) gitStartOptions(v *invocation, sub string, argv []Word) {
	for i := 1; i < len(argv); i++ {
		s := argv[i].Text
		if s == "--" {
			return
		}
		if !strings.HasPrefix(s, "-") {
			continue
		}
		name, val, has := strings.Cut(s, "=")
		next := func() string {
			if has {
				return val
			}
			if i+1 < len(argv) {
				return argv[i+1].Text
			}
			return ""
		}
		switch {
		case gitLong(name, "--upload-pack", 4), gitLong(name, "--receive-pack", 6), name == "--exec" && (sub == "push" || sub == "fetch-pack" || sub == "send-pack" || sub == "archive"):
			a.startCode(v, next())
		case sub == "rebase" && (gitLong(name, "--exec", 4) || s == "-x"):
			a.startCode(v, next())
		case sub == "rebase" && strings.HasPrefix(s, "-x") && len(s) > 2:
			a.startCode(v, s[2:])
		case (sub == "clone" || sub == "fetch-pack") && (s == "-u"):
			a.startCode(v, next())
		case sub == "clone" && strings.HasPrefix(s, "-u") && len(s) > 2 && s[1] != '-':
			a.startCode(v, s[2:])
		case sub == "clone" && (s == "-c" || name == "--config"):
			k, c, _ := strings.Cut(next(), "=")
			a.gitConfig(v, k, c)
		case (sub == "clone" || sub == "init") && name == "--template" && next() != "":
			a.gitHooks(v, next())
			a.gitTemplate(v, sub, argv)
		case sub == "grep" && (strings.HasPrefix(s, "-O") || gitLong(name, "--open-files-in-pager", 7)):
			code := val
			if strings.HasPrefix(s, "-O") {
				code = s[2:]
			}
			if code != "" {
				a.startCode(v, code)
			}
		case name == "--ext-diff" || name == "--textconv":
		case sub == "send-email" && (name == "--smtp-server" || name == "--to-cmd" || name == "--cc-cmd" || name == "--sendmail-cmd" || name == "--header-cmd"):
			a.startCode(v, next())
		case sub == "instaweb" && (name == "--httpd" || name == "-d" || name == "--browser" || name == "-b"):
			a.startCode(v, next())
		case sub == "cvsimport" || sub == "daemon" && name == "--access-hook":
			a.startCode(v, next())
		}
	}
}

// gitLong matches a long option or a beginning of it of at least n characters.
func gitLong(s, full string, n int) bool {
	return len(s) >= n && strings.HasPrefix(full, s)
}

// gitConfigCommand follows git config: a setting that is written takes effect
// in later commands, so it is followed at once.
func (a *analyzer) gitConfigCommand(v *invocation, argv []Word) {
	var ops []string
	writes, reads, global := false, false, false
	file := ""
	for i := 1; i < len(argv); i++ {
		s := argv[i].Text
		name, val, has := strings.Cut(s, "=")
		switch {
		case name == "-f" || name == "--file" || name == "--blob":
			if !has && i+1 < len(argv) {
				i++
				val = argv[i].Text
			}
			file = val
		case s == "--global" || s == "--system":
			global = true
		case s == "-e" || s == "--edit":
			writes = true
		case s == "-l" || s == "--list" || strings.HasPrefix(s, "--get") || s == "--show-origin" || s == "--show-scope":
			reads = true
		case strings.HasPrefix(s, "--unset") || s == "--add" || s == "--replace-all" || strings.HasPrefix(s, "--re") || strings.HasPrefix(s, "--remove"):
			writes = true
		case name == "--type" || name == "--default":
			if !has {
				i++
			}
		case strings.HasPrefix(s, "-"):
		default:
			ops = append(ops, s)
		}
	}
	if len(ops) > 0 {
		switch ops[0] {
		case "list", "get", "get-all", "get-regexp", "get-urlmatch":
			reads = true
		case "set", "add", "unset", "rename-section", "remove-section", "edit":
			writes = true
			ops = ops[1:]
		}
	}
	if !writes && (reads || len(ops) <= 1) {
		a.setReadOnly()
		a.defaultOut(v)
		return
	}
	path := ".git/config"
	if file != "" {
		path = file
	} else if global {
		path = "/" + nameText
		if h := a.lookup(v.st, "HOME"); len(h.alts) == 1 && !hasHole(h.alts[0]) {
			path = h.alts[0] + "/.gitconfig"
		}
	}
	a.effect(v.st, Effect{Kind: Write, Path: path, Command: a.cur})
	if len(ops) > 1 {
		a.gitConfig(v, ops[0], ops[1])
	}
}

func (a *analyzer) gitSubmodule(v *invocation, argv []Word) {
	i := 1
	for i < len(argv) && strings.HasPrefix(argv[i].Text, "-") {
		i++
	}
	if i >= len(argv) || argv[i].Text != "foreach" {
		return
	}
	i++
	for i < len(argv) && strings.HasPrefix(argv[i].Text, "-") {
		i++
	}
	if i < len(argv) {
		a.joined(v, argv[i:])
	}
}

// gitNetwork lists the hosts that a sub-command may contact: those in URLs.
func (a *analyzer) gitNetwork(v *invocation, sub string, argv []Word) {
	found := false
	for _, w := range argv[1:] {
		s := w.Text
		if strings.HasPrefix(s, "-") {
			continue
		}
		switch {
		case strings.Contains(s, "://"):
			found = true
			if !strings.HasPrefix(s, "file://") {
				a.effect(v.st, Effect{Kind: Network, Path: hostOf(s), Command: a.cur})
			}
		case strings.Contains(s, ":") && !strings.HasPrefix(s, "/") && !strings.HasPrefix(s, "."):
			if host, _, _ := strings.Cut(s, ":"); host != "" && sub != "push" {
				found = true
				a.effect(v.st, Effect{Kind: Network, Path: hostOf(host), Command: a.cur})
			}
		}
	}
	if found || sub == "remote" || sub == "archive" || sub == "clone" {
		return
	}
	a.effect(v.st, Effect{Kind: Network, Path: worldText, Command: a.cur})
}

// gitWrites lists files that sub-commands write outside their repository.
func (a *analyzer) gitWrites(v *invocation, sub string, argv []Word) {
	for i := 1; i < len(argv); i++ {
		s := argv[i].Text
		name, val, has := strings.Cut(s, "=")
		out := ""
		switch {
		case name == "--output" || name == "--output-directory":
			out = val
			if !has && i+1 < len(argv) {
				out = argv[i+1].Text
			}
		case s == "-o" && (sub == "archive" || sub == "format-patch") && i+1 < len(argv):
			out = argv[i+1].Text
		case strings.HasPrefix(s, "-o") && len(s) > 2 && (sub == "archive" || sub == "format-patch"):
			out = s[2:]
		}
		if out != "" {
			a.effect(v.st, Effect{Kind: Write, Path: out, Source: Option, Command: a.cur})
			a.wrote(v.st, out)
		}
	}
	var ops []Word
	for _, w := range argv[1:] {
		if !strings.HasPrefix(w.Text, "-") {
			ops = append(ops, w)
		}
	}
	switch sub {
	case "apply", "am", "fast-import", "read-tree", "unpack-objects", "update-index", "mktree", "checkout-index", "hash-object":
		a.unknownWrites(v, ops)
	case "rm":
		if !hasLong(argv, "--cached", "--dry-run") && !hasOption(argv, "-n") {
			a.each(v, ops, Effect{Kind: Delete, NoFollow: true, Tree: true})
		}
	case "mv":
		if n := len(ops); n > 1 {
			a.each(v, ops[:n-1], Effect{Kind: Delete, NoFollow: true})
			a.each(v, ops[:n-1], Effect{Kind: Read, NoFollow: true})
			a.each(v, ops[n-1:], Effect{Kind: Write, Into: true})
			for _, src := range ops[:n-1] {
				a.copied(v, src, ops[n-1], true)
			}
		}
	case "clone":
		if len(ops) > 1 {
			a.each(v, ops[len(ops)-1:], Effect{Kind: Write, Tree: true})
		}
	case "init":
		if len(ops) == 0 {
			ops = []Word{{Text: "."}}
		}
		a.each(v, ops[:1], Effect{Kind: Write, Tree: true})
	case "worktree":
		if len(ops) > 1 && ops[0].Text == "add" {
			a.each(v, ops[1:2], Effect{Kind: Write, Tree: true})
		}
	case "bundle":
		if len(ops) > 1 && ops[0].Text == "create" {
			a.each(v, ops[1:2], Effect{Kind: Write})
		}
	}
}

// gitReads reports sub-commands that only read. Diff drivers, pagers and
// fsmonitor of the repository's own configuration are pinned off by whoever runs
// an allowed read-only git.
func (a *analyzer) gitReads(sub string, argv []Word) bool {
	for _, w := range argv[1:] {
		s := w.Text
		if strings.HasPrefix(s, "--output") || strings.HasPrefix(s, "--upload-pack") || strings.HasPrefix(s, "--open-files-in-pager") ||
			strings.HasPrefix(s, "-O") || strings.HasPrefix(s, "--ext-diff") || strings.HasPrefix(s, "--exec") || w.Many && startsUnknown(s) {
			return false
		}
	}
	first := ""
	for _, w := range argv[1:] {
		if !strings.HasPrefix(w.Text, "-") {
			first = w.Text
			break
		}
	}
	switch sub {
	case "status", "log", "show", "diff", "blame", "annotate", "grep", "ls-files", "ls-tree", "rev-parse", "rev-list", "describe",
		"shortlog", "cat-file", "diff-tree", "diff-index", "diff-files", "merge-base", "name-rev", "for-each-ref", "show-ref",
		"count-objects", "check-ignore", "check-attr", "cherry", "whatchanged", "version", "help", "var", "show-branch",
		"range-diff", "verify-commit", "verify-tag", "fsck", "get-tar-commit-id", "patch-id", "column", "stripspace":
		return true
	case "branch":
		return first == "" && !hasOption(argv, "-d", "-D", "-m", "-M", "-c", "-C", "-f", "-u") && !hasLong(argv, "--delete", "--move", "--copy", "--edit", "--set-up", "--unset", "--force", "--track") ||
			hasLong(argv, "--list", "--contains", "--merged", "--no-merged", "--show-current")
	case "tag":
		return first == "" && !hasOption(argv, "-d", "-a", "-s", "-m", "-F", "-f", "-e") || hasOption(argv, "-l") || hasLong(argv, "--list", "--contains", "--points-at")
	case "remote":
		return first == "" || first == "show" || first == "get-url"
	case "stash":
		return first == "list" || first == "show"
	case "worktree":
		return first == "list"
	case "reflog":
		return first == "" || first == "show" || first == "HEAD"
	case "notes":
		return first == "" || first == "list" || first == "show"
	case "submodule":
		return first == "" || first == "status" || first == "summary"
	case "symbolic-ref":
		return len(argv) == 2
	}
	return false
}

func hasOption(argv []Word, names ...string) bool {
	for _, w := range argv[1:] {
		for _, n := range names {
			if w.Text == n {
				return true
			}
		}
	}
	return false
}

func hasLong(argv []Word, names ...string) bool {
	for _, w := range argv[1:] {
		for _, n := range names {
			if strings.HasPrefix(w.Text, n) {
				return true
			}
		}
	}
	return false
}
