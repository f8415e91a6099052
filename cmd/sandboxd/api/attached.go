package api

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"sandboxd/agentloop"
)

// DefaultReattach is how long an attached session waits for its client to come back.
// Clients of server-sent events open a broken stream again after a few seconds, as the
// HTML standard has it; this is time for several tries.
const DefaultReattach = 10 * time.Second

// attached ends sessions that are made for one client, when that client is gone: when
// none of its streams of events has been open for a while. A client that is stopped,
// or does not read, has its stream still. It is safe for concurrent use.
type attached struct {
	wait time.Duration
	end  func(session string)

	mu    sync.Mutex
	held  map[string]*attachment
	ended bool
}

// attachment is one such session.
type attachment struct {
	streams int
	gone    *time.Timer // runs while there is no stream
}

func newAttached(wait time.Duration, end func(session string)) *attached {
	return &attached{wait: wait, end: end, held: map[string]*attachment{}}
}

// add begins to wait for the first stream of a session.
func (a *attached) add(session string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended || a.held[session] != nil {
		return
	}
	h := &attachment{}
	h.gone = time.AfterFunc(a.wait, func() { a.late(session) })
	a.held[session] = h
}

// late ends a session whose client has not come back.
func (a *attached) late(session string) {
	a.mu.Lock()
	h := a.held[session]
	if a.ended || h == nil || h.streams > 0 {
		a.mu.Unlock()
		return
	}
	delete(a.held, session)
	a.mu.Unlock()
	a.end(session)
}

// open counts a stream; closed must be called at its end. It reports false for a
// session that is not attached, or not any more.
func (a *attached) open(session string) (closed func(), ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	h := a.held[session]
	if h == nil {
		return nil, false
	}
	h.streams++
	h.gone.Stop()
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if h.streams--; h.streams == 0 && !a.ended && a.held[session] == h {
			h.gone.Reset(a.wait)
		}
	}, true
}

// drop forgets a session that ended.
func (a *attached) drop(session string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if h := a.held[session]; h != nil {
		h.gone.Stop()
		delete(a.held, session)
	}
}

// close ends no more sessions: the daemon stops, and what is kept is looked at after
// the next start.
func (a *attached) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	for _, h := range a.held {
		h.gone.Stop()
	}
}

// awaitClients waits for the clients of the attached sessions that were restored.
func (s *Server) awaitClients() {
	for _, st := range s.o.Sessions.List(agentloop.Peer{Admin: true}) {
		if st.Attached {
			s.attached.add(st.ID)
		}
	}
}

// endGone cancels the turn of a session whose client is gone, and ends the session.
func (s *Server) endGone(session string) {
	one, live := s.o.Sessions.Find(session)
	if !live {
		return
	}
	done, err := s.begin()
	if err != nil {
		return // the daemon stops
	}
	defer done()
	s.o.Log.Info("session ends", "session", session, "reason", agentloop.ClientGone)
	one.Cancel(agentloop.ClientGone)
	if err := s.o.Sessions.Close(s.base, session, one.Peer(), agentloop.ClientGone); err != nil && !errors.Is(err, agentloop.ErrNoSession) {
		s.o.Log.Error("session ends", "session", session, "error", err)
	}
	s.agents.drop(session)
}

// attach counts the stream of a request as one of its session's client. Such a stream
// has no bound for a client that takes nothing: it is there as long as it is open.
// Others than the session's user hold no session.
func (s *Server) attach(ctx context.Context, w http.ResponseWriter, r *http.Request, one *agentloop.Session) (out *sse, closed func(), err error) {
	if err := mayAct(one, peerOf(r)); err != nil {
		return nil, nil, err
	}
	left, ok := s.attached.open(one.ID())
	if !ok {
		return nil, nil, fault(CodeConflict, `make it with "attached":true`, "the session does not end with its client")
	}
	out = newSSE(w)
	out.patient = true
	// Nothing else sets a time: what waits in a write ends with the daemon, or the client.
	wake := context.AfterFunc(ctx, func() { _ = out.c.SetWriteDeadline(time.Now()) }) // the daemon stops
	return out, func() { wake(); left() }, nil
}
