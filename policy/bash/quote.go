package bash

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// ansiC decodes the escapes of $'…' (bash(1), QUOTING). A NUL ends the text.
func ansiC(s string) string { return escapes(s, false) }

// escapes decodes backslash escapes; percentB follows the rules of printf %b
// and echo -e, where an octal number may have a leading 0 and \c ends the text.
func escapes(s string, percentB bool) string {
	if !strings.Contains(s, "\\") {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c != '\\' || i+1 >= len(s) {
			b.WriteByte(c)
			continue
		}
		i++
		switch c = s[i]; c {
		case 'a':
			b.WriteByte(7)
		case 'b':
			b.WriteByte(8)
		case 'e', 'E':
			b.WriteByte(27)
		case 'f':
			b.WriteByte(12)
		case 'n':
			b.WriteByte('\n')
		case 'r':
			b.WriteByte('\r')
		case 't':
			b.WriteByte('\t')
		case 'v':
			b.WriteByte(11)
		case '\\', '\'', '"', '?':
			if percentB && c != '\\' {
				b.WriteByte('\\')
			}
			b.WriteByte(c)
		case 'c':
			if percentB {
				return b.String()
			}
			if i+1 < len(s) {
				i++
				b.WriteByte(s[i] & 0x1f)
			}
		case 'x', 'u', 'U':
			width := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]
			n, used := digits(s[i+1:], 16, width)
			if used == 0 {
				b.WriteByte('\\')
				b.WriteByte(c)
				continue
			}
			i += used
			if n == 0 && !percentB {
				return b.String()
			}
			if c == 'x' || n < utf8.RuneSelf {
				b.WriteByte(byte(n))
			} else {
				b.WriteRune(rune(n))
			}
		case '0', '1', '2', '3', '4', '5', '6', '7':
			width := 3
			if percentB && c == '0' {
				width = 4
			}
			n, used := digits(s[i:], 8, width)
			i += used - 1
			if n&0xff == 0 && !percentB {
				return b.String()
			}
			b.WriteByte(byte(n))
		default:
			b.WriteByte('\\')
			b.WriteByte(c)
		}
	}
	return b.String()
}

// digits reads up to width digits of a base.
func digits(s string, base, width int) (n int64, used int) {
	for used < width && used < len(s) {
		d, err := strconv.ParseInt(s[used:used+1], base, 64)
		if err != nil {
			break
		}
		n = n*int64(base) + d
		used++
	}
	return n, used
}
