package bash

import (
	"slices"
	"strings"
)

// gitGlobal are git's options before the sub-command (git(1)).
var gitGlobal = program{
	vals: "cC", flags: "pPhv",
	long: "exec-path=? html-path man-path info-path paginate no-pager no-replace-objects no-lazy-fetch no-optional-locks " +
		"no-advice bare git-dir= work-tree= namespace= super-prefix= config-env= list-cmds= attr-source= literal-pathspecs " +
		"glob-pathspecs noglob-pathspecs icase-pathspecs help version",
}

// git follows git(1).
func (a *analyzer) git(v *invocation, p *program) {
	argv := v.argv
	name := baseName(argv[0].Text)
	i := 1
	var g args
	computed := false
	if sub, ok := strings.CutPrefix(name, "git-"); ok {
		argv = append([]Word{{Text: "git"}, {Text: sub}}, argv[1:]...)
	}
	for ; i < len(argv); i++ {
		s := argv[i].Text
		if startsUnknown(s) && !onlyNames(s) {
			computed = true
			if argv[i].Many {
				continue
			}
			break
		}
		if len(s) < 2 || s[0] != '-' {
			break
		}
		i = g.option(&gitGlobal, argv, i)
	}
	n := *v
	n.st = v.st
	for _, o := range g.opts {
		switch o.name {
		case "C":
			n.st = a.fork(n.st)
			a.changeDir(n.st, o.val.Text)
		case "c":
			key, val, _ := strings.Cut(o.val.Text, "=")
			a.gitConfig(&n, key, val)
		case "config-env":
			key, env, _ := strings.Cut(o.val.Text, "=")
			for _, s := range a.envValue(v, env) {
				a.gitConfig(&n, key, s)
			}
		case "exec-path":
			if o.has {
				a.noteHere(UnknownOption, "git --exec-path")
			}
		case "git-dir", "work-tree":
			if len(a.files) > 0 {
				a.gitHooks(&n, o.val.Text)
			}
		}
	}
	if computed {
		a.noteHere(UnknownOption, "git")
	}
	a.gitEnv(&n)
	if i >= len(argv) {
		if len(g.opts) > 0 || len(argv) == 1 {
			a.setReadOnly()
		}
		return
	}
	rest := argv[i:]
	a.setPlain(append([]Word{argv[0]}, rest...))
	a.bareRepository(&n)
	a.consumes(&n)
	a.gitPlaces(&n, &g, rest)
	a.gitSub(&n, rest, g.odd || len(g.opts) > 0 && g.has("c", "config-env", "exec-path", "git-dir", "work-tree"))
	a.defaultOut(v)
}

// gitPlaces lists what git writes elsewhere: in a repository named by option or
// variable, and traces.
func (a *analyzer) gitPlaces(v *invocation, g *args, argv []Word) {
	dirs := a.envValue(v, "GIT_DIR")
	for _, o := range g.opts {
		if o.name == "git-dir" || o.name == "work-tree" {
			dirs = append(slices.Clip(dirs), o.val.Text)
		}
	}
	dirs = append(slices.Clip(dirs), a.envValue(v, "GIT_WORK_TREE")...)
	if !a.gitReads(argv[0].Text, argv) {
		for _, d := range dirs {
			a.effect(v.st, Effect{Kind: Write, Path: d, Tree: true, Source: Option, Command: a.cur})
		}
	}
	names := make([]string, 0, len(v.env))
	for _, b := range v.env {
		names = append(names, b.name)
	}
	for n := range v.st.vars {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range slices.Compact(names) {
		if !strings.HasPrefix(n, "GIT_TRACE") && n != "GIT_INDEX_FILE" && n != "GIT_OBJECT_DIRECTORY" {
			continue
		}
		for _, s := range a.envValue(v, n) {
			if file, ok := strings.CutPrefix(s, "af_unix:"); ok {
				s = file
			}
			if strings.HasPrefix(s, "/") {
				a.effect(v.st, Effect{Kind: Write, Path: s, Source: Option, Command: a.cur})
			}
		}
	}
}

// envValue is the value of an environment variable for this command.
func (a *analyzer) envValue(v *invocation, name string) []string {
	for i := len(v.env) - 1; i >= 0; i-- {
		if v.env[i].name == name {
			return v.env[i].alts
		}
	}
	if w, ok := v.st.vars[name]; ok {
		return w.alts
	}
	return nil
}

// gitEnv follows GIT_CONFIG_* variables.
func (a *analyzer) gitEnv(v *invocation) {
	for i := range 16 {
		n := itoa(int64(i))
		keys := a.envValue(v, "GIT_CONFIG_KEY_"+n)
		if keys == nil {
			break
		}
		for _, k := range keys {
			for _, s := range a.envValue(v, "GIT_CONFIG_VALUE_"+n) {
				a.gitConfig(v, k, s)
			}
		}
	}
	for _, s := range a.envValue(v, "GIT_CONFIG_PARAMETERS") {
		for _, kv := range xargsWords(s) {
			k, val, _ := strings.Cut(kv.Text, "=")
			a.gitConfig(v, k, strings.Trim(val, "'"))
		}
	}
	for _, n := range [...]string{"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG", "GIT_DIR", "GIT_EXEC_PATH", "GIT_TEMPLATE_DIR"} {
		for _, s := range a.envValue(v, n) {
			if s != "" && s != "/dev/null" && s != ".git" {
				if n == "GIT_DIR" || n == "GIT_TEMPLATE_DIR" || n == "GIT_EXEC_PATH" {
					a.gitHooks(v, s)
				} else if a.written(v.st, s) != nil {
					a.noteHere(UnknownCode, n+"="+s)
				}
			}
		}
	}
}

// gitConfig follows a setting that starts a program (git-config(1)).
func (a *analyzer) gitConfig(v *invocation, key, val string) {
	k := strings.ToLower(key)
	switch {
	case hasHole(k):
		a.noteHere(UnknownOption, "git -c "+key)
	case strings.HasPrefix(k, "alias."):
		if code, ok := strings.CutPrefix(val, "!"); ok {
			a.startCode(v, code)
		} else {
			argv := append([]Word{{Text: "git"}}, xargsWords(val)...)
			a.start(v, argv)
		}
	case strings.HasPrefix(k, "protocol.") && strings.HasSuffix(k, "allow") && val != "never" && val != "user":
		a.noteHere(UnknownCode, "git -c "+key+"="+val)
	case strings.HasPrefix(k, "url."):
		base := key[len("url."):]
		if i := strings.LastIndexByte(base, '.'); i >= 0 {
			base = base[:i]
		}
		a.gitURL(v, base)
	case strings.HasPrefix(k, "remote.") && (strings.HasSuffix(k, "url") || strings.HasSuffix(k, ".vcs")):
		a.gitURL(v, val)
	case k == "core.hookspath":
		a.gitHooks(v, val)
	case k == "core.fsmonitor":
		if val != "true" && val != "false" && val != "" {
			a.startCode(v, val)
		}
	case k == "include.path" || strings.HasPrefix(k, "includeif."):
		a.codeFile(v, Word{Text: val})
	case gitRuns(k):
		switch val = strings.TrimPrefix(val, "!"); val {
		case "", "true", "false":
		default:
			a.startCode(v, val)
		}
	}
}

// gitURL follows a remote that names its helper (gitremote-helpers(7)): "ext::"
// is followed by a command line, another name is that of a program.
func (a *analyzer) gitURL(v *invocation, url string) {
	if hasAnyHole(url) {
		a.noteHere(UnknownOption, "git remote "+url)
		return
	}
	name, rest, ok := strings.Cut(url, "::")
	if !ok || strings.ContainsAny(name, "/:@ ") {
		return
	}
	if name == "ext" {
		a.startCode(v, strings.ReplaceAll(rest, "%S", "x"))
	} else {
		a.start(v, []Word{{Text: "git-remote-" + name}})
	}
	a.noteHere(UnknownCode, "git remote helper "+url)
}

// gitRuns reports settings whose value is a command line.
func gitRuns(k string) bool {
	switch k {
	case "core.pager", "core.editor", "core.sshcommand", "core.askpass", "core.gitproxy", "core.alternaterefscommand",
		"diff.external", "diff.tool", "merge.tool", "sequence.editor", "credential.helper", "gpg.program", "gpg.ssh.program",
		"gpg.x509.program", "gpg.openpgp.program", "gpg.ssh.defaultkeycommand", "uploadpack.packobjectshook",
		"interactive.difffilter", "web.browser", "sendemail.smtpserver", "sendemail.tocmd", "sendemail.cccmd",
		"sendemail.headercmd", "instaweb.httpd", "imap.tunnel", "receive.procreceiverefs", "trailer.command":
		return true
	}
	for _, f := range [...][2]string{{"pager.", ""}, {"diff.", ".command"}, {"diff.", ".textconv"}, {"filter.", ".clean"},
		{"filter.", ".smudge"}, {"filter.", ".process"}, {"merge.", ".driver"}, {"mergetool.", ".cmd"}, {"difftool.", ".cmd"},
		{"mergetool.", ".path"}, {"difftool.", ".path"}, {"credential.", ".helper"}, {"remote.", ".uploadpack"},
		{"remote.", ".receivepack"}, {"remote.", ".vcs"}, {"browser.", ".cmd"}, {"man.", ".cmd"}, {"trailer.", ".command"},
		{"trailer.", ".cmd"}, {"submodule.", ".update"}, {"tar.", ".command"}, {"guitool.", ".cmd"}, {"hook.", ".command"}} {
		if strings.HasPrefix(k, f[0]) && strings.HasSuffix(k, f[1]) && len(k) > len(f[0])+len(f[1]) {
			return true
		}
	}
	return false
}

// gitHooks runs what the script put into a directory of hooks.
func (a *analyzer) gitHooks(v *invocation, dir string) {
	if hasHole(dir) {
		if hasAnyHole(dir) {
			a.noteHere(UnknownOption, "git hooks in "+dir)
		}
		return
	}
	var names []string
	for _, d := range v.st.dirs {
		pre := clean(absolute(d, dir)) + "/"
		for p := range a.files {
			if strings.HasPrefix(p, pre) {
				names = append(names, p)
			}
		}
		if t, ok := a.linkTarget(v.st, dir); ok {
			a.scriptFile(v, []Word{{Text: t}})
		}
	}
	if len(names) == 0 && len(a.files) == 0 {
		a.scriptFile(v, []Word{{Text: dir}})
	}
	slices.Sort(names)
	for _, p := range slices.Compact(names) {
		n := *v
		n.argv, n.shell = []Word{{Text: p}}, false
		a.execFile(&n, p, a.files[p])
	}
}

// bareRepository warns of git in a directory that the script entered and that
// has the signs of a repository at its top.
func (a *analyzer) bareRepository(v *invocation) {
	for _, d := range v.st.dirs {
		if d == "" || d == a.opts.Cwd {
			continue
		}
		signs := 0
		for _, f := range [...]string{"HEAD", "objects", "refs"} {
			p := d + "/" + f
			if a.files[p] != nil || a.opts.Exists != nil && a.opts.Exists(p) {
				signs++
			}
		}
		if signs == 3 || signs > 0 && a.opts.Exists == nil {
			a.danger(BareRepository, d)
		}
	}
	if len(a.files) == 0 {
		return
	}
	// Hooks and settings that the script wrote.
	for _, p := range a.fileNames() {
		f := a.files[p]
		if len(f.contents) == 0 {
			if f.target != "" && strings.Contains(p, "/hooks/") {
				a.start(v, []Word{{Text: f.target}})
			}
			continue
		}
		switch {
		case strings.Contains(p, "/hooks/") || strings.HasPrefix(p, "hooks/"):
			n := *v
			n.argv, n.shell = []Word{{Text: p}}, false
			a.execFile(&n, p, f)
		case strings.HasSuffix(p, "/config") || strings.HasSuffix(p, ".gitconfig") || strings.HasSuffix(p, ".gitattributes") || strings.HasSuffix(p, ".gitmodules"):
			if strings.HasSuffix(p, ".gitattributes") || strings.HasSuffix(p, ".gitmodules") {
				continue
			}
			a.gitConfigFile(v, f)
		}
	}
}

// gitConfigFile reads the settings in a file that the script wrote.
func (a *analyzer) gitConfigFile(v *invocation, f *file) {
	for _, t := range f.contents {
		for _, s := range t.alts {
			if hasHole(s) {
				a.noteHere(UnknownCode, "git configuration")
			}
			section := ""
			for _, line := range strings.Split(s, "\n") {
				line = strings.TrimSpace(line)
				if strings.HasPrefix(line, "[") {
					end := strings.IndexByte(line, ']')
					if end < 0 {
						continue
					}
					section = strings.ReplaceAll(strings.ReplaceAll(line[1:end], "\"", ""), " ", ".")
					line = strings.TrimSpace(line[end+1:])
				}
				k, val, ok := strings.Cut(line, "=")
				if ok {
					a.gitConfig(v, section+"."+strings.TrimSpace(k), strings.Trim(strings.TrimSpace(val), "\""))
				}
			}
		}
	}
}
