package tools

import (
	"io"
	"testing"
	"time"
)

// endless is a server that never stops.
type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }
func (endless) Close() error               { return nil }

// A server that says much at once is read at once, one that says it for ever is read
// at its pace, and the end of a server ends the wait.
func TestServersAreReadAtAPace(t *testing.T) {
	done := make(chan struct{})
	r := paced(endless{}, done)
	start := time.Now()
	for at := 0; at < mcpBurst; {
		n, err := r.Read(make([]byte, 1<<20))
		if err != nil || n > mcpChunk {
			t.Fatal(n, err)
		}
		at += n
	}
	atOnce := time.Since(start)
	if _, err := io.CopyN(io.Discard, r, mcpRate/4); err != nil {
		t.Fatal(err)
	}
	// What came in during the burst was earned meanwhile.
	if took := time.Since(start); took < 240*time.Millisecond || atOnce > mcpBurst/mcpRate*time.Second/4 {
		t.Errorf("the burst took %v, a quarter of a second's worth more %v in all", atOnce, took)
	}
	time.AfterFunc(20*time.Millisecond, func() { close(done) })
	start = time.Now()
	if _, err := io.CopyN(io.Discard, r, 64*mcpRate); err != nil || time.Since(start) > 10*time.Second {
		t.Errorf("after its end: %v, %v", time.Since(start), err)
	}
}
