package policy

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
)

// form says what the content of a pattern is compared with.
type form uint8

const (
	formBare    form = iota // no content: the whole tool
	formCommand             // a simple command of a script
	formPath                // a path
	formHost                // a host or address
	formParam               // one argument by name
	formText                // any text among the arguments
	formEffect              // an effect, whoever causes it
	formAny                 // *(content): whatever the call's content is
)

// effectVerb is the first word of an effect rule.
type effectVerb uint8

const (
	effectNone effectVerb = iota
	effectRead
	effectWrite
	effectDelete
	effectNetwork
	effectExec
)

var effectVerbs = map[string]effectVerb{
	"read": effectRead, "write": effectWrite, "delete": effectDelete, "network": effectNetwork, "exec": effectExec,
}

// Bounds of a pattern. A content is a command line or a path, which the kernel
// limits to 4 KiB; a regular expression is compiled and run on each call.
const (
	maxPatternBytes = 4096
	maxRegexpBytes  = 512
	maxRegexpOps    = 2000
	// maxRegexpText bounds the text that a regular expression is run on. A
	// longer text counts as matched by deny and ask, as unmatched by allow.
	maxRegexpText = 64 << 10
)

// pattern is a compiled tool(content).
type pattern struct {
	tool    toolPattern
	form    form
	content string // as written
	re      *regexp.Regexp
	text    glob
	command commandPattern
	path    pathPattern
	host    hostPattern
	param   string
	verb    effectVerb
}

// toolPattern is the part before the parenthesis.
type toolPattern struct {
	name   string // canonical, exact; empty when a glob or any
	glob   glob
	isGlob bool
	any    bool
	server string // mcp__SERVER: every tool of it
}

func (t toolPattern) match(canonical, given string) bool {
	switch {
	case t.any:
		return true
	case t.server != "":
		server, _ := splitMCP(canonical)
		return server == t.server
	case t.isGlob:
		return t.glob.match(canonical) || t.glob.match(given)
	}
	return t.name == canonical
}

// base is where relative patterns begin.
type base struct{ workspace, home string }

// parsePattern reads text as a pattern of a rule of the given kind.
func parsePattern(text string, kind Kind, b base) (pattern, error) {
	if len(text) > maxPatternBytes {
		return pattern{}, fmt.Errorf("longer than %d bytes", maxPatternBytes)
	}
	if i := strings.IndexFunc(text, func(r rune) bool { return r < 0x20 && r != '\t' && r != '\n' || r == 0x7f || r == 0xFFFD }); i >= 0 {
		return pattern{}, fmt.Errorf("control or broken character at byte %d", i)
	}
	text = strings.TrimSpace(text)
	name, content, hasContent, err := cutPattern(text)
	if err != nil {
		return pattern{}, err
	}
	var p pattern
	if name == "effect" {
		if !hasContent {
			return p, fmt.Errorf("effect needs a content such as effect(write /etc/**)")
		}
		return parseEffect(content, kind, b)
	}
	if p.tool, err = parseTool(name, kind); err != nil {
		return p, err
	}
	if !hasContent || content == "*" {
		return p, nil
	}
	p.content = content
	return p, p.parseContent(kind, b)
}

// cutPattern splits tool(content).
func cutPattern(text string) (name, content string, has bool, err error) {
	open := strings.IndexByte(text, '(')
	if open < 0 {
		if text == "" {
			return "", "", false, fmt.Errorf("empty rule")
		}
		if strings.ContainsAny(text, ") \t\n") {
			return "", "", false, fmt.Errorf("want tool or tool(content)")
		}
		return text, "", false, nil
	}
	if !strings.HasSuffix(text, ")") {
		return "", "", false, fmt.Errorf("no closing parenthesis at the end")
	}
	name, content = text[:open], text[open+1:len(text)-1]
	if name == "" || strings.ContainsAny(name, " \t\n") {
		return "", "", false, fmt.Errorf("no tool before the parenthesis")
	}
	if strings.TrimSpace(content) == "" {
		return "", "", false, fmt.Errorf("empty content: write %s for the whole tool", name)
	}
	return name, content, true, nil
}

func parseTool(name string, kind Kind) (toolPattern, error) {
	for _, r := range name {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-.:/*@", r)) {
			return toolPattern{}, fmt.Errorf("character %q in the name of a tool", r)
		}
	}
	if !strings.Contains(name, "*") {
		if server, tool := splitMCP(name); server != "" && tool == "" {
			return toolPattern{server: server}, nil
		}
		return toolPattern{name: CanonicalTool(name)}, nil
	}
	server, tool := splitMCP(name)
	namedServer := server != "" && !strings.Contains(server, "*") && tool != ""
	if kind == AllowRule && !namedServer {
		return toolPattern{}, fmt.Errorf("an allow rule may use * in a tool name only for the tools of one MCP server (mcp__SERVER__*), since later tools would match unseen")
	}
	if name == "*" {
		return toolPattern{any: true}, nil
	}
	if namedServer && tool == "*" {
		return toolPattern{server: server}, nil
	}
	return toolPattern{glob: newGlob(name), isGlob: true}, nil
}

// parseContent compiles the content by what the tool takes.
func (p *pattern) parseContent(kind Kind, b base) error {
	content := p.content
	if expr, ok := strings.CutPrefix(content, "re:"); ok {
		re, err := compileRegexp(expr, kind)
		if err != nil {
			return err
		}
		p.re = re
	}
	tool, known := builtinTool(p.tool.name)
	name, value, ok := cutParam(content, tool)
	if p.tool.any || p.tool.isGlob {
		ok = false // rm:* is a command there
	}
	switch {
	case !ok:
	case tool.content(name):
		// "command:rm *" is about the command, and must be read as one.
		content, p.content = value, value
	case kind == AllowRule && (len(tool.Command) > 0 || !known && slices.Contains(genericContent.command, name)):
		return fmt.Errorf("an allow rule about the argument %s would allow every command; write the command as the content", name)
	default:
		p.form, p.param, p.text = formParam, name, newGlob(value)
		return nil
	}
	var err error
	switch {
	case p.tool.any, p.tool.isGlob:
		p.form = formAny
		if p.re == nil {
			p.text = newGlob(content)
			p.command, err = newCommandPattern(content, kind)
			p.path = newLoosePathPattern(content, b)
		}
	case len(tool.Command) > 0:
		p.form = formCommand
		if p.re == nil {
			p.command, err = newCommandPattern(content, kind)
		}
	case len(tool.Paths) > 0:
		p.form = formPath
		if p.re == nil {
			p.path, err = newPathPattern(content, kind, b)
		}
	case len(tool.URL) > 0:
		p.form = formHost
		if p.re == nil {
			p.host, err = newHostPattern(content)
		}
	default:
		p.form = formText
		p.text = newGlob(content)
		if !known && kind != AllowRule && p.re == nil {
			p.command, err = newCommandPattern(content, kind)
		}
	}
	return err
}

// cutParam reads "name:value" as a condition on one argument. For tools with a
// command only their other arguments count, since "rm:*" is the old spelling of
// a prefix; for addresses "domain:" is one of ours and a scheme is none.
func cutParam(content string, tool Tool) (name, value string, ok bool) {
	name, value, ok = strings.Cut(content, ":")
	if !ok || name == "" || name == "re" || strings.HasPrefix(value, "//") {
		return "", "", false
	}
	for _, r := range name {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-') {
			return "", "", false
		}
	}
	if len(tool.URL) > 0 && name == "domain" {
		return "", "", false
	}
	if tool.Name == "" {
		return name, value, true // a tool of an MCP server: its own names
	}
	return name, value, tool.Declares(name)
}

// content reports whether field holds what rules about the tool are about.
func (t *Tool) content(field string) bool {
	for _, list := range [][]string{t.Command, t.URL, t.Agent, t.Text} {
		if slices.Contains(list, field) {
			return true
		}
	}
	return slices.ContainsFunc(t.Paths, func(a PathArg) bool { return a.Field == field })
}

// Declares reports whether field is one of the tool's arguments in Command, Dir
// or Other and so on.
func (t *Tool) Declares(field string) bool {
	for _, list := range [][]string{t.Dir, t.Body, t.Patterns, t.Other} {
		if slices.Contains(list, field) {
			return true
		}
	}
	return t.content(field)
}

// compileRegexp compiles RE2. A deny or ask rule searches; an allow rule must
// match the whole text, so that "re:ls" does not allow "rm ls".
func compileRegexp(expr string, kind Kind) (*regexp.Regexp, error) {
	if len(expr) > maxRegexpBytes {
		return nil, fmt.Errorf("regular expression longer than %d bytes", maxRegexpBytes)
	}
	tree, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("regular expression: %w", err)
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, fmt.Errorf("regular expression: %w", err)
	}
	if len(prog.Inst) > maxRegexpOps {
		return nil, fmt.Errorf("regular expression compiles to more than %d steps", maxRegexpOps)
	}
	if kind == AllowRule {
		expr = `\A(?:` + expr + `)\z`
	}
	return regexp.Compile(expr)
}

// matchRegexp runs a bounded match.
func matchRegexp(re *regexp.Regexp, text string, kind Kind) bool {
	if len(text) > maxRegexpText {
		return kind != AllowRule
	}
	return re.MatchString(text)
}
