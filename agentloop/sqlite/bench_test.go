package sqlite

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sandboxd/agentloop"
)

// BenchmarkAppend measures durable rows: how many a second, and how long one
// caller waits, with so many callers at once. The budget is 2,000 rows a second.
func BenchmarkAppend(b *testing.B) {
	for _, callers := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("callers-%d", callers), func(b *testing.B) {
			s := open(b, newPath(b), Options{})
			benchmarkAppend(b, s, callers)
		})
	}
}

func benchmarkAppend(b *testing.B, s *Store, callers int) {
	waits := make([][]time.Duration, callers)
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for c := range callers {
		wg.Go(func() {
			for {
				n := next.Add(1)
				if n > int64(b.N) {
					return
				}
				start := time.Now()
				if _, err := s.Append(b.Context(), record(int(n))); err != nil {
					b.Error(err)
					return
				}
				waits[c] = append(waits[c], time.Since(start))
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	sorted := slices.Concat(waits...)
	slices.Sort(sorted)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric(float64(sorted[len(sorted)/2].Microseconds()), "p50-us")
	b.ReportMetric(float64(sorted[len(sorted)*95/100].Microseconds()), "p95-us")
}

// BenchmarkVerify measures the check of a row, over a log of 20,000.
func BenchmarkVerify(b *testing.B) {
	const rows = 20000
	s := open(b, newPath(b), Options{})
	fill(b, s, 1, rows)
	for b.Loop() {
		mustVerify(b, s.Reader, rows)
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/rows, "us/row")
}

// BenchmarkSearch measures one page out of 20,000 rows.
func BenchmarkSearch(b *testing.B) {
	s := open(b, newPath(b), Options{})
	fill(b, s, 1, 20000)
	for name, q := range map[string]agentloop.AuditQuery{
		"newest":  {Viewer: agentloop.ViewOwn(1000), Newest: true},
		"session": {Viewer: agentloop.ViewAll(), Session: "s1"},
		"text":    {Viewer: agentloop.ViewAll(), Text: "target77*"},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if page, err := s.Search(b.Context(), q); err != nil || len(page.Rows) == 0 {
					b.Fatal(len(page.Rows), err)
				}
			}
		})
	}
}
