package bash

// readOperands lists what programs do that read all their operands.
func (a *analyzer) readOperands(v *invocation, g *args) {
	e := Effect{Kind: Read}
	switch baseName(v.argv[0].Text) {
	case "diff", "colordiff":
		e.Tree = g.has("r", "recursive")
	case "ctags", "etags":
		e.Tree = g.has("R", "recurse")
	}
	a.each(v, g.ops, e)
}

// searched lists what grep and its kin read: trees when they are told to, or by
// themselves. Without hidden names is how rg and ag go through a tree.
func (a *analyzer) searched(v *invocation, g *args, ops []Word) {
	e := Effect{Kind: Read, Tree: g.has("r", "R", "recursive", "dereference-recursive")}
	switch name := baseName(v.argv[0].Text); name {
	case "rg", "ripgrep", "ag", "ack", "pt":
		e.Tree, e.Some = true, true
		if !g.has("u", "uu", "unrestricted", "hidden", ".", "a", "no-ignore") {
			e.Only = "[!.]*"
		}
	case "rgrep", "ugrep":
		e.Tree = true
	default:
		if g.has("d", "directories") {
			w, _ := g.get("d", "directories")
			e.Tree = e.Tree || w.Text == "recurse" || hasHole(w.Text)
		}
	}
	if e.Tree && e.Only == "" {
		e.Only = searchFilter(g)
	}
	if len(ops) == 0 && e.Tree && v.st.in == nil {
		ops = []Word{{Text: "."}}
	}
	a.each(v, ops, e)
}

// searchFilter is the pattern of the names that a recursive grep looks into.
func searchFilter(g *args) string {
	only, n := "", 0
	for _, o := range g.opts {
		switch o.name {
		case "include":
			only = o.val.Text
			n++
		case "exclude":
			only = "!" + o.val.Text
			n++
		}
	}
	if n != 1 || hasHole(only) {
		return ""
	}
	return only
}
