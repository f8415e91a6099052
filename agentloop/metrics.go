package agentloop

// Metrics counts what the daemon does. A nil *Metrics counts nothing. It is
// safe for concurrent use.
type Metrics struct{}

// NewMetrics returns counters at zero.
func NewMetrics() *Metrics { return &Metrics{} }

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

// Samples returns every value, those of one metric together, in a fixed order.
func (m *Metrics) Samples() []Sample { return nil }
