package agentloop

import (
	"encoding/json"
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

// Events keeps the last events of one session and hands them to subscribers. It
// is safe for concurrent use.
type Events struct{}

// Subscription is one reader of events.
type Subscription struct {
	// C gives the events in order and is closed at the end of the session, by
	// Close, and when the reader is too slow ([Subscription.Lost]).
	C <-chan Event
	// Missed says that events after the given id are gone already.
	Missed bool
}

// Publish adds an event; data is encoded as JSON.
func (e *Events) Publish(kind string, data any) {}

// Subscribe returns the events after the given id, and those that follow.
func (e *Events) Subscribe(after int64) *Subscription {
	c := make(chan Event)
	close(c)
	return &Subscription{C: c}
}

// Close ends the subscription.
func (s *Subscription) Close() {}
