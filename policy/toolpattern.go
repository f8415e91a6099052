package policy

import "strings"

// addPattern adds what a tool that chooses files by a pattern reaches: the
// directory where the pattern's fixed part leads, with what lies in it, and the
// file that a fixed last name means there. A pattern is a path too: it may be
// absolute, start at the home, or climb.
func (e *Engine) addPattern(f *facts, pattern string) {
	base := f.dir
	if len(f.accesses) > 0 && f.accesses[0].known() {
		base = f.accesses[0].given
	}
	for _, p := range strings.Split(pattern, ",") {
		// A client may read commas as a list, inside braces or not: each part
		// is looked at alone too.
		p = strings.Trim(strings.TrimPrefix(strings.TrimSpace(p), "!"), "{}")
		if p != "" {
			e.addOnePattern(f, p, base)
		}
	}
	if strings.Contains(pattern, ",") {
		e.addOnePattern(f, strings.TrimPrefix(pattern, "!"), base)
	}
}

func (e *Engine) addOnePattern(f *facts, pattern, base string) {
	fixed, rest := fixedPart(pattern)
	if strings.Contains("/"+rest+"/", "/../") {
		// What a climb behind a wildcard reaches cannot be told.
		f.problems = append(f.problems, SafetyReason{Check: "arguments", Text: "pattern " + pattern + " climbs behind a wildcard"})
		return
	}
	if rest == "" {
		f.accesses = append(f.accesses, e.access(effectRead, fixed, base, -1))
		return
	}
	dir := fixed
	if dir == "" {
		dir = "."
	}
	a := e.access(effectRead, dir, base, -1)
	a.tree = true
	if a.known() {
		a.names, _, a.tooMany = namesIn(a.real, "", false)
	}
	// The search below the start directory itself is there already.
	if dir != "." {
		f.accesses = append(f.accesses, a)
	}
	if last := rest[strings.LastIndexByte(rest, '/')+1:]; !isGlobText(last) && !strings.ContainsAny(last, "{}") && last != "" {
		f.accesses = append(f.accesses, e.access(effectRead, dir+"/"+last, base, -1))
	}
}

// fixedPart splits a pattern before its first component with a wildcard. The
// first part keeps the leading slash of an absolute pattern.
func fixedPart(pattern string) (fixed, rest string) {
	at := 0
	for at < len(pattern) {
		end := strings.IndexByte(pattern[at:], '/')
		component := pattern[at:]
		if end >= 0 {
			component = pattern[at : at+end]
		}
		if isGlobText(component) || strings.ContainsAny(component, "{}") {
			break
		}
		if end < 0 {
			return pattern, ""
		}
		at += end + 1
	}
	fixed = pattern[:at]
	if len(fixed) > 1 {
		fixed = strings.TrimSuffix(fixed, "/")
	}
	return fixed, pattern[at:]
}
