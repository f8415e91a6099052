package policy

import (
	"fmt"
	"sync"
)

// DenialTracker ends a loop that runs against a wall. The zero value has the
// documented limits: 3 denials in a row, 20 altogether. It is safe for
// concurrent use.
type DenialTracker struct {
	// MaxConsecutive and MaxTotal are read once, before the first Record. Zero
	// means 3 and 20, negative no limit.
	MaxConsecutive, MaxTotal int

	mu          sync.Mutex
	consecutive int
	total       int
}

// Record counts a final verdict. An allowed call starts the count in a row
// anew; the total is never reset. stop is empty until a limit is reached, then
// says which.
func (t *DenialTracker) Record(v Verdict) (stop string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if v == Allow {
		t.consecutive = 0
	} else {
		t.consecutive++
		t.total++
	}
	if limit := orDefault(t.MaxConsecutive, 3); limit > 0 && t.consecutive >= limit {
		return fmt.Sprintf("%d calls in a row were denied", t.consecutive)
	}
	if limit := orDefault(t.MaxTotal, 20); limit > 0 && t.total >= limit {
		return fmt.Sprintf("%d calls were denied", t.total)
	}
	return ""
}

func orDefault(n, def int) int {
	if n == 0 {
		return def
	}
	return n
}
