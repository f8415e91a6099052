package policy

import (
	"fmt"
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// pathPattern is a gitignore-like pattern:
//
//	/x       absolute
//	~/x      from the home
//	./x, a/x from the workspace (a/x of a deny or ask rule also at any depth)
//	x, *.x   a name at any depth
//	**/x     at any depth
//
// A pattern that matches a directory covers everything below it. The zero
// pathPattern matches nothing.
type pathPattern struct {
	workspace string
	// literals are absolute paths without wildcards.
	literals []string
	// globs are absolute doublestar patterns, each ending in /**.
	globs []string
	// name is a component at any depth; nameGlob says that it has wildcards.
	name     string
	nameGlob bool
}

func newPathPattern(text string, kind Kind, b base) (pathPattern, error) {
	p := pathPattern{workspace: b.workspace}
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, "!") {
		return p, fmt.Errorf("no negation in a pattern: use the option except")
	}
	if !doublestar.ValidatePattern(text) {
		return p, fmt.Errorf("malformed path pattern")
	}
	if unescaped(text, '{') {
		// doublestar tries every combination of alternatives, and gitignore
		// has none: neither reading is what the writer expects.
		return p, fmt.Errorf("no {a,b} in a pattern: write one rule for each, or \\{ for the character")
	}
	trimmed := strings.TrimSuffix(text, "/")
	if text == "/" {
		trimmed = "/"
	}
	switch {
	case strings.HasPrefix(trimmed, "/"):
		p.add(trimmed)
	case trimmed == "~" || strings.HasPrefix(trimmed, "~/"):
		if b.home == "" {
			return p, fmt.Errorf("~ without a home directory")
		}
		p.add(escapeGlob(b.home) + trimmed[1:])
	case trimmed == "." || strings.HasPrefix(trimmed, "./") || trimmed == ".." || strings.HasPrefix(trimmed, "../"):
		if b.workspace == "" {
			return p, fmt.Errorf("relative pattern without a workspace")
		}
		p.add(escapeGlob(b.workspace) + "/" + trimmed)
	case !strings.Contains(trimmed, "/"):
		p.name, p.nameGlob = trimmed, isGlobText(trimmed)
		if trimmed == "**" {
			p.name, p.nameGlob = "*", true
		}
	default:
		if b.workspace != "" {
			p.add(escapeGlob(b.workspace) + "/" + trimmed)
		}
		if kind != AllowRule || strings.HasPrefix(trimmed, "**/") || b.workspace == "" {
			p.add("/**/" + trimmed)
		}
	}
	return p, nil
}

// unescaped reports whether c stands in text without a backslash before it.
func unescaped(text string, c byte) bool {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case c:
			return true
		}
	}
	return false
}

// newLoosePathPattern is for *(content), whose content need not be a path. It
// takes what can be read as one.
func newLoosePathPattern(text string, b base) pathPattern {
	p, err := newPathPattern(text, DenyRule, b)
	if err != nil || p.name == "*" {
		return pathPattern{}
	}
	return p
}

func (p *pathPattern) add(pattern string) {
	if !isGlobText(pattern) {
		p.literals = append(p.literals, path.Clean(pattern))
		return
	}
	pattern = path.Clean(pattern)
	if pattern != "/**" && !strings.HasSuffix(pattern, "/**") {
		pattern += "/**" // also matches the path itself
	}
	p.globs = append(p.globs, pattern)
}

func isGlobText(s string) bool { return strings.ContainsAny(s, `*?[{\`) }

func escapeGlob(s string) string {
	if !isGlobText(s) {
		return s
	}
	var b strings.Builder
	for _, c := range []byte(s) {
		if strings.IndexByte(`*?[]{}\`, c) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	return b.String()
}

// match reports whether abs, an absolute clean path, is covered.
func (p *pathPattern) match(abs string) bool {
	for _, l := range p.literals {
		if within(abs, l) {
			return true
		}
	}
	for _, g := range p.globs {
		if ok, _ := doublestar.Match(g, abs); ok {
			return true
		}
	}
	return p.name != "" && p.matchName(abs)
}

// matchName compares the components of abs below the workspace, or all of them
// when abs is not in it: a workspace below a directory named build must not
// make a rule about build cover everything.
func (p *pathPattern) matchName(abs string) bool {
	rest := abs
	if p.workspace != "" && within(abs, p.workspace) {
		rest = abs[len(p.workspace):]
	}
	for rest != "" {
		var part string
		part, rest, _ = strings.Cut(strings.TrimPrefix(rest, "/"), "/")
		if part == "" {
			continue
		}
		if !p.nameGlob {
			if part == p.name {
				return true
			}
		} else if ok, _ := doublestar.Match(p.name, part); ok {
			return true
		}
	}
	return false
}

// reaches reports whether something that p covers by its literal beginning can
// lie below the directory abs.
func (p *pathPattern) reaches(abs string) bool {
	for _, l := range p.literals {
		if within(l, abs) {
			return true
		}
	}
	for _, g := range p.globs {
		if dir := literalDir(g); dir != "/" && within(dir, abs) {
			return true
		}
	}
	return false
}

// wantedBy reports whether a file that p names by its last component can be
// among those that a means in a tree. Everything below a directory can.
func (p *pathPattern) wantedBy(a *access) bool {
	if a.only == "" || len(p.globs) > 0 {
		return true
	}
	for _, l := range p.literals {
		if a.wants(path.Base(l)) || !strings.Contains(path.Base(l), ".") {
			return true // it may be a directory
		}
	}
	return false
}

// present reports whether something exists that p covers by its literal
// beginning.
func (p *pathPattern) present() bool {
	for _, l := range p.literals {
		if exists(l) {
			return true
		}
	}
	for _, g := range p.globs {
		if exists(literalDir(g)) {
			return true
		}
	}
	return false
}

// underGlob reports whether a name in dir that the shell's pattern matches leads
// to what p covers.
func (p *pathPattern) underGlob(dir, pattern string, hidden bool) bool {
	one := func(l string) bool {
		rest, ok := strings.CutPrefix(l, strings.TrimSuffix(dir, "/")+"/")
		name, _, _ := strings.Cut(rest, "/")
		return ok && globMatches(pattern, name, hidden)
	}
	for _, l := range p.literals {
		if one(l) {
			return true
		}
	}
	for _, g := range p.globs {
		if d := literalDir(g); d != "/" && one(d) {
			return true
		}
	}
	return false
}

// literal reports whether p is one absolute path without wildcards, which the
// kernel can hold.
func (p *pathPattern) literal() (string, bool) {
	if len(p.literals) == 1 && len(p.globs) == 0 && p.name == "" {
		return p.literals[0], true
	}
	if len(p.globs) == 1 && len(p.literals) == 0 && p.name == "" {
		dir := strings.TrimSuffix(p.globs[0], "/**")
		if dir != "" && !isGlobText(dir) {
			return dir, true
		}
	}
	return "", false
}

// alsoReal adds the real spelling of what p covers, when a directory in its
// literal beginning is a link.
func (p *pathPattern) alsoReal(real func(string) string) {
	if real == nil {
		return
	}
	for _, l := range p.literals {
		if r := real(l); r != "" && r != l {
			p.literals = append(p.literals, r)
		}
	}
	for _, g := range p.globs {
		dir := literalDir(g)
		if dir == "/" {
			continue
		}
		if r := real(dir); r != "" && r != dir {
			p.globs = append(p.globs, escapeGlob(r)+g[len(dir):])
		}
	}
}

// literalDir is the longest leading directory of a pattern without wildcards.
func literalDir(g string) string {
	i := strings.IndexAny(g, `*?[{\`)
	if i < 0 {
		return g
	}
	if j := strings.LastIndexByte(g[:i], '/'); j > 0 {
		return g[:j]
	}
	return "/"
}

// within reports whether the clean absolute path p is dir or below it.
func within(p, dir string) bool {
	if dir == "/" {
		return strings.HasPrefix(p, "/")
	}
	return strings.HasPrefix(p, dir) && (len(p) == len(dir) || p[len(dir)] == '/')
}
