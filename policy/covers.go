package policy

import (
	"slices"
	"strings"
)

// covers reports whether p matches whatever q matches. It may answer false
// where the answer is true.
func (p *pattern) covers(q *pattern) bool {
	if p.form == formBare && q.form == formBare {
		return p.tool.equal(&q.tool) || p.tool.any || q.tool.name != "" && p.tool.match(q.tool.name, q.tool.name)
	}
	if p.form != q.form || p.re != nil || q.re != nil || p.form == formEffect && p.verb != q.verb {
		return false
	}
	if p.form != formEffect && !p.tool.any && (p.tool.name == "" || p.tool.name != q.tool.name) {
		return false
	}
	switch p.form {
	case formCommand:
		return p.command.covers(&q.command)
	case formPath:
		return p.path.covers(&q.path)
	case formEffect:
		if p.verb == effectExec {
			return p.text.covers(q.text)
		}
		if p.verb == effectNetwork {
			return p.host.equal(&q.host) || p.host.any && p.host.port == 0
		}
		return p.path.covers(&q.path)
	case formHost:
		return p.host.equal(&q.host) || p.host.any && p.host.port == 0
	case formText, formParam:
		return p.param == q.param && p.text.covers(q.text)
	case formBare, formAny:
	}
	return false
}

func (t *toolPattern) equal(u *toolPattern) bool {
	return t.name == u.name && t.any == u.any && t.server == u.server && t.isGlob == u.isGlob && strings.Join(t.glob.parts, "*") == strings.Join(u.glob.parts, "*")
}

func (p *hostPattern) equal(q *hostPattern) bool {
	return p.any == q.any && p.below == q.below && p.host == q.host && p.prefix == q.prefix && p.port == q.port && p.scheme == q.scheme &&
		strings.Join(p.path.parts, "*") == strings.Join(q.path.parts, "*")
}

func (p *commandPattern) covers(q *commandPattern) bool {
	for _, theirs := range q.strict {
		found := false
		for _, ours := range p.strict {
			found = found || ours.covers(theirs)
		}
		if !found {
			return false
		}
	}
	return len(q.strict) > 0
}

// covers: every path that q can match begins with something p covers.
func (p *pathPattern) covers(q *pathPattern) bool {
	if q.name != "" {
		if p.name == "" {
			return false
		}
		return p.name == q.name || newGlob(p.name).covers(newGlob(q.name)) && !strings.ContainsAny(p.name, "?[") && !strings.ContainsAny(q.name, "?[")
	}
	for _, l := range q.literals {
		if !p.match(l) {
			return false
		}
	}
	for _, g := range q.globs {
		if dir := literalDir(g); dir == "/" || !p.match(dir) {
			if !slices.Contains(p.globs, g) {
				return false
			}
		}
	}
	return len(q.literals)+len(q.globs) > 0
}
