package policy

import (
	"slices"
	"strings"
	"time"

	"sandboxd/policy/bash"
)

// when is what a rule's own options are compared with.
type when struct {
	mode Mode
	// above are the modes of the agents that a sub-agent belongs to.
	above []Mode
	now   time.Time
}

// in reports whether m is the mode, or that of an agent above.
func (w when) in(m Mode) bool { return w.mode == m || slices.Contains(w.above, m) }

// row is what the mode allows and all modes above do.
func (w when) row() modeRow {
	row := w.mode.row()
	for _, m := range w.above {
		row = row.meet(m.row())
	}
	return row
}

// live reports whether a rule counts. What denies or asks under an agent above does
// so under its sub-agents; what allows must allow under all of them.
func (w when) live(r *Rule) bool {
	live := r.live(w.mode, w.now)
	for _, m := range w.above {
		if r.Kind == AllowRule {
			live = live && r.live(m, w.now)
		} else {
			live = live || r.live(m, w.now)
		}
	}
	return live
}

// match is the rule that decides a subject. The zero match is none.
type match struct {
	rule     *Rule
	from     *compiled
	possible bool
	// command is the index of the command it was found on, -1 otherwise.
	command int
}

func (m match) reason() RuleReason { return m.rule.because(m.possible) }

// finder looks for the strongest rule of one table. It keeps the full match of
// lowest order, and apart from it the possible one.
type finder struct {
	when
	best     *compiled
	possible *compiled
	command  int
	maybe    int // command of possible
	// soften makes every match a possible one.
	soften bool
}

// better reports whether c is worth comparing.
func (f *finder) better(c *compiled) bool {
	return (f.best == nil || c.order < f.best.order) && f.live(c.rule)
}

func (f *finder) found(c *compiled, m match3, command int) {
	if f.soften && m == fullMatch {
		m = possibleMatch
	}
	switch m {
	case fullMatch:
		f.best, f.command = c, command
	case possibleMatch:
		if f.possible == nil || c.order < f.possible.order {
			f.possible, f.maybe = c, command
		}
	case noMatch:
	}
}

// result is the full match if there is one, else the possible one.
func (f *finder) result() match {
	if f.best != nil {
		return match{rule: f.best.rule, from: f.best, command: f.command}
	}
	if f.possible != nil {
		return match{rule: f.possible.rule, from: f.possible, possible: true, command: f.maybe}
	}
	return match{command: -1}
}

// bare looks at rules about whole tools.
func (f *finder) bare(t *ruleTable, canonical, given string) {
	for _, c := range t.bareTool[canonical] {
		if f.better(c) {
			f.found(c, fullMatch, -1)
		}
	}
	for _, c := range t.bareRest {
		if f.better(c) && c.pat.tool.match(canonical, given) {
			f.found(c, fullMatch, -1)
		}
	}
}

// commandRules looks at the command rules of a deny or ask table.
func (f *finder) commandRules(x *commandIndex, v *commandView) {
	f.programRules(x.programs[v.name], v)
	if v.base != v.name {
		f.programRules(x.programs[v.base], v)
	}
	for _, name := range v.aliases {
		f.programRules(x.programs[name], v)
	}
	for _, c := range x.general {
		f.commandRule(c, v)
	}
}

func (f *finder) programRules(rules *programRules, v *commandView) {
	if rules == nil {
		return
	}
	f.entries(rules.rest, v)
	if rules.operand == nil {
		return
	}
	if v.holes {
		for _, list := range rules.operand {
			f.entries(list, v)
		}
		return
	}
	f.byOperand(rules, v, v.argv)
	if v.plain != nil {
		f.byOperand(rules, v, v.plain)
	}
}

// byOperand visits the rules whose first operand can be the first operand of
// words: every word behind an option may be its value instead.
func (f *finder) byOperand(rules *programRules, v *commandView, words []bash.Word) {
	afterOption, ended := false, false
	for _, w := range words[min(1, len(words)):] {
		if !ended && len(w.Text) > 1 && w.Text[0] == '-' {
			ended = w.Text == "--"
			afterOption = !ended && strings.IndexByte(w.Text, '=') < 0
			continue
		}
		f.entries(rules.operand[w.Text], v)
		if !afterOption {
			return
		}
		afterOption = false
	}
}

func (f *finder) entries(list []commandEntry, v *commandView) {
	for i := range list {
		if list[i].mask&^v.mask == 0 {
			f.commandRule(list[i].rule, v)
		}
	}
}

func (f *finder) commandRule(c *compiled, v *commandView) {
	if !f.better(c) {
		return
	}
	m := noMatch
	if c.pat.re != nil {
		for _, text := range v.loose {
			if matchRegexp(c.pat.re, text, c.rule.Kind) {
				m = fullMatch
			}
		}
	} else {
		m = c.pat.command.catches(v)
	}
	if m != noMatch && !c.excepts(func(p *pattern) bool { return p.command.allows(v) }) {
		f.found(c, m, v.index)
	}
}

// excepts reports whether an exception of the rule covers the subject.
func (c *compiled) excepts(covers func(*pattern) bool) bool {
	for i := range c.except {
		if covers(&c.except[i]) {
			return true
		}
	}
	return false
}

// allowCommand looks for an allow rule that matches the command as written.
func (f *finder) allowCommand(x *commandIndex, v *commandView) {
	one := func(c *compiled) {
		if !f.better(c) || !v.assignsAllowed(c) {
			return
		}
		ok := false
		if c.pat.re != nil {
			ok = v.name != "" && !strings.ContainsAny(v.name, " \t\n") && matchRegexp(c.pat.re, v.loose[0], AllowRule)
		} else {
			ok = c.pat.command.allows(v)
		}
		if ok && !c.excepts(func(p *pattern) bool { return p.command.allows(v) }) {
			f.found(c, fullMatch, v.index)
		}
	}
	first := v.name
	if len(v.cmd.Assigns) > 0 {
		// A rule may begin with the assignments as written.
		for _, e := range programOf(x, v.cmd.Assigns[0].Text) {
			one(e.rule)
		}
	}
	if rules := x.programs[first]; rules != nil {
		each := func(list []commandEntry) {
			for i := range list {
				if list[i].mask&^v.mask == 0 {
					one(list[i].rule)
				}
			}
		}
		each(rules.rest)
		if len(v.argv) > 1 {
			each(rules.operand[v.argv[1].Text])
		}
	}
	for _, c := range x.general {
		one(c)
	}
}

// programOf lists all rules whose first word is name.
func programOf(x *commandIndex, name string) []commandEntry {
	rules := x.programs[name]
	if rules == nil {
		return nil
	}
	list := rules.rest
	for _, more := range rules.operand {
		list = append(list[:len(list):len(list)], more...)
	}
	return list
}

// wholeScript looks at rules whose content is about the text of a script.
func (f *finder) wholeScript(x *commandIndex, script string) {
	for _, c := range x.whole {
		if !f.better(c) {
			continue
		}
		hit := false
		if c.pat.re != nil {
			// As below: an allow rule is compared with single commands only.
			hit = c.rule.Kind != AllowRule && matchRegexp(c.pat.re, script, c.rule.Kind)
		} else if lit, exact := c.pat.command.script.literal(); exact {
			hit = script == lit
		} else {
			// An allow rule with stars would cover commands that nobody saw.
			hit = c.rule.Kind != AllowRule && c.pat.command.script.match(script)
		}
		if hit {
			f.found(c, fullMatch, -1)
		}
	}
}

// pathRules looks at the rules about a path. given and real are the two
// spellings; a deny or ask rule may match either, an allow rule must match real.
func (f *finder) pathRules(x *pathIndex, given, real string, command int) {
	f.onePath(x, real, command)
	if given != real && given != "" {
		f.onePath(x, given, command)
	}
}

func (f *finder) onePath(x *pathIndex, abs string, command int) {
	if len(x.all) == 0 || abs == "" {
		return
	}
	try := func(c *compiled) {
		if !f.better(c) {
			return
		}
		hit := false
		if c.pat.re != nil {
			hit = matchRegexp(c.pat.re, abs, c.rule.Kind)
		} else {
			hit = c.pat.path.match(abs)
		}
		if hit && !c.excepts(func(p *pattern) bool { return p.path.match(abs) }) {
			f.found(c, fullMatch, command)
		}
	}
	if len(x.literal) > 0 || len(x.dir) > 0 {
		ancestors(abs, func(dir string) {
			for _, c := range x.literal[dir] {
				try(c)
			}
			for _, c := range x.dir[dir] {
				try(c)
			}
		})
	}
	if len(x.name) > 0 {
		for rest := abs; rest != ""; {
			var part string
			part, rest, _ = strings.Cut(strings.TrimPrefix(rest, "/"), "/")
			for _, c := range x.name[part] {
				try(c)
			}
		}
	}
	for _, c := range x.rest {
		try(c)
	}
}
