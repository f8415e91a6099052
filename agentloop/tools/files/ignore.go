package files

import (
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// ignoreFile is one .gitignore, see gitignore(5). The wildcards are matched by
// doublestar; classes by name such as [[:alpha:]] are not known to it, and a
// pattern with one matches nothing.
type ignoreFile struct {
	base  string // directory of the file, relative to the top of the walk; "" is the top
	rules []ignoreRule
}

type ignoreRule struct {
	glob     string
	negated  bool
	dirOnly  bool
	anchored bool // matched against the path from base on, else against the name
}

// parseIgnore reads the lines of an ignore file.
func parseIgnore(base, text string) ignoreFile {
	f := ignoreFile{base: base}
	for line := range strings.SplitSeq(text, "\n") {
		if r, ok := parseIgnoreLine(strings.TrimSuffix(line, "\r")); ok {
			f.rules = append(f.rules, r)
		}
	}
	return f
}

func parseIgnoreLine(line string) (r ignoreRule, ok bool) {
	for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
		line = line[:len(line)-1]
	}
	if line == "" || line[0] == '#' {
		return r, false
	}
	if line[0] == '!' {
		r.negated, line = true, line[1:]
	}
	if strings.HasSuffix(line, "/") {
		r.dirOnly, line = true, line[:len(line)-1]
	}
	r.anchored = strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	if line == "" {
		return r, false
	}
	// A trailing /** is everything inside, not the directory itself.
	if inside, tree := strings.CutSuffix(line, "/**"); tree {
		line = inside + "/**/*"
	}
	r.glob = literalBraces(line)
	return r, doublestar.ValidatePattern(r.glob)
}

// literalBraces takes the meaning from braces, which they do not have for git.
func literalBraces(s string) string {
	if !strings.ContainsAny(s, "{}") {
		return s
	}
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			out.WriteByte(s[i])
			if i++; i < len(s) {
				out.WriteByte(s[i])
			}
			continue
		case '{', '}':
			out.WriteByte('\\')
		}
		out.WriteByte(s[i])
	}
	return out.String()
}

// verdict says what the file says about a path: the last rule that matches counts.
func (f *ignoreFile) verdict(path string, dir bool) (ignored, decided bool) {
	rel := path
	if f.base != "" {
		var below bool
		if rel, below = strings.CutPrefix(path, f.base+"/"); !below {
			return false, false
		}
	}
	name := rel[strings.LastIndexByte(rel, '/')+1:]
	for i := len(f.rules) - 1; i >= 0; i-- {
		r := &f.rules[i]
		if r.dirOnly && !dir {
			continue
		}
		subject := name
		if r.anchored {
			subject = rel
		}
		if doublestar.MatchUnvalidated(r.glob, subject) {
			return !r.negated, true
		}
	}
	return false, false
}

// ignores are the ignore files that count for a directory, the nearest last.
type ignores []ignoreFile

// ignored judges a name whose directories are not ignored.
func (g ignores) ignored(path string, dir bool) bool {
	for i := len(g) - 1; i >= 0; i-- {
		if ignored, decided := g[i].verdict(path, dir); decided {
			return ignored
		}
	}
	return false
}
