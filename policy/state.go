package policy

import (
	"os"
	"path"
	"slices"
	"strings"

	"sandboxd/policy/bash"
)

// state is what may change while a session runs.
type state struct {
	rules *RuleSet
	mode  Mode
}

// deny returns the deny rule that matches f, if any; a rule that only may match
// is returned with possible set.
func (s *state) deny(f *facts, w when) match {
	if s.rules == nil {
		return match{command: -1}
	}
	return s.strict(&s.rules.table[DenyRule], f, w)
}

// ask is deny for ask rules.
func (s *state) ask(f *facts, w when) match {
	if s.rules == nil {
		return match{command: -1}
	}
	return s.strict(&s.rules.table[AskRule], f, w)
}

// strict looks through a table of deny or ask rules in every spelling.
func (s *state) strict(t *ruleTable, f *facts, w when) match {
	find := finder{when: w, command: -1, maybe: -1}
	if t.count == 0 {
		return find.result()
	}
	find.bare(t, f.canonical, f.call.Tool)
	if f.isScript {
		find.wholeScript(&t.commands, strings.TrimSpace(f.script))
	}
	for i := range f.commands {
		find.onCommand(t, &f.commands[i])
	}
	var seen map[accessKey]bool
	if len(f.accesses) > 32 {
		seen = map[accessKey]bool{}
	}
	for i := range f.accesses {
		a := &f.accesses[i]
		if seen != nil {
			key := accessKey{a.verb, a.raw, a.real, a.only, a.glob, a.tree, a.some, a.namesOnly, a.replaces, a.tracked}
			if seen[key] {
				continue
			}
			seen[key] = true
		}
		find.onAccess(t, a)
	}
	for i := range f.hosts {
		find.onHost(t.hosts, &f.hosts[i])
	}
	for i := range f.mentions {
		find.onMention(t, &f.mentions[i])
	}
	find.onExec(t, f)
	find.onArguments(t, f)
	return find.result()
}

// accessKey tells accesses apart that rules could treat differently.
type accessKey struct {
	verb                                       effectVerb
	raw, real, only                            string
	glob, tree, some, names, replaces, tracked bool
}

func (f *finder) onCommand(t *ruleTable, v *commandView) {
	if v.cmd.Kind == bash.Function || len(v.argv) == 0 {
		return // the commands of a function's body are listed
	}
	f.commandRules(&t.commands, v)
	for _, c := range t.exec {
		if f.better(c) && v.base != "" && (c.pat.text.match(v.base) || c.pat.text.match(v.name) || slices.ContainsFunc(v.aliases, c.pat.text.match)) {
			f.found(c, fullMatch, v.index)
		}
	}
}

// onExec compares programs that the script itself made, and the words that an
// unknown program may start.
func (f *finder) onExec(t *ruleTable, fa *facts) {
	for i := range fa.analysis.Effects {
		ef := &fa.analysis.Effects[i]
		if ef.Kind != bash.Exec || !ef.Known() {
			continue
		}
		v := programView(ef.Path)
		f.onCommand(t, &v)
	}
}

// onAccess compares what is done to a path. A change also meets the rules about
// deletion or writing that include it: who may not write may not delete.
func (f *finder) onAccess(t *ruleTable, a *access) {
	lists := [2]*pathIndex{&t.read, nil}
	switch a.verb {
	case effectWrite:
		lists = [2]*pathIndex{&t.write, nil}
		if a.replaces && len(t.remove.all) > 0 && a.known() && exists(a.real) {
			f.pathRules(&t.remove, a.given, a.real, a.command)
		}
	case effectDelete:
		lists = [2]*pathIndex{&t.write, &t.remove}
	}
	for _, x := range lists {
		if x == nil || len(x.all) == 0 {
			continue
		}
		if a.given == "" && a.real == "" {
			f.anyPath(x, a)
			continue
		}
		f.pathRules(x, a.given, a.real, a.command)
		f.below(x, a)
		f.matching(x, a)
		f.inTree(x, a)
	}
}

func exists(p string) bool {
	_, err := os.Lstat(p)
	return err == nil
}

// anyPath: the path is not known, so each rule may match; what is known of its
// beginning may exclude one.
func (f *finder) anyPath(x *pathIndex, a *access) {
	known, _, _ := strings.Cut(a.raw, bash.Hole)
	if i := strings.IndexAny(known, `*?[`); a.glob && i >= 0 {
		known = known[:i]
	}
	for _, c := range x.all {
		if !f.better(c) {
			continue
		}
		if lit, ok := c.pat.path.literal(); ok && strings.HasPrefix(known, "/") && !strings.Contains(known, "/..") {
			if n := min(len(lit), len(known)); lit[:n] != known[:n] {
				continue
			}
		}
		f.found(c, possibleMatch, a.command)
	}
}

// below: a whole tree is read, changed or removed, and a rule is about
// something in it.
func (f *finder) below(x *pathIndex, a *access) {
	if !a.tree || a.real == "" || a.namesOnly {
		return
	}
	dir := a.real
	if a.glob {
		dir = path.Dir(dir)
	}
	for _, c := range x.all {
		if !f.better(c) || !c.pat.path.reaches(dir) || !c.pat.path.wantedBy(a) || a.glob && !a.some && !c.pat.path.underGlob(dir, path.Base(a.real), a.hidden) {
			continue
		}
		if a.some && a.verb == effectRead && exists(dir) && (!c.pat.path.present() || !c.pat.path.trackedIn(a)) {
			continue // there is nothing yet that could be read
		}
		if a.verb == effectRead || a.some {
			f.found(c, possibleMatch, a.command)
		} else {
			f.found(c, fullMatch, a.command)
		}
	}
}

// matching: a pattern of the shell stands for names that exist, or that the
// script may have made.
func (f *finder) matching(x *pathIndex, a *access) {
	if !a.glob && !a.tree || a.real == "" || a.namesOnly {
		return
	}
	soft := f.soften
	f.soften = soft || a.some
	defer func() { f.soften = soft }()
	dir, last := a.real, "*"
	if a.glob {
		dir, last = path.Split(a.real)
		dir = path.Clean(dir)
	}
	for _, name := range a.names {
		if !a.wants(name) && !a.glob {
			continue
		}
		f.onePath(x, path.Join(dir, name), a.command)
	}
	if !a.glob {
		return
	}
	for _, real := range a.leadTo {
		f.onePath(x, real, a.command)
	}
	for _, c := range x.all {
		if !f.better(c) {
			continue
		}
		p := &c.pat.path
		if p.name != "" && !p.nameGlob && globMatches(last, p.name, a.hidden) {
			f.found(c, fullMatch, a.command)
		}
		for _, l := range p.literals {
			if path.Dir(l) == dir && globMatches(last, path.Base(l), a.hidden) {
				f.found(c, fullMatch, a.command)
			}
		}
	}
}

// globMatches is the shell's match: a star does not match a leading dot.
func globMatches(pattern, name string, hidden bool) bool {
	if !hidden && strings.HasPrefix(name, ".") && !strings.HasPrefix(pattern, ".") {
		return false
	}
	ok, err := path.Match(pattern, name)
	return ok || err != nil
}

func (f *finder) onHost(rules []*compiled, h *hostAccess) {
	for _, c := range rules {
		switch {
		case !f.better(c):
		case !h.known, h.target.broken != "":
			if c.pat.host.any {
				f.found(c, fullMatch, h.command)
			} else {
				f.found(c, possibleMatch, h.command)
			}
		case c.pat.re != nil:
			if matchRegexp(c.pat.re, h.text, c.rule.Kind) {
				f.found(c, fullMatch, h.command)
			}
		case c.pat.host.match(&h.target, true) &&
			!c.excepts(func(p *pattern) bool { return p.host.match(&h.target, false) }):
			f.found(c, fullMatch, h.command)
		}
	}
}

// onArguments compares rules about single arguments and about any text.
func (f *finder) onArguments(t *ruleTable, fa *facts) {
	for _, list := range [2][]*compiled{t.params[fa.canonical], t.paramRest} {
		for _, c := range list {
			if f.better(c) && c.pat.tool.match(fa.canonical, fa.call.Tool) && c.pat.matchParam(fa.call.Args) {
				f.found(c, fullMatch, -1)
			}
		}
	}
	for _, c := range t.texts {
		if f.better(c) && c.pat.tool.match(fa.canonical, fa.call.Tool) {
			f.onTexts(c, fa)
		}
	}
	for _, c := range t.any {
		if f.better(c) && c.pat.tool.match(fa.canonical, fa.call.Tool) {
			f.onTexts(c, fa)
			for i := range fa.accesses {
				a := &fa.accesses[i]
				if c.pat.path.match(a.real) || c.pat.path.match(a.given) || c.pat.text.match(a.raw) {
					f.found(c, fullMatch, a.command)
				}
			}
			for i := range fa.hosts {
				if c.pat.text.match(fa.hosts[i].text) {
					f.found(c, fullMatch, fa.hosts[i].command)
				}
			}
		}
	}
}

// onTexts compares a rule with every text among the arguments: a tool whose
// arguments nobody declared must not hide a command in one of them.
func (f *finder) onTexts(c *compiled, fa *facts) {
	hit := false
	for _, t := range fa.texts {
		if c.pat.re != nil {
			hit = hit || matchRegexp(c.pat.re, t.text, c.rule.Kind)
		} else {
			hit = hit || c.pat.text.match(t.text)
		}
	}
	if hit {
		f.found(c, fullMatch, -1)
		return
	}
	for i := range fa.commands {
		if len(c.pat.command.words) > 0 {
			f.commandRule(c, &fa.commands[i])
		}
	}
}

func (p *pattern) matchParam(args Args) bool {
	v, ok := args[p.param]
	if !ok {
		return false
	}
	return p.text.match(argText(v))
}

// argText writes a simple value as it stands in JSON, text without quotes.
func argText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case bool:
		if v {
			return "true"
		}
		return "false"
	case nil:
		return "null"
	}
	return jsonText(v)
}
