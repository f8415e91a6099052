package agentloop

import (
	"os"
	"sync"
	"testing"
	"time"
)

// Starts at the same time look for the journals of dead runs, and must not take
// one that was just made and not yet locked for such: no start fails for it, and
// each has its journal on disk while it runs.
func TestGuardOfManyStartsAtOnce(t *testing.T) {
	state, work := t.TempDir(), t.TempDir()
	var all sync.WaitGroup
	end := time.Now().Add(time.Second)
	for range 16 {
		all.Go(func() {
			for time.Now().Before(end) && !t.Failed() {
				if _, err := CompleteGuards(state); err != nil {
					t.Errorf("CompleteGuards: %v", err)
				}
				g, err := BeginGuard(state, work, GuardOptions{})
				if err != nil {
					t.Errorf("BeginGuard: %v", err)
					return
				}
				if _, err := os.Lstat(g.file.Name()); err != nil {
					t.Errorf("a run without a journal: %v", err)
				}
				if found, err := g.Finish(); err != nil || len(found) != 0 {
					t.Errorf("Finish: %v, %v", found, err)
				}
			}
		})
	}
	all.Wait()
}
