package policy

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sandboxd/policy/bash"
	policypath "sandboxd/policy/path"
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
	hosts     []hostAccess
	texts     []textArg
	dir       string // start directory
	// unmatched are arguments whose meaning is not known.
	unmatched []string
	problems  []SafetyReason // found while reading the arguments
	bodyBytes int
}

// access is one thing done to a path.
type access struct {
	verb effectVerb
	// raw is the path as given, given its absolute clean spelling, real where
	// it leads. given and real are empty when the path is not known.
	raw, given, real string
	glob             bool
	tree             bool
	redirect         bool
	command          int // -1: the tool itself, or a redirect without a command
	zone             zone
	protected        string // why a write here asks, empty when it need not
	err              string
}

func (a *access) known() bool { return a.real != "" }

// zone is where a path lies.
type zone uint8

const (
	outside zone = iota
	systemDir
	readRoot
	writeRoot
	workspaceDir
	discard // /dev/null and the like: nothing is kept
)

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

// gather reads the arguments of a call.
func (e *Engine) gather(c Call) *facts {
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
		e.gatherScript(f)
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
		if !f.tool.declares(name) {
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
}

// gatherScript analyses the script and lists its commands and effects.
func (e *Engine) gatherScript(f *facts) {
	f.analysis = bash.Analyze(f.script, bash.Options{
		Cwd: f.dir, Home: e.cfg.Home,
		Readlink: func(p string) (string, bool) {
			target, err := os.Readlink(p)
			return target, err == nil
		},
		Exists: func(p string) bool {
			_, err := os.Lstat(p)
			return err == nil
		},
	})
	f.commands = make([]commandView, len(f.analysis.Commands))
	for i := range f.analysis.Commands {
		f.commands[i] = newCommandView(&f.analysis.Commands[i], i)
	}
	for i := range f.analysis.Effects {
		ef := &f.analysis.Effects[i]
		switch ef.Kind {
		case bash.Network:
			f.addHost(ef.Path, ef.Command)
		case bash.Exec:
		case bash.Read, bash.Write, bash.Delete:
			f.accesses = append(f.accesses, e.effectAccess(ef, f.dir))
		}
	}
}

func (e *Engine) effectAccess(ef *bash.Effect, dir string) access {
	verb := effectRead
	switch ef.Kind {
	case bash.Write:
		verb = effectWrite
	case bash.Delete:
		verb = effectDelete
	case bash.Read, bash.Network, bash.Exec:
	}
	a := access{verb: verb, raw: ef.Path, glob: ef.Glob, tree: ef.Tree, redirect: ef.Source == bash.Redirect, command: ef.Command}
	switch {
	case strings.Contains(ef.Path, bash.Hole), !strings.HasPrefix(ef.Path, "/"):
		return a
	case ef.Glob:
		e.globAccess(&a, ef)
	default:
		e.locate(&a, ef.Path, ef.NoFollow, true)
	}
	return a
}

// globAccess locates a pattern by its directory: the names that match lie in
// it. A pattern in a directory part, or one that may match hidden names, is not
// known; neither is one whose names are written through links.
func (e *Engine) globAccess(a *access, ef *bash.Effect) {
	dir, last := filepath.Split(ef.Path)
	if isGlobText(dir) || last == "" || strings.HasPrefix(last, ".") {
		return
	}
	e.locate(a, strings.TrimSuffix(dir, "/")+"/x", true, true)
	if !a.known() {
		return
	}
	a.given = filepath.Dir(a.given) + "/" + last
	a.real = filepath.Dir(a.real) + "/" + last
	if a.verb == effectWrite && !ef.NoFollow && linkMatches(filepath.Dir(a.real), last) {
		a.given, a.real = "", ""
	}
}

// maxGlobNames bounds the names of a directory that are compared.
const maxGlobNames = 10_000

// linkMatches reports whether a link in dir matches the pattern, or whether
// there are too many names to tell. A directory that does not exist has none.
func linkMatches(dir, pattern string) bool {
	d, err := os.Open(dir)
	if err != nil {
		return !os.IsNotExist(err)
	}
	defer d.Close()
	entries, err := d.ReadDir(maxGlobNames)
	if err != nil && err != io.EOF || len(entries) == maxGlobNames {
		return true
	}
	for _, entry := range entries {
		if entry.Type()&os.ModeSymlink == 0 {
			continue
		}
		if ok, err := filepath.Match(pattern, entry.Name()); ok || err != nil {
			return true
		}
	}
	return false
}

// access locates a path argument of a tool.
func (e *Engine) access(verb effectVerb, p, dir string, command int) access {
	a := access{verb: verb, raw: p, command: command}
	full := p
	switch {
	case p == "" || strings.ContainsRune(p, 0):
		a.err = "not a path"
		return a
	case p == "~" || strings.HasPrefix(p, "~/"):
		if e.cfg.Home != "" {
			full = e.cfg.Home + p[1:]
		}
	case !strings.HasPrefix(p, "/"):
		if dir == "" {
			a.err = "relative path without a start directory"
			return a
		}
		full = dir + "/" + p
	}
	e.locate(&a, full, false, false)
	return a
}

// locate resolves an absolute path, names its zone and whether it is protected.
func (e *Engine) locate(a *access, full string, noFollow, inScript bool) {
	a.given = filepath.Clean(full)
	if e.cfg.Strict && !inScript {
		if err := policypath.CheckWindowsName(a.raw); err != nil {
			a.err = err.Error()
			return
		}
	}
	if freeDevice(a.given) {
		a.real, a.zone = a.given, discard
		return
	}
	if inScript && e.cfg.PrivateTmp && (within(a.given, "/tmp") || within(a.given, "/var/tmp") || within(a.given, "/dev/shm")) {
		// A run sees its own directory there, whatever links the host's has,
		// but for the roots that are granted below it.
		if _, z := e.zoneOf(a.given); z == outside {
			a.real, a.zone = a.given, writeRoot
			return
		}
	}
	real, err := e.realPath(full, noFollow, inScript)
	if err != nil {
		a.err = err.Error()
		return
	}
	a.real = real
	root, z := e.zoneOf(a.real)
	a.zone = z
	a.protected = e.protection(a, root)
}

// freeDevice reports devices that keep nothing and start nothing.
func freeDevice(p string) bool {
	switch p {
	case "/dev/null", "/dev/zero", "/dev/full", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/random", "/dev/urandom":
		return true
	}
	return strings.HasPrefix(p, "/dev/fd/")
}
