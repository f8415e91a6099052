package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Call is one tool call that wants to be decided.
type Call struct {
	ID string
	// Tool is the name the client used; aliases are known ([CanonicalTool]).
	Tool string
	Args Args
	// Cwd is the absolute directory where relative paths begin. Empty means the
	// workspace.
	Cwd string
	// Session and Agent name who asks; Agent is empty for the lead.
	Session, Agent string
	// Headless: nobody is asked; a question is denied at once.
	Headless bool
}

// Args are the decoded arguments of a call: the value forms of encoding/json.
type Args map[string]any

// Clone copies arguments with all that is in them, so that who holds one copy
// cannot change what was judged by the other.
func (a Args) Clone() Args {
	if a == nil {
		return nil
	}
	return cloneValue(map[string]any(a)).(map[string]any)
}

// copy is c with arguments of its own.
func (c Call) copy() Call {
	c.Args = c.Args.Clone()
	return c
}

// plainArgs writes arguments of a program's hook in the value forms of
// encoding/json: rules see no other.
func plainArgs(a Args) (Args, error) {
	text, err := json.Marshal(a)
	if err != nil {
		return nil, fmt.Errorf("the arguments that it gives are no JSON: %w", err)
	}
	return DecodeArgs(text)
}

func cloneValue(v any) any {
	switch v := v.(type) {
	case Args:
		return cloneValue(map[string]any(v))
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, x := range v {
			out[k] = cloneValue(x)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = cloneValue(x)
		}
		return out
	}
	return v
}

// maxArgsDepth bounds the nesting of arguments. A tool call nests a few levels.
const maxArgsDepth = 64

// ErrDuplicateArgument reports that a name stands twice in one object: two
// readers could see two different calls.
var ErrDuplicateArgument = errors.New("argument given twice")

// DecodeArgs reads the JSON object of a call's arguments. It refuses duplicate
// names ([ErrDuplicateArgument]), more than 64 levels and text after the object.
// An empty text is an empty object.
func DecodeArgs(text []byte) (Args, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return Args{}, nil
	}
	if err := checkUnique(text); err != nil {
		return nil, fmt.Errorf("arguments: %w", err)
	}
	var args Args
	if err := json.Unmarshal(text, &args); err != nil {
		return nil, fmt.Errorf("arguments: %w", err)
	}
	if args == nil {
		args = Args{}
	}
	return args, nil
}

// checkUnique walks the tokens of text and looks for names that stand twice.
func checkUnique(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	type level struct {
		names map[string]bool // nil in an array
		key   bool            // the next string is a name
	}
	var stack []level
	value := func() {
		if n := len(stack); n > 0 && stack[n-1].names != nil {
			stack[n-1].key = true
		}
	}
	for {
		tok, err := d.Token()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		switch t := tok.(type) {
		case json.Delim:
			switch t {
			case '{':
				stack = append(stack, level{names: map[string]bool{}, key: true})
			case '[':
				stack = append(stack, level{})
			default:
				stack = stack[:len(stack)-1]
				value()
			}
			if len(stack) > maxArgsDepth {
				return fmt.Errorf("nested deeper than %d levels", maxArgsDepth)
			}
		case string:
			if n := len(stack); n > 0 && stack[n-1].key {
				if stack[n-1].names[t] {
					return fmt.Errorf("%w: %q", ErrDuplicateArgument, t)
				}
				stack[n-1].names[t] = true
				stack[n-1].key = false
				continue
			}
			value()
		default:
			value()
		}
	}
}

// BashCall is a call of run_bash with a script.
func BashCall(script, cwd string) Call {
	return Call{Tool: "run_bash", Args: Args{"command": script}, Cwd: cwd}
}

// ArgvCall is a call of run_bash with one command that is started without a
// shell; every character of argv is taken literally.
func ArgvCall(argv []string, cwd string) Call { return BashCall(ArgvText(argv), cwd) }

// ArgvText is argv as a script, each word quoted. Two commands have the same text
// only when they have the same words.
func ArgvText(argv []string) string {
	words := make([]string, len(argv))
	for i, a := range argv {
		words[i] = QuoteWord(a)
	}
	return strings.Join(words, " ")
}

// QuoteWord writes s so that Bash reads it back as one literal word.
func QuoteWord(s string) string {
	plain := s != ""
	control := false
	for _, r := range s {
		switch {
		case r < 0x20 && r != '\n' && r != '\t', r == 0x7f, r >= 0x80 && r <= 0xa0, r == 0xFFFD:
			control = true
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune("_@%+=:,./-", r):
		default:
			plain = false
		}
	}
	switch {
	case control:
		var b strings.Builder
		b.WriteString("$'")
		for i := 0; i < len(s); i++ {
			if c := s[i]; c < 0x20 || c >= 0x7f || c == '\'' || c == '\\' {
				fmt.Fprintf(&b, `\x%02x`, c)
			} else {
				b.WriteByte(c)
			}
		}
		b.WriteByte('\'')
		return b.String()
	case plain && !strings.Contains(s, "="):
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// text returns the argument field as text; ok is false when it is missing. A
// value that is not a string is returned with bad set.
func (a Args) text(field string) (s string, ok, bad bool) {
	v, ok := a[field]
	if !ok || v == nil {
		return "", false, false
	}
	s, isText := v.(string)
	return s, true, !isText
}
