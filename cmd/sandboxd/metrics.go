package main

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"sandboxd/agentloop"
)

// metricsHandler serves the daemon's counters and those of its process.
func metricsHandler(m *agentloop.Metrics) http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(collector{m}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{})
}

// collector hands the samples on. Its set of metrics is open, so that it describes
// none.
type collector struct{ m *agentloop.Metrics }

func (collector) Describe(chan<- *prometheus.Desc) {}

func (c collector) Collect(out chan<- prometheus.Metric) {
	histograms := map[string]*histogram{}
	var order []string
	for _, s := range c.m.Samples() {
		if s.Kind != "histogram" {
			names, values := labels(s.Labels)
			kind := prometheus.CounterValue
			if s.Kind == "gauge" {
				kind = prometheus.GaugeValue
			}
			out <- prometheus.MustNewConstMetric(prometheus.NewDesc(s.Name, s.Help, names, nil), kind, s.Value, values...)
			continue
		}
		name := s.Name
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			name = strings.TrimSuffix(name, suffix)
		}
		h, ok := histograms[name]
		if !ok {
			h = &histogram{help: s.Help, buckets: map[float64]uint64{}}
			histograms[name], order = h, append(order, name)
		}
		h.add(strings.TrimPrefix(s.Name, name), s)
	}
	for _, name := range order {
		h := histograms[name]
		out <- prometheus.MustNewConstHistogram(prometheus.NewDesc(name, h.help, nil, nil), h.count, h.sum, h.buckets)
	}
}

// histogram is collected from its samples.
type histogram struct {
	help    string
	buckets map[float64]uint64
	sum     float64
	count   uint64
}

func (h *histogram) add(suffix string, s agentloop.Sample) {
	switch suffix {
	case "_sum":
		h.sum = s.Value
	case "_count":
		h.count = uint64(s.Value)
	case "_bucket":
		for _, l := range s.Labels {
			if bound, err := strconv.ParseFloat(l.Value, 64); err == nil && l.Name == "le" && l.Value != "+Inf" {
				h.buckets[bound] = uint64(s.Value)
			}
		}
	}
}

func labels(list []agentloop.Label) (names, values []string) {
	for _, l := range list {
		names, values = append(names, l.Name), append(values, l.Value)
	}
	return names, values
}
