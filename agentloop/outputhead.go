package agentloop

import (
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

const (
	// headBytes is how much of an output is looked at for its preview: more than the
	// preview, so that a secret which it would cut is known as one.
	headBytes = 8 << 10
	// headTime bounds the wait for what a terminal still holds when its command ended.
	headTime = 200 * time.Millisecond
)

// OutputHead keeps the beginning of what a call prints where the output goes straight
// to its reader, for the audit log. It is safe for concurrent use.
type OutputHead struct {
	// End ends the output, if its end does not come with that of the command. It may be
	// called again.
	End func()

	mu    sync.Mutex
	text  []byte
	whole chan struct{} // closed when no more is taken; nil until somebody waits
	over  bool
}

// Tee returns a writer that writes to w, and what w took here.
func (h *OutputHead) Tee(w io.Writer) io.Writer { return headWriter{w, h} }

type headWriter struct {
	io.Writer
	head *OutputHead
}

func (w headWriter) Write(b []byte) (int, error) {
	w.head.Add(b) // first: a slow reader does not keep it out of the log
	return w.Writer.Write(b)
}

// Add takes the next piece.
func (h *OutputHead) Add(b []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.over {
		h.text = append(h.text, b[:min(len(b), headBytes-len(h.text))]...)
		h.finish(len(h.text) == headBytes)
	}
}

// Finish says that no more comes.
func (h *OutputHead) Finish() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.finish(true)
}

func (h *OutputHead) finish(over bool) {
	if over && !h.over && h.whole != nil {
		close(h.whole)
	}
	h.over = h.over || over
}

// preview is the masked beginning, after the command has ended.
func (h *OutputHead) preview(red *Redactor) string {
	if h.End != nil {
		h.End()
		h.await()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	text := red.Mask(strings.ToValidUTF8(string(h.text), string(utf8.RuneError)))
	if len(h.text) == headBytes && utf8.RuneCountInString(text) <= auditPreview {
		// Nearly all of it were secrets: the last one may be cut, and not be known.
		if at := strings.LastIndex(text, mask); at >= 0 {
			text = text[:at+len(mask)]
		}
	}
	return text
}

// await waits until no more is taken, and not for long.
func (h *OutputHead) await() {
	h.mu.Lock()
	if h.over {
		h.mu.Unlock()
		return
	}
	if h.whole == nil {
		h.whole = make(chan struct{})
	}
	whole := h.whole
	h.mu.Unlock()
	select {
	case <-whole:
	case <-time.After(headTime):
	}
}
