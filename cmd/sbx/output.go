package main

import (
	"bytes"
	"encoding/json"
	"fmt"
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

// escapeControls writes DEL and the control characters U+0080 to U+009F as JSON
// escapes, as encoding/json does with those below U+0020 only: a terminal on
// which somebody reads the object obeys U+009B and U+009D as it does ESC [ and
// ESC ].
func escapeControls(text []byte) []byte {
	if bytes.IndexByte(text, 0xc2) < 0 && bytes.IndexByte(text, 0x7f) < 0 {
		return text
	}
	out := make([]byte, 0, len(text)+64)
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == 0xc2 && i+1 < len(text) && text[i+1] < 0xa0 {
			i++
			c = text[i]
		} else if c != 0x7f {
			out = append(out, c)
			continue
		}
		out = fmt.Appendf(out, `\u%04x`, c)
	}
	return out
}
