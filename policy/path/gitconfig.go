package path

import (
	"bytes"
	"fmt"
	"strings"
)

// Setting is one assignment of a git configuration file.
type Setting struct {
	// Key is "section.key" or "section.subsection.key"; section and key are in
	// lower case, the subsection is as written.
	Key string
	// Value is unquoted. NoValue is true for a name alone, which means true.
	Value   string
	NoValue bool
	Line    int // 1-based
	// start and end delimit the assignment in the content, without the
	// newline that ends it.
	start, end int
}

// split returns the three parts of Key as git takes them apart: at the first
// and the last dot.
func (s Setting) split() (section, subsection, key string) {
	section, rest, _ := strings.Cut(s.Key, ".")
	if i := strings.LastIndexByte(rest, '.'); i >= 0 {
		return section, rest[:i], rest[i+1:]
	}
	return section, "", rest
}

// ConfigError reports where a git configuration file cannot be read. Git
// refuses such a file too.
type ConfigError struct{ Line int }

func (e *ConfigError) Error() string { return fmt.Sprintf("bad git config line %d", e.Line) }

// ParseGitConfig reads content in the grammar of git's config.c: sections,
// subsections in both spellings, assignments on a section's own line,
// continuation lines, quotes, escapes, comments, CR before LF. Includes are
// settings like others and are not followed. On an error (*ConfigError) the
// settings before it are returned with it.
func ParseGitConfig(content []byte) ([]Setting, error) {
	p := configParser{text: content, line: 1}
	p.pos = len(content) - len(bytes.TrimPrefix(content, []byte("\xef\xbb\xbf")))
	return p.settings()
}

// eof is what next returns after the end. Git reads the end as a newline.
const eof = -1

type configParser struct {
	text []byte
	pos  int
	line int
}

// next returns one character; CR LF counts as LF.
func (p *configParser) next() int {
	if p.pos >= len(p.text) {
		return eof
	}
	c := p.text[p.pos]
	p.pos++
	if c == '\r' && p.pos < len(p.text) && p.text[p.pos] == '\n' {
		p.pos++
		c = '\n'
	}
	if c == '\n' {
		p.line++
	}
	return int(c)
}

func (p *configParser) settings() ([]Setting, error) {
	var found []Setting
	section, comment := "", false
	for {
		start := p.pos
		line := p.line
		c := p.next()
		switch {
		case c == eof:
			return found, nil
		case c == '\n':
			comment = false
		case comment || isSpace(c):
		case c == '#' || c == ';':
			comment = true
		case c == '[':
			name, ok := p.sectionName()
			if !ok {
				return found, &ConfigError{line}
			}
			section = name
		case isAlpha(c):
			s, ok := p.assignment(c)
			if !ok {
				return found, &ConfigError{line}
			}
			s.Key = section + "." + s.Key
			s.Line, s.start = line, start
			found = append(found, s)
		default:
			return found, &ConfigError{line}
		}
	}
}

// sectionName reads what stands between "[" and "]".
func (p *configParser) sectionName() (string, bool) {
	var name strings.Builder
	for {
		c := p.next()
		switch {
		case c == ']':
			return name.String(), name.Len() > 0
		case c == eof:
			return "", false
		case isSpace(c):
			if !p.subsection(c, &name) {
				return "", false
			}
			return name.String(), true
		case isKeyChar(c) || c == '.':
			name.WriteByte(lower(c))
		default:
			return "", false
		}
	}
}

// subsection reads the quoted form, from the space before it to "]".
func (p *configParser) subsection(c int, name *strings.Builder) bool {
	for isSpace(c) {
		if c == '\n' {
			return false
		}
		c = p.next()
	}
	if c != '"' {
		return false
	}
	name.WriteByte('.')
	for {
		switch c = p.next(); c {
		case eof, '\n':
			return false
		case '"':
			return p.next() == ']'
		case '\\':
			if c = p.next(); c == '\n' || c == eof {
				return false
			}
			name.WriteByte(byte(c))
		default:
			name.WriteByte(byte(c))
		}
	}
}

// assignment reads a name that begins with first, and its value. Key is the
// bare name.
func (p *configParser) assignment(first int) (Setting, bool) {
	name := []byte{lower(first)}
	c := p.next()
	for isKeyChar(c) {
		name = append(name, lower(c))
		c = p.next()
	}
	for c == ' ' || c == '\t' {
		c = p.next()
	}
	s := Setting{Key: string(name)}
	switch c {
	case '\n', eof:
		s.NoValue = true
		s.end = p.lineEnd(c)
		return s, true
	case '=':
		return s, p.value(&s)
	}
	return s, false
}

// lineEnd is the offset of the line break c that was just read.
func (p *configParser) lineEnd(c int) int {
	if c == eof {
		return len(p.text)
	}
	if p.pos >= 2 && p.text[p.pos-2] == '\r' {
		return p.pos - 2
	}
	return p.pos - 1
}

func (p *configParser) value(s *Setting) bool {
	var value []byte
	quoted, comment, keep := false, false, 0 // keep: length without trailing blanks
	for {
		c := p.next()
		switch {
		case c == '\n' || c == eof:
			s.Value = string(value[:keep])
			s.end = p.lineEnd(c)
			return !quoted
		case comment:
		case isSpace(c) && !quoted:
			if len(value) > 0 {
				value = append(value, byte(c))
			}
			continue
		case !quoted && (c == ';' || c == '#'):
			comment = true
		case c == '\\':
			switch c = p.next(); c {
			case '\n', eof:
				keep = len(value) // blanks before a continuation stay
				continue
			case 't':
				c = '\t'
			case 'b':
				c = '\b'
			case 'n':
				c = '\n'
			case '\\', '"':
			default:
				return false
			}
			value = append(value, byte(c))
			keep = len(value)
		case c == '"':
			quoted = !quoted
			keep = len(value)
		default:
			value = append(value, byte(c))
			keep = len(value)
		}
	}
}

func isAlpha(c int) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

func isKeyChar(c int) bool { return isAlpha(c) || c >= '0' && c <= '9' || c == '-' }

// isSpace is git's own: no vertical tab, no form feed.
func isSpace(c int) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

func lower(c int) byte {
	if c >= 'A' && c <= 'Z' {
		c += 'a' - 'A'
	}
	return byte(c)
}
