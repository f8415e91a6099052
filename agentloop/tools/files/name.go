package files

import (
	"strconv"
	"strings"
	"unicode"
)

// ShownName is a name on a line of its own: quoted as in Go when it holds what ends a
// line or draws something, so that a name cannot play other lines of an answer.
func ShownName(name string) string {
	// A note of the tools, or what looks quoted, is no name.
	note := strings.HasPrefix(name, "[") && strings.HasSuffix(name, "]") && strings.Contains(name, " ")
	if note || strings.HasPrefix(name, `"`) || strings.ContainsFunc(name, drawn) {
		return strconv.Quote(name)
	}
	return name
}

// drawn reports characters that are not one character on a line.
func drawn(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029'
}
