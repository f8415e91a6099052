package settings

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// maxYAMLBytes bounds a YAML document: the time of its parser grows with the
// square of some inputs (half a megabyte of "&a " takes two minutes).
const maxYAMLBytes = 64 << 10

// parseYAML reads one YAML document. Anchors, aliases, merge keys and tags are
// refused: they make a small file mean something large or something else.
func parseYAML(file string, data []byte) (*node, error) {
	if err := checkDepth(file, data); err != nil {
		return nil, err
	}
	if len(data) > maxYAMLBytes {
		return nil, &Error{File: file, Text: fmt.Sprintf("larger than %d bytes, the bound for YAML", maxYAMLBytes)}
	}
	if deep := yamlIndent(data); deep > 4*maxDepth {
		return nil, &Error{File: file, Text: "nested too deep"}
	}
	f, err := parser.ParseBytes(data, 0)
	if err != nil {
		e := &Error{File: file, Text: strings.SplitN(err.Error(), "\n", 2)[0]}
		var at yaml.Error
		if errors.As(err, &at) && at.GetToken() != nil {
			e.Line, e.Text = at.GetToken().Position.Line, at.GetMessage()
		}
		return nil, e
	}
	if len(f.Docs) > 1 {
		return nil, &Error{File: file, Text: "more than one document"}
	}
	if len(f.Docs) == 0 || f.Docs[0].Body == nil {
		return &node{kind: table, line: 1}, nil
	}
	return yamlValue(file, f.Docs[0].Body, 0)
}

// yamlIndent returns the deepest indentation, in characters.
func yamlIndent(data []byte) int {
	deepest := 0
	for line := range strings.Lines(string(data)) {
		rest := strings.TrimLeft(line, " -?")
		deepest = max(deepest, len(line)-len(rest))
	}
	return deepest
}

func yamlValue(file string, v ast.Node, depth int) (*node, error) {
	n := &node{line: v.GetToken().Position.Line}
	if depth > maxDepth {
		return nil, &Error{File: file, Line: n.line, Text: "nested too deep"}
	}
	switch v := v.(type) {
	case *ast.StringNode:
		n.kind, n.text = text, v.Value
	case *ast.LiteralNode:
		n.kind, n.text = text, v.Value.Value
	case *ast.BoolNode:
		n.kind, n.truth = boolean, v.Value
	case *ast.NullNode:
		n.kind = null
	case *ast.IntegerNode:
		n.kind = integer
		switch i := v.Value.(type) {
		case int64:
			n.integer = i
		case uint64:
			if i > 1<<63-1 {
				return nil, &Error{File: file, Line: n.line, Text: "integer out of range"}
			}
			n.integer = int64(i)
		}
	case *ast.FloatNode:
		n.kind, n.float = float, v.Value
	case *ast.SequenceNode:
		n.kind = array
		for _, item := range v.Values {
			child, err := yamlValue(file, item, depth+1)
			if err != nil {
				return nil, err
			}
			n.items = append(n.items, child)
		}
	case *ast.MappingNode:
		n.kind = table
		for _, pair := range v.Values {
			if err := yamlMember(file, n, pair, depth); err != nil {
				return nil, err
			}
		}
	case *ast.MappingValueNode:
		n.kind = table
		if err := yamlMember(file, n, v, depth); err != nil {
			return nil, err
		}
	default:
		return nil, &Error{File: file, Line: n.line, Text: "YAML " + v.Type().String() + " is not read here"}
	}
	return n, nil
}

func yamlMember(file string, into *node, pair *ast.MappingValueNode, depth int) error {
	line := pair.Key.GetToken().Position.Line
	key, ok := pair.Key.(*ast.StringNode)
	if !ok {
		return &Error{File: file, Line: line, Text: "YAML key " + pair.Key.Type().String() + " is not read here"}
	}
	value, err := yamlValue(file, pair.Value, depth+1)
	if err != nil {
		return err
	}
	if err := into.add(key.Value, line, value); err != nil {
		return &Error{File: file, Line: line, Text: err.Error()}
	}
	return nil
}
