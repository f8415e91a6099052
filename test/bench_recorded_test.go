package test

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"sandboxd/agentloop"
	"sandboxd/agentloop/sqlite"
	"sandboxd/exec"
)

// BenchmarkRecordedLaunches is what the log adds to a launch of /bin/true with 8 callers
// at once: the row of the decision is durable before the start, that of the end after
// it. The ways take turns of a second; the median of a caller's launch counts. The
// budget is 10 %.
func BenchmarkRecordedLaunches(b *testing.B) {
	const callers, turns = 8, 6
	work := b.TempDir()
	s, err := sqlite.Open(filepath.Join(b.TempDir(), "state", "audit.db"), sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	record := func(n int) agentloop.AuditRecord {
		return agentloop.AuditRecord{UID: os.Getuid(), Session: "session", Call: fmt.Sprint(n), Tool: "run_bash", Status: agentloop.StatusAllow, Agent: "lead",
			Verdict: "allow", Args: json.RawMessage(`{"command":"true"}`), Reason: json.RawMessage(`{"type":"rule"}`), Enforced: json.RawMessage(`{"landlock_abi":7}`)}
	}
	r := exec.NewRunner(exec.ProbeHost())
	spec := exec.Spec{Path: "/bin/true", Argv: []string{"true"}, Dir: work, Env: []string{"PATH=/usr/bin:/bin"}, Tier: exec.TierBase, Stdout: io.Discard, Stderr: io.Discard}
	for _, p := range []string{"/usr", "/bin", "/lib", "/lib64", "/etc"} {
		spec.View.Entries = append(spec.View.Entries, exec.Entry{Path: p, Access: exec.ReadOnly, Optional: true})
	}
	spec.View.Entries = append(spec.View.Entries, exec.Entry{Path: work, Access: exec.ReadWrite})
	launch := func(int) error {
		res, err := r.Run(b.Context(), spec)
		if err == nil && res.ExitCode != 0 {
			err = fmt.Errorf("exit code %d", res.ExitCode)
		}
		return err
	}
	recorded := func(n int) error {
		if _, err := s.Append(b.Context(), record(n)); err != nil {
			return err
		}
		if err := launch(n); err != nil {
			return err
		}
		_, err := s.Append(b.Context(), record(n))
		return err
	}
	ways := []struct {
		name string
		run  func(n int) error
	}{{"launch", launch}, {"launch again", launch}, {"recorded launch", recorded}}
	for b.Loop() {
		took := make([][]float64, len(ways))
		for turn := range turns {
			for i := range ways {
				way := (i + turn) % len(ways)
				each := make([][]float64, callers)
				var all sync.WaitGroup
				begin := time.Now()
				for c := range callers {
					all.Go(func() {
						for n := 0; time.Since(begin) < time.Second; n++ {
							start := time.Now()
							if err := ways[way].run(n); err != nil {
								b.Errorf("%s: %v", ways[way].name, err)
								return
							}
							each[c] = append(each[c], float64(time.Since(start))/1e6)
						}
					})
				}
				all.Wait()
				took[way] = append(took[way], slices.Concat(each...)...)
			}
		}
		fmt.Fprintf(os.Stderr, "\nlaunches of /bin/true in one process, base tier, %d callers (ms)\n", callers)
		median := func(way int) float64 {
			slices.Sort(took[way])
			return took[way][len(took[way])/2]
		}
		for i, w := range ways {
			fmt.Fprintf(os.Stderr, "  %-20s p50 %7.2f  / launch %5.2f  (%d launches)\n", w.name, median(i), median(i)/median(0), len(took[i]))
		}
		ratio, word := median(2)/min(median(0), median(1)), "met"
		if ratio > 1.1 {
			word = "missed"
		}
		fmt.Fprintf(os.Stderr, "  recorded launch / launch %.2f  <= 1.10 %s\n", ratio, word)
	}
}
