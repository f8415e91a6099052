package policy

import "strings"

// glob is a text pattern in which * stands for any text, also an empty one. It
// is anchored at both ends. The zero glob matches the empty text.
type glob struct {
	parts []string // literal pieces between the stars; one piece: no star
}

// newGlob reads text: * is a star, \* a literal star, \\ a backslash; a
// backslash before anything else stands for itself.
func newGlob(text string) glob {
	var g glob
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text) && (text[i+1] == '*' || text[i+1] == '\\'):
			i++
			b.WriteByte(text[i])
		case c == '*':
			g.parts = append(g.parts, b.String())
			b.Reset()
		default:
			b.WriteByte(c)
		}
	}
	g.parts = append(g.parts, b.String())
	return g
}

// literal returns the text of a glob without stars.
func (g glob) literal() (string, bool) {
	switch len(g.parts) {
	case 0:
		return "", true
	case 1:
		return g.parts[0], true
	}
	return "", false
}

// any reports whether g matches every text.
func (g glob) any() bool {
	if len(g.parts) < 2 {
		return false
	}
	for _, p := range g.parts {
		if p != "" {
			return false
		}
	}
	return true
}

// prefix is the literal text before the first star.
func (g glob) prefix() string {
	if len(g.parts) == 0 {
		return ""
	}
	return g.parts[0]
}

// match is linear in len(s) for a fixed pattern and does not allocate.
func (g glob) match(s string) bool {
	if lit, ok := g.literal(); ok {
		return s == lit
	}
	first, last := g.parts[0], g.parts[len(g.parts)-1]
	if !strings.HasPrefix(s, first) {
		return false
	}
	s = s[len(first):]
	if !strings.HasSuffix(s, last) {
		return false
	}
	s = s[:len(s)-len(last)]
	for _, part := range g.parts[1 : len(g.parts)-1] {
		i := strings.Index(s, part)
		if i < 0 {
			return false
		}
		s = s[i+len(part):]
	}
	return true
}

// covers reports whether every text that other matches is matched by g. It may
// answer false where the answer is true, never the reverse.
func (g glob) covers(other glob) bool {
	// A text with a character that no pattern holds in place of other's stars:
	// only a star of g can take it.
	const wild = "\x00\x01\x00"
	return g.match(strings.Join(other.parts, wild))
}
