package policy

import (
	"path"
	"strings"
)

// ruleTable indexes the rules of one kind by what they are compared with, so
// that a call looks at the few that can match.
type ruleTable struct {
	count    int
	bareTool map[string][]*compiled
	bareRest []*compiled
	commands commandIndex
	// read, write and remove hold path rules by effect: of the read tools and
	// effect(read), of the write tools and effect(write), and effect(delete).
	read, write, remove pathIndex
	hosts               []*compiled
	exec                []*compiled
	params              map[string][]*compiled // by tool
	paramRest           []*compiled
	texts               []*compiled
	any                 []*compiled
}

func (t *ruleTable) add(c *compiled) {
	t.count++
	p := &c.pat
	switch p.form {
	case formBare:
		if p.tool.name != "" {
			put(&t.bareTool, p.tool.name, c)
		} else {
			t.bareRest = append(t.bareRest, c)
		}
	case formCommand:
		t.commands.add(c)
	case formPath:
		if tool, _ := builtinTool(p.tool.name); tool.ReadOnly {
			t.read.add(c)
		} else {
			t.write.add(c)
		}
	case formHost:
		t.hosts = append(t.hosts, c)
	case formParam:
		if p.tool.name != "" {
			put(&t.params, p.tool.name, c)
		} else {
			t.paramRest = append(t.paramRest, c)
		}
	case formText:
		t.texts = append(t.texts, c)
	case formAny:
		t.any = append(t.any, c)
		t.commands.add(c)
	case formEffect:
		switch p.verb {
		case effectRead:
			t.read.add(c)
		case effectWrite:
			t.write.add(c)
		case effectDelete:
			t.remove.add(c)
		case effectNetwork:
			t.hosts = append(t.hosts, c)
		case effectExec:
			t.exec = append(t.exec, c)
		case effectNone:
		}
	}
}

func put(m *map[string][]*compiled, key string, c *compiled) {
	if *m == nil {
		*m = map[string][]*compiled{}
	}
	(*m)[key] = append((*m)[key], c)
}

// commandIndex holds command rules by program and first operand.
type commandIndex struct {
	programs map[string]*programRules
	general  []*compiled // program not literal, regular expression, whole script
	// whole are those of general that look at the text of the script.
	whole []*compiled
}

type programRules struct {
	operand map[string][]commandEntry
	rest    []commandEntry
}

// commandEntry keeps the mask beside the pointer, so that a rule which cannot
// match costs no look at its memory.
type commandEntry struct {
	mask uint64
	rule *compiled
}

func (x *commandIndex) add(c *compiled) {
	p := &c.pat
	if p.re != nil || p.command.hasScript {
		x.whole = append(x.whole, c)
	}
	if p.re != nil || len(p.command.words) == 0 {
		x.general = append(x.general, c)
		return
	}
	program, literal := p.command.words[0].literal()
	if !literal {
		x.general = append(x.general, c)
		return
	}
	keys := []string{program}
	if base := path.Base(program); c.rule.Kind != AllowRule && base != program {
		keys = append(keys, base)
	}
	operand := ""
	if c.rule.Kind != AllowRule && len(p.command.order.operand) > 0 {
		operand, _ = p.command.order.operand[0].literal()
	} else if c.rule.Kind == AllowRule && len(p.command.words) > 1 {
		operand, _ = p.command.words[1].literal()
	}
	entry := commandEntry{mask: p.command.mask, rule: c}
	for _, key := range keys {
		if x.programs == nil {
			x.programs = map[string]*programRules{}
		}
		rules := x.programs[key]
		if rules == nil {
			rules = &programRules{}
			x.programs[key] = rules
		}
		if operand == "" || p.command.legacy {
			rules.rest = append(rules.rest, entry)
		} else {
			if rules.operand == nil {
				rules.operand = map[string][]commandEntry{}
			}
			rules.operand[operand] = append(rules.operand[operand], entry)
		}
	}
}

// names reports whether a rule is about the program name.
func (x *commandIndex) names(program string) bool {
	return x.programs[program] != nil
}

// pathIndex holds path rules by their literal beginning.
type pathIndex struct {
	literal map[string][]*compiled // exact path, also covers what is below
	dir     map[string][]*compiled // directory before the first wildcard
	name    map[string][]*compiled // component
	rest    []*compiled
	all     []*compiled
}

func (x *pathIndex) add(c *compiled) {
	x.all = append(x.all, c)
	p := &c.pat.path
	if c.pat.re != nil {
		x.rest = append(x.rest, c)
		return
	}
	for _, l := range p.literals {
		put(&x.literal, l, c)
	}
	for _, g := range p.globs {
		if dir := literalDir(g); dir != "/" {
			put(&x.dir, dir, c)
		} else {
			x.rest = append(x.rest, c)
		}
	}
	switch {
	case p.name == "":
	case p.nameGlob:
		x.rest = append(x.rest, c)
	default:
		put(&x.name, p.name, c)
	}
}

// ancestors calls visit with abs and each directory above it.
func ancestors(abs string, visit func(dir string)) {
	for abs != "/" && abs != "" {
		visit(abs)
		i := strings.LastIndexByte(abs, '/')
		if i <= 0 {
			break
		}
		abs = abs[:i]
	}
	visit("/")
}

// namesProgram reports whether a rule is about the program of this name.
func (t *ruleTable) namesProgram(name string) bool {
	if t.commands.names(name) {
		return true
	}
	for _, c := range t.exec {
		if lit, ok := c.pat.text.literal(); ok && lit == name {
			return true
		}
	}
	return false
}

// programWords cuts an argument into the words that could name a program: what
// is left between characters that no name of a program holds, as written and
// without directories.
func programWords(arg string) []string {
	words := strings.FieldsFunc(arg, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_.+-/", r))
	})
	for i, w := range words {
		words[i] = path.Base(w)
	}
	return words
}
