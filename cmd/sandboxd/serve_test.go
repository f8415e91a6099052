package main

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// The end of the daemon has a last bound.
func TestEndOfTheDaemonIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := errors.New("failed")
		if err := endsWithin(time.Second, func() error { time.Sleep(999 * time.Millisecond); return failed }); err != failed {
			t.Errorf("in time: %v", err)
		}
		stuck := make(chan struct{})
		began := time.Now()
		if err := endsWithin(time.Second, func() error { <-stuck; return nil }); err != errStuck || time.Since(began) != time.Second {
			t.Errorf("stuck: %v after %v", err, time.Since(began))
		}
		close(stuck)
	})
}
