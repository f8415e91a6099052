package exec

import (
	"io"
	"os"
	"testing"
	"time"
)

// A pipe that nobody reads holds up neither the deadline nor, when it is read
// late, a single byte.
func TestReaderWhoWaits(t *testing.T) {
	each(t, func(t *testing.T, s Spec, work string) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		c := sh(s, "yes")
		c.Stdout, c.Limits.Wall, c.Limits.Grace = w, 150*time.Millisecond, 100*time.Millisecond
		start := time.Now()
		if got := run(t, c); got.Outcome != TimedOut || time.Since(start) > 5*time.Second {
			t.Errorf("%s after %v", got.Outcome, time.Since(start))
		}
		late, w2, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer late.Close()
		read := make(chan int)
		go func() {
			time.Sleep(2 * drainTime) // longer than an impatient end would wait
			b, _ := io.ReadAll(late)
			read <- len(b)
		}()
		c = sh(s, "head -c 300000 /dev/zero")
		c.Stdout = w2
		got := run(t, c)
		w2.Close()
		if n := <-read; n != 300000 || got.Stdout.Bytes != 300000 {
			t.Errorf("%d bytes arrived, %d counted", n, got.Stdout.Bytes)
		}
		w.Close()
	})
}
