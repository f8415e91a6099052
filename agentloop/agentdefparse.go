package agentloop

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

const (
	// maxAgentDef bounds a file, in bytes; a prompt is a page or two.
	maxAgentDef = 64 << 10
	// maxAgentHead bounds its front matter: the time of a YAML parser can grow with
	// the square of its text.
	maxAgentHead = 8 << 10
	// maxAgentNest bounds the indentation in it, in characters.
	maxAgentNest = 64
)

// ParseAgentDef reads a definition: a front matter between lines of ---, then the
// prompt. The error is an *[AgentDefError] with file and line.
//
//	---
//	name: reviewer
//	description: Reads a change and says what is wrong with it.
//	tools: Read, Grep, Bash(git diff *)
//	permissionMode: plan
//	---
//	You review changes. ...
func ParseAgentDef(file string, text []byte) (AgentDef, error) {
	d := AgentDef{File: file}
	bad := func(line int, format string, args ...any) (AgentDef, error) {
		return AgentDef{File: file}, &AgentDefError{File: file, Line: line, Text: fmt.Sprintf(format, args...)}
	}
	if len(text) > maxAgentDef {
		return bad(0, "larger than %d bytes", maxAgentDef)
	}
	if !utf8.Valid(text) {
		return bad(0, "not UTF-8")
	}
	head, body, ok := frontMatter(string(text))
	if !ok {
		return bad(1, "no front matter: want --- with name and description, then ---")
	}
	if len(head) > maxAgentHead {
		return bad(1, "a front matter of more than %d bytes", maxAgentHead)
	}
	lines := map[string]int{}
	if err := d.readHead(head, lines); err != nil {
		return AgentDef{File: file}, err
	}
	d.Prompt = strings.TrimSpace(body)
	if err := d.check(func(field string) int { return lines[field] }); err != nil {
		return AgentDef{File: file}, err
	}
	return d, nil
}

// frontMatter splits a text that begins with a block between lines of ---.
func frontMatter(text string) (head, body string, ok bool) {
	text = strings.TrimPrefix(strings.ReplaceAll(text, "\r\n", "\n"), "\uFEFF")
	rest, ok := strings.CutPrefix(text, "---\n")
	if !ok {
		return "", "", false
	}
	if body, ok := strings.CutPrefix(rest, "---\n"); ok {
		return "", body, true
	}
	if head, body, ok = strings.Cut(rest, "\n---\n"); ok {
		return head + "\n", body, true
	}
	head, ok = strings.CutSuffix(rest, "\n---")
	return head + "\n", "", ok
}

// agentFields reads the values of a front matter.
var agentFields = map[string]func(d *AgentDef, v fieldValue) error{
	"name":            func(d *AgentDef, v fieldValue) error { return v.text(&d.Name) },
	"description":     func(d *AgentDef, v fieldValue) error { return v.text(&d.Description) },
	"model":           func(d *AgentDef, v fieldValue) error { return v.text(&d.Model) },
	"permissionMode":  func(d *AgentDef, v fieldValue) error { return v.text(&d.Mode) },
	"tools":           func(d *AgentDef, v fieldValue) error { return v.list(&d.Tools) },
	"disallowedTools": func(d *AgentDef, v fieldValue) error { return v.list(&d.Disallowed) },
	"askTools":        func(d *AgentDef, v fieldValue) error { return v.list(&d.Ask) },
	"delegateTools":   func(d *AgentDef, v fieldValue) error { return v.list(&d.Delegate) },
	"maxTurns":        func(d *AgentDef, v fieldValue) error { return v.number(&d.MaxTurns) },
}

// foreignFields are those of other clients without a meaning here. What they would
// start or add is not started: hooks and servers are a matter of the policy.
var foreignFields = []string{"color", "skills", "memory", "background", "isolation", "effort", "initialPrompt", "hooks", "mcpServers", "temperature", "version"}

// fieldValue is a value of a front matter: a text, or a list of texts.
type fieldValue struct {
	one  string
	many []string
	kind string // "text", "number", "list" or what it is instead
}

func (v fieldValue) text(to *string) error {
	if v.kind != "text" && v.kind != "number" {
		return fmt.Errorf("want a text, not a %s", v.kind)
	}
	*to = strings.TrimSpace(v.one)
	return nil
}

func (v fieldValue) number(to *int) error {
	if v.kind != "number" {
		return fmt.Errorf("want a number, not a %s", v.kind)
	}
	_, err := fmt.Sscanf(v.one, "%d", to)
	if err != nil || fmt.Sprint(*to) != v.one || *to < 1 {
		return fmt.Errorf("%s: want a whole number from 1", v.one)
	}
	return nil
}

// list reads a list, or a text with commas between its entries; commas in
// parentheses belong to an entry. "*" is every tool.
func (v fieldValue) list(to *[]string) error {
	entries := v.many
	switch v.kind {
	case "list":
	case "text":
		entries = splitEntries(v.one)
	default:
		return fmt.Errorf("want a list, not a %s", v.kind)
	}
	out := []string{}
	for _, e := range entries {
		if e = strings.TrimSpace(e); e != "" {
			out = append(out, e)
		}
	}
	if !slices.Contains(out, "*") {
		*to = out
	}
	return nil
}

func splitEntries(s string) []string {
	var out []string
	depth, from := 0, 0
	for i, c := range s {
		switch {
		case c == '(':
			depth++
		case c == ')' && depth > 0:
			depth--
		case c == ',' && depth == 0:
			out = append(out, s[from:i])
			from = i + 1
		}
	}
	return append(out, s[from:])
}

// readHead reads the front matter and notes the lines of its fields in the file.
func (d *AgentDef) readHead(head string, lines map[string]int) error {
	bad := func(line int, hint, format string, args ...any) error {
		return &AgentDefError{File: d.File, Line: line, Text: fmt.Sprintf(format, args...), Hint: hint}
	}
	for line := range strings.Lines(head) {
		if len(line)-len(strings.TrimLeft(line, " -?")) > maxAgentNest {
			return bad(1, "", "nested too deep")
		}
	}
	f, err := parser.ParseBytes([]byte(head), 0)
	if err != nil {
		line, text := 1, strings.SplitN(err.Error(), "\n", 2)[0]
		var at yaml.Error
		if errors.As(err, &at) && at.GetToken() != nil {
			line, text = at.GetToken().Position.Line+1, at.GetMessage()
		}
		return bad(line, "put a text that has a colon and a space in it between quotes", "front matter: %s", text)
	}
	var pairs []*ast.MappingValueNode
	for i, doc := range f.Docs {
		switch body := doc.Body.(type) {
		case nil:
		case *ast.MappingNode:
			pairs = append(pairs, body.Values...)
		case *ast.MappingValueNode:
			pairs = append(pairs, body)
		default:
			return bad(2, "", "front matter: want lines of the form field: value")
		}
		if i > 0 {
			return bad(1, "", "front matter: more than one document")
		}
	}
	for _, pair := range pairs {
		line := pair.Key.GetToken().Position.Line + 1 // after the ---
		key := pair.Key.GetToken().Value
		set, ok := agentFields[key]
		switch {
		case lines[key] != 0:
			return bad(line, "", "%s stands twice", key)
		case !ok && slices.Contains(foreignFields, key):
			continue
		case !ok:
			return bad(line, nearField(key), "unknown field %q", firstCharacters(key, maxAgentName))
		}
		lines[key] = line
		v, err := readField(pair.Value)
		if err == nil {
			err = set(d, v)
		}
		if err != nil {
			return bad(line, "", "%s: %v", key, err)
		}
	}
	return nil
}

// nearField suggests the field that was meant.
func nearField(key string) string {
	plain := func(s string) string { return strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(s)) }
	names := make([]string, 0, len(agentFields))
	for name := range agentFields {
		if plain(name) == plain(key) || len(key) > 3 && strings.HasPrefix(plain(name), plain(key)[:4]) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if len(names) == 0 {
		return ""
	}
	return "did you mean " + names[0] + "?"
}

// readField takes texts, numbers and lists of texts. Anchors, aliases, tags and
// tables are refused: they make a small file mean something large or something
// else.
func readField(n ast.Node) (fieldValue, error) {
	switch n := n.(type) {
	case *ast.StringNode:
		return fieldValue{one: n.Value, kind: "text"}, nil
	case *ast.LiteralNode:
		return fieldValue{one: n.Value.Value, kind: "text"}, nil
	case *ast.IntegerNode:
		return fieldValue{one: n.GetToken().Value, kind: "number"}, nil
	case *ast.NullNode:
		return fieldValue{kind: "text"}, nil
	case *ast.SequenceNode:
		out := fieldValue{kind: "list"}
		for _, item := range n.Values {
			s, ok := item.(*ast.StringNode)
			if !ok {
				return out, errors.New("want a list of texts")
			}
			out.many = append(out.many, s.Value)
		}
		return out, nil
	}
	return fieldValue{}, fmt.Errorf("%s is not read here", strings.ToLower(n.Type().String()))
}
