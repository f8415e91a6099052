package agentloop

import (
	"regexp"
	"strings"
	"sync"
)

// secretForm is one form of tokens that say what they are. The last group of its
// expression is the secret, what stands before it is kept.
//
// An expression alone reads 3 to 20 MB a second, and an output of megabytes is
// looked at: so it is tried only where one of its words stands.
type secretForm struct {
	re *regexp.Regexp // anchored at the start
	// words are what every match has one of, in lower case. start is where a match
	// begins whose word is at i, or -1.
	words []string
	start func(s string, i int) int
}

// secretFormTable is the source of the forms. kind says where a match begins: at
// its word, there but not inside a longer word, or at the beginning of the name
// that the word is a part of.
var secretFormTable = []struct {
	expr  string
	kind  formStart
	words []string
}{
	{`()(-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z))`, atWord, []string{"-----begin "}},
	{`()((?:AKIA|ASIA)[0-9A-Z]{16})\b`, atWordStart, []string{"akia", "asia"}},
	{`()(gh[pousr]_[A-Za-z0-9]{20,255}|github_pat_[A-Za-z0-9_]{20,255})`, atWordStart, []string{"ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"}},
	{`()(glpat-[A-Za-z0-9_-]{16,})`, atWordStart, []string{"glpat-"}},
	{`()(xox[abeoprs]-[A-Za-z0-9-]{10,})`, atWordStart, []string{"xox"}},
	{`()(sk-[A-Za-z0-9_-]{16,})`, atWordStart, []string{"sk-"}},
	{`()(AIza[A-Za-z0-9_-]{30,})`, atWordStart, []string{"aiza"}},
	{`()(npm_[A-Za-z0-9]{30,})`, atWordStart, []string{"npm_"}},
	{`()(eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*)`, atWordStart, []string{"eyj"}},
	{`(?i)((?:bearer|basic)\s+)([A-Za-z0-9._~+/=-]{8,})`, atWordStart, []string{"bearer", "basic"}},
	{`(?i)(://[^\s/:@]*:)([^\s/@]+)(?:@)`, atWord, []string{"://"}},
	{`(?i)((?:[a-z0-9_-]*(?:token|secret|passwd|password|passphrase|api[_-]?key|access[_-]?key|private[_-]?key|credential)[a-z0-9_-]*)["']?\s*[=:]\s*["']?)([^\s"'&;|<>]{4,})`, atName,
		[]string{"token", "secret", "passw", "passphrase", "apikey", "api_key", "api-key", "accesskey", "access_key", "access-key", "privatekey", "private_key", "private-key", "credential"}},
	{`(?i)(--(?:password|passwd|token|secret|api-key|access-key|auth-token)[= ]["']?)([^\s"'&;|<>]{4,})`, atWord, []string{"--pass", "--token", "--secret", "--api-key", "--access-key", "--auth-token"}},
}

type formStart func(s string, i int) int

func atWord(_ string, i int) int { return i }

func atWordStart(s string, i int) int {
	if i > 0 && (isNameByte(s[i-1]) && s[i-1] != '-') {
		return -1
	}
	return i
}

func atName(s string, i int) int {
	for i > 0 && isNameByte(s[i-1]) {
		i--
	}
	return i
}

func nameEnd(s string, i int) int {
	for i < len(s) && isNameByte(s[i]) {
		i++
	}
	return i
}

// isNameByte reports whether c may stand in the name of a variable or a field.
func isNameByte(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == '-'
}

var secretForms = sync.OnceValue(func() []secretForm {
	var list []secretForm
	for _, f := range secretFormTable {
		list = append(list, secretForm{regexp.MustCompile(`\A(?:` + f.expr + `)`), f.words, f.kind})
	}
	return list
})

// lowered is a text in lower case, byte for byte.
type lowered string

func newLowered(s string) lowered {
	b := []byte(s)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return lowered(b)
}

// find returns the matches of the form in s, none inside another, with the places
// of their groups as [regexp.Regexp.FindAllStringSubmatchIndex] gives them.
func (f secretForm) find(s string, low lowered) (found [][]int) {
	next := make([]int, len(f.words)) // where each word comes next
	for w := range next {
		next[w] = indexFrom(string(low), f.words[w], 0)
	}
	end := 0 // of the last match
	run := 0 // the name before it was tried already
	for {
		w, i := earliest(next)
		if i < 0 {
			return found
		}
		next[w] = indexFrom(string(low), f.words[w], i+1)
		if i < end || i < run {
			continue
		}
		at := f.start(s, i)
		if at < 0 {
			continue
		}
		if at < i { // another word of the same name would begin there too
			run = nameEnd(s, i)
		}
		at = max(at, end)
		m := f.re.FindStringSubmatchIndex(s[at:])
		if m == nil {
			continue
		}
		for g := range m {
			m[g] += at
		}
		found, end = append(found, m), m[1]
	}
}

func indexFrom(s, word string, from int) int {
	if n := strings.Index(s[from:], word); n >= 0 {
		return from + n
	}
	return -1
}

// earliest is the smallest place that is one, with its index; -1 if there is none.
func earliest(places []int) (index, place int) {
	index, place = -1, -1
	for i, p := range places {
		if p >= 0 && (place < 0 || p < place) {
			index, place = i, p
		}
	}
	return index, place
}
