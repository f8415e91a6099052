package agentloop

import (
	"bytes"
	"sync"
)

// maxOutputLine is how much of a line without an end waits for the rest, in bytes.
const maxOutputLine = 4096

// outputLines gives the output of one call to the events of its turn while it runs,
// in whole lines: a character, or a secret of one line, is not cut in two between
// events and so is masked as in the result.
type outputLines struct {
	send func(stream, text string)

	mu   sync.Mutex
	held map[string][]byte // what has no line end yet, by stream
}

// write is [CallIO.Output].
func (o *outputLines) write(stream string, piece []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.held == nil {
		o.held = map[string][]byte{}
	}
	text := append(o.held[stream], piece...)
	end := bytes.LastIndexAny(text, "\r\n") + 1
	if len(text)-end > maxOutputLine {
		end = len(text)
	}
	if end > 0 {
		o.send(stream, string(text[:end]))
	}
	o.held[stream] = append(text[:0], text[end:]...)
}

// end gives the rest.
func (o *outputLines) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, stream := range []string{"stdout", "stderr"} {
		if rest := o.held[stream]; len(rest) > 0 {
			o.send(stream, string(rest))
		}
	}
	o.held = nil
}
