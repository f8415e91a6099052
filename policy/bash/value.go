package bash

import (
	"slices"
	"strings"
)

// Unknown text is written into strings as private-use characters, so that it
// keeps its place through concatenation, splitting and re-parsing. None of them
// can come from a script: the guard refuses them.
const (
	// holeAny is unknown text that may carry what the script's author chose:
	// computed from the script's own text by a program we do not model.
	holeAny = '\uE000'
	// holeWorld is unknown text from outside the script: a file's content, a
	// variable of the environment, the output of a program.
	holeWorld = '\uE001'
	// holeName is an unknown part of a file name that holds no slash.
	holeName = '\uE002'

	anyText   = string(holeAny)
	worldText = string(holeWorld)
	nameText  = string(holeName)
	// belowText is an unknown relative path without "..".
	belowText = nameText + nameText
)

// maxAlts bounds how many possible values of one thing are kept apart.
const maxAlts = 8

// maxText bounds one string that is built up by expansion, in bytes.
const maxText = 1 << 17

// hasHole reports whether s has an unknown part.
func hasHole(s string) bool {
	for i := 0; i+2 < len(s); i++ {
		if s[i] == 0xEE && s[i+1] == 0x80 && s[i+2] <= 0x82 {
			return true
		}
	}
	return false
}

// hasAnyHole reports whether s has a part that the script's author may control
// although we do not know it.
func hasAnyHole(s string) bool { return strings.Contains(s, anyText) }

// startsUnknown reports whether the first character of s is not known.
func startsUnknown(s string) bool {
	return len(s) >= 3 && s[0] == 0xEE && s[1] == 0x80 && s[2] <= 0x82
}

// beforeHole is the known prefix of s.
func beforeHole(s string) string {
	for i := 0; i+2 < len(s); i++ {
		if startsUnknown(s[i:]) {
			return s[:i]
		}
	}
	return s
}

// publicText replaces the inner holes by the exported one.
func publicText(s string) string {
	if !hasHole(s) {
		return s
	}
	return strings.Map(func(r rune) rune {
		if r == holeWorld || r == holeName {
			return holeAny
		}
		return r
	}, s)
}

// worst is the hole that stands for a text derived from ss.
func worst(ss ...string) string {
	for _, s := range ss {
		if !isWorld(s) {
			return anyText
		}
	}
	return worldText
}

// isWorld reports whether s holds nothing that the script's author chose.
func isWorld(s string) bool {
	return strings.Trim(s, worldText+nameText+" \t\n") == ""
}

// addAlt adds s to the possibilities in alts; past the bound they become one
// unknown.
func addAlt(alts []string, s string) []string {
	if slices.Contains(alts, s) {
		return alts
	}
	if len(alts) >= maxAlts {
		if slices.Contains(alts, anyText) {
			return alts
		}
		return append(slices.Clip(alts), anyText)
	}
	return append(slices.Clip(alts), s)
}

// union adds all of b to a.
func union(a, b []string) []string {
	if len(b) == 0 {
		return a
	}
	if len(a) == 0 {
		return b
	}
	for _, s := range b {
		a = addAlt(a, s)
	}
	return a
}

// cross concatenates every possibility of a with every one of b.
func cross(a, b []string) []string {
	if len(a) == 1 && len(b) == 1 {
		if a[0] == "" {
			return b
		}
		if b[0] == "" {
			return a
		}
		if len(a[0])+len(b[0]) > maxText {
			return []string{anyText}
		}
		return []string{a[0] + b[0]}
	}
	var out []string
	for _, x := range a {
		for _, y := range b {
			if len(x)+len(y) > maxText {
				out = addAlt(out, anyText)
				continue
			}
			out = addAlt(out, x+y)
		}
	}
	return out
}

// text is a stream of bytes: standard input, a file's content, the output of a
// command.
type text struct {
	// alts are the possible contents.
	alts []string
	// from lists files that were there before and whose content this is.
	from []string
	// pure is true when the content is exactly that of one file in from.
	pure bool
	// touched is true when a part may have been read away already.
	touched bool
}

// newText returns a stream with one known content.
func newText(s string) *text { return &text{alts: []string{s}} }

// write appends to every possible content.
func (t *text) write(alts []string) {
	if t == nil || len(alts) == 0 {
		return
	}
	if len(t.alts) == 0 {
		t.alts = alts
	} else {
		t.alts = cross(t.alts, alts)
	}
	t.pure = false
}

// copyFrom appends the content of another stream, with its origin.
func (t *text) copyFrom(src *text) {
	if t == nil || src == nil {
		return
	}
	empty := len(t.alts) == 0 || (len(t.alts) == 1 && t.alts[0] == "")
	t.write(src.alts)
	for _, f := range src.from {
		if !slices.Contains(t.from, f) && len(t.from) < maxAlts {
			t.from = append(t.from, f)
		}
	}
	t.pure = empty && src.pure
}

// derived appends unknown text that was computed from src.
func (t *text) derived(src *text, hole string) {
	if t == nil {
		return
	}
	t.write([]string{hole})
	if src != nil {
		for _, f := range src.from {
			if len(t.from) < maxAlts {
				t.from = append(t.from, f)
			}
		}
	}
}

// isWorld reports whether nothing of the content was chosen by the script.
func (t *text) isWorld() bool {
	if t == nil {
		return true
	}
	for _, s := range t.alts {
		if !isWorld(s) {
			return false
		}
	}
	return true
}
