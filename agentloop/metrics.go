package agentloop

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"sandboxd/policy"
)

// Metrics counts what the daemon does. A nil *Metrics counts nothing. It is
// safe for concurrent use.
type Metrics struct {
	mu     sync.Mutex
	counts map[metricKey]float64
	times  map[string]*histogram
}

// metricKey is one series: a name and the values of its labels.
type metricKey struct{ name, a, b string }

type histogram struct {
	buckets []uint64 // one for each of latencyBounds
	sum     float64
	count   uint64
}

// latencyBounds are the upper bounds of the buckets, in seconds: a launch takes
// some milliseconds, a build minutes.
var latencyBounds = []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120}

// metric describes one name of the output.
type metric struct{ name, help, kind, labelA, labelB string }

var metricTable = []metric{
	{"sandboxd_decisions_total", "Decided calls.", "counter", "verdict", "reason"},
	{"sandboxd_calls_total", "Calls by their end.", "counter", "status", ""},
	{"sandboxd_launches_total", "Commands that were started.", "counter", "", ""},
	{"sandboxd_refused_total", "Calls that were allowed and did not start.", "counter", "why", ""},
	{"sandboxd_detected_total", "Findings after a run, by what was done.", "counter", "action", ""},
	{"sandboxd_running", "Calls that run now.", "gauge", "", ""},
	{"sandboxd_queued", "Calls that wait for their turn.", "gauge", "", ""},
	{"sandboxd_questions_pending", "Questions that wait for a person.", "gauge", "", ""},
	{"sandboxd_questions_total", "Settled questions by their end.", "counter", "how", ""},
	{"sandboxd_audit_failures_total", "Rows of the audit log that could not be written.", "counter", "", ""},
	{"sandboxd_sessions", "Live sessions.", "gauge", "", ""},
	{"sandboxd_policy_reloads_total", "Policies that were read again.", "counter", "result", ""},
	{"sandboxd_decision_seconds", "Time to decide, without the wait for a person.", "histogram", "", ""},
	{"sandboxd_call_seconds", "Time of a call from its start to its end.", "histogram", "", ""},
}

// NewMetrics returns counters at zero.
func NewMetrics() *Metrics {
	return &Metrics{counts: map[metricKey]float64{}, times: map[string]*histogram{}}
}

func (m *Metrics) add(n float64, name string, labels ...string) {
	if m == nil {
		return
	}
	k := metricKey{name: name}
	if len(labels) > 0 {
		k.a = labels[0]
	}
	if len(labels) > 1 {
		k.b = labels[1]
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts[k] += n
}

func (m *Metrics) observe(name string, d time.Duration) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.times[name]
	if h == nil {
		h = &histogram{buckets: make([]uint64, len(latencyBounds))}
		m.times[name] = h
	}
	h.sum += d.Seconds()
	h.count++
	for i, bound := range latencyBounds {
		if d.Seconds() <= bound {
			h.buckets[i]++
		}
	}
}

func (m *Metrics) decided(d policy.Decision) {
	reason := "none"
	if d.Reason != nil {
		reason = d.Reason.Type()
	}
	m.add(1, "sandboxd_decisions_total", d.Verdict.String(), reason)
}

// Sample is one value of a metric, as Prometheus has it.
type Sample struct {
	Name   string
	Help   string
	Kind   string // counter, gauge or histogram
	Labels []Label
	Value  float64
}

// Label is one label of a sample.
type Label struct{ Name, Value string }

// Samples returns every value, those of one metric together, in a fixed order. A
// histogram h is h_bucket by le, h_sum and h_count.
func (m *Metrics) Samples() []Sample {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []Sample
	for _, t := range metricTable {
		if t.kind == "histogram" {
			out = append(out, m.times[t.name].samples(t)...)
			continue
		}
		out = append(out, m.series(t)...)
	}
	return out
}

// series returns the values of one counter or gauge.
func (m *Metrics) series(t metric) []Sample {
	var out []Sample
	for k, v := range m.counts {
		if k.name != t.name {
			continue
		}
		s := Sample{Name: t.name, Help: t.help, Kind: t.kind, Value: v}
		for _, l := range []Label{{t.labelA, k.a}, {t.labelB, k.b}} {
			if l.Name != "" {
				s.Labels = append(s.Labels, l)
			}
		}
		out = append(out, s)
	}
	if len(out) == 0 && t.labelA == "" {
		out = append(out, Sample{Name: t.name, Help: t.help, Kind: t.kind})
	}
	slices.SortFunc(out, func(a, b Sample) int { return strings.Compare(labelText(a), labelText(b)) })
	return out
}

func labelText(s Sample) string {
	var b strings.Builder
	for _, l := range s.Labels {
		b.WriteString(l.Value + "\x00")
	}
	return b.String()
}

func (h *histogram) samples(t metric) []Sample {
	if h == nil {
		h = &histogram{buckets: make([]uint64, len(latencyBounds))}
	}
	var out []Sample
	add := func(suffix string, value float64, labels ...Label) {
		out = append(out, Sample{Name: t.name + suffix, Help: t.help, Kind: t.kind, Labels: labels, Value: value})
	}
	for i, bound := range latencyBounds {
		add("_bucket", float64(h.buckets[i]), Label{"le", floatText(bound)})
	}
	add("_bucket", float64(h.count), Label{"le", "+Inf"})
	add("_sum", h.sum)
	add("_count", float64(h.count))
	return out
}

func floatText(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }
