package settings

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The .rules files of Codex are Starlark. Nothing is executed here: only a
// sequence of calls with literal arguments is read,
//
//	file      = { statement [";" statement] [";"] NEWLINE }
//	statement = NAME "=" value | NAME "(" [ argument { "," argument } [","] ] ")"
//	argument  = [ NAME "=" ] value
//	value     = primary { "+" primary }
//	primary   = STRING { STRING } | INT | True | False | None | NAME
//	          | "[" [ value { "," value } [","] ] "]" | "(" value ")"
//
// and anything else (def, for, if, load, f-strings) is an error for the whole
// file: a rule that forbids may hide in what was not understood. So are tuples,
// tabs and indented statements, which Codex refuses (tried with version 0.171).

// call is one call at the top level of a .rules file.
type call struct {
	name string
	line int
	args []member // key "" for a positional argument
}

// get returns a keyword argument.
func (c *call) get(name string) *node {
	for _, a := range c.args {
		if a.key == name {
			return a.value
		}
	}
	return nil
}

// starlark is a reader of such a file.
type starlark struct {
	file  string
	src   string
	pos   int
	line  int
	names map[string]*node
	depth int
	total int // nodes made, to bound NAME + NAME
}

// maxStarlarkNodes bounds what sums of names can grow to.
const maxStarlarkNodes = 100_000

func parseStarlark(file string, data []byte) ([]call, error) {
	if err := checkDepth(file, data); err != nil {
		return nil, err
	}
	if !utf8.Valid(data) {
		return nil, &Error{File: file, Text: "not UTF-8"}
	}
	s := starlark{file: file, src: string(data), line: 1, names: map[string]*node{}}
	var calls []call
	for {
		s.blanks(true)
		switch {
		case s.pos == len(s.src):
			return calls, nil
		case s.pos > 0 && s.src[s.pos-1] != '\n':
			return nil, s.fail("a statement must begin its line")
		}
		if err := s.statements(&calls); err != nil {
			return nil, err
		}
	}
}

func (s *starlark) fail(format string, args ...any) error {
	return &Error{File: s.file, Line: s.line, Text: fmt.Sprintf(format, args...)}
}

// blanks skips blanks and comments; newlines too inside brackets or between
// statements.
func (s *starlark) blanks(newlines bool) {
	for s.pos < len(s.src) {
		switch c := s.src[s.pos]; {
		case c == ' ' || c == '\r':
		case c == '\\' && strings.HasPrefix(s.src[s.pos:], "\\\n"):
			s.pos++
			s.line++
		case c == '\n' && newlines:
			s.line++
		case c == '#':
			end := strings.IndexByte(s.src[s.pos:], '\n')
			if end < 0 {
				s.pos = len(s.src)
				return
			}
			s.pos += end
			continue
		default:
			return
		}
		s.pos++
	}
}

// skip takes c when it is next.
func (s *starlark) skip(c byte) bool {
	if s.pos < len(s.src) && s.src[s.pos] == c {
		s.pos++
		return true
	}
	return false
}

func (s *starlark) name() string {
	start := s.pos
	for s.pos < len(s.src) {
		c := s.src[s.pos]
		if !(c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || s.pos > start && c >= '0' && c <= '9') {
			break
		}
		s.pos++
	}
	return s.src[start:s.pos]
}

// statements reads those of one line.
func (s *starlark) statements(calls *[]call) error {
	for {
		if err := s.statement(calls); err != nil {
			return err
		}
		s.blanks(false)
		more := s.skip(';')
		s.blanks(false)
		switch {
		case s.pos == len(s.src), s.src[s.pos] == '\n':
			return nil
		case !more:
			return s.fail("expected the end of the line, found %s", quote(s.rest()))
		}
	}
}

func (s *starlark) statement(calls *[]call) error {
	line := s.line
	name := s.name()
	if name == "" {
		return s.fail("expected a call such as prefix_rule(...), found %s", quote(s.rest()))
	}
	s.blanks(false)
	switch {
	case s.skip('('):
		args, err := s.arguments()
		if err != nil {
			return err
		}
		*calls = append(*calls, call{name, line, args})
	case s.pos < len(s.src) && s.src[s.pos] == '=' && !strings.HasPrefix(s.src[s.pos:], "=="):
		s.pos++
		value, err := s.value(false)
		if err != nil {
			return err
		}
		if s.names[name] != nil {
			return s.fail("%s is assigned twice", name)
		}
		s.names[name] = value
	default:
		return s.fail("only calls and assignments of literals are read, not %s", quote(name+" "+s.rest()))
	}
	return nil
}

// rest is the next bit of text, for messages.
func (s *starlark) rest() string {
	rest, _, _ := strings.Cut(s.src[s.pos:], "\n")
	if len(rest) > 30 {
		rest = rest[:30]
	}
	return strings.ToValidUTF8(rest, "?")
}

func (s *starlark) arguments() ([]member, error) {
	var args []member
	seen := map[string]bool{}
	for {
		s.blanks(true)
		if s.skip(')') {
			return args, nil
		}
		start, line := s.pos, s.line
		key := s.name()
		s.blanks(true)
		if key == "" || s.pos >= len(s.src) || s.src[s.pos] != '=' || strings.HasPrefix(s.src[s.pos:], "==") {
			s.pos, s.line, key = start, line, ""
		} else {
			s.pos++
			if seen[key] {
				return nil, s.fail("argument %s is given twice", key)
			}
			seen[key] = true
		}
		value, err := s.value(true)
		if err != nil {
			return nil, err
		}
		args = append(args, member{key, line, value})
		s.blanks(true)
		if !s.skip(',') && !(s.pos < len(s.src) && s.src[s.pos] == ')') {
			return nil, s.fail("expected , or ) in a call, found %s", quote(s.rest()))
		}
	}
}

// value reads primaries joined by +.
func (s *starlark) value(newlines bool) (*node, error) {
	s.depth++
	defer func() { s.depth-- }()
	if s.depth > maxDepth {
		return nil, s.fail("nested too deep")
	}
	s.blanks(newlines)
	sum, err := s.primary()
	for err == nil {
		s.blanks(newlines)
		if !s.skip('+') {
			return sum, nil
		}
		s.blanks(newlines)
		var more *node
		if more, err = s.primary(); err != nil {
			break
		}
		if sum.kind != more.kind || sum.kind != text && sum.kind != array {
			return nil, s.fail("only strings or lists can be joined")
		}
		joined := &node{kind: sum.kind, line: sum.line, text: sum.text + more.text}
		joined.items = append(append(joined.items, sum.items...), more.items...)
		s.total += len(joined.items) + len(joined.text)/16
		if s.total > maxStarlarkNodes {
			return nil, s.fail("too many values")
		}
		sum = joined
	}
	return nil, err
}

func (s *starlark) primary() (*node, error) {
	n := &node{line: s.line}
	if s.pos >= len(s.src) {
		return nil, s.fail("unexpected end of the file")
	}
	s.total++
	switch c := s.src[s.pos]; {
	case c == '[':
		s.pos++
		return s.list(n)
	case c == '(':
		s.pos++
		return s.parentheses()
	case c == '"' || c == '\'':
		return s.strings(n, false)
	case (c == 'r' || c == 'R') && s.pos+1 < len(s.src) && (s.src[s.pos+1] == '"' || s.src[s.pos+1] == '\''):
		s.pos++
		return s.strings(n, true)
	case c >= '0' && c <= '9' || c == '-':
		start := s.pos
		for s.pos++; s.pos < len(s.src) && s.src[s.pos] >= '0' && s.src[s.pos] <= '9'; s.pos++ {
		}
		i, err := strconv.ParseInt(s.src[start:s.pos], 10, 64)
		if err != nil {
			return nil, s.fail("not a number: %s", quote(s.src[start:s.pos]))
		}
		n.kind, n.integer = integer, i
		return n, nil
	}
	switch name := s.name(); name {
	case "True", "False":
		n.kind, n.truth = boolean, name == "True"
	case "None":
	case "":
		return nil, s.fail("expected a value, found %s", quote(s.rest()))
	default:
		known := s.names[name]
		if known == nil {
			return nil, s.fail("%s is not a literal and was not assigned before", name)
		}
		return known, nil
	}
	return n, nil
}

func (s *starlark) list(n *node) (*node, error) {
	n.kind = array
	for {
		s.blanks(true)
		if s.skip(']') {
			return n, nil
		}
		item, err := s.value(true)
		if err != nil {
			return nil, err
		}
		n.items = append(n.items, item)
		s.blanks(true)
		if !s.skip(',') && !(s.pos < len(s.src) && s.src[s.pos] == ']') {
			return nil, s.fail("expected , or ] in a list, found %s", quote(s.rest()))
		}
	}
}

// parentheses reads (x), which is x. A tuple is no list for Codex.
func (s *starlark) parentheses() (*node, error) {
	item, err := s.value(true)
	if err != nil {
		return nil, err
	}
	s.blanks(true)
	if !s.skip(')') {
		return nil, s.fail("expected ) behind a value; a list is written with [ and ], found %s", quote(s.rest()))
	}
	return item, nil
}

// strings reads one string literal. Starlark joins no neighbours, so two in a row
// are an error later.
func (s *starlark) strings(n *node, raw bool) (*node, error) {
	n.kind = text
	quoteMark := s.src[s.pos : s.pos+1]
	triple := strings.HasPrefix(s.src[s.pos:], strings.Repeat(quoteMark, 3))
	if triple {
		quoteMark = strings.Repeat(quoteMark, 3)
	}
	s.pos += len(quoteMark)
	var out strings.Builder
	for {
		if s.pos >= len(s.src) {
			return nil, s.fail("a string does not end")
		}
		if strings.HasPrefix(s.src[s.pos:], quoteMark) {
			s.pos += len(quoteMark)
			n.text = out.String()
			return n, nil
		}
		c := s.src[s.pos]
		switch {
		case c == '\n' && !triple:
			return nil, s.fail("a string does not end on its line")
		case c == '\\' && s.pos+1 < len(s.src):
			if err := s.escape(&out, raw); err != nil {
				return nil, err
			}
			continue
		case c == '\n':
			s.line++
		}
		out.WriteByte(c)
		s.pos++
	}
}

// escape reads a backslash and what it stands for.
func (s *starlark) escape(out *strings.Builder, raw bool) error {
	c := s.src[s.pos+1]
	if c == '\n' {
		s.line++
	}
	if raw {
		out.WriteString(s.src[s.pos : s.pos+2])
		s.pos += 2
		return nil
	}
	digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]
	switch {
	case c == '\n':
	case digits > 0:
		if s.pos+2+digits > len(s.src) {
			return s.fail("a broken escape in a string")
		}
		r, err := strconv.ParseUint(s.src[s.pos+2:s.pos+2+digits], 16, 32)
		if err != nil || r > utf8.MaxRune || c == 'x' && r > 0x7f {
			return s.fail("a broken escape in a string")
		}
		out.WriteRune(rune(r))
		s.pos += digits
	default:
		plain := map[byte]byte{'n': '\n', 't': '\t', 'r': '\r', 'a': 7, 'b': 8, 'f': 12, 'v': 11, '\\': '\\', '\'': '\'', '"': '"'}
		value, ok := plain[c]
		if !ok {
			return s.fail("an escape \\%c in a string is not read here", c)
		}
		out.WriteByte(value)
	}
	s.pos += 2
	return nil
}
