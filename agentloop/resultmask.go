package agentloop

import (
	"bytes"
	"slices"
	"strings"
)

// Bounds of masking a text that comes in pieces, in bytes.
const (
	// maskWindow is how much is looked at at once.
	maskWindow = 64 << 10
	// maskHold is how much of a window waits for what follows it. A longer secret
	// is known by its beginning.
	maskHold = 8 << 10
	// maskTail is the longest end of a secret that may be cut in two.
	maskTail = 128
)

// streamMasker masks secrets in a text that comes in pieces, wherever the pieces
// end.
type streamMasker struct {
	red          *Redactor
	window, hold int
	held         []byte
	// inside a secret that had no end yet; key says that it is a block.
	inside, key bool
}

func newStreamMasker(red *Redactor) *streamMasker {
	m := &streamMasker{red: red, window: maskWindow, hold: maskHold}
	if len(red.values) > 0 {
		m.hold = max(m.hold, len(red.values[0])) // the longest
		m.window = max(m.window, 4*m.hold)
	}
	return m
}

// next takes a piece and returns what can be told of the text so far: all of it
// after the last piece.
func (m *streamMasker) next(b []byte, last bool) []byte {
	m.held = append(m.held, b...)
	var out []byte
	for len(m.held) >= m.window || last && len(m.held) > 0 {
		if m.inside {
			if !m.skip(last) {
				break
			}
			continue
		}
		out = append(out, m.step(last)...)
	}
	return out
}

// skip drops what belongs to a secret without an end so far. It reports whether
// the end was found.
func (m *streamMasker) skip(last bool) bool {
	end := bytes.IndexAny(m.held, " \t\r\n\"'&;|<>@")
	if m.key {
		end = keyBlockEnd(m.held)
	}
	switch {
	case end >= 0:
		m.inside = false
	case last:
		end = len(m.held)
	default:
		end = max(0, len(m.held)-maskTail)
	}
	m.drop(end)
	return !m.inside
}

func (m *streamMasker) drop(n int) { m.held = append(m.held[:0], m.held[n:]...) }

// keyBlockEnd is the place after the last line of a private key, or -1.
func keyBlockEnd(b []byte) int {
	const end, close = "-----END ", "PRIVATE KEY-----"
	at := bytes.Index(b, []byte(end))
	if at < 0 {
		return -1
	}
	line := b[at:]
	if n := bytes.IndexByte(line, '\n'); n >= 0 {
		line = line[:n]
	}
	if n := bytes.Index(line, []byte(close)); n >= 0 {
		return at + n + len(close)
	}
	return -1
}

// step masks the beginning of what is held, up to a place that divides no secret.
func (m *streamMasker) step(last bool) []byte {
	if last && len(m.held) <= m.window {
		text := string(m.held)
		m.held = nil
		return []byte(m.red.Mask(text))
	}
	text := string(m.held[:m.window])
	spans := m.red.spans(text)
	if cut := uncut(spans, wantedCut(text, m.window-m.hold)); cut > 0 {
		m.drop(cut)
		if !slices.ContainsFunc(spans, func(s span) bool { return s.from < cut }) {
			return []byte(text[:cut])
		}
		return []byte(m.red.Mask(text[:cut]))
	}
	// A secret begins here that is longer than what was to be told.
	end := 0
	for _, s := range spans {
		if s.from == 0 {
			end = max(end, s.to)
		}
	}
	if end < len(text) {
		m.drop(end)
		return []byte(m.red.Mask(text[:end]))
	}
	m.inside, m.key = true, strings.HasPrefix(text, "-----BEGIN ")
	m.drop(m.window - maskTail)
	return []byte(mask)
}

// span is a part of a text that a mask changes, with what tells that it has to.
type span struct{ from, to int }

// spans are the places of s that [Redactor.Mask] looks at.
func (r *Redactor) spans(s string) []span {
	var out []span
	for _, v := range r.values {
		for at := 0; ; {
			n := strings.Index(s[at:], v)
			if n < 0 {
				break
			}
			out = append(out, span{at + n, at + n + len(v)})
			at += n + 1
		}
	}
	low := newLowered(s)
	for _, form := range secretForms() {
		for _, m := range form.find(s, low) {
			out = append(out, span{m[0], m[1]})
		}
	}
	return out
}

// wantedCut is the start of a line near at, or at.
func wantedCut(s string, at int) int {
	if n := strings.LastIndexByte(s[:at], '\n'); n > at-maskHold/2 {
		return n + 1
	}
	return at
}

// uncut moves a cut back until it divides none of the spans.
func uncut(spans []span, cut int) int {
	for moved := true; moved; {
		moved = false
		for _, s := range spans {
			if s.from < cut && cut < s.to {
				cut, moved = s.from, true
			}
		}
	}
	return cut
}
