package settings

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// maxTOMLKeys bounds the equal signs of a document, and so its keys: the strict
// decoder compares each key with all others of its table (40,000 take many
// seconds).
const maxTOMLKeys = 10_000

// parseTOML reads a TOML document. The document is read twice: by the strict
// decoder, which refuses what the standard forbids (a key twice, a table that
// was closed), and by the syntax reader, which knows lines.
func parseTOML(file string, data []byte) (*node, error) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if err := checkDepth(file, data); err != nil {
		return nil, err
	}
	if n := bytes.Count(data, []byte("=")); n > maxTOMLKeys {
		return nil, &Error{File: file, Text: fmt.Sprintf("more than %d keys", maxTOMLKeys)}
	}
	var strict map[string]any
	if err := toml.Unmarshal(data, &strict); err != nil {
		line := 0
		if at, ok := errors.AsType[*toml.DecodeError](err); ok {
			line, _ = at.Position()
		}
		return nil, &Error{File: file, Line: line, Text: strings.TrimPrefix(err.Error(), "toml: ")}
	}
	b := tomlBuilder{root: &node{kind: table, line: 1}, lines: lineIndex(data)}
	b.here = b.root
	b.parser.Reset(data)
	for b.parser.NextExpression() {
		if err := b.expression(b.parser.Expression()); err != nil {
			return nil, &Error{File: file, Line: b.line, Text: err.Error()}
		}
	}
	if err := b.parser.Error(); err != nil {
		return nil, &Error{File: file, Text: err.Error()}
	}
	return b.root, nil
}

// lines maps byte offsets to line numbers.
type lines []int

func lineIndex(data []byte) lines {
	var starts lines
	for i, b := range data {
		if b == '\n' {
			starts = append(starts, i)
		}
	}
	return starts
}

// at returns the 1-based line of offset.
func (l lines) at(offset int) int {
	low, high := 0, len(l)
	for low < high {
		mid := (low + high) / 2
		if l[mid] < offset {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low + 1
}

// tomlBuilder makes the tree from the parser's expressions.
type tomlBuilder struct {
	parser unstable.Parser
	lines  lines
	root   *node
	here   *node // the table that key-values belong to
	line   int   // of the expression at hand
}

func (b *tomlBuilder) expression(e *unstable.Node) error {
	switch e.Kind {
	case unstable.Table:
		keys := e.Key()
		parent, last, err := b.descend(b.root, &keys)
		if err != nil {
			return err
		}
		b.here, err = b.child(parent, last)
		return err
	case unstable.ArrayTable:
		keys := e.Key()
		parent, last, err := b.descend(b.root, &keys)
		if err != nil {
			return err
		}
		list := parent.get(last)
		if list == nil {
			list = &node{kind: array, line: b.line}
			if err := parent.add(last, b.line, list); err != nil {
				return err
			}
		}
		if list.kind != array {
			return errors.New(last + " is not an array of tables")
		}
		b.here = &node{kind: table, line: b.line}
		list.items = append(list.items, b.here)
	case unstable.KeyValue:
		return b.keyValue(b.here, e)
	}
	return nil
}

func (b *tomlBuilder) keyValue(into *node, e *unstable.Node) error {
	keys := e.Key()
	parent, last, err := b.descend(into, &keys)
	if err != nil {
		return err
	}
	keyLine := b.line
	value, err := b.value(e.Value())
	if err != nil {
		return err
	}
	return parent.add(last, keyLine, value)
}

// descend walks the dotted key and returns the table that holds its last part.
// It sets b.line to the key's line.
func (b *tomlBuilder) descend(from *node, keys *unstable.Iterator) (*node, string, error) {
	var last string
	for first := true; keys.Next(); first = false {
		part := keys.Node()
		b.line = b.lines.at(int(part.Raw.Offset))
		if !first {
			var err error
			if from, err = b.child(from, last); err != nil {
				return nil, "", err
			}
		}
		last = string(part.Data)
	}
	return from, last, nil
}

// child returns the table key of parent, made when it is not there; of an array
// of tables its newest.
func (b *tomlBuilder) child(parent *node, key string) (*node, error) {
	n := parent.get(key)
	if n == nil {
		n = &node{kind: table, line: b.line}
		if err := parent.add(key, b.line, n); err != nil {
			return nil, err
		}
	}
	if n.kind == array && len(n.items) > 0 {
		n = n.items[len(n.items)-1]
	}
	if n.kind != table {
		return nil, errors.New(key + " is not a table")
	}
	return n, nil
}

func (b *tomlBuilder) value(v *unstable.Node) (*node, error) {
	if v.Raw.Length > 0 {
		b.line = b.lines.at(int(v.Raw.Offset))
	}
	n := &node{line: b.line}
	switch v.Kind {
	case unstable.String:
		n.kind, n.text = text, string(v.Data)
	case unstable.Bool:
		n.kind, n.truth = boolean, len(v.Data) == 4
	case unstable.Integer:
		n.kind = integer
		i, err := strconv.ParseInt(strings.TrimPrefix(string(v.Data), "+"), 0, 64)
		if err != nil {
			return nil, errors.New("integer out of range: " + string(v.Data))
		}
		n.integer = i
	case unstable.Float:
		n.kind = float
		f, err := strconv.ParseFloat(strings.ReplaceAll(string(v.Data), "_", ""), 64)
		if err != nil {
			return nil, errors.New("number out of range: " + string(v.Data))
		}
		n.float = f
	case unstable.Array:
		n.kind = array
		children := v.Children()
		for children.Next() {
			if children.Node().Kind == unstable.Comment {
				continue
			}
			item, err := b.value(children.Node())
			if err != nil {
				return nil, err
			}
			n.items = append(n.items, item)
		}
		if len(n.items) > 0 {
			n.line = n.items[0].line
		}
	case unstable.InlineTable:
		n.kind = table
		children := v.Children()
		for children.Next() {
			if children.Node().Kind == unstable.Comment {
				continue
			}
			if err := b.keyValue(n, children.Node()); err != nil {
				return nil, err
			}
		}
	default:
		n.kind, n.text = moment, string(v.Data)
	}
	return n, nil
}
