package bash

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// errParser is a panic of the parser.
var errParser = errors.New("the parser failed")

// suspect looks for characters that another shell, or a person, reads otherwise
// than Bash. what is empty when there are none; at is the byte offset.
func suspect(s string) (k UnknownKind, what string, at int) {
	if len(s) > MaxScript {
		return Bound, fmt.Sprintf("script of %d bytes", len(s)), 0
	}
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c < 0x20 && c != '\n' && c != '\t' || c == 0x7f {
				return SuspectCharacter, fmt.Sprintf("control character 0x%02x", c), i
			}
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			return SuspectCharacter, "invalid UTF-8", i
		case isLookalike(r):
			return SuspectCharacter, fmt.Sprintf("look-alike %U", r), i
		}
		i += n
	}
	return 0, "", 0
}

// isLookalike reports characters that look like a blank or like nothing, that
// change the direction of the text, and our own holes.
func isLookalike(r rune) bool {
	switch {
	case r == '\u00a0', r == '\u00ad', r == '\u034f', r == '\u061c', r == '\u115f', r == '\u1160', r == '\u1680',
		r == '\u17b4', r == '\u17b5', r == '\u180e', r == '\u3000', r == '\u3164', r == '\ufeff', r == '\uffa0',
		r == '\u0085', r == '\u2800':
		return true
	case r >= '\u2000' && r <= '\u200f', r >= '\u2028' && r <= '\u202f', r >= '\u205f' && r <= '\u206f':
		return true
	case r >= 0xE000 && r <= 0xF8FF, r >= 0xE0000 && r <= 0xE0FFF:
		return true
	}
	return r >= 0x80 && r < 0xA0 || unicode.Is(unicode.Cf, r) && r != '\u200d'
}

// cleaned makes a suspect script readable for the list of its commands: it is
// refused already, and a person should see what it might start.
func cleaned(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\r' || r == '\f' || r == '\v' || r == '\u00a0' || r == '\u3000' || r >= '\u2000' && r <= '\u200a':
			return ' '
		case r < 0x20 && r != '\n' && r != '\t' || r == 0x7f || r == utf8.RuneError || isLookalike(r):
			return -1
		}
		return r
	}, s)
}

// tooDeep reports whether brackets may nest deeper than the parser can take in
// bounded time. Quotes are ignored, so it errs on the side of caution: a string
// of many opening brackets counts too.
func tooDeep(s string) bool {
	if len(s) < maxNesting {
		return false
	}
	depth, ticks := 0, 0
	words := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '(', '{':
			if depth++; depth > maxNesting {
				return true
			}
		case ')', '}':
			if depth > 0 {
				depth--
			}
		case '`':
			ticks++
		case '\n', ';', ' ':
			// Keywords nest too: count those that open.
			for _, k := range [...]string{"if ", "while ", "until ", "case ", "for ", "! ", "time ", "coproc "} {
				if strings.HasPrefix(s[i+1:], k) {
					words++
					break
				}
			}
			for _, k := range [...]string{"fi", "done", "esac"} {
				if strings.HasPrefix(s[i+1:], k) && words > 0 {
					words--
					break
				}
			}
			if words > maxNesting {
				return true
			}
		case '\\':
			// A run of backslashes before a tick is nested back-quoting.
			if run := backslashes(s[i:]); run > 64 && i+run < len(s) && s[i+run] == '`' {
				return true
			}
		}
	}
	return false
}

func backslashes(s string) int {
	n := 0
	for n < len(s) && s[n] == '\\' {
		n++
	}
	return n
}

// position finds line and column of a byte offset.
func position(s string, at int) Position {
	head := s[:at]
	line := 1 + strings.Count(head, "\n")
	return Position{Offset: at, Line: line, Column: at - strings.LastIndexByte(head, '\n')}
}
