package exec

import (
	"context"
	"fmt"
	"io"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// way is a way to start a command from this process and to wait for its end.
type way struct {
	name string
	run  func() error
}

// launchWays are plain os/exec twice, the second as control, bwrap where it is
// installed, and a Runner in each tier.
func launchWays(b *testing.B, work string) []way {
	b.Helper()
	plain := func() error { return osexec.Command("/bin/true").Run() }
	ways := []way{{"plain", plain}, {"plain again", plain}}
	r := NewRunner(host)
	r.CacheDir = filepath.Join(work, "cache")
	if err := os.Mkdir(r.CacheDir, 0o700); err != nil {
		b.Fatal(err)
	}
	for _, tier := range []Tier{TierBase, TierFull} {
		if tier == TierFull && !host.MountView {
			continue
		}
		s := spec(tier, work)
		s.Path, s.Argv, s.Stdout, s.Stderr = "/bin/true", []string{"true"}, io.Discard, io.Discard
		name := map[Tier]string{TierBase: "Runner, base tier", TierFull: "Runner, full tier"}[tier]
		ways = append(ways, way{name, runOf(r, s)})
		ready := NewRunner(host)
		ready.CacheDir, ready.Warm = r.CacheDir, 8
		b.Cleanup(ready.Close)
		ways = append(ways, way{name + ", warm", runOf(ready, s)})
		if tier == TierBase {
			wide := s
			wide.View.Entries = slices.Concat(s.View.Entries, manyEntries(b, work, 200))
			ways = append(ways, way{"Runner, base tier, 200 paths", runOf(r, wide)})
		}
	}
	if path, err := osexec.LookPath("bwrap"); err == nil {
		ways = append(ways, way{"bwrap", func() error {
			return osexec.Command(path, "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib",
				"--symlink", "usr/lib64", "/lib64", "--ro-bind", "/etc", "/etc", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp",
				"--unshare-all", "--die-with-parent", "--new-session", "/bin/true").Run()
		}})
	}
	return ways
}

func runOf(r *Runner, s Spec) func() error {
	return func() error {
		res, err := r.Run(context.Background(), s)
		if err == nil && res.ExitCode != 0 {
			err = fmt.Errorf("exit code %d", res.ExitCode)
		}
		return err
	}
}

// manyEntries are readable directories beside the workspace.
func manyEntries(b *testing.B, work string, n int) []Entry {
	b.Helper()
	var list []Entry
	for i := range n {
		dir := filepath.Join(work, "granted", strconv.Itoa(i))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			b.Fatal(err)
		}
		list = append(list, Entry{Path: dir, Access: ReadOnly})
	}
	return list
}

// BenchmarkLaunch starts /bin/true in turns, 200 each or for 12 s, and prints the
// medians and their ratios beside the budgets.
func BenchmarkLaunch(b *testing.B) {
	for b.Loop() {
		ways := launchWays(b, b.TempDir())
		took := map[string][]float64{}
		end := time.Now().Add(12 * time.Second)
		for round := -1; round < 200 && (round < 1 || time.Now().Before(end)); round++ {
			for i := range ways {
				w := ways[(i+max(round, 0))%len(ways)]
				start := time.Now()
				if err := w.run(); err != nil {
					b.Fatalf("%s: %v", w.name, err)
				}
				if round >= 0 { // the first fills the caches
					took[w.name] = append(took[w.name], float64(time.Since(start))/1e6)
				}
			}
		}
		var out strings.Builder
		fmt.Fprintf(&out, "\nin-process launch of /bin/true, uid %d, %d turns (ms)\n", os.Getuid(), len(took["plain"]))
		for _, w := range ways {
			fmt.Fprintf(&out, "  %-30s p50 %7.2f  p95 %7.2f\n", w.name, at(took[w.name], 0.5), at(took[w.name], 0.95))
		}
		ratio := func(of, to string, q, budget float64) {
			if took[of] != nil && took[to] != nil {
				fmt.Fprintln(&out, compared(fmt.Sprintf("p%.0f of %s / %s", 100*q, of, to), at(took[of], q)/at(took[to], q), budget))
			}
		}
		ratio("plain again", "plain", 0.5, 0)
		ratio("Runner, base tier", "plain", 0.5, 1.25)
		ratio("Runner, base tier, warm", "plain", 0.5, 1.25)
		ratio("Runner, base tier", "plain", 0.95, 1.5)
		ratio("Runner, base tier", "bwrap", 0.5, 0.3)
		ratio("Runner, base tier, 200 paths", "plain", 0.5, 1.7)
		ratio("Runner, full tier", "plain", 0.5, 0)
		ratio("Runner, full tier", "bwrap", 0.5, 0.4)
		ratio("Runner, full tier, warm", "bwrap", 0.5, 0.4)
		fmt.Fprint(os.Stderr, out.String())
	}
}

// at is the smallest value that q of all do not exceed.
func at(values []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// compared is one line about a ratio that is to be at most budget; 0 is none.
func compared(what string, ratio, budget float64) string {
	switch {
	case budget == 0:
		return fmt.Sprintf("  %-45s %6.2f", what, ratio)
	case ratio <= budget:
		return fmt.Sprintf("  %-45s %6.2f  <= %.2f met", what, ratio, budget)
	}
	return fmt.Sprintf("  %-45s %6.2f  <= %.2f missed", what, ratio, budget)
}

// BenchmarkLaunchesAtOnce counts launches a second by 64 callers, each way for a
// second, twice in turns.
func BenchmarkLaunchesAtOnce(b *testing.B) {
	const callers = 64
	for b.Loop() {
		rate := map[string]float64{}
		ways := launchWays(b, b.TempDir())
		for range 2 {
			for _, w := range ways {
				var all sync.WaitGroup
				var done atomic.Int64
				start := time.Now()
				for range callers {
					all.Go(func() {
						for time.Since(start) < time.Second {
							if err := w.run(); err != nil {
								b.Errorf("%s: %v", w.name, err)
								return
							}
							done.Add(1)
						}
					})
				}
				all.Wait()
				rate[w.name] = max(rate[w.name], float64(done.Load())/time.Since(start).Seconds())
			}
		}
		var out strings.Builder
		fmt.Fprintf(&out, "\nin-process launches a second, uid %d, %d at once\n", os.Getuid(), callers)
		for _, w := range ways {
			fmt.Fprintf(&out, "  %-30s %8.0f\n", w.name, rate[w.name])
		}
		fmt.Fprintln(&out, compared("plain / Runner, base tier, warm (>= 0.8 of plain)", rate["plain"]/rate["Runner, base tier, warm"], 1/0.8))
		fmt.Fprintln(&out, compared("plain / Runner, base tier (>= 0.8 of plain)", rate["plain"]/rate["Runner, base tier"], 1/0.8))
		if peer := rate["bwrap"]; peer > 0 {
			fmt.Fprintln(&out, compared("bwrap / Runner, base tier, warm (>= 4x bwrap)", peer/rate["Runner, base tier, warm"], 1/4.0))
			fmt.Fprintln(&out, compared("bwrap / Runner, base tier (>= 4x bwrap)", peer/rate["Runner, base tier"], 1/4.0))
		}
		fmt.Fprint(os.Stderr, out.String())
	}
}

// BenchmarkNoisyMemory runs 200 commands at once that write 1 MiB each, of which
// 64 KiB are kept, and prints by how much this process grew.
func BenchmarkNoisyMemory(b *testing.B) {
	const commands, budget = 200, 64.0
	for b.Loop() {
		work := b.TempDir()
		r := NewRunner(host)
		s := spec(TierBase, work)
		s.Path, s.Argv = "/usr/bin/head", []string{"head", "-c", "1048576", "/dev/zero"}
		s.Limits.OutputBytes, s.Limits.OutputFileBytes = 64<<10, -1
		if err := runOf(r, s)(); err != nil {
			b.Fatal(err)
		}
		before := peakResident(b)
		var all sync.WaitGroup
		for range commands {
			all.Go(func() {
				if err := runOf(r, s)(); err != nil {
					b.Error(err)
				}
			})
		}
		all.Wait()
		grown := peakResident(b) - before
		fmt.Fprintf(os.Stderr, "\n%d noisy children at once, uid %d\n%s\n", commands, os.Getuid(),
			compared("growth of the starter in MiB", grown, budget))
	}
}

// peakResident is the most memory this process had so far, in MiB.
func peakResident(b *testing.B) float64 {
	b.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	var kib float64
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		b.Fatal(err)
	}
	return kib / 1024
}
