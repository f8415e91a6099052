package bash_test

import (
	"strings"
	"testing"

	"sandboxd/policy/bash"
)

const script200 = `cd src && for f in *.go; do grep -n TODO "$f" | head -5; done
if [ -d build ]; then rm -rf build; fi; mkdir -p build && go build -o build/app ./... 2>&1 | tee build/log.txt; git status --short | wc -l; echo "done $?"`

// BenchmarkAnalyze reports processor time too, which a busy machine does not
// change much. "parse" is the parser alone, which nothing can be faster than.
func BenchmarkAnalyze(b *testing.B) {
	for _, bm := range []struct{ name, script string }{
		{"20B", "git log --oneline -5"},
		{"200B", script200},
		{"10kB", strings.Repeat(script200+"\n", 50)},
	} {
		b.Run(bm.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(bm.script)))
			start, n := cpuTime(b), 0
			for b.Loop() {
				bash.Analyze(bm.script, bash.Options{Cwd: "/w", Home: "/home/dev"})
				n++
			}
			b.ReportMetric(float64((cpuTime(b)-start).Microseconds())/float64(n), "cpu-µs/op")
		})
	}
}

// BenchmarkCorpus reports commands a second over the everyday family.
func BenchmarkCorpus(b *testing.B) {
	var scripts []string
	for _, c := range readCases(b, "bash.jsonl") {
		if len(c.Command) < 2000 {
			scripts = append(scripts, c.Command)
		}
	}
	n := 0
	start := cpuTime(b)
	for b.Loop() {
		for _, s := range scripts {
			bash.Analyze(s, bash.Options{Cwd: "/w", Home: "/home/dev"})
			n++
		}
	}
	b.ReportMetric(float64(n)/(cpuTime(b)-start).Seconds(), "commands/cpu-s")
}
