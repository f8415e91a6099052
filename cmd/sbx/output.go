package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// writeOut writes to the data output; a full disk or a closed pipe is an error.
func (p *program) writeOut(format string, args ...any) error {
	if _, err := fmt.Fprintf(p.stdout, format, args...); err != nil {
		return &failure{code: exitSandbox, stage: "output", hint: "see that standard output can be written", err: err}
	}
	return nil
}

// writeJSON prints one object and a newline on the data output.
func (p *program) writeJSON(object any) error {
	text, err := marshal(object)
	if err != nil {
		return &failure{code: exitSandbox, stage: "output", err: err}
	}
	return p.writeOut("%s", text)
}

// marshal writes one object and a newline. Signs such as > stay as they are:
// this is not for web pages.
func marshal(object any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(object)
	return escapeControls(b.Bytes()), err
}

// escapeControls writes DEL, the control characters U+0080 to U+009F and those
// that turn text around or do not show as JSON escapes, as encoding/json does with
// those below U+0020 only: a terminal on which somebody reads the object obeys
// U+009B and U+009D as it does ESC [ and ESC ], and U+202E shows what follows
// backwards.
func escapeControls(text []byte) []byte {
	if !bytes.ContainsFunc(text, escaped) {
		return text
	}
	out := make([]byte, 0, len(text)+64)
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		switch {
		case !escaped(r):
			out = append(out, text[i:i+n]...)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		i += n
	}
	return out
}

func escaped(r rune) bool { return r >= 0x7f && (r < 0xa0 || unseen(r)) }

// unseen reports characters that have no form of their own: marks of direction,
// joiners, separators of lines, tags.
func unseen(r rune) bool { return unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) }
