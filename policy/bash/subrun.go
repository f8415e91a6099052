package bash

import "strings"

// subRun follows programs that run a command after a sub-command: poetry run,
// uv run, conda run, docker exec.
func (a *analyzer) subRun(v *invocation, p *program) {
	g := args{}
	i := 1
	for ; i < len(v.argv); i++ {
		s := v.argv[i].Text
		if len(s) < 2 || s[0] != '-' {
			break
		}
		i = g.option(p, v.argv, i)
	}
	if i >= len(v.argv) {
		return
	}
	sub := v.argv[i].Text
	a.setPlain(append([]Word{v.argv[0]}, v.argv[i:]...))
	list := p.roles // "run exec:1": the number of operands before the command; a letter is an option's role
	for list != "" {
		var f string
		f, list, _ = strings.Cut(list, " ")
		name, skip, _ := strings.Cut(f, ":")
		if name != sub && name != "*" || skip > "9" {
			continue
		}
		if name == "compose" {
			n := *v
			n.argv = v.argv[i:]
			a.subRun(&n, findProgram("docker-compose"))
			return
		}
		for j, w := range v.argv[i:] {
			// nix develop -c COMMAND, flatpak run --command=X
			if !hasField("nix guix flatpak conda mamba vagrant machinectl", baseName(v.argv[0].Text)) {
				break
			}
			if (w.Text == "-c" || w.Text == "--command") && i+j+1 < len(v.argv) {
				a.start(v, v.argv[i+j+1:])
				a.joined(v, v.argv[i+j+1:])
			} else if s, ok := strings.CutPrefix(w.Text, "--command="); ok {
				a.startCode(v, s)
			}
		}
		q := *p
		q.skip = 0
		if skip != "" {
			q.skip = int(skip[0] - '0')
		}
		rest := v.argv[i:]
		if name == "*" {
			rest = append([]Word{v.argv[0]}, v.argv[i:]...)
		}
		starts, opts, computed := commandStarts(&q, rest)
		a.optionRoles(v, &q, &args{opts: opts})
		if computed {
			a.noteHere(ComputedWord, sub)
		}
		for _, j := range starts {
			a.start(v, rest[j:])
		}
		return
	}
	a.setOpaque()
	a.defaultOut(v)
}

// sandbox follows sbx and sandboxd: run and exec start a command; flags that
// widen confinement, and commands that change its policy, are dangerous.
func (a *analyzer) sandbox(v *invocation, p *program) {
	argv := v.argv
	i := 1
	for i < len(argv) && strings.HasPrefix(argv[i].Text, "-") {
		i++
	}
	if i >= len(argv) {
		return
	}
	sub := argv[i].Text
	switch sub {
	case "run", "exec":
		starts, opts, computed := commandStarts(p, argv[i:])
		for _, o := range opts {
			if loosens(o) {
				a.danger(LoosenedSandbox, "--"+o.name)
			}
		}
		if computed {
			a.noteHere(ComputedWord, sub)
		}
		for _, j := range starts {
			a.start(v, argv[i+j:])
		}
	case "shell":
		starts, _, _ := commandStarts(p, argv[i:])
		for _, j := range starts {
			a.start(v, argv[i+j:])
		}
		g := parseArgs(p, argv[i:])
		if c, ok := g.get("c"); ok {
			a.startCode(v, c.Text)
		}
	case "check", "doctor", "version", "help", "completion", "audit", "why":
	default:
		a.danger(LoosenedSandbox, "sbx "+sub)
	}
	a.defaultOut(v)
}

func loosens(o option) bool {
	switch o.name {
	case "unprotect", "rw", "net", "unix", "best-effort", "policy", "profile", "syscalls", "env", "pass-fd", "workspace",
		"publish", "mode", "ro", "cache", "settings":
		return o.val.Text != "none"
	}
	return false
}

// runParts follows run-parts(8): every program in a directory is run.
func (a *analyzer) runParts(v *invocation, p *program) {
	g := parseArgs(p, v.argv)
	if g.has("test", "list", "help", "version") {
		a.setReadOnly()
		a.defaultOut(v)
		return
	}
	for _, w := range g.ops {
		a.noteHere(ComputedWord, "programs in "+w.Text)
		for _, m := range a.madeMatching(v.st, strings.TrimSuffix(w.Text, "/")+"/*") {
			a.start(v, []Word{{Text: m}})
		}
	}
	a.defaultOut(v)
}

// prove follows prove and bats: each operand is a test program that is run.
func (a *analyzer) prove(v *invocation, p *program) {
	g := parseArgs(p, v.argv)
	a.optionRoles(v, p, &g)
	for _, w := range g.ops {
		if w.Known() {
			a.programScript(v, []Word{w}, baseName(v.argv[0].Text))
		}
	}
	if g.computed {
		a.noteHere(UnknownOption, v.argv[0].Text)
	}
	a.setOpaque()
	a.defaultOut(v)
}
