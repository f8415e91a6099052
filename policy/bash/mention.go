package bash

import "strings"

// Mention is a part of a command line that could name a file or a host, and of
// which the tables do not say what is done with it: an operand of a program that
// is not known, what follows "=", "@" or ":" in an argument, the value of a
// variable. What an [Effect] says of a path is certain; a mention is all there
// is to go by where a program is not understood.
type Mention struct {
	// Text is the part as written, with [Hole] for what is not known.
	Text string
	// Path is Text as a path, under the rules of [Effect.Path].
	Path string
	// Whole is true for a whole argument or value. A host inside a part is
	// looked for in whole ones only.
	Whole bool
	// Variable is true when it stands in the value of a variable; Weak when the
	// variable was assigned and not exported, so that it reaches the program only
	// if it was in the environment before.
	Variable, Weak bool
	// Glob is true when Path is a pattern, which the shell or the program matches
	// with names; Hidden as with [Effect.Hidden].
	Glob, Hidden bool
	Command      int
}

// maxMentions bounds the mentions of one script that are listed. A script past
// it has an Unknown of kind Bound.
const maxMentions = 4096

// textOptions are long options whose value is text, a name or a pattern, in
// whatever program: what stands there is not opened.
var textOptions = map[string]bool{
	"message": true, "subject": true, "title": true, "body": true, "description": true, "label": true, "comment": true, "notes": true,
	"author": true, "grep": true, "glob": true, "iglob": true, "include": true, "exclude": true, "exclude-dir": true, "pattern": true,
	"regexp": true, "regex": true, "name": true, "format": true, "pretty": true, "user-agent": true, "header": true, "referer": true,
	"ignore": true, "ignore-pattern": true, "expression": true, "user": true, "request": true, "write-out": true, "style": true, "color": true,
	"data": true, "data-raw": true, "data-binary": true, "data-urlencode": true, "json": true, "form-string": true, "post-data": true,
	"prompt": true, "text": true, "hide": true, "display-name": true, "template-string": true,
}

// textLetters are the short ones, by program.
var textLetters = map[string]string{
	"git": "mSG", "curl": "dHAeuwXm", "wget": "U", "gh": "btm", "glab": "btm", "hg": "m", "svn": "m", "jj": "m", "sed": "e", "awk": "Fe", "gawk": "Fe",
	"mawk": "Fe", "gpg": "ru", "docker": "l", "podman": "l", "mail": "s", "mailx": "s", "jq": "", "zip": "x", "rsync": "f",
}

// mentions lists what a program's arguments and variables name. Words behind the
// start of a command that was followed by itself are left out.
func (a *analyzer) mentions(v *invocation, p *program) {
	if !a.opts.Mentions {
		return
	}
	for _, b := range v.env {
		for _, s := range b.alts {
			a.parts(v, s, Mention{Variable: true}, nil)
		}
	}
	name := baseName(v.argv[0].Text)
	if p != nil && p.ro && name != "getent" {
		return // all that it opens is listed
	}
	a.inherited(v)
	argv := v.argv[:max(1, len(v.argv)-a.tail)]
	switch {
	case p == nil || name == "getent":
		a.mentionWords(v, argv[1:], textLetters[name])
	case p.how == howGit:
		a.gitMentions(v, argv)
	case p.how == howShell && parseShell(argv).code:
	case exactOperands(p):
		g := parseArgs(p, argv)
		for _, o := range g.opts {
			if r := p.role(o.name); o.has && (r == 0 || r == roleUnsafe) && !isTextOption(o.name, textLetters[name]) {
				val := o.val.Text
				if o.name == "o" && (p.how == howSSH || p.how == howSCP) {
					val = strings.Replace(strings.TrimSpace(val), " ", "=", 1) // both spellings are one
				}
				a.parts(v, val, Mention{}, nil)
			}
		}
	default:
		a.mentionWords(v, argv[1:], textLetters[name])
		if carriesCode(p) {
			a.quotedParts(v, argv[1:])
		}
	}
}

// carriesCode reports programs whose arguments may be code, with names of files
// in quotes.
func carriesCode(p *program) bool {
	switch p.how {
	case howPython, howCode, howNode, howStdinCode, howExpect:
		return true
	default:
		return false
	}
}

// quotedParts lists what stands in quotes in code.
func (a *analyzer) quotedParts(v *invocation, ws []Word) {
	for _, w := range ws {
		for _, quote := range [...]string{"'", `"`, "`"} {
			for i, part := range strings.Split(w.Text, quote) {
				if i > 0 && part != "" && len(part) < 4096 && i < 256 {
					a.parts(v, part, Mention{}, nil)
				}
			}
		}
	}
}

// exactOperands reports programs whose operands are listed as effects, or are
// text.
func exactOperands(p *program) bool {
	switch p.how {
	case howTable:
		return p.ops != opsOpaque && (p.ops != opsNone || p.ro)
	case howGit, howShell, howPython, howCode, howNode, howMake, howCompiler, howGo, howPackager, howSubRun, howStdinCode, howRunParts,
		howProve, howExpect, howGdb, howSocat:
		return false
	case howEnv, howPrivileged, howSu, howFlock, howWatch, howScript, howSandbox, howFind, howXargs, howParallel, howFd, howBusybox,
		howBusyShell, howEcho, howPrintf, howTest, howTrue, howPwd, howWhich, howCat, howTee, howDd, howFilter, howMktemp, howDate,
		howBaseName, howSed, howAwk, howEd, howVim, howSSH, howSCP, howRsync, howTar, howMan, howLess, howCurl, howTmux, howIP,
		howSplit, howPrintenv, howZip, howJq, howOpenFile, howLoader:
		return true
	case howConsole:
		return p.ops != opsNone
	}
	return false
}

func isTextOption(name, letters string) bool {
	if len(name) == 1 {
		return strings.Contains(letters, name)
	}
	return textOptions[name]
}

// mentionWords reads arguments whose grammar is not known: a word behind an
// option may be its value or an operand, and counts either way.
func (a *analyzer) mentionWords(v *invocation, ws []Word, letters string) {
	dirs := optionDirs(ws)
	ended := false
	for i := 0; i < len(ws); i++ {
		s := ws[i].Text
		switch {
		case ended || len(s) < 2 || s[0] != '-':
			// git matches patterns by itself.
			pathspec := letters == textLetters["git"] && letters != "" && strings.ContainsAny(s, "*?[")
			a.parts(v, s, Mention{Whole: true, Glob: ws[i].Glob || pathspec, Hidden: pathspec || a.hidden}, dirs)
		case s == "--":
			ended = true
		case strings.HasPrefix(s, "--"):
			name, val, has := strings.Cut(s[2:], "=")
			if isTextOption(name, "") && name != "" {
				if !has {
					i++
				}
			} else if has {
				a.parts(v, val, Mention{Whole: true}, dirs)
			}
		case isTextOption(s[1:2], letters):
			if len(s) == 2 {
				i++
			}
		default:
			if _, val, has := strings.Cut(s, "="); has {
				a.parts(v, val, Mention{Whole: true}, dirs)
			}
			// The value may be attached, also behind other letters.
			for j := 2; j < min(len(s), 6); j++ {
				a.parts(v, s[j:], Mention{Whole: true}, dirs)
			}
		}
	}
}

// optionDirs are the values of options that name a directory to work in, from
// which other arguments may count.
func optionDirs(ws []Word) []string {
	var dirs []string
	for i, w := range ws {
		s := w.Text
		if len(s) < 2 || s[0] != '-' || len(dirs) > 3 {
			continue
		}
		name, val, has := strings.Cut(strings.TrimLeft(s, "-"), "=")
		switch name {
		case "C", "directory", "dir", "cwd", "chdir", "prefix", "work-tree", "workdir", "root", "working-directory", "project-directory":
		default:
			if val, has = strings.CutPrefix(s, "-C"); !has {
				continue
			}
		}
		if !has && i+1 < len(ws) {
			val = ws[i+1].Text
		}
		if val != "" && !hasHole(val) {
			dirs = append(dirs, val)
		}
	}
	return dirs
}

// gitMentions are the words of a git command that it may open or show.
func (a *analyzer) gitMentions(v *invocation, argv []Word) {
	i := 1
	var g args
	for i < len(argv) && len(argv[i].Text) > 1 && argv[i].Text[0] == '-' {
		i = g.option(&gitGlobal, argv, i) + 1
	}
	i = min(i, len(argv))
	if name := baseName(argv[0].Text); strings.HasPrefix(name, "git-") {
		i = 0
	}
	for _, o := range g.opts {
		if o.has {
			a.parts(v, o.val.Text, Mention{Whole: true}, nil)
		}
	}
	if i >= len(argv) {
		return
	}
	ws := argv[i+1:]
	switch strings.TrimPrefix(baseName(argv[i].Text), "git-") {
	case "check-ignore", "check-attr", "ls-files", "status", "rm", "ls-tree", "rev-parse", "rev-list", "branch", "tag", "describe", "shortlog",
		"clean", "mv", "init", "symbolic-ref", "update-ref", "reflog", "gc", "sparse-checkout":
		return // names, or listed as effects
	case "log", "whatchanged":
		if !hasPatch(ws) {
			return
		}
	case "grep":
		if j := firstOperand(ws); j >= 0 && !hasOption(append([]Word{{}}, ws...), "-e", "-f") {
			a.mentionWords(v, ws[:j], textLetters["git"]+"e")
			ws = ws[j+1:]
		}
	}
	a.mentionWords(v, ws, textLetters["git"])
}

// hasPatch reports options by which git log shows content.
func hasPatch(ws []Word) bool {
	for _, w := range ws {
		s := w.Text
		if s == "-p" || s == "-u" || s == "-c" || s == "-m" || strings.HasPrefix(s, "--patch") || strings.HasPrefix(s, "-L") || strings.HasPrefix(s, "--cc") ||
			strings.HasPrefix(s, "-U") || strings.HasPrefix(s, "--unified") || strings.HasPrefix(s, "--word-diff") || strings.HasPrefix(s, "--text") {
			return true
		}
	}
	return false
}

func firstOperand(ws []Word) int {
	for i, w := range ws {
		if !strings.HasPrefix(w.Text, "-") {
			return i
		}
	}
	return -1
}

// inherited are values of variables of the script that the program finds in its
// environment: exported ones, and those of the usual spelling, which may have
// been there before.
func (a *analyzer) inherited(v *invocation) {
	for name, w := range v.st.vars {
		if !w.export && !isEnvName(name) || w.unset && len(w.alts) == 0 || name == "PWD" || name == "OLDPWD" || name == "HOME" {
			continue
		}
		for _, s := range w.alts {
			a.parts(v, s, Mention{Variable: true, Weak: !w.export}, nil)
		}
	}
}

// isEnvName reports the usual spelling of a variable of the environment.
func isEnvName(name string) bool {
	if strings.HasSuffix(name, "_proxy") || strings.HasPrefix(name, "npm_config_") {
		return true
	}
	return strings.IndexFunc(name, func(r rune) bool { return !(r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_') }) < 0 &&
		!strings.HasPrefix(name, "BASH")
}

// parts lists s and what stands in it behind or between separators.
func (a *analyzer) parts(v *invocation, s string, m Mention, dirs []string) {
	if s == "" || len(s) > maxText || a.spend(1+len(s)/16) {
		return
	}
	m.Whole = true
	a.addMention(v, s, m, dirs)
	m.Whole = false
	if strings.ContainsAny(s, " \t\n") {
		// Text, of which only what is assigned or addressed counts.
		for f := range strings.FieldsSeq(s) {
			if _, val, ok := strings.Cut(f, "="); ok {
				a.addMention(v, val, m, dirs)
				a.separated(v, val, m, dirs)
			} else if strings.HasPrefix(f, "@") || strings.Contains(f, "://") {
				a.separated(v, f, m, dirs)
			}
		}
		return
	}
	a.separated(v, s, m, dirs)
}

const separators = "=@:,;<>|\"'(){}[]#?!&"

// separated lists the parts of s, and what follows each of the first and last
// separators whole, since a path may hold one.
func (a *analyzer) separated(v *invocation, s string, m Mention, dirs []string) {
	seen := 0
	for rest := s; ; seen++ {
		i := strings.IndexAny(rest, separators)
		if i < 0 {
			if rest != s {
				a.addMention(v, rest, m, dirs)
			}
			return
		}
		a.addMention(v, rest[:i], m, dirs)
		rest = rest[i+1:]
		if seen < 8 && strings.ContainsAny(rest, separators) {
			a.addMention(v, rest, m, dirs)
		}
	}
}

func (a *analyzer) addMention(v *invocation, s string, m Mention, more []string) {
	if s == "" || s == "-" || s == "." {
		return
	}
	if len(a.result.Mentions) >= maxMentions {
		a.bound("mentions")
		return
	}
	m.Text, m.Command = publicText(s), a.cur
	if i := strings.Index(s, belowText); i >= 0 && a.only != "" && !strings.ContainsAny(a.only, `*?[\!`) {
		s = s[:i] + a.only // what find -name found
		m.Text = publicText(s)
	}
	if rest, ok := strings.CutPrefix(s, "~/"); ok && a.opts.Home != "" {
		s = a.opts.Home + "/" + rest
	}
	for _, d := range v.st.dirs {
		m.Path = publicText(a.resolve(absolute(d, s), true))
		a.result.Mentions = append(a.result.Mentions, m)
		for _, to := range more {
			if strings.HasPrefix(s, "/") {
				break
			}
			m.Path = publicText(a.resolve(absolute(absolute(d, to), s), true))
			a.result.Mentions = append(a.result.Mentions, m)
		}
	}
}
