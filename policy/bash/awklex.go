package bash

import "strings"

// awkToken is one token: kind 's' string, 'r' regular expression, 'n' name,
// '0' number, or the punctuation itself.
type awkToken struct {
	kind byte
	s    string
}

// awkTokens splits an awk program.
func awkTokens(s string) (toks []awkToken, ok bool) {
	add := func(k byte, t string) { toks = append(toks, awkToken{k, t}) }
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == ' ' || c == '\t' || c == '\r':
			i++
		case c == '\\' && i+1 < len(s) && s[i+1] == '\n':
			i += 2
		case c == '#':
			i = endOfLine(s, i)
		case c == '"':
			end := delimited(s, i+1, '"')
			if end < 0 {
				return nil, false
			}
			add('s', escapes(s[i+1:end], false))
			i = end + 1
		case c == '/' && regexAllowed(toks):
			end := awkRegexEnd(s, i+1)
			if end < 0 {
				return nil, false
			}
			add('r', s[i+1:end])
			i = end + 1
		case c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80:
			j := i
			for j < len(s) && (s[j] == '_' || s[j] >= 'a' && s[j] <= 'z' || s[j] >= 'A' && s[j] <= 'Z' || s[j] >= '0' && s[j] <= '9' || s[j] >= 0x80) {
				j++
			}
			add('n', s[i:j])
			i = j
		case c >= '0' && c <= '9':
			j := i
			for j < len(s) && (s[j] >= '0' && s[j] <= '9' || s[j] == '.') {
				j++
			}
			add('0', s[i:j])
			i = j
		default:
			n := 1
			for _, op := range [...]string{"||", "&&", "|&", ">>", "==", "!=", "<=", ">=", "++", "--", "+=", "-=", "*=", "/=", "%=", "^="} {
				if strings.HasPrefix(s[i:], op) {
					n = 2
				}
			}
			add(c, s[i:i+n])
			i += n
		}
	}
	return toks, true
}

func awkRegexEnd(s string, i int) int {
	class := false
	for ; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '[':
			class = true
		case ']':
			class = false
		case '\n':
			return -1
		case '/':
			if !class {
				return i
			}
		}
	}
	return -1
}

// regexAllowed reports whether a slash starts a regular expression here.
func regexAllowed(toks []awkToken) bool {
	if len(toks) == 0 {
		return true
	}
	switch t := toks[len(toks)-1]; t.kind {
	case 's', 'r', '0', ')', ']', '$':
		return false
	case 'n':
		switch t.s {
		case "print", "printf", "return", "in", "getline", "case", "do", "else":
			return true
		}
		return false
	case '+', '-':
		return t.s != "++" && t.s != "--"
	}
	return true
}
