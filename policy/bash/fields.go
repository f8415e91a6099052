package bash

import "strings"

// split makes words of segments: word splitting was done where the segments
// were made, except for texts that are unquoted here.
func (a *analyzer) split(st *state, segs []segment) []Word {
	if len(segs) == 1 && !segs[0].brk {
		g := segs[0]
		if !g.quoted && g.s == "" {
			return nil
		}
		return []Word{{Text: g.s, Many: g.many, Glob: !g.quoted && isPattern(g.s, strings.IndexByte(g.s, ']') >= 0)}}
	}
	var out []Word
	var cur strings.Builder
	has, many, glob := false, false, false
	closed := closesBracket(segs)
	flush := func() {
		if has {
			out = append(out, a.finish(cur.String(), many, glob))
		}
		cur.Reset()
		has, many, glob = false, false, false
	}
	for i := range segs {
		g := &segs[i]
		if g.brk {
			flush()
			continue
		}
		if g.quoted || g.s != "" {
			has = true
		}
		if g.many {
			many = true
		}
		if !g.quoted && isPattern(g.s, closed) {
			glob = true
		}
		if cur.Len()+len(g.s) > maxText {
			cur.Reset()
			cur.WriteString(anyText)
			continue
		}
		if glob && g.quoted {
			cur.WriteString(escapePattern(g.s))
		} else {
			cur.WriteString(g.s)
		}
	}
	flush()
	return out
}

func (a *analyzer) finish(s string, many, glob bool) Word {
	return Word{Text: s, Many: many, Glob: glob}
}

// closesBracket reports whether an unquoted bracket is closed in the word.
func closesBracket(segs []segment) bool {
	for i := range segs {
		if !segs[i].quoted && strings.IndexByte(segs[i].s, ']') >= 0 {
			return true
		}
	}
	return false
}

// isPattern reports whether unquoted s is matched with file names; a bracket
// that is not closed stands for itself.
func isPattern(s string, closed bool) bool {
	return strings.ContainsAny(s, "*?") || closed && strings.Contains(s, "[") ||
		strings.Contains(s, "@(") || strings.Contains(s, "+(") || strings.Contains(s, "!(")
}

func escapePattern(s string) string {
	if !strings.ContainsAny(s, "*?[\\") {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if strings.IndexByte("*?[\\", s[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// ifs splits unquoted expansion text at the field separators.
func (a *analyzer) ifs(st *state, s string) []segment {
	if a.spend(len(s) / 32) {
		return []segment{{s: anyText, many: true}}
	}
	seps := " \t\n"
	if v, ok := st.vars["IFS"]; ok {
		if len(v.alts) != 1 || v.unset && v.alts[0] != seps || hasHole(v.alts[0]) {
			if s == "" {
				return nil
			}
			return []segment{{s: anyText, many: true}}
		}
		seps = v.alts[0]
	}
	if hasHole(s) {
		return a.splitHole(s, seps)
	}
	if seps == "" || !strings.ContainsAny(s, seps) {
		if s == "" {
			return nil
		}
		return []segment{{s: s}}
	}
	return splitKnown(s, seps)
}

func splitKnown(s, seps string) []segment {
	var out []segment
	start := 0
	for i := 0; i < len(s); i++ {
		if strings.IndexByte(seps, s[i]) < 0 {
			continue
		}
		if i > start {
			out = append(out, segment{s: s[start:i]})
		} else if !isBlank(s[i]) && (i == 0 || !isBlank(s[i-1])) {
			out = append(out, segment{quoted: true})
		}
		out = append(out, segment{brk: true})
		start = i + 1
	}
	if start < len(s) {
		out = append(out, segment{s: s[start:]})
	}
	return out
}

// splitHole splits text with unknown parts: known separators end words, and a
// word with an unknown part may be several.
func (a *analyzer) splitHole(s, seps string) []segment {
	var out []segment
	for _, g := range splitKnown(s, seps) {
		if !g.brk && hasHole(g.s) {
			g.many = !onlyNames(g.s)
		}
		out = append(out, g)
	}
	return out
}

// onlyNames reports whether the holes of s are all parts of a single file name.
func onlyNames(s string) bool {
	return !strings.Contains(s, anyText) && !strings.Contains(s, worldText)
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\n' }
