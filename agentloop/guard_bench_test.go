package agentloop

import (
	"fmt"
	"os"
	osexec "os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// bigTree makes 30,000 directories with ten files each (300,000 files).
func bigTree(b *testing.B, w string) {
	b.Helper()
	for i := range 30 {
		for j := range 1000 {
			dir := fmt.Sprintf("%s/d%d/e%d/f%d", w, i, j/100, j%100)
			if err := os.MkdirAll(dir, 0o755); err != nil {
				b.Fatal(err)
			}
			for k := range 10 {
				if err := os.WriteFile(fmt.Sprintf("%s/file%d.txt", dir, k), nil, 0o644); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
}

func BenchmarkGuard(b *testing.B) {
	for _, size := range []string{"small", "300000 files"} {
		w := b.TempDir()
		if out, err := osexec.Command("git", "init", "-q", w).CombinedOutput(); err != nil {
			b.Fatal(err, string(out))
		}
		if size != "small" {
			if testing.Short() {
				continue
			}
			bigTree(b, w)
		}
		held := []string{w + "/.git/hooks", w + "/.git/config"}
		for _, level := range [][]string{held, nil} {
			var begin, finish int64
			b.Run(fmt.Sprintf("%s/held=%v", size, level != nil), func(b *testing.B) {
				state := b.TempDir()
				for b.Loop() {
					t0 := now()
					g, err := BeginGuard(state, w, GuardOptions{Kernel: level})
					if err != nil {
						b.Fatal(err)
					}
					t1 := now()
					if list, err := g.Finish(); err != nil || len(list) != 0 {
						b.Fatal(list, err)
					}
					begin, finish = begin+t1-t0, finish+now()-t1
				}
				b.ReportMetric(float64(begin)/float64(b.N)/1e3, "begin-µs/op")
				b.ReportMetric(float64(finish)/float64(b.N)/1e6, "finish-ms/op")
				begin, finish = 0, 0
			})
		}
	}
}

func now() int64 { return guardClock(unix.CLOCK_MONOTONIC) }
