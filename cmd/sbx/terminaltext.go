package main

import (
	"strings"
	"unicode/utf8"
)

// manyLines makes text of a model or a tool safe for a terminal, as oneLine does, but
// keeps newlines and tabs. A carriage return at the end of a line goes: one elsewhere
// would write over what stands before it.
func manyLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		parts := strings.Split(strings.TrimSuffix(line, "\r"), "\t")
		for j := range parts {
			parts[j] = oneLine(parts[j])
		}
		lines[i] = strings.Join(parts, "\t")
	}
	return strings.Join(lines, "\n")
}

// cutLine bounds a line for people, at a character.
func cutLine(line string, most int) string {
	if utf8.RuneCountInString(line) <= most {
		return line
	}
	n := 0
	for i := range line {
		if n == most-3 {
			return line[:i] + "..."
		}
		n++
	}
	return line
}

// paint puts texts in colours on a terminal, and leaves them alone elsewhere.
type paint bool

// The sequences of ECMA-48 (SGR) that every terminal of today knows.
const (
	dim, bold, red, green, cyan = "2", "1", "31", "32", "36"
)

// in paints one line, which it makes safe.
func (p paint) in(colour, text string) string {
	text = oneLine(text)
	if !p || text == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// diff colours a unified diff and bounds its lines.
func (p paint) diff(text string, most int) string {
	lines := strings.Split(strings.TrimRight(manyLines(text), "\n"), "\n")
	var b strings.Builder
	for i, line := range lines {
		if i == most {
			b.WriteString(p.in(dim, "  ... more lines: ") + p.in(dim, number(len(lines)-most)) + "\n")
			break
		}
		colour := ""
		switch {
		case strings.HasPrefix(line, "+++"), strings.HasPrefix(line, "---"):
			colour = bold
		case strings.HasPrefix(line, "+"):
			colour = green
		case strings.HasPrefix(line, "-"):
			colour = red
		case strings.HasPrefix(line, "@@"):
			colour = cyan
		}
		line = strings.ReplaceAll(line, "\t", "    ") // of all lines, so that they stand in line
		if colour != "" {
			line = p.in(colour, line)
		}
		b.WriteString("  " + line + "\n")
	}
	return b.String()
}
