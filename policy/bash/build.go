package bash

import (
	"slices"
	"strings"
	"sync"
)

// goTool follows go: build and test read the workspace; -exec, -toolexec and
// generated code start programs.
func (a *analyzer) goTool(v *invocation, p *program) {
	argv := v.argv
	i := 1
	for i < len(argv) && strings.HasPrefix(argv[i].Text, "-") {
		if argv[i].Text == "-C" && i+1 < len(argv) {
			i++
		}
		i++
	}
	if i >= len(argv) {
		return
	}
	sub := argv[i].Text
	a.setPlain(append([]Word{argv[0]}, argv[i:]...))
	for j := i + 1; j < len(argv); j++ {
		name, val, has := strings.Cut(strings.TrimPrefix(argv[j].Text, "-"), "=")
		if !strings.HasPrefix(argv[j].Text, "-") {
			continue
		}
		name = strings.TrimPrefix(name, "-")
		if !has && j+1 < len(argv) {
			val = argv[j+1].Text
		}
		switch name {
		case "exec", "toolexec", "vettool":
			a.startCode(v, val)
		case "o":
			a.effect(v.st, Effect{Kind: Write, Path: val, Source: Option, Command: a.cur})
			t := a.open(v.st, val, false)
			if t != nil {
				t.write([]string{worldText})
				for _, d := range v.st.dirs {
					a.file(clean(absolute(d, val))).built = !a.consumedBy("go")
				}
			}
		case "coverprofile", "cpuprofile", "memprofile", "blockprofile", "mutexprofile", "trace", "outputdir":
			a.effect(v.st, Effect{Kind: Write, Path: val, Source: Option, Command: a.cur})
		}
	}
	switch sub {
	case "version", "env", "list", "doc", "help", "vet":
		if sub == "env" && hasOption(argv[i:], "-w", "-u") {
			for _, w := range argv[i+1:] {
				if k, val, ok := strings.Cut(w.Text, "="); ok {
					a.envProgram(v, k, val)
				}
			}
			break
		}
		if sub != "vet" && sub != "list" {
			a.setReadOnly()
		}
	case "run", "generate", "tool", "test", "build", "install":
		a.setOpaque()
		if sub == "run" && i+1 < len(argv) && !v.st.in.isWorld() && hasOption(argv[i:], "-") {
			a.noteHere(UnknownCode, "go run -")
		}
	case "get", "mod", "work":
		a.effect(v.st, Effect{Kind: Network, Path: worldText, Command: a.cur})
	}
	a.defaultOut(v)
}

// packager follows npm, yarn, pnpm, bun, cargo, pip and others: exec and dlx start
// a command, most other sub-commands run what the project says.
func (a *analyzer) packager(v *invocation, p *program) {
	argv := v.argv
	var g args
	i := 1
	for ; i < len(argv); i++ {
		s := argv[i].Text
		if len(s) < 2 || s[0] != '-' {
			break
		}
		i = g.option(p, argv, i)
	}
	n := *v
	for _, o := range g.opts {
		switch p.role(o.name) {
		case roleDir:
			n.st = a.fork(n.st)
			a.changeDir(n.st, o.val.Text)
		case roleShell:
			a.startCode(v, o.val.Text)
		case roleCode:
			a.noteHere(UnknownCode, baseName(v.argv[0].Text)+" "+o.name)
		}
		if key, val, ok := strings.Cut(o.val.Text, "="); o.name == "config" && ok && cargoRuns(key) {
			a.startCode(v, strings.Trim(val, `"'[] `))
		}
	}
	a.consumes(&n)
	if i >= len(argv) {
		a.setOpaque()
		return
	}
	a.setPlain(append([]Word{argv[0]}, argv[i:]...))
	sub := argv[i].Text
	rest := argv[i+1:]
	for j, w := range argv[1:] {
		// npm takes any unique beginning of an option.
		if name, val, has := strings.Cut(w.Text, "="); gitLong(name, "--script-shell", 5) || gitLong(name, "--node-options", 6) {
			if !has && j+2 < len(argv) {
				val = argv[j+2].Text
			}
			a.startCode(v, val)
		}
		a.packageHook(v, argv[1:], j)
		// --script-shell=X and npm_config-like flags name a program.
		for _, f := range [...]string{"--script-shell=", "--shell=", "--config=build.rustc-wrapper=", "--node-options="} {
			if s, ok := strings.CutPrefix(w.Text, f); ok {
				a.startCode(v, s)
			}
		}
	}
	if i := slices.IndexFunc(rest, func(w Word) bool { return w.Text == "set" }); sub == "set" || sub == "set-script" ||
		(sub == "config" || sub == "c" || sub == "pkg") && i >= 0 && i < 3 {
		a.noteHere(UnknownCode, baseName(argv[0].Text)+" "+sub+" set")
		file := "package.json"
		if sub != "pkg" && sub != "set-script" {
			file = "/" + nameText
			if h := a.lookup(v.st, "HOME"); len(h.alts) == 1 && !hasHole(h.alts[0]) {
				file = h.alts[0] + "/.npmrc"
			}
		}
		a.effect(v.st, Effect{Kind: Write, Path: file, Command: a.cur})
		for _, w := range rest {
			if _, val, ok := strings.Cut(w.Text, "="); ok {
				a.startCode(v, val)
			}
		}
	}
	if (sub == "run" || sub == "run-script") && len(rest) > 1 && rest[0].Text == "env" {
		// npm run env COMMAND: env is a script that is always there.
		for j, w := range rest[1:] {
			if !strings.HasPrefix(w.Text, "-") {
				a.start(&n, rest[1+j:])
				break
			}
		}
	}
	switch sub {
	case "eval", "repl":
		a.noteHere(UnknownCode, baseName(argv[0].Text)+" "+sub)
	case "exec", "x", "dlx", "run-script", "run":
		if sub == "run" || sub == "run-script" {
			break
		}
		for j := 0; j < len(rest); j++ {
			s := rest[j].Text
			if s == "-c" || s == "--call" {
				if j+1 < len(rest) {
					a.startCode(v, rest[j+1].Text)
				}
				break
			}
			if val, ok := strings.CutPrefix(s, "--call="); ok {
				a.startCode(v, val)
				break
			}
			if s == "-p" || s == "--package" {
				j++
				continue
			}
			if s == "--" || strings.HasPrefix(s, "-") {
				continue
			}
			a.start(&n, rest[j:])
			break
		}
	case "install", "outdated", "view", "info", "i", "ci", "add", "update", "publish", "fetch", "download", "search", "audit", "login", "clone":
		a.effect(v.st, Effect{Kind: Network, Path: worldText, Command: a.cur})
	}
	a.setOpaque()
	a.defaultOut(v)
}

// packageHook follows options of dpkg and apt that name programs.
func (a *analyzer) packageHook(v *invocation, args []Word, i int) {
	s := args[i].Text
	name, val, has := strings.Cut(s, "=")
	if gitLong(name, "--pre-invoke", 5) || gitLong(name, "--post-invoke", 6) || gitLong(name, "--status-logger", 10) {
		if !has && i+1 < len(args) {
			val = args[i+1].Text
		}
		a.startCode(v, val)
		return
	}
	if prog := baseName(v.argv[0].Text); prog != "apt" && prog != "apt-get" && prog != "aptitude" {
		return
	}
	set, ok := strings.CutPrefix(s, "-o")
	if !ok {
		if set, ok = strings.CutPrefix(s, "--option"); !ok {
			return
		}
	}
	if set = strings.TrimLeft(set, "= "); set == "" && i+1 < len(args) {
		set = args[i+1].Text
	}
	key, val, _ := strings.Cut(set, "=")
	key = strings.ToLower(key)
	for _, f := range [...]string{"invoke", "pkgs", "bin", "options", "hook", "methods", "solver", "planner", "command"} {
		if strings.Contains(key, f) && !strings.HasPrefix(val, "--force-conf") {
			a.startCode(v, val)
			a.noteHere(UnknownCode, "apt option "+set)
			return
		}
	}
}

// cargoRuns reports settings of cargo that name a program.
func cargoRuns(key string) bool {
	for _, s := range [...]string{"rustc", "wrapper", "runner", "linker", "rustdoc", "alias", "credential", "git-fetch"} {
		if strings.Contains(key, s) {
			return true
		}
	}
	return false
}

// consumer says which files a program takes code or orders from.
type consumer struct {
	programs string
	files    string // base names; *.x is a suffix, dir/ a directory
}

// consumed reports whether the base name or path fits a list.
func fits(list, p string) bool {
	base := baseName(p)
	for list != "" {
		var f string
		f, list, _ = strings.Cut(list, " ")
		switch {
		case strings.HasPrefix(f, "*"):
			if strings.HasSuffix(base, f[1:]) {
				return true
			}
		case strings.HasSuffix(f, "/"):
			if strings.Contains("/"+p, "/"+f) {
				return true
			}
		case f == base:
			return true
		}
	}
	return false
}

// consumerIndex finds the lists of files by program.
var consumerIndex = sync.OnceValue(func() map[string][]string {
	m := make(map[string][]string)
	for _, c := range consumers {
		for _, p := range strings.Fields(c.programs) {
			m[p] = append(m[p], c.files)
		}
	}
	return m
})

func (a *analyzer) consumedBy(name string) bool {
	for _, files := range consumerIndex()[name] {
		for p, f := range a.files {
			if (len(f.contents) > 0 && !f.built || f.target != "") && fits(files, p) {
				return true
			}
		}
	}
	return false
}

func hasWord(list, w string) bool {
	for list != "" {
		var f string
		f, list, _ = strings.Cut(list, " ")
		if f == w {
			return true
		}
	}
	return false
}

// consumes notes that a program takes code from a file that the script wrote.
func (a *analyzer) consumes(v *invocation) {
	if len(a.files) == 0 {
		return
	}
	name := baseName(v.argv[0].Text)
	if !a.consumedBy(name) {
		return
	}
	a.noteHere(UnknownCode, name+" reads a file that the script wrote")
	for _, p := range a.fileNames() {
		f := a.files[p]
		if fits("Makefile makefile GNUmakefile *.mk", p) && hasWord("make gmake ninja", name) {
			for _, t := range f.contents {
				for _, s := range t.alts {
					a.recipeCommands(v, s)
				}
			}
		}
	}
}
