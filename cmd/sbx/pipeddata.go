package main

import (
	"io"
	"io/fs"
	"time"

	"sandboxd/cmd/sandboxd/api"
)

// firstByteWait is how long a pipe beside a prompt is waited for: one that a CI job or
// another program left open, and writes nothing to, must not hold the agent up.
const firstByteWait = 3 * time.Second

// pipedData is what comes in beside a prompt: from a pipe, a socket or a file, whole. A
// terminal and other devices give none.
func (p *program) pipedData() (string, error) {
	if p.stdin == nil {
		return "", nil
	}
	st, err := p.stdin.Stat()
	if err != nil {
		return "", nil // it is closed
	}
	if m := st.Mode(); !m.IsRegular() && m&(fs.ModeNamedPipe|fs.ModeSocket) == 0 {
		return "", nil
	}
	type piece struct {
		data []byte
		err  error
	}
	first, rest := make(chan piece, 1), make(chan piece, 1)
	go func() { // ends with the input, or with the program
		head := make([]byte, 4096)
		n, err := p.stdin.Read(head)
		first <- piece{head[:n], err}
		if err != nil {
			return
		}
		data, err := io.ReadAll(io.LimitReader(p.stdin, api.MaxDataBytes+1))
		rest <- piece{data, err}
	}()
	var got piece
	select {
	case got = <-first:
	case <-time.After(firstByteWait):
		p.note("note", "standard input is open and gave nothing: it is left out (</dev/null says that there is none)")
		return "", nil
	}
	if got.err == nil {
		more := <-rest
		got = piece{append(got.data, more.data...), more.err}
	}
	switch {
	case got.err != nil && got.err != io.EOF:
		return "", &failure{code: exitSandbox, stage: "standard input", err: got.err}
	case len(got.data) > api.MaxDataBytes:
		return "", misuse("put it into a file of the workspace and name that, or give /dev/null as standard input", "what is piped in beside the prompt is longer than %s", sizeText(api.MaxDataBytes))
	}
	return string(got.data), nil
}
