package agentloop

import (
	"os"
	"sync"
	"testing"
	"time"
)

// Starts at the same time sweep what the others have just made and not yet
// locked. None of them may fail for it, and none may lose what it has.
func TestTempOfManyStartsAtOnce(t *testing.T) {
	part := t.TempDir()
	b := &builder{}
	var all sync.WaitGroup
	end := time.Now().Add(time.Second)
	for range 16 {
		all.Go(func() {
			for time.Now().Before(end) {
				sweepTemp(part)
				dir, remove, err := b.makeTemp(part)
				if err != nil {
					t.Errorf("makeTemp: %v", err)
					return
				}
				if err := os.WriteFile(dir+"/file", nil, 0o600); err != nil {
					t.Errorf("the directory is gone: %v", err)
				}
				if err := remove(); err != nil {
					t.Errorf("remove: %v", err)
				}
			}
		})
	}
	all.Wait()
	if left, _ := readNames(part); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}
