package agentloop

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

const (
	// maskContext is how much of what was told is remembered: the name before a
	// secret, such as "password: ", may have been told already.
	maskContext = 512
	// maxHeld bounds what is held back: more than any key has. Of a longer one the
	// mask is told.
	maxHeld = 16 << 10
)

// pieceMask masks a text that comes in pieces, and is told as it comes. What may be the
// beginning of a secret is held back until it is known to be one, or none; everything
// else is told at once. The zero pieceMask knows the forms of secrets alone.
type pieceMask struct {
	red  *Redactor
	seen string // the end of what was told, as it came
	held string
	// inKey: the mask of a private key was told, and its end has not come.
	inKey bool
}

// add returns what can be told of the text so far.
func (m *pieceMask) add(piece string) string {
	m.held += piece
	return m.take(false)
}

// end returns what was held back, masked: no more text comes.
func (m *pieceMask) end() string { return m.take(true) }

func (m *pieceMask) take(all bool) string {
	if m.inKey && !m.skipKey() {
		return ""
	}
	whole := m.seen + m.held
	found := m.red.secretsIn(whole)
	to := len(whole)
	if !all {
		to = max(m.red.openAt(whole, found), len(m.seen))
	}
	text := masked(whole, found, len(m.seen), to)
	if len(whole)-to > maxHeld {
		m.inKey = strings.HasPrefix(whole[to:], keyBegin)
		text, to = text+mask, len(whole)
	}
	m.seen, m.held = whole[max(0, to-maskContext):to], whole[to:]
	return text
}

// keyBegin and keyEnd stand round a private key.
const (
	keyBegin = "-----BEGIN "
	keyEnd   = "-----END "
)

// skipKey drops what belongs to a key. It reports whether its end has come.
func (m *pieceMask) skipKey() bool {
	_, rest, ended := strings.Cut(m.held, keyEnd)
	if ended {
		_, rest, ended = strings.Cut(rest, "-----")
	}
	m.seen = ""
	if !ended {
		if at := strings.Index(m.held, keyEnd); at < 0 { // its last bytes may begin the end
			m.held = m.held[max(0, len(m.held)-len(keyEnd)):]
		}
		return false
	}
	m.held, m.inKey = rest, false
	return true
}

// secretsIn are the places of secrets in s, in order; none begins in another.
func (r *Redactor) secretsIn(s string) [][2]int {
	var all [][2]int
	if r != nil {
		for _, v := range slices.Concat(r.values, r.learned()) {
			for at := 0; ; {
				i := strings.Index(s[at:], v)
				if i < 0 {
					break
				}
				all = append(all, [2]int{at + i, at + i + len(v)})
				at += i + 1
			}
		}
	}
	low := newLowered(s)
	for _, form := range secretForms() {
		for _, m := range form.find(s, low) {
			all = append(all, [2]int{m[4], m[5]})
		}
	}
	slices.SortFunc(all, func(a, b [2]int) int { return a[0] - b[0] })
	var out [][2]int
	for _, p := range all {
		if n := len(out); n > 0 && p[0] < out[n-1][1] {
			out[n-1][1] = max(out[n-1][1], p[1])
			continue
		}
		out = append(out, p)
	}
	return out
}

// masked is s from one place to another with the secrets at found replaced.
func masked(s string, found [][2]int, from, to int) string {
	var b strings.Builder
	for _, p := range found {
		if p[1] <= from || p[0] >= to || from == to {
			continue
		}
		b.WriteString(s[from:max(p[0], from)])
		b.WriteString(mask)
		from = min(p[1], to)
	}
	b.WriteString(s[from:to])
	return b.String()
}

// openAt is where the end of s begins that may be, or belong to, a secret whose rest
// has not come; len(s) if there is none.
func (r *Redactor) openAt(s string, found [][2]int) int {
	at := len(s)
	if n := len(found); n > 0 && found[n-1][1] == len(s) {
		at = found[n-1][0]
	}
	if r != nil {
		for _, v := range slices.Concat(r.values, r.learned()) {
			at = min(at, headAt(s, v))
		}
	}
	at = min(at, openWord(s), openKey(s))
	// Half a character is told with its other half.
	for back := 1; back < utf8.UTFMax && back <= len(s); back++ {
		if c := s[len(s)-back]; utf8.RuneStart(c) {
			if !utf8.FullRuneInString(s[len(s)-back:]) {
				at = min(at, len(s)-back)
			}
			break
		}
	}
	return at
}

// headAt is where s ends with the beginning of word; len(s) if it does not.
func headAt(s, word string) int {
	for n := min(len(word)-1, len(s)); n > 0; n-- {
		if strings.HasSuffix(s, word[:n]) {
			return len(s) - n
		}
	}
	return len(s)
}

// openForms find a secret that is known by what stands before it, and goes on. They
// stand beside those of [secretFormTable] whose first group is not empty.
var openForms = sync.OnceValue(func() []*regexp.Regexp {
	const names = `(?:token|secret|passwd|password|passphrase|api[_-]?key|access[_-]?key|private[_-]?key|credential)`
	var list []*regexp.Regexp
	for _, expr := range []string{
		`(?:bearer|basic)\s+([A-Za-z0-9._~+/=-]+)\z`,
		`://[^\s/:@]*:([^\s/@]+)\z`,
		names + `[a-z0-9_-]*["']?\s*[=:]\s*["']?([^\s"'&;|<>]+)\z`,
		`--(?:password|passwd|token|secret|api-key|access-key|auth-token)[= ]["']?([^\s"'&;|<>]+)\z`,
	} {
		list = append(list, regexp.MustCompile(`(?i)`+expr))
	}
	return list
})

// openWord looks at the last word of s. One letter that a form may begin with is not held
// back: it is no secret.
func openWord(s string) int {
	begin := strings.LastIndexAny(s, " \t\r\n") + 1
	if begin == len(s) {
		return begin
	}
	at := len(s)
	from := max(0, begin-maskContext)
	for _, re := range openForms() {
		if m := re.FindStringSubmatchIndex(s[from:]); m != nil {
			at = min(at, from+m[2])
		}
	}
	for i := begin; i < at; i++ {
		if i > begin && isNameByte(s[i-1]) && s[i-1] != '-' {
			continue // inside of a word
		}
		low := string(newLowered(s[i:min(len(s), i+16)]))
		for _, f := range secretFormTable {
			for _, w := range f.words {
				if strings.HasPrefix(f.expr, `()`) && w != "-----begin " && (strings.HasPrefix(low, w) && tokenToEnd(s[i:]) || len(low) > 1 && i+len(low) == len(s) && strings.HasPrefix(w, low)) {
					return i
				}
			}
		}
	}
	return at
}

// tokenToEnd reports whether all of s may be one token.
func tokenToEnd(s string) bool {
	return strings.IndexFunc(s, func(c rune) bool { return c > 0x7f || !isNameByte(byte(c)) && c != '.' }) < 0
}

// openKey looks for the first line of a private key, whose kind may have spaces.
func openKey(s string) int {
	at := headAt(s, keyBegin)
	if i := strings.LastIndex(s, keyBegin); i >= 0 && strings.Trim(s[i+len(keyBegin):], "ABCDEFGHIJKLMNOPQRSTUVWXYZ -") == "" {
		at = min(at, i)
	}
	return at
}
