package api

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"iter"
	"net/http"
	"sync"

	"sandboxd/agentloop"
)

// maxWholeReads bounds the requests of one uid that read a conversation, or the audit
// log, from its first entry to its last. Each holds one page of it.
const maxWholeReads = 2

// wholeReads counts them by uid. The zero value is ready, and safe for concurrent use.
type wholeReads struct {
	mu sync.Mutex
	of map[int]int
}

// begin counts a request in, and done out.
func (w *wholeReads) begin(uid int) (done func(), err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.of[uid] >= maxWholeReads {
		return nil, fault(CodeBusy, "try again when one of them is over", "uid %d reads %d whole conversations or logs already", uid, maxWholeReads)
	}
	if w.of == nil {
		w.of = map[int]int{}
	}
	w.of[uid]++
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.of[uid]--; w.of[uid] == 0 {
			delete(w.of, uid)
		}
	}, nil
}

// entrySeq are the entries of a conversation in order. An error is the last.
type entrySeq = iter.Seq2[agentloop.Entry, error]

// entries reads a conversation page by page: between two pages nothing is held open,
// however slow the reader is.
func (s *Server) entries(ctx context.Context, id string) entrySeq {
	return func(yield func(agentloop.Entry, error) bool) {
		for after := int64(0); ; {
			page, err := s.o.Conversations.EntriesAfter(ctx, id, after)
			if err != nil {
				yield(agentloop.Entry{}, err)
				return
			}
			if len(page) == 0 {
				return
			}
			for _, e := range page {
				if !yield(e, nil) {
					return
				}
				after = e.Seq
			}
		}
	}
}

// sendWhole sends an answer while it is made. An error before its first bytes went out
// is answered; after them the connection breaks, so that nobody takes a part for the
// whole. The client has the time for an answer for each piece of it.
func sendWhole(w http.ResponseWriter, kind string, write func(io.Writer) error) error {
	h := w.Header()
	freeTimes(w)
	out := &startedWriter{w: w}
	b := bufio.NewWriterSize(out, 64<<10)
	h.Set("Content-Type", kind)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	err := write(b)
	if err == nil {
		err = b.Flush()
	}
	if err != nil && out.started {
		panic(http.ErrAbortHandler)
	}
	return err
}

// startedWriter knows whether anything was written.
type startedWriter struct {
	w       http.ResponseWriter
	started bool
}

func (s *startedWriter) Write(b []byte) (int, error) {
	s.started = true
	answerTime(s.w)
	return s.w.Write(b)
}

// writeView writes a [ConversationView].
func writeView(w io.Writer, head agentloop.Conversation, entries entrySeq) error {
	l := newListWriter(w)
	l.text(`{"conversation":`)
	l.value(head)
	l.text(`,"entries":[`)
	for e, err := range entries {
		if err != nil {
			return err
		}
		l.item(e)
		if l.err != nil {
			return l.err
		}
	}
	l.text("]}\n")
	return l.err
}

// writeMessages writes a [MessageList] with the head of list and the messages of
// entries. The end is left out while the last turn has none.
func writeMessages(w io.Writer, list MessageList, entries entrySeq) error {
	l := newListWriter(w)
	l.text(`{"session_id":`)
	l.value(list.Session)
	l.text(`,"conversation_id":`)
	l.value(list.Conversation)
	l.text(`,"running":`)
	l.value(list.Running)
	l.text(`,"messages":[`)
	end, err := eachMessage(entries, func(m agentloop.Message) error {
		l.item(m)
		return l.err
	})
	if err != nil {
		return err
	}
	l.text("]")
	if end != nil {
		l.text(`,"end":`)
		l.value(end)
	}
	l.text("}\n")
	return l.err
}

// eachMessage puts entries together to messages: results follow the uses they are of.
// The end is nil while the last turn has none.
func eachMessage(entries entrySeq, add func(agentloop.Message) error) (end *agentloop.TurnEnd, err error) {
	var results *agentloop.Message // the message that takes the next result
	flush := func() error {
		if results == nil {
			return nil
		}
		m := *results
		results = nil
		return add(m)
	}
	for e, err := range entries {
		if err != nil {
			return nil, err
		}
		switch {
		case e.Kind == agentloop.EntryEnd:
			end = e.End
		case e.Kind == agentloop.EntryResult && e.Block != nil:
			if results == nil {
				results = &agentloop.Message{Role: agentloop.RoleUser, Time: e.Time}
			}
			results.Blocks, end = append(results.Blocks, *e.Block), nil
		case e.Message != nil:
			if err := flush(); err != nil {
				return nil, err
			}
			if err := add(*e.Message); err != nil {
				return nil, err
			}
			end = nil
		}
	}
	return end, flush()
}

// listWriter writes JSON piece by piece, until an error.
type listWriter struct {
	w     io.Writer
	e     *json.Encoder
	items int
	err   error
}

func newListWriter(w io.Writer) *listWriter {
	l := &listWriter{w: w, e: json.NewEncoder(w)}
	l.e.SetEscapeHTML(false)
	return l
}

func (l *listWriter) text(s string) {
	if l.err == nil {
		_, l.err = io.WriteString(l.w, s)
	}
}

func (l *listWriter) value(v any) {
	if l.err == nil {
		l.err = l.e.Encode(v)
	}
}

func (l *listWriter) item(v any) {
	if l.items++; l.items > 1 {
		l.text(",")
	}
	l.value(v)
}
