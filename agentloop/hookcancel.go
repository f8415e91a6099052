package agentloop

import (
	"context"
	"sync"
)

// CancellationHook blocks every call of a session that was cancelled, its
// sub-agents' too, until the session stops. The zero value is ready.
type CancellationHook struct {
	mu sync.Mutex
	// cancelled holds the sessions that have started and not stopped, so that
	// nothing is kept of others.
	cancelled map[string]bool
}

// Cancel marks a session. It reports false when there is no such session.
func (h *CancellationHook) Cancel(session string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, live := h.cancelled[session]; !live {
		return false
	}
	h.cancelled[session] = true
	return true
}

// Cancelled reports whether a session was cancelled and has not stopped.
func (h *CancellationHook) Cancelled(session string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cancelled[session]
}

// Name implements [Hook].
func (h *CancellationHook) Name() string { return "cancellation" }

// Handle implements [Hook]. A session that starts is clean, whatever ran under
// its id before.
func (h *CancellationHook) Handle(_ context.Context, e HookEvent) (HookOutcome, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch e.Event {
	case EventSessionStart:
		if h.cancelled == nil {
			h.cancelled = map[string]bool{}
		}
		h.cancelled[e.Session] = false
	case EventSessionStop:
		delete(h.cancelled, e.Session)
	case EventPreToolUse, EventSubagentStart:
		if h.cancelled[e.Session] {
			return HookOutcome{Action: HookBlock, Reason: "the session was cancelled", StopLoop: true}, nil
		}
	}
	return HookOutcome{Action: HookContinue}, nil
}
