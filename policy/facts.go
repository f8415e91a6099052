package policy

import (
	"os"
	"slices"
	"strings"

	"sandboxd/policy/bash"
)

// facts is everything about one call that rules and checks look at. It is made
// once for given arguments.
type facts struct {
	call      Call
	canonical string
	tool      Tool
	declared  bool // tool is in a table
	script    string
	isScript  bool
	analysis  bash.Analysis
	commands  []commandView
	accesses  []access
	mentions  []mention
	hosts     []hostAccess
	texts     []textArg
	dir       string // start directory
	// unmatched are arguments whose meaning is not known.
	unmatched []string
	problems  []SafetyReason // found while reading the arguments
	bodyBytes int
	// byCommand lists the accesses of each command, redirections not among
	// them; secrets are the commands that print the environment.
	byCommand map[int][]int
	secrets   map[int]bool
	contacts  map[int]bool // commands that reach a host
}

type hostAccess struct {
	text    string
	target  hostTarget
	known   bool
	command int
}

type textArg struct {
	field, text string
	command     bool // analysed as a script too
}

// gather reads the arguments of a call, of which it takes its own copy. What no
// rule is about is not gathered.
func (e *Engine) gather(c Call, rules *RuleSet) *facts {
	c.Args = c.Args.Clone()
	f := &facts{call: c, canonical: CanonicalTool(c.Tool), dir: c.Cwd}
	if f.dir == "" {
		f.dir = e.cfg.Workspace
	}
	f.tool, f.declared = e.tool(f.canonical)
	if f.declared {
		e.gatherDeclared(f)
	} else {
		e.gatherGeneric(f)
	}
	if f.isScript {
		e.gatherScript(f, rules)
	}
	return f
}

// tool returns the declaration of a tool, of the engine's own first.
func (e *Engine) tool(name string) (Tool, bool) {
	for i := range e.cfg.Tools {
		if e.cfg.Tools[i].Name == name {
			return e.cfg.Tools[i], true
		}
	}
	return builtinTool(name)
}

func (e *Engine) gatherDeclared(f *facts) {
	bad := func(field string) {
		f.problems = append(f.problems, SafetyReason{Check: "arguments", Text: "argument " + field + " is no text"})
	}
	each := func(fields []string, use func(field, s string)) {
		for _, name := range fields {
			s, ok, isBad := f.call.Args.text(name)
			if isBad {
				bad(name)
			}
			if ok {
				use(name, s)
			}
		}
	}
	each(f.tool.Dir, func(_, s string) { f.setDir(e, s) })
	each(f.tool.Command, func(_, s string) { f.addScript(s) })
	if len(f.tool.Command) > 0 && !f.isScript {
		f.addScript("")
	}
	seen := false
	for _, arg := range f.tool.Paths {
		s, ok, isBad := f.call.Args.text(arg.Field)
		if isBad {
			bad(arg.Field)
		}
		if ok {
			seen = true
			f.accesses = append(f.accesses, e.access(verbOf(arg.Access), s, f.dir, -1))
		}
	}
	if !seen && len(f.tool.Paths) > 0 {
		first := f.tool.Paths[0]
		if first.Start {
			f.accesses = append(f.accesses, e.access(verbOf(first.Access), ".", f.dir, -1))
		} else {
			f.problems = append(f.problems, SafetyReason{Check: "arguments", Text: "no path among the arguments"})
		}
	}
	each(f.tool.Patterns, func(_, s string) { e.addPattern(f, s) })
	each(f.tool.URL, func(_, s string) { f.addHost(s, -1) })
	if len(f.tool.URL) > 0 && len(f.hosts) == 0 {
		f.problems = append(f.problems, SafetyReason{Check: "arguments", Text: "no address among the arguments"})
	}
	each(f.tool.Agent, func(field, s string) { f.texts = append(f.texts, textArg{field: field, text: s}) })
	each(f.tool.Text, func(field, s string) { f.texts = append(f.texts, textArg{field: field, text: s}) })
	for _, name := range f.tool.Body {
		if s, _, _ := f.call.Args.text(name); len(s) > f.bodyBytes {
			f.bodyBytes = len(s)
		}
	}
	for name := range f.call.Args {
		if !f.tool.Declares(name) {
			f.unmatched = append(f.unmatched, name)
		}
	}
	slices.Sort(f.unmatched)
}

func verbOf(a Access) effectVerb {
	if a == AccessRead {
		return effectRead
	}
	return effectWrite
}

// gatherGeneric looks through the arguments of a tool that nobody declared.
func (e *Engine) gatherGeneric(f *facts) {
	for _, leaf := range leaves(f.call.Args) {
		name := leaf.field
		switch {
		case slices.Contains(genericContent.command, name):
			f.addScript(leaf.text)
			f.texts = append(f.texts, textArg{field: name, text: leaf.text, command: true})
		case slices.Contains(genericContent.path, name):
			f.texts = append(f.texts, textArg{field: name, text: leaf.text})
			f.accesses = append(f.accesses, e.access(effectRead, leaf.text, f.dir, -1), e.access(effectWrite, leaf.text, f.dir, -1))
		case slices.Contains(genericContent.url, name):
			f.addHost(leaf.text, -1)
			f.texts = append(f.texts, textArg{field: name, text: leaf.text})
		case slices.Contains(genericContent.text, name):
			f.texts = append(f.texts, textArg{field: name, text: leaf.text})
		default:
			f.unmatched = append(f.unmatched, leaf.path)
			f.texts = append(f.texts, textArg{field: leaf.path, text: leaf.text})
		}
	}
}

type leaf struct{ field, path, text string }

// leaves lists every text among arguments, sorted by place.
func leaves(args Args) []leaf {
	var out []leaf
	var walk func(field, path string, v any, depth int)
	walk = func(field, path string, v any, depth int) {
		if depth > maxArgsDepth {
			return
		}
		switch v := v.(type) {
		case string:
			out = append(out, leaf{field, path, v})
		case []any:
			if line, ok := argvText(field, v); ok {
				out = append(out, leaf{field, path, line})
				return
			}
			for _, x := range v {
				walk(field, path+"[]", x, depth+1)
			}
		case map[string]any:
			for _, k := range sortedKeys(v) {
				walk(k, path+"."+k, v[k], depth+1)
			}
		}
	}
	for _, k := range sortedKeys(args) {
		walk(k, k, args[k], 0)
	}
	return out
}

// argvText writes a list of words in a command argument as one line.
func argvText(field string, list []any) (string, bool) {
	if !slices.Contains(genericContent.command, field) {
		return "", false
	}
	words := make([]string, 0, len(list))
	for _, x := range list {
		s, ok := x.(string)
		if !ok {
			return "", false
		}
		words = append(words, QuoteWord(s))
	}
	return strings.Join(words, " "), true
}

func sortedKeys[M ~map[string]any](m M) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// addScript adds a script. Where several arguments hold one, all of them count.
func (f *facts) addScript(s string) {
	if f.isScript && s != f.script {
		s = f.script + "\n" + s
	}
	f.script, f.isScript = s, true
}

// setDir takes the working directory argument, which must lie in the roots.
func (f *facts) setDir(e *Engine, s string) {
	a := e.access(effectRead, s, f.dir, -1)
	if !a.known() || a.zone < readRoot {
		f.problems = append(f.problems, SafetyReason{Check: "working-dir", Text: s + " is not inside the roots"})
		return
	}
	f.dir = a.real
}

func (f *facts) addHost(s string, command int) {
	known := !strings.Contains(s, bash.Hole)
	h := hostAccess{text: s, known: known, command: command}
	if known {
		h.target = parseHostTarget(s)
	}
	f.hosts = append(f.hosts, h)
	if command >= 0 {
		if f.contacts == nil {
			f.contacts = map[int]bool{}
		}
		f.contacts[command] = true
	}
}

// readlinkOnce remembers what it read: a script names the same files again and
// again. The links of /dev and /proc are not followed: /dev/fd and /dev/stdin
// are those of the command, not ours.
func readlinkOnce() func(string) (string, bool) {
	known := map[string]string{} // "" is no link
	return func(p string) (string, bool) {
		if within(p, "/dev") || within(p, "/proc") {
			return "", false
		}
		target, ok := known[p]
		if !ok {
			target, _ = os.Readlink(p)
			known[p] = target
		}
		return target, target != ""
	}
}

// gatherScript analyses the script and lists its commands and effects.
func (e *Engine) gatherScript(f *facts, rules *RuleSet) {
	f.analysis = bash.Analyze(f.script, bash.Options{
		Cwd: f.dir, Home: e.cfg.Home,
		Readlink: readlinkOnce(),
		Exists: func(p string) bool {
			_, err := os.Lstat(p)
			return err == nil
		},
		Mentions: rules.mentionable(),
	})
	f.commands = make([]commandView, len(f.analysis.Commands))
	for i := range f.analysis.Commands {
		f.commands[i] = newCommandView(&f.analysis.Commands[i], i)
		f.commands[i].inherits = f.analysis.Assigns
	}
	f.byCommand = map[int][]int{}
	locate := locator{e: e}
	for i := range f.analysis.Effects {
		ef := &f.analysis.Effects[i]
		switch ef.Kind {
		case bash.Network:
			f.addHost(ef.Path, ef.Command)
		case bash.Exec:
		case bash.Read, bash.Write, bash.Delete:
			a := locate.access(ef)
			if !a.redirect {
				f.byCommand[a.command] = append(f.byCommand[a.command], len(f.accesses))
			}
			f.accesses = append(f.accesses, a)
		}
	}
	for i := range f.commands {
		f.gitReads(e, &f.commands[i])
	}
	if len(f.analysis.Mentions) > 0 {
		f.gatherMentions(&locate)
	}
	for i := range f.analysis.Dangers {
		if d := &f.analysis.Dangers[i]; d.Kind == bash.SecretRead {
			if f.secrets == nil {
				f.secrets = map[int]bool{}
			}
			f.secrets[d.Command] = true
		}
	}
}
