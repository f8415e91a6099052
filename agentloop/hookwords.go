package agentloop

import (
	"strings"
)

// hookWord is one word of a hook's command, as far as it is known without
// running it.
type hookWord struct {
	start, end int // of its text in the command
	value      string
	// dynamic: a part is computed when it runs.
	dynamic bool
	// head is the first word of the simple command that it stands in.
	head string
}

// hookWordReader cuts a command into words the way a shell does. It finds at
// least the words that the shell finds, also in substitutions; it reads no
// grammar.
type hookWordReader struct {
	text   string
	lookup func(name string) (string, bool)
	at     int
	words  []hookWord
	word   strings.Builder
	start  int // -1: between words
	dyn    bool
	head   string // of the command; empty: the next word is it
}

func hookWords(text string, lookup func(string) (string, bool)) []hookWord {
	r := &hookWordReader{text: text, lookup: lookup, start: -1}
	for r.at < len(text) {
		r.next()
	}
	r.finish()
	return r.words
}

func (r *hookWordReader) begin() {
	if r.start < 0 {
		r.start = r.at
	}
}

func (r *hookWordReader) finish() {
	if r.start >= 0 {
		value := r.word.String()
		if r.head == "" && !noHead(value) {
			r.head = value
		}
		r.words = append(r.words, hookWord{r.start, r.at, value, r.dyn, r.head})
	}
	r.word.Reset()
	r.start, r.dyn = -1, false
}

func (r *hookWordReader) next() {
	switch c := r.text[r.at]; {
	case strings.IndexByte(" \t\n\r;&|()<>`", c) >= 0:
		r.finish()
		if strings.IndexByte("\n;&|()`", c) >= 0 {
			r.head = ""
		}
		r.at++
	case c == '\'':
		r.begin()
		r.at++
		end := strings.IndexByte(r.text[r.at:], '\'')
		if end < 0 {
			end = len(r.text) - r.at
		}
		r.word.WriteString(r.text[r.at : r.at+end])
		r.at = min(r.at+end+1, len(r.text))
	case c == '"':
		r.begin()
		r.at++
		r.quoted()
	case c == '\\':
		r.begin()
		r.escape("")
	case c == '$':
		r.begin()
		r.variable()
	default:
		r.begin()
		r.dyn = r.dyn || c == '*' || c == '?' || c == '['
		r.word.WriteByte(c)
		r.at++
	}
}

// quoted reads up to the closing double quote.
func (r *hookWordReader) quoted() {
	for r.at < len(r.text) {
		switch c := r.text[r.at]; c {
		case '"':
			r.at++
			return
		case '\\':
			r.escape("$`\"\\\n")
		case '$':
			r.variable()
		default:
			r.dyn = r.dyn || c == '`'
			r.word.WriteByte(c)
			r.at++
		}
	}
}

// escape reads a backslash; special lists what it escapes, empty for all.
func (r *hookWordReader) escape(special string) {
	r.at++
	if r.at == len(r.text) {
		r.word.WriteByte('\\')
		return
	}
	c := r.text[r.at]
	r.at++
	if special != "" && strings.IndexByte(special, c) < 0 {
		r.word.WriteByte('\\')
	}
	if c != '\n' {
		r.word.WriteByte(c)
	}
}

// variable reads $NAME or ${NAME}, with its value where that is known.
func (r *hookWordReader) variable() {
	rest := r.text[r.at+1:]
	name, size := "", 0
	if inner, ok := strings.CutPrefix(rest, "{"); ok {
		if end := strings.IndexByte(inner, '}'); end >= 0 {
			name, size = inner[:end], end+2
		}
	} else {
		for size < len(rest) && (rest[size] == '_' || wordByte(rest[size])) {
			size++
		}
		name = rest[:size]
	}
	if value, ok := r.lookup(name); ok && name != "" {
		r.word.WriteString(value)
		r.at += 1 + size
		return
	}
	r.dyn = true
	r.word.WriteByte('$')
	r.at++
}

// noHead reports whether a command's own first word is still to come: after a
// word of the shell's grammar, or an assignment.
func noHead(word string) bool {
	switch word {
	case "if", "then", "else", "elif", "while", "until", "do", "!", "{", "time", "case", "in":
		return true
	}
	name, _, ok := strings.Cut(word, "=")
	return ok && name != "" && !strings.ContainsFunc(name, func(c rune) bool { return c != '_' && !wordByte(byte(c)) })
}
