package agentloop

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Bounds of a front matter, which anybody may have written and which is read in the
// process of all users.
const (
	// maxFrontMatter is in bytes: the time of a YAML parser can grow with the square of
	// its text.
	maxFrontMatter = 8 << 10
	// maxFrontNest bounds the indentation, in characters, and the brackets.
	maxFrontNest = 64
)

// FrontField is one field of a front matter. Its value is looked at when it is asked
// for: a field that nobody knows may hold anything.
type FrontField struct {
	Name  string
	Line  int // in the file
	value ast.Node
}

// Text is a value that is a text or a number.
func (f FrontField) Text() (string, error) {
	v, err := readField(f.value)
	if err != nil {
		return "", err
	}
	var text string
	err = v.text(&text)
	return text, err
}

// List is a value that is a list of texts, or a text with commas between its entries.
// Nil is every entry ("*").
func (f FrontField) List() ([]string, error) {
	v, err := readField(f.value)
	if err != nil {
		return nil, err
	}
	var list []string
	err = v.list(&list)
	return list, err
}

// FrontMatterError says what is wrong with a front matter, and where in its file.
type FrontMatterError struct {
	Line int
	Text string
	Hint string // may be empty
}

func (e *FrontMatterError) Error() string { return e.Text }

// CutFrontMatter splits a text that begins with a block between lines of ---.
func CutFrontMatter(text string) (head, body string, ok bool) {
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

// ParseFrontMatter reads the fields of a front matter, in their order. The error is a
// *[FrontMatterError]. Nothing in it is expanded: of anchors and aliases a small text
// makes any number of values.
func ParseFrontMatter(head string) ([]FrontField, error) {
	bad := func(line int, hint, format string, args ...any) ([]FrontField, error) {
		return nil, &FrontMatterError{Line: line, Text: fmt.Sprintf(format, args...), Hint: hint}
	}
	if len(head) > maxFrontMatter {
		return bad(1, "", "a front matter of more than %d bytes", maxFrontMatter)
	}
	if frontNesting(head) > maxFrontNest {
		return bad(1, "", "nested too deep")
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
	if len(f.Docs) > 1 {
		return bad(1, "", "front matter: more than one document")
	}
	var pairs []*ast.MappingValueNode
	for _, doc := range f.Docs {
		switch body := doc.Body.(type) {
		case nil:
		case *ast.MappingNode:
			pairs = body.Values
		case *ast.MappingValueNode:
			pairs = append(pairs, body)
		default:
			return bad(2, "", "front matter: want lines of the form field: value")
		}
	}
	var fields []FrontField
	for _, pair := range pairs {
		key := pair.Key.GetToken()
		fields = append(fields, FrontField{Name: key.Value, Line: key.Position.Line + 1, value: pair.Value}) // after the ---
	}
	return fields, nil
}

// frontNesting is the deepest indentation, with the marks of lists, or the number of
// brackets that are open at once.
func frontNesting(head string) int {
	deepest, open := 0, 0
	for line := range strings.Lines(head) {
		deepest = max(deepest, len(line)-len(strings.TrimLeft(line, " -?")))
	}
	for _, c := range head {
		switch c {
		case '[', '{':
			open++
		case ']', '}':
			open = max(open-1, 0)
		}
		deepest = max(deepest, open)
	}
	return deepest
}

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
