package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"sandboxd/agentloop"
)

// sseHeartbeat is how often a quiet stream of events says that it lives: a client
// that is gone is noticed then.
const sseHeartbeat = 15 * time.Second

// sse is an answer of server-sent events, as the HTML standard defines them.
type sse struct {
	w http.ResponseWriter
	c *http.ResponseController
	// patient: a client that takes nothing is waited for.
	patient bool
}

func newSSE(w http.ResponseWriter) *sse {
	freeTimes(w)
	return &sse{w: w, c: http.NewResponseController(w)}
}

func (e *sse) begin() error {
	h := e.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	return e.comment("ok")
}

// event sends one event. id 0 leaves the id out; data is one line of JSON.
func (e *sse) event(id int64, kind string, data []byte) error {
	var b strings.Builder
	if id > 0 {
		fmt.Fprintf(&b, "id: %d\n", id)
	}
	fmt.Fprintf(&b, "event: %s\ndata: %s\n\n", kind, data)
	return e.send(b.String())
}

func (e *sse) sessionEvent(ev agentloop.Event) error {
	text, err := json.Marshal(ev)
	if err != nil {
		return err
	}
	return e.event(ev.ID, ev.Type, text)
}

// comment sends a line that clients skip.
func (e *sse) comment(text string) error { return e.send(": " + text + "\n\n") }

func (e *sse) send(text string) error {
	if !e.patient {
		_ = e.c.SetWriteDeadline(time.Now().Add(writeTime))
	}
	if _, err := e.w.Write([]byte(text)); err != nil {
		return err
	}
	return e.c.Flush()
}

// sessionEvents streams the events of a session from Last-Event-ID on. Where events
// in between are gone, an event "missed" says so first. With answers=1 the reader
// counts as somebody who answers the session's questions, with attached=1 as the client
// that an attached session ends with.
func (s *Server) sessionEvents(w http.ResponseWriter, r *http.Request) error {
	one, err := s.session(r)
	if err != nil {
		return err
	}
	after, err := lastEventID(r)
	if err != nil {
		return err
	}
	ctx, cancel := s.untilQuit(r.Context())
	defer cancel()
	out := newSSE(w)
	if r.URL.Query().Get("attached") == "1" {
		var closed func()
		if out, closed, err = s.attach(ctx, w, r, one); err != nil {
			return err
		}
		defer closed()
	}
	if r.URL.Query().Get("answers") == "1" {
		defer s.o.Asks.AttachSession(peerOf(r), one.ID(), "session events")()
	}
	if err := out.begin(); err != nil {
		return nil
	}
	_ = followEvents(ctx, one.Events(), after, out, nil)
	return nil
}

// lastEventID is where a client wants to go on: the header that browsers' clients
// send, or the parameter after.
func lastEventID(r *http.Request) (int64, error) {
	text := r.Header.Get("Last-Event-ID")
	if text == "" {
		text = r.URL.Query().Get("after")
	}
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, fault(CodeBadRequest, "send the id of the last event", "Last-Event-ID %q is no number", text)
	}
	return n, nil
}

// followEvents sends until the session, the client or the daemon ends, or what was
// there when over was closed is sent. A client that is too slow for the ring is told
// what it missed.
func followEvents(ctx context.Context, events *agentloop.Events, after int64, out *sse, over <-chan struct{}) error {
	for {
		sub := events.Subscribe(after)
		if sub.Missed {
			if err := out.event(0, "missed", fmt.Appendf(nil, `{"after":%d}`, after)); err != nil {
				sub.Close()
				return err
			}
		}
		last, err := pump(ctx, sub, after, out, over)
		sub.Close()
		if err != nil || last == after || events.Last() == last {
			return err // closed by the end of the session, not for being slow
		}
		after = last
	}
}

// errOver ends a stream of events that has told all it was to tell.
var errOver = errors.New("over")

// pump sends one subscription. It returns the id of the last event sent.
func pump(ctx context.Context, sub *agentloop.Subscription, last int64, out *sse, over <-chan struct{}) (int64, error) {
	beat := time.NewTicker(sseHeartbeat)
	defer beat.Stop()
	for {
		select {
		case e, ok := <-sub.C:
			if !ok {
				return last, nil
			}
			if err := out.sessionEvent(e); err != nil {
				return last, err
			}
			last = e.ID
		case <-over:
			for { // what is waiting comes before the end
				select {
				case e, ok := <-sub.C:
					if !ok {
						return last, nil
					}
					if err := out.sessionEvent(e); err != nil {
						return last, err
					}
					last = e.ID
				default:
					return last, errOver
				}
			}
		case <-beat.C:
			if err := out.comment("alive"); err != nil {
				return last, err
			}
		case <-ctx.Done():
			return last, ctx.Err()
		}
	}
}
