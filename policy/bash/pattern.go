package bash

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/pattern"
	"mvdan.cc/sh/v3/syntax"
)

// patternText expands a word that is used as a pattern: quoted characters stand
// for themselves.
func (a *analyzer) patternText(st *state, w *syntax.Word) []string {
	if w == nil {
		return []string{""}
	}
	var out []string
	for _, segs := range a.segments(st, w, false) {
		var b strings.Builder
		for _, g := range segs {
			if g.quoted {
				b.WriteString(escapePattern(g.s))
			} else {
				b.WriteString(g.s)
			}
		}
		out = addAlt(out, b.String())
	}
	return out
}

// compile turns a shell pattern into a regular expression; nil when it cannot.
func compile(pat string, mode pattern.Mode) *regexp.Regexp {
	if hasHole(pat) || len(pat) > 1024 {
		return nil
	}
	expr, err := pattern.Regexp(pat, mode)
	if err != nil {
		return nil
	}
	re, err := regexp.Compile(expr)
	if err != nil {
		return nil
	}
	return re
}

// matcher reports whether a whole name matches pat, in which a star also stands
// for slashes; nil when pat cannot be read. The usual patterns need no regular
// expression.
func matcher(pat string) func(string) bool {
	if len(pat) <= 1024 && !hasHole(pat) && !strings.ContainsAny(pat, `[]()\!+@{}`) {
		return func(s string) bool { return starMatch(pat, s) }
	}
	re := compile(pat, 0)
	if re == nil {
		return nil
	}
	return func(s string) bool {
		loc := re.FindStringIndex(s)
		return loc != nil && loc[0] == 0 && loc[1] == len(s)
	}
}

// starMatch matches a pattern of literals, "*" and "?".
func starMatch(pat, s string) bool {
	star, retry := -1, 0
	p, i := 0, 0
	for i < len(s) {
		switch {
		case p < len(pat) && pat[p] == '*':
			star, retry = p, i
			p++
		case p < len(pat) && pat[p] == '?':
			_, n := utf8.DecodeRuneInString(s[i:])
			p, i = p+1, i+n
		case p < len(pat) && pat[p] == s[i]:
			p, i = p+1, i+1
		case star >= 0:
			retry++
			p, i = star+1, retry
		default:
			return false
		}
	}
	return strings.Trim(pat[p:], "*") == ""
}

// trim applies #, ##, %, %%, ^, ^^, comma and double comma.
func trim(op syntax.ParExpOperator, s, pat string) string {
	switch op {
	case syntax.UpperAll, syntax.LowerAll, syntax.UpperFirst, syntax.LowerFirst:
		if pat != "" && pat != "?" && pat != "*" {
			return anyText
		}
		switch op {
		case syntax.UpperAll:
			return strings.ToUpper(s)
		case syntax.LowerAll:
			return strings.ToLower(s)
		case syntax.UpperFirst:
			return caseFirst(s, strings.ToUpper)
		}
		return caseFirst(s, strings.ToLower)
	}
	if hasHole(s) || hasHole(pat) || len(s) > 4096 {
		return trimHole(op, s, pat)
	}
	re := compile(pat, pattern.EntireString)
	if re == nil {
		return anyText
	}
	best, found := s, false
	for i := 0; i <= len(s); i++ {
		var head, tail string
		switch op {
		case syntax.RemSmallPrefix, syntax.RemLargePrefix:
			head, tail = s[:i], s[i:]
		default:
			head, tail = s[len(s)-i:], s[:len(s)-i]
		}
		if !re.MatchString(head) {
			continue
		}
		large := op == syntax.RemLargePrefix || op == syntax.RemLargeSuffix
		if large || !found {
			best, found = tail, true
		}
		if !large {
			break
		}
	}
	return best
}

// trimHole trims text with unknown parts where its known ends allow that.
func trimHole(op syntax.ParExpOperator, s, pat string) string {
	literal := !strings.ContainsAny(pat, "*?[\\(") && !hasHole(pat)
	switch op {
	case syntax.RemSmallSuffix, syntax.RemLargeSuffix:
		if rest, ok := strings.CutSuffix(s, pat); ok && literal {
			return rest
		}
	case syntax.RemSmallPrefix, syntax.RemLargePrefix:
		if rest, ok := strings.CutPrefix(s, pat); ok && literal {
			return rest
		}
	}
	if onlyNames(s) && !hasHole(pat) {
		if pat == "*/" && op == syntax.RemLargePrefix {
			_, base := cutLast(s)
			return base
		}
		if !strings.Contains(s, "/") {
			return nameText
		}
	}
	return worst(s, pat)
}

func caseFirst(s string, f func(string) string) string {
	_, n := utf8.DecodeRuneInString(s)
	return f(s[:n]) + s[n:]
}

// slice applies ${x:offset:length}.
func (a *analyzer) slice(st *state, sl *syntax.Slice, l list) list {
	off, okOff := a.arith(st, sl.Offset)
	n, okN := int64(0), true
	if sl.Length != nil {
		n, okN = a.arith(st, sl.Length)
	}
	if l.multi {
		return sliceList(l, off, n, sl.Length != nil, okOff && okN)
	}
	out := l
	out.items = [][]string{nil}
	for _, s := range l.items[0] {
		if !okOff || !okN || hasHole(s) {
			out.items[0] = addAlt(out.items[0], worst(s))
			continue
		}
		out.items[0] = addAlt(out.items[0], substring(s, off, n, sl.Length != nil))
	}
	return out
}

func substring(s string, off, n int64, bounded bool) string {
	r := []rune(s)
	size := int64(len(r))
	if off < 0 {
		off += size
	}
	if off < 0 || off > size {
		return ""
	}
	end := size
	if bounded {
		if n < 0 {
			end = size + n
		} else {
			end = min(size, off+n)
		}
	}
	if end < off {
		return ""
	}
	return string(r[off:end])
}

// sliceList applies ${@:offset:length}: position 0 of $@ is $0, arrays count from
// 0. What is not certain becomes any number of unknown words.
func sliceList(l list, off, n int64, bounded, known bool) list {
	items := l.items
	if !l.array {
		items = append([][]string{{anyText}}, items...)
	}
	if off < 0 {
		off += int64(len(items))
	}
	if !known || l.more && (off < 0 || bounded && n < 0) || off < 0 || bounded && n < 0 {
		return list{multi: true, star: l.star, more: true}
	}
	start := min(int(off), len(items))
	end := len(items)
	if bounded {
		end = min(end, start+int(min(n, 1<<20)))
	}
	out := l
	out.items = items[start:end]
	return out
}

// replace applies ${x/pattern/text}.
func (a *analyzer) replace(st *state, r *syntax.Replace, l list) list {
	pats := a.patternText(st, r.Orig)
	withs := a.scalar(st, r.With)
	out := l
	out.items = nil
	for _, it := range l.items {
		var alts []string
		for _, s := range it {
			for _, p := range pats {
				for _, w := range withs {
					alts = addAlt(alts, replaceOne(s, p, w, r.All))
				}
			}
		}
		out.items = append(out.items, alts)
	}
	return out
}

func replaceOne(s, pat, with string, all bool) string {
	if hasHole(s) || hasHole(pat) {
		return worst(s, pat, with)
	}
	mode := pattern.Mode(0)
	prefix, suffix := "", ""
	if strings.HasPrefix(pat, "#") {
		pat, prefix = pat[1:], "^"
	} else if strings.HasPrefix(pat, "%") {
		pat, suffix = pat[1:], "$"
	}
	if pat == "" {
		return s
	}
	re := compile(pat, mode)
	if re == nil {
		return anyText
	}
	if prefix+suffix != "" {
		var err error
		if re, err = regexp.Compile(prefix + "(?:" + re.String() + ")" + suffix); err != nil {
			return anyText
		}
	}
	if strings.Contains(with, "&") || strings.Contains(with, "\\") {
		return anyText // patsub_replacement
	}
	n := 0
	return re.ReplaceAllStringFunc(s, func(m string) string {
		if n++; !all && n > 1 {
			return m
		}
		return with
	})
}
