package test

import (
	"io"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A client that is stopped while output waits for it does not hold its command for
// ever; one whose reader is slow keeps it.
func TestClientThatTakesNothingIsGone(t *testing.T) {
	d := startDaemon(t, os.Getuid(), "--client-timeout", "2s")
	start := func(mark string) (stop func(), out *os.File) {
		t.Helper()
		r, w, err := os.Pipe()
		d.must(err)
		c := d.toDaemon(d, "exec", "--quiet", "--mode", "bypassPermissions", "--", "sh", "-c", "yes "+mark)
		c.Stdout = w
		d.must(c.Start())
		w.Close()
		t.Cleanup(func() { r.Close(); c.Process.Kill(); c.Wait() })
		buf := make([]byte, 4096)
		_, err = io.ReadFull(r, buf)
		d.must(err)
		return func() { d.must(c.Process.Signal(unix.SIGSTOP)) }, r
	}
	runs := func(mark string) bool { return len(processesWith("yes\x00"+mark)) > 0 }
	mark := d.mark()
	stopped, _ := start("stopped" + mark)
	_, slow := start("slow" + mark)
	for _, name := range []string{"stopped", "slow"} {
		if !runs(name + mark) {
			t.Fatalf("the command of %s is not there", name)
		}
	}
	stopped()
	began := time.Now()
	buf := make([]byte, 8192)
	for runs("stopped"+mark) && time.Since(began) < 20*time.Second {
		if _, err := slow.Read(buf); err != nil { // a little at a time
			t.Fatalf("the slow reader is cut after %v: %v", time.Since(began), err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	if took := time.Since(began); runs("stopped"+mark) || took < time.Second {
		t.Errorf("the command of a client that takes nothing: runs %v after %v", runs("stopped"+mark), took)
	}
	if !runs("slow" + mark) {
		t.Error("the command of the slow reader was ended")
	}
}
