package agentloop

import (
	"sync"
	"unicode/utf8"
)

// outputText gives the output of one call to the events of its turn while it runs, in
// whole characters. The events hold back what may be the beginning of a secret, and
// nothing else: a prompt has no line end.
type outputText struct {
	send func(stream, text string)

	mu   sync.Mutex
	held map[string][]byte // half of a character, by stream
}

// write is [CallIO.Output].
func (o *outputText) write(stream string, piece []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.held == nil {
		o.held = map[string][]byte{}
	}
	text := append(o.held[stream], piece...)
	end := len(text)
	for back := 1; back < utf8.UTFMax && back <= len(text); back++ {
		if rest := text[len(text)-back:]; utf8.RuneStart(rest[0]) {
			if !utf8.FullRune(rest) {
				end -= back
			}
			break
		}
	}
	if end > 0 {
		o.send(stream, string(text[:end]))
	}
	o.held[stream] = append(text[:0], text[end:]...)
}

// end gives the rest.
func (o *outputText) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, stream := range []string{"stdout", "stderr"} {
		if rest := o.held[stream]; len(rest) > 0 {
			o.send(stream, string(rest))
		}
	}
	o.held = nil
}
