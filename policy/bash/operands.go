package bash

import (
	"slices"
	"strings"
)

// operands follows the operands of a program: which files it reads, writes or
// removes.
func (a *analyzer) operands(v *invocation, p *program, g *args) {
	ops := g.ops
	switch p.ops {
	case opsRead:
		a.readOperands(v, g)
	case opsPattern:
		if !a.givesPattern(p, g) && len(ops) > 0 {
			ops = ops[1:]
		}
		a.searched(v, g, ops)
	case opsWrite:
		a.writeOperands(v, g)
		a.changed(v, ops)
		if baseName(v.argv[0].Text) == "patch" {
			if w, ok := g.get("i", "input"); ok {
				ops = append(slices.Clip(ops), w)
			}
			a.unknownWrites(v, ops)
			for _, w := range ops {
				a.wrote(v.st, w.Text)
			}
		}
	case opsDelete:
		a.each(v, ops, Effect{Kind: Delete, NoFollow: true, Tree: g.has("r", "R", "recursive")})
	case opsCopy, opsMove:
		a.copyOperands(v, p, g)
	case opsLink:
		a.linkOperands(v, g)
	case opsMode:
		asOption := baseName(v.argv[0].Text) == "chmod" && g.has("r", "w", "x", "X", "s", "t") // chmod -x FILE
		if !g.has("reference") && len(ops) > 0 && !asOption {
			ops = ops[1:]
		}
		a.each(v, ops, Effect{Kind: Write, Tree: g.has("R", "recursive")})
	case opsInOut:
		if len(ops) > 0 {
			a.each(v, ops[:1], Effect{Kind: Read})
		}
		if len(ops) > 1 {
			a.each(v, ops[1:2], Effect{Kind: Write})
			a.wrote(v.st, ops[1].Text)
		}
	case opsFirstOut:
		if len(ops) > 0 {
			a.each(v, ops[:1], Effect{Kind: Write})
			a.wrote(v.st, ops[0].Text)
			a.each(v, ops[1:], Effect{Kind: Read})
		}
	case opsLastOut:
		if n := len(ops); n > 0 {
			a.each(v, ops[:n-1], Effect{Kind: Read})
			a.each(v, ops[n-1:], Effect{Kind: Write})
			a.wrote(v.st, ops[n-1].Text)
		}
	case opsNet:
		for _, w := range ops {
			if isDigits(w.Text) { // a port
				continue
			}
			a.effect(v.st, Effect{Kind: Network, Path: hostOf(w.Text), Command: a.cur})
		}
	case opsOpaque:
		a.setOpaque()
	case opsEach:
		for _, w := range ops {
			a.startCode(v, w.Text)
		}
	case opsCompress:
		a.compressed(v, g)
	}
}

// writeOperands lists what programs do that change all their operands.
func (a *analyzer) writeOperands(v *invocation, g *args) {
	ops := g.ops
	e := Effect{Kind: Write}
	switch baseName(v.argv[0].Text) {
	case "patch":
		if len(ops) > 1 {
			a.each(v, ops[1:], Effect{Kind: Read})
			ops = ops[:1]
		}
	case "truncate":
		e.Replaces = true
		a.each(v, ops, Effect{Kind: Delete, NoFollow: true})
	case "shred":
		a.each(v, ops, Effect{Kind: Delete, NoFollow: true})
	case "dos2unix", "unix2dos", "strip", "objcopy", "ranlib", "sponge":
		a.each(v, ops, Effect{Kind: Read})
	case "rename", "prename", "perl-rename", "file-rename":
		a.each(v, ops, Effect{Kind: Delete, NoFollow: true})
		a.each(v, ops, Effect{Kind: Read, NoFollow: true})
	}
	a.each(v, ops, e)
}

// changed records files that a program made or changed by its operands.
func (a *analyzer) changed(v *invocation, ops []Word) {
	name := baseName(v.argv[0].Text)
	for _, w := range ops {
		if !w.Known() {
			continue
		}
		switch name {
		case "touch", "mkdir", "mkfifo", "mknod", "truncate":
			for _, d := range v.st.dirs {
				a.file(clean(absolute(d, w.Text)))
			}
			continue
		}
		if v.st.in.isWorld() && a.written(v.st, w.Text) == nil {
			continue
		}
		a.wrote(v.st, w.Text)
		// Compressors change the name.
		if i := strings.LastIndexByte(baseName(w.Text), '.'); i > 0 {
			a.wrote(v.st, w.Text[:len(w.Text)-len(baseName(w.Text))+i])
		}
	}
}

func (a *analyzer) givesPattern(p *program, g *args) bool {
	for _, o := range g.opts {
		if p.role(o.name) == rolePattern {
			return true
		}
	}
	return false
}

// each lists one effect for every operand.
func (a *analyzer) each(v *invocation, ws []Word, e Effect) {
	for _, w := range ws {
		if a.spend(1) {
			return
		}
		e.Path, e.Command = w.Text, a.cur
		e.Glob = w.Glob
		if w.Many && e.Kind != Read {
			e.Path = w.Text
		}
		a.effect(v.st, e)
	}
}

// hostOf is the host of a URL or host:path operand.
func hostOf(s string) string {
	if _, rest, ok := strings.Cut(s, "://"); ok {
		s = rest
	}
	s, _, _ = strings.Cut(s, "/")
	if i := strings.LastIndexByte(s, '@'); i >= 0 {
		s = s[i+1:]
	}
	return s
}

// copyOperands follows cp, mv, install and their kin.
func (a *analyzer) copyOperands(v *invocation, p *program, g *args) {
	ops := g.ops
	if g.has("d", "directory") && p.how == 0 && strings.Contains(p.names, "install") {
		a.each(v, ops, Effect{Kind: Write})
		return
	}
	dir, inDir := g.get("t", "target-directory")
	if !inDir {
		if len(ops) < 2 {
			return
		}
		dir, ops = ops[len(ops)-1], ops[:len(ops)-1]
	}
	tree := g.has("r", "R", "a", "recursive", "archive")
	noDir := g.has("T", "no-target-directory")
	for _, src := range ops {
		kind := Read
		if p.ops == opsMove {
			kind = Delete
		}
		e := Effect{Kind: kind, Path: src.Text, Glob: src.Glob, Tree: tree || p.ops == opsMove, NoFollow: p.ops == opsMove, Command: a.cur}
		a.effect(v.st, e)
		if kind == Delete { // under its new name it can be read
			e.Kind = Read
			a.effect(v.st, e)
		}
		a.copied(v, src, dir, !noDir)
	}
	a.effect(v.st, Effect{Kind: Write, Path: dir.Text, Glob: dir.Glob, Into: !noDir, Tree: tree, Some: tree, Command: a.cur,
		NoFollow: p.ops == opsMove, Replaces: !g.has("n", "no-clobber")})
	for _, src := range ops { // a link is followed from now on, not by its own making
		a.copiedLink(v, p, g, src, dir)
	}
}

// copied gives the target the content of the source, under both names that the
// target may have.
func (a *analyzer) copied(v *invocation, src, dst Word, mayBeDir bool) {
	if src.Glob || src.Many {
		a.copiedMany(v, src, dst)
		return
	}
	t := a.content(v.st, src.Text)
	c := &text{}
	c.copyFrom(t)
	if f := a.written(v.st, src.Text); f == nil || len(f.contents) == 0 {
		if to, ok := a.linkTarget(v.st, src.Text); ok {
			c.from = append(c.from, to)
		}
	}
	a.put(v.st, dst.Text, c)
	if mayBeDir {
		a.put(v.st, strings.TrimSuffix(dst.Text, "/")+"/"+baseName(strings.TrimSuffix(src.Text, "/")), c)
	}
	a.moveTree(v, src.Text, dst.Text)
}

// copiedLink follows links of the script that are moved or copied as links, and
// copies that are links (cp -s).
func (a *analyzer) copiedLink(v *invocation, p *program, g *args, src, dst Word) {
	into := strings.TrimSuffix(dst.Text, "/") + "/" + baseName(strings.TrimSuffix(src.Text, "/"))
	if hasHole(dst.Text) || hasHole(src.Text) {
		return
	}
	for _, d := range v.st.dirs {
		from, target := clean(absolute(d, src.Text)), ""
		if g.has("s", "symbolic-link") && p.ops == opsCopy && g.has("r", "R", "a", "symbolic-link", "s") {
			target = src.Text
		} else if f := a.files[from]; f != nil && (p.ops == opsMove || g.has("P", "a", "d", "r", "R", "archive", "recursive", "no-dereference")) {
			target = f.target
		}
		if target == "" {
			continue
		}
		for _, to := range []string{dst.Text, into} {
			if q := clean(absolute(d, to)); q != from {
				a.setLink(q, target)
			}
		}
	}
	if g.has("l", "link") && p.ops == opsCopy {
		a.effect(v.st, Effect{Kind: Write, Path: src.Text, Command: a.cur, NoFollow: true})
	}
}

func (a *analyzer) copiedMany(v *invocation, src, dst Word) {
	// One file may match, and then dst is its copy.
	a.put(v.st, dst.Text, &text{alts: []string{anyText}})
	for _, m := range a.madeMatching(v.st, src.Text) {
		a.put(v.st, strings.TrimSuffix(dst.Text, "/")+"/"+baseName(m), a.content(v.st, m))
	}
}

// moveTree carries the files of the script below one directory over to another.
func (a *analyzer) moveTree(v *invocation, src, dst string) {
	if len(a.files) == 0 {
		return
	}
	for _, d := range v.st.dirs {
		from := clean(absolute(d, src)) + "/"
		var names []string
		for p := range a.files {
			if strings.HasPrefix(p, from) {
				names = append(names, p)
			}
		}
		if len(names) > 256 {
			a.bound("files")
			return
		}
		for _, p := range names {
			f := a.files[p]
			rest := p[len(from):]
			for _, to := range []string{clean(absolute(d, dst)) + "/" + rest,
				clean(absolute(d, dst)) + "/" + baseName(strings.TrimSuffix(from, "/")) + "/" + rest} {
				g := a.file(to)
				g.contents = append(g.contents, f.contents...)
				if f.target != "" {
					a.setLink(to, f.target)
				}
			}
		}
	}
}

// linkOperands follows ln.
func (a *analyzer) linkOperands(v *invocation, g *args) {
	ops := g.ops
	if len(ops) == 0 {
		return
	}
	dir, inDir := g.get("t", "target-directory")
	if !inDir {
		if len(ops) == 1 {
			dir = Word{Text: "."}
		} else {
			dir, ops = ops[len(ops)-1], ops[:len(ops)-1]
		}
	}
	symbolic := g.has("s", "symbolic")
	for _, src := range ops {
		into := strings.TrimSuffix(dir.Text, "/") + "/" + baseName(src.Text)
		if symbolic {
			for _, d := range v.st.dirs {
				if p := clean(absolute(d, dir.Text)); !hasHole(p) && dir.Text != "." {
					a.setLink(p, src.Text)
				}
				if p := clean(absolute(d, into)); !hasHole(p) {
					a.setLink(p, src.Text)
				}
			}
			if hasHole(dir.Text) || hasHole(src.Text) {
				a.keepMade(&text{alts: []string{worldText}, from: []string{src.Text}, pure: true})
			}
			continue
		}
		a.copied(v, src, dir, true)
		// A hard link is another name of the file: writing to it changes the
		// other, and it can be read by it.
		a.effect(v.st, Effect{Kind: Write, Path: src.Text, Command: a.cur, NoFollow: true})
		a.effect(v.st, Effect{Kind: Read, Path: src.Text, Command: a.cur, NoFollow: true})
	}
	a.effectNoLink(v, Effect{Kind: Write, Path: dir.Text, Into: true, NoFollow: true, Command: a.cur, Replaces: g.has("f", "force")})
}

// effectNoLink lists the making of a link itself.
func (a *analyzer) effectNoLink(v *invocation, e Effect) { a.effect(v.st, e) }
