package settings

import (
	"fmt"
	"strconv"
)

// maxFileBytes bounds one policy or settings file. Real ones have a few kB.
const maxFileBytes = 1 << 20

// maxDepth bounds the nesting of values in a file; the parsers are recursive.
const maxDepth = 64

// Error is what is wrong in a file, with the place.
type Error struct {
	File string
	Line int // 1-based; 0 when the whole file is meant
	Text string
	Hint string // may be empty
}

func (e *Error) Error() string {
	text := e.Text
	if e.Hint != "" {
		text += " (" + e.Hint + ")"
	}
	if e.File == "" {
		return text
	}
	if e.Line == 0 {
		return e.File + ": " + text
	}
	return e.File + ":" + strconv.Itoa(e.Line) + ": " + text
}

// kind is the type of a [node].
type kind uint8

const (
	null kind = iota
	table
	array
	text
	integer
	float
	boolean
	moment // a TOML date or time
)

func (k kind) String() string {
	names := [...]string{"null", "table", "array", "string", "integer", "number", "boolean", "date"}
	return names[k]
}

// node is one value of a TOML, YAML or JSON document with its line. All three
// readers give the same tree, so one decoder serves them all.
type node struct {
	kind    kind
	line    int
	members []member // of a table, in the order of the file
	items   []*node  // of an array
	text    string   // of a string and a moment
	integer int64
	float   float64
	truth   bool
}

// member is one key of a table.
type member struct {
	key   string
	line  int
	value *node
}

// get returns the value of key, nil when there is none. It may be called on nil.
func (n *node) get(key string) *node {
	if n == nil {
		return nil
	}
	for _, m := range n.members {
		if m.key == key {
			return m.value
		}
	}
	return nil
}

// maxMembers bounds the keys of one table, since get looks at each of them.
const maxMembers = 10_000

// add appends a member; a key that is there already is an error.
func (n *node) add(key string, line int, value *node) error {
	if n.get(key) != nil {
		return fmt.Errorf("key %q is defined twice", key)
	}
	if len(n.members) >= maxMembers {
		return fmt.Errorf("more than %d keys in one table", maxMembers)
	}
	n.members = append(n.members, member{key, line, value})
	return nil
}

// at descends along path.
func (n *node) at(path ...string) *node {
	for _, key := range path {
		n = n.get(key)
	}
	return n
}

func (n *node) isTable() bool { return n != nil && n.kind == table }
func (n *node) isArray() bool { return n != nil && n.kind == array }
func (n *node) isText() bool  { return n != nil && n.kind == text }

// isTrue reports whether n is the boolean true.
func (n *node) isTrue() bool { return n != nil && n.kind == boolean && n.truth }

// isFalse reports whether n is the boolean false.
func (n *node) isFalse() bool { return n != nil && n.kind == boolean && !n.truth }

// reader collects the context of one file while it is decoded.
type reader struct {
	file string
}

func (r reader) errorf(n *node, format string, args ...any) error {
	line := 0
	if n != nil {
		line = n.line
	}
	return &Error{File: r.file, Line: line, Text: fmt.Sprintf(format, args...)}
}

// textOf wants a string.
func (r reader) textOf(n *node, what string) (string, error) {
	if !n.isText() {
		return "", r.errorf(n, "%s must be a string, not %s", what, n.kind)
	}
	return n.text, nil
}

// boolOf wants a boolean.
func (r reader) boolOf(n *node, what string) (bool, error) {
	if n.kind != boolean {
		return false, r.errorf(n, "%s must be true or false, not %s", what, n.kind)
	}
	return n.truth, nil
}

// textsOf wants an array of strings, or one string.
func (r reader) textsOf(n *node, what string) ([]*node, error) {
	if n.isText() {
		return []*node{n}, nil
	}
	if !n.isArray() {
		return nil, r.errorf(n, "%s must be an array of strings, not %s", what, n.kind)
	}
	for _, item := range n.items {
		if !item.isText() {
			return nil, r.errorf(item, "%s must hold strings only, not %s", what, item.kind)
		}
	}
	return n.items, nil
}

// checkDepth refuses text whose brackets nest deeper than maxDepth, before a
// recursive parser sees it. Brackets in strings count too: nobody writes that
// many.
func checkDepth(file string, data []byte) error {
	if len(data) > maxFileBytes {
		return &Error{File: file, Text: fmt.Sprintf("larger than %d bytes", maxFileBytes)}
	}
	depth := 0
	for _, b := range data {
		switch b {
		case '[', '{', '(':
			depth++
		case ']', '}', ')':
			depth = max(depth-1, 0)
		}
		if depth > maxDepth {
			return &Error{File: file, Text: fmt.Sprintf("nested deeper than %d", maxDepth)}
		}
	}
	return nil
}
