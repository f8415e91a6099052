package agentloop

import (
	"encoding/json"
	"slices"
	"sync"
	"time"
)

// Event is one thing that happened in a session.
type Event struct {
	// ID counts the events of the session from 1; a client resumes by it.
	ID   int64           `json:"id"`
	Type string          `json:"type"`
	Time time.Time       `json:"time"`
	Data json.RawMessage `json:"data,omitempty"`
}

// Types of events.
const (
	EventCallDecided     = "call.decided"
	EventCallStarted     = "call.started"
	EventCallFinished    = "call.finished"
	EventQuestionAsked   = "question.asked"
	EventQuestionSettled = "question.settled"
	// EventQuestionExplained brings the text of a model about a question that waits.
	EventQuestionExplained = "question.explained"
	EventModeChanged       = "session.mode"
	EventRulesChanged      = "session.rules"
	EventPolicyReloaded    = "policy.reloaded"
	EventPolicyRefused     = "policy.refused"
	EventSessionStopped    = "session.stopped"
	// The life of a cancellation, in this order (requirement 140).
	EventCancelInserted = "cancel.inserted"
	EventCancelBlocked  = "cancel.blocked"
	EventCancelLoop     = "cancel.loop"
	EventCancelTools    = "cancel.tools"
	EventCancelRemoved  = "cancel.removed"
)

const (
	// keptEvents bounds the events that a session keeps for a reader who comes
	// back. A turn makes some ten.
	keptEvents = 1024
	// maxEventBytes bounds the data of one event; a longer one is told of
	// without its data.
	maxEventBytes = 64 << 10
	// readerEvents is how far a reader may fall behind before it is let go.
	readerEvents = 256
)

// Events keeps the last events of one session and hands them to subscribers. It
// is safe for concurrent use; publishing never waits for a reader.
type Events struct {
	now func() time.Time

	mu      sync.Mutex
	last    int64
	ring    []Event // at most keptEvents, oldest first
	bytes   int64   // in ring
	readers map[*Subscription]*reader
	memory  *userMemory
	closed  bool

	silent bool // nobody reads them, and none is kept
}

func newEvents(now func() time.Time, memory *userMemory) *Events {
	return &Events{now: now, readers: map[*Subscription]*reader{}, memory: memory}
}

// reader is the other side of a Subscription.
type reader struct {
	c       chan Event
	sizes   []int64 // of what may still be in c, oldest first
	waiting int64   // their sum
}

// settle forgets what the reader took.
func (r *reader) settle() {
	for len(r.sizes) > len(r.c) {
		r.waiting -= r.sizes[0]
		r.sizes = r.sizes[1:]
	}
}

// send hands an event over, or reports that the reader fell too far behind.
func (r *reader) send(ev Event) bool {
	r.settle()
	n := ev.bytes()
	if r.waiting > 0 && r.waiting+n > maxReader {
		return false
	}
	select {
	case r.c <- ev:
		r.sizes, r.waiting = append(r.sizes, n), r.waiting+n
		return true
	default:
		return false
	}
}

func (ev Event) bytes() int64 { return entryBytes + int64(len(ev.Data)) }

// Subscription is one reader of events.
type Subscription struct {
	// C gives the events in order. It is closed at the end of the session, by
	// Close, and when the reader fell too far behind; it then subscribes again
	// after the last event it has.
	C <-chan Event
	// Missed says that events after the given id are gone already.
	Missed bool

	from *Events
}

// Publish adds an event; data is encoded as JSON.
func (e *Events) Publish(kind string, data any) {
	if e == nil || e.silent {
		return
	}
	text, err := json.Marshal(data)
	if err != nil || len(text) > maxEventBytes {
		text = []byte(`{"omitted":"too long or not encodable"}`)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return
	}
	e.last++
	ev := Event{ID: e.last, Type: kind, Time: e.now().UTC(), Data: text}
	e.add(ev)
	for s, r := range e.readers {
		if !r.send(ev) {
			delete(e.readers, s)
			close(r.c)
		}
	}
}

// add keeps an event, and lets go of the oldest ones beyond the bounds. The last one
// is always kept.
func (e *Events) add(ev Event) {
	e.ring = append(e.ring, ev)
	e.bytes += ev.bytes()
	most := int64(maxRing)
	if e.memory.addEvents(ev.bytes()) {
		most = smallRing
	}
	gone, freed := 0, int64(0)
	for len(e.ring)-gone > 1 && (len(e.ring)-gone > keptEvents || e.bytes-freed > most) {
		freed += e.ring[gone].bytes()
		gone++
	}
	e.ring = slices.Delete(e.ring, 0, gone)
	e.bytes -= freed
	e.memory.addEvents(-freed)
}

// PublishTransient hands an event to those who read now. It is not kept, has the id
// of the last one that is, and a reader that lags behind does without it.
func (e *Events) PublishTransient(kind string, data any) {
	if e == nil || e.silent {
		return
	}
	text, err := json.Marshal(data)
	if err != nil || len(text) > maxEventBytes {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	ev := Event{ID: e.last, Type: kind, Time: e.now().UTC(), Data: text}
	for _, r := range e.readers {
		if r.settle(); len(r.c) < cap(r.c)/2 && r.waiting < maxReader/2 { // the other half is for events that are kept
			r.send(ev)
		}
	}
}

// Subscribe returns the kept events after the given id, and those that follow. An
// id that was never given, as after a restart of the daemon, counts as missed.
func (e *Events) Subscribe(after int64) *Subscription {
	e.mu.Lock()
	defer e.mu.Unlock()
	first := e.last - int64(len(e.ring)) + 1
	s := &Subscription{from: e, Missed: after > e.last || after < first-1}
	start := 0
	if !s.Missed {
		start = int(after - (first - 1))
	}
	missing := e.ring[start:]
	c := make(chan Event, len(missing)+readerEvents)
	for _, ev := range missing {
		c <- ev
	}
	s.C = c
	if e.closed {
		close(c)
	} else {
		r := &reader{c: c}
		for _, ev := range missing {
			r.sizes, r.waiting = append(r.sizes, ev.bytes()), r.waiting+ev.bytes()
		}
		e.readers[s] = r
	}
	return s
}

// Last is the id of the last event; 0 before the first.
func (e *Events) Last() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.last
}

// Close ends the subscription.
func (s *Subscription) Close() {
	s.from.mu.Lock()
	defer s.from.mu.Unlock()
	if r, ok := s.from.readers[s]; ok {
		delete(s.from.readers, s)
		close(r.c)
	}
}

// close ends all subscriptions; nothing is published any more.
func (e *Events) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	e.memory.addEvents(-e.bytes) // what is left goes with the session
	e.bytes = 0
	for s, r := range e.readers {
		delete(e.readers, s)
		close(r.c)
	}
}
