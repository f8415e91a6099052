package agentloop

import (
	"context"
	"log/slog"
	"maps"
	"sync"

	"sandboxd/policy"
)

// metricsEvery is how many steps lie between two summaries in the log.
const metricsEvery = 3

// MetricsHook counts what the agents of a session do. It is safe for concurrent
// use.
type MetricsHook struct {
	log *slog.Logger
	mu  sync.Mutex
	now HookMetrics
}

// HookMetrics are the counters of a [MetricsHook].
type HookMetrics struct {
	Steps     int `json:"steps"`
	ToolCalls int `json:"tool_calls"`
	// Errors are calls that did not end with StatusOK.
	Errors int `json:"errors"`
	// Tools counts the calls by tool.
	Tools map[string]int `json:"tools"`
	// Termination is why the session stopped; empty while it runs.
	Termination string `json:"termination,omitempty"`
}

// NewMetricsHook logs to log; nil logs nothing.
func NewMetricsHook(log *slog.Logger) *MetricsHook {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &MetricsHook{log: log, now: HookMetrics{Tools: map[string]int{}}}
}

// Snapshot returns the counters as they are.
func (h *MetricsHook) Snapshot() HookMetrics {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.now
	s.Tools = maps.Clone(s.Tools)
	return s
}

// Name implements [Hook].
func (h *MetricsHook) Name() string { return "metrics" }

// maxMetricTools bounds the names that are counted one by one: a client chooses
// them.
const maxMetricTools = 200

// Handle implements [Hook].
func (h *MetricsHook) Handle(ctx context.Context, e HookEvent) (HookOutcome, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := &h.now
	switch e.Event {
	case EventSessionStart:
		m.Termination = ""
	case EventPostToolUse:
		m.ToolCalls++
		if e.Status != StatusOK && e.Status != "" {
			m.Errors++
		}
		tool := policy.CanonicalTool(e.Tool)
		if _, known := m.Tools[tool]; !known && len(m.Tools) >= maxMetricTools {
			tool = "other"
		}
		m.Tools[tool]++
	case EventStepComplete:
		m.Steps++
		if m.Steps%metricsEvery == 0 {
			h.log.InfoContext(ctx, "session metrics", "session", e.Session, "steps", m.Steps, "tool_calls", m.ToolCalls, "errors", m.Errors)
		}
	case EventSessionStop:
		m.Termination = e.Reason
		h.log.InfoContext(ctx, "session stopped", "session", e.Session, "reason", e.Reason, "steps", m.Steps, "tool_calls", m.ToolCalls, "errors", m.Errors)
	}
	return HookOutcome{Action: HookContinue}, nil
}
