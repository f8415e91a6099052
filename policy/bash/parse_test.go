package bash

import (
	"syscall"
	"testing"

	"mvdan.cc/sh/v3/syntax"
)

// BenchmarkParse is the parser alone, as a measure for BenchmarkAnalyze.
func BenchmarkParse(b *testing.B) {
	const script = `cd src && for f in *.go; do grep -n TODO "$f" | head -5; done
if [ -d build ]; then rm -rf build; fi; mkdir -p build && go build -o build/app ./... 2>&1 | tee build/log.txt; git status --short | wc -l; echo "done $?"`
	var u, v syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	n := 0
	for b.Loop() {
		parse(script, syntax.LangBash)
		n++
	}
	syscall.Getrusage(syscall.RUSAGE_SELF, &v)
	b.ReportMetric(float64(v.Utime.Nano()+v.Stime.Nano()-u.Utime.Nano()-u.Stime.Nano())/1000/float64(n), "cpu-µs/op")
}
