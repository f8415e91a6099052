package child

import (
	"errors"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Caught signals come in order of arrival, and belong to whoever had them again
// after Close.
func TestSignalsAreCaughtAndGivenBack(t *testing.T) {
	before := make(chan os.Signal, 4)
	signal.Notify(before, unix.SIGUSR1)
	defer signal.Stop(before)
	signal.Ignore(unix.SIGUSR2)
	defer signal.Reset(unix.SIGUSR2)

	for round := range 3 {
		s, err := CatchSignals(unix.SIGUSR1, unix.SIGUSR2)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := CatchSignals(unix.SIGHUP); !errors.Is(err, unix.EBUSY) {
			t.Errorf("round %d: a second list: %v, want EBUSY", round, err)
		}
		for _, want := range []syscall.Signal{unix.SIGUSR1, unix.SIGUSR2, unix.SIGUSR1} {
			unix.Kill(unix.Getpid(), want)
			if got, err := s.Next(); got != want || err != nil {
				t.Errorf("round %d: %v, %v, want %v", round, got, err, want)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if got, err := s.Next(); err == nil {
			t.Errorf("round %d: after Close: %v", round, got)
		}
		unix.Kill(unix.Getpid(), unix.SIGUSR2) // ignored again: ends the process otherwise
		unix.Kill(unix.Getpid(), unix.SIGUSR1)
		if got := <-before; got != unix.SIGUSR1 {
			t.Errorf("round %d: %v came back", round, got)
		}
	}
}

// Close ends a Next that waits.
func TestSignalsCloseEndsNext(t *testing.T) {
	s, err := CatchSignals(unix.SIGUSR1)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		_, err := s.Next()
		done <- err
	}()
	s.Close()
	if err := <-done; err == nil {
		t.Error("Next returned a signal that nobody sent")
	}
}
