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
	return b.Bytes(), err
}
