package bash

import "strings"

// ssh follows ssh(1) and its kin: -o settings start local programs; the command
// for the other host is no command of this one, but is listed by its text.
func (a *analyzer) ssh(v *invocation, p *program) {
	starts, opts, computed := commandStarts(p, v.argv)
	g := args{opts: opts}
	a.sshOptions(v, p, &g)
	if computed {
		a.noteHere(UnknownOption, "ssh")
	}
	host := -1
	for i := 1; i < len(v.argv) && host < 0; i++ {
		s := v.argv[i].Text
		if s == "--" {
			host = i + 1
		} else if len(s) > 1 && s[0] == '-' {
			var h args
			i = h.option(p, v.argv, i)
		} else {
			host = i
		}
	}
	if host > 0 && host < len(v.argv) {
		a.effect(v.st, Effect{Kind: Network, Path: hostOf(v.argv[host].Text), Command: a.cur})
		// Options may follow the host.
		rest := v.argv[host+1:]
		q := *p
		q.skip = 0
		if len(rest) > 0 && strings.HasPrefix(rest[0].Text, "-") {
			more, opts, _ := commandStarts(&q, append([]Word{v.argv[0]}, rest...))
			h := args{opts: opts}
			a.sshOptions(v, p, &h)
			if len(more) > 0 {
				rest = rest[more[0]-1:]
			} else {
				rest = nil
			}
		}
		if len(rest) > 0 {
			saved := v.st
			v.st = a.fork(v.st)
			v.st.dirs = []string{""}
			a.joined(v, rest)
			v.st = saved
		} else if in := v.st.in; in != nil && !in.pure {
			for _, s := range in.alts {
				a.startCode(v, s)
			}
		}
	}
	_ = starts
	a.defaultOut(v)
}

// sshOptions follows ProxyCommand and its kin, and -F, -S, -I.
func (a *analyzer) sshOptions(v *invocation, p *program, g *args) {
	for _, o := range g.opts {
		switch o.name {
		case "o":
			key, val, ok := strings.Cut(o.val.Text, "=")
			if !ok {
				key, val, _ = strings.Cut(strings.TrimSpace(o.val.Text), " ")
			}
			val = strings.Trim(strings.TrimSpace(val), `"`)
			switch strings.ToLower(strings.TrimSpace(key)) {
			case "proxycommand", "localcommand", "knownhostscommand", "proxyusefdpass", "xauthlocation":
				if val != "none" {
					a.startCode(v, val)
				}
			case "pkcs11provider", "securitykeyprovider", "include":
				a.codeFile(v, Word{Text: val})
			case "match":
				if _, code, ok := strings.Cut(val, "exec"); ok {
					a.startCode(v, strings.Trim(strings.TrimSpace(code), `"`))
				}
			}
			if hasHole(o.val.Text) && startsUnknown(o.val.Text) {
				a.noteHere(UnknownOption, "ssh -o "+o.val.Text)
			}
		case "F":
			if a.written(v.st, o.val.Text) != nil {
				a.noteHere(UnknownCode, "ssh configuration "+o.val.Text)
				a.sshConfig(v, o.val.Text)
			}
		case "I":
			a.codeFile(v, o.val)
		case "ssh":
			a.startCode(v, o.val.Text)
		case "D", "L", "R":
		}
	}
}

// sshConfig names the programs in a configuration that the script wrote.
func (a *analyzer) sshConfig(v *invocation, p string) {
	for _, s := range a.content(v.st, p).alts {
		for _, line := range strings.Split(s, "\n") {
			key, val, _ := strings.Cut(strings.TrimSpace(line), " ")
			switch strings.ToLower(key) {
			case "proxycommand", "localcommand", "knownhostscommand":
				a.startCode(v, val)
			}
		}
	}
}

// scp follows scp and sftp: -S names a program, -o is as with ssh.
func (a *analyzer) scp(v *invocation, p *program) {
	g := parseArgs(p, v.argv)
	a.sshOptions(v, p, &g)
	a.optionRoles(v, p, &g)
	if g.computed {
		a.noteHere(UnknownOption, v.argv[0].Text)
	}
	if baseName(v.argv[0].Text) == "sftp" && len(g.ops) > 0 { // the first is [user@]host[:path] without exception
		host, _, _ := strings.Cut(hostOf(g.ops[0].Text), ":")
		a.effect(v.st, Effect{Kind: Network, Path: host, Command: a.cur})
		g.ops = g.ops[1:]
	}
	a.remoteOperands(v, g.ops)
	if in := v.st.in; baseName(v.argv[0].Text) == "sftp" && in != nil && !in.pure {
		for _, s := range in.alts {
			for _, line := range strings.Split(s, "\n") {
				if code, ok := strings.CutPrefix(strings.TrimSpace(line), "!"); ok {
					a.startCode(v, code)
				}
			}
		}
	}
	a.defaultOut(v)
}

// remoteOperands are sources and a target, each with or without a host.
func (a *analyzer) remoteOperands(v *invocation, ops []Word) {
	for i, w := range ops {
		last := i == len(ops)-1 && len(ops) > 1
		host, rest, remote := strings.Cut(w.Text, ":")
		switch {
		case remote && strings.HasPrefix(rest, "//"): // rsync://HOST/, scp://HOST/
			a.effect(v.st, Effect{Kind: Network, Path: hostOf(w.Text), Command: a.cur})
		case remote && !strings.Contains(host, "/"):
			a.effect(v.st, Effect{Kind: Network, Path: hostOf(host), Command: a.cur})
		case last:
			a.effect(v.st, Effect{Kind: Write, Path: w.Text, Glob: w.Glob, Into: true, Tree: true, Some: true, Command: a.cur})
			a.wrote(v.st, w.Text)
		default:
			a.effect(v.st, Effect{Kind: Read, Path: w.Text, Glob: w.Glob, Tree: true, Command: a.cur})
		}
	}
}

// rsync follows rsync(1).
func (a *analyzer) rsync(v *invocation, p *program) {
	g := parseArgs(p, v.argv)
	a.optionRoles(v, p, &g)
	if g.computed {
		a.noteHere(UnknownOption, "rsync")
	}
	remote := false
	for i, w := range g.ops {
		host, _, ok := strings.Cut(w.Text, ":")
		if ok && !strings.Contains(host, "/") {
			remote = true
			continue
		}
		last := i == len(g.ops)-1 && len(g.ops) > 1
		switch {
		case last && hasDelete(&g):
			a.effect(v.st, Effect{Kind: Delete, Path: w.Text, Glob: w.Glob, Tree: true, Some: true, NoFollow: true, Command: a.cur})
		case !last && g.has("remove-source-files"):
			a.effect(v.st, Effect{Kind: Delete, Path: w.Text, Glob: w.Glob, Tree: true, Some: true, NoFollow: true, Command: a.cur})
		}
	}
	if w, ok := g.get("files-from"); ok {
		a.listedIn(v, w)
	}
	a.remoteOperands(v, g.ops)
	if n := len(g.ops); n > 1 && !remote {
		for _, src := range g.ops[:n-1] {
			a.copied(v, src, g.ops[n-1], true)
		}
	}
	a.defaultOut(v)
}

// hasDelete reports the options of rsync that remove what the source lacks.
func hasDelete(g *args) bool {
	for _, o := range g.opts {
		if strings.HasPrefix(o.name, "del") {
			return true
		}
	}
	return false
}

// socat follows socat: EXEC and SYSTEM addresses start programs.
func (a *analyzer) socat(v *invocation, p *program) {
	g := parseArgs(p, v.argv)
	a.optionRoles(v, p, &g)
	for _, w := range g.ops {
		if hasHole(w.Text) && startsUnknown(w.Text) {
			a.noteHere(UnknownOption, "socat "+w.Text)
		}
		for _, part := range strings.Split(w.Text, "!!") {
			kind, val, _ := strings.Cut(part, ":")
			switch strings.ToUpper(kind) {
			case "EXEC", "SYSTEM", "SHELL":
				code, _, _ := strings.Cut(val, ",")
				a.startCode(v, code)
			case "OPEN", "CREATE", "FILE", "GOPEN", "CREAT":
				path, _, _ := strings.Cut(val, ",")
				a.effect(v.st, Effect{Kind: Write, Path: path, Command: a.cur})
				a.effect(v.st, Effect{Kind: Read, Path: path, Command: a.cur})
			case "TCP", "TCP4", "TCP6", "UDP", "UDP4", "UDP6", "TCP-CONNECT", "OPENSSL", "SSL", "UDP-CONNECT", "SCTP", "SOCKS4", "PROXY":
				a.effect(v.st, Effect{Kind: Network, Path: val, Command: a.cur})
			}
		}
	}
	a.defaultOut(v)
}

// ip follows ip netns exec, which starts a command.
func (a *analyzer) ip(v *invocation, p *program) {
	argv := v.argv
	for i, w := range argv {
		if strings.HasPrefix("exec", w.Text) && len(w.Text) > 0 && i > 1 && strings.HasPrefix(argv[i-1].Text, "netn") && i+2 < len(argv) {
			a.start(v, argv[i+2:])
			return
		}
		if w.Text == "exec" && i >= 2 && i+2 < len(argv) {
			a.start(v, argv[i+2:])
			return
		}
		if w.Text == "vrf" && i+3 < len(argv) && argv[i+1].Text == "exec" {
			a.start(v, argv[i+3:])
			return
		}
	}
	a.defaultOut(v)
}

// tmux follows tmux and screen: new sessions and windows start commands.
func (a *analyzer) tmux(v *invocation, p *program) {
	g := parseArgs(p, v.argv)
	if g.computed {
		a.noteHere(UnknownOption, v.argv[0].Text)
	}
	if c, ok := g.get("c"); ok && baseName(v.argv[0].Text) == "tmux" {
		a.startCode(v, c.Text)
	}
	if s, ok := g.get("S"); ok && baseName(v.argv[0].Text) == "tmux" {
		a.effect(v.st, Effect{Kind: Write, Path: s.Text, Source: Option, Command: a.cur})
	}
	if f, ok := g.get("f", "c"); ok {
		if a.written(v.st, f.Text) != nil {
			a.noteHere(UnknownCode, "configuration "+f.Text)
		}
	}
	ops := g.ops
	if baseName(v.argv[0].Text) == "screen" {
		for _, o := range g.opts {
			if o.name == "X" {
				for i, w := range ops {
					if (w.Text == "exec" || w.Text == "screen" || w.Text == "stuff") && i+1 < len(ops) {
						a.joined(v, ops[i+1:])
					}
				}
			}
		}
		starts, _, _ := commandStarts(p, v.argv)
		for _, i := range starts {
			a.start(v, v.argv[i:])
		}
		return
	}
	// Several tmux commands are separated by a word ";".
	for len(ops) > 0 {
		end := 0
		for end < len(ops) && ops[end].Text != ";" && !strings.HasSuffix(ops[end].Text, ";") {
			end++
		}
		cmd := ops[:min(end+1, len(ops))]
		a.tmuxCommand(v, cmd)
		ops = ops[min(end+1, len(ops)):]
	}
}

func (a *analyzer) tmuxCommand(v *invocation, cmd []Word) {
	if len(cmd) == 0 {
		return
	}
	switch name := cmd[0].Text; {
	case strings.HasPrefix(name, "new") || strings.HasPrefix(name, "split") || strings.HasPrefix(name, "respawn") ||
		strings.HasPrefix(name, "run") || strings.HasPrefix(name, "pipe") || strings.HasPrefix(name, "display-p") || name == "popup" ||
		name == "neww" || strings.HasPrefix(name, "if") || strings.HasPrefix(name, "confirm"):
		for i := range cmd[1:] {
			// Where the command begins depends on options of many kinds: each
			// word may be it.
			if !strings.HasPrefix(cmd[i+1].Text, "-") {
				a.joined(v, cmd[i+1:])
			}
		}
	case strings.HasPrefix(name, "send"):
		for i, w := range cmd[1:] {
			if !strings.HasPrefix(w.Text, "-") && w.Text != "Enter" && w.Text != "C-m" && !strings.Contains(w.Text, ":") {
				a.startCode(v, w.Text)
				_ = i
			}
		}
	case strings.HasPrefix(name, "source"):
		if len(cmd) > 1 {
			a.codeFile(v, cmd[len(cmd)-1])
		}
	case strings.HasPrefix(name, "set"), strings.HasPrefix(name, "bind"), strings.HasPrefix(name, "set-hook"):
		a.noteHere(UnknownCode, "tmux "+name)
	}
}
