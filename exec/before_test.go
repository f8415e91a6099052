package exec

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// The command starts when BeforeStart has returned, however long that takes.
func TestCommandStartsAfterBeforeStart(t *testing.T) {
	each(t, func(t *testing.T, s Spec, work string) {
		note := filepath.Join(work, "note")
		s.BeforeStart = func() error {
			time.Sleep(100 * time.Millisecond) // longer than a start takes
			if _, err := os.Stat(note + ".command"); err == nil {
				t.Error("the command ran before")
			}
			return os.WriteFile(note, nil, 0o600)
		}
		res := run(t, sh(s, "touch "+note+".command; test -e "+note))
		if res.ExitCode != 0 {
			t.Errorf("exit code %d: what BeforeStart made was not there", res.ExitCode)
		}
	})
}

// An error of it is what Run returns, nothing ran, and nothing of the start is left.
func TestErrorOfBeforeStartEndsTheStart(t *testing.T) {
	each(t, func(t *testing.T, s Spec, work string) {
		note, refused := filepath.Join(work, "note"), errors.New("not today")
		s.BeforeStart = func() error { return refused }
		res, err := NewRunner(host).Run(t.Context(), sh(s, "touch "+note))
		if err != refused || res.Outcome != NotSetUp {
			t.Errorf("Run: %v, %v, want %v, %v", res.Outcome, err, NotSetUp, refused)
		}
		time.Sleep(50 * time.Millisecond) // a keeper that did not wait would be done
		if _, err := os.Stat(note); err == nil {
			t.Error("the command ran")
		}
	})
}

// A view that cannot be built is reported as without BeforeStart.
func TestFailureMeanwhileIsReported(t *testing.T) {
	each(t, func(t *testing.T, s Spec, work string) {
		s.Dir = filepath.Join(work, "missing")
		_, want := NewRunner(host).Run(t.Context(), sh(s, "true"))
		called := false
		s.BeforeStart = func() error { called = true; return nil }
		_, got := NewRunner(host).Run(t.Context(), sh(s, "true"))
		if want == nil || got == nil || got.Error() != want.Error() || !called {
			t.Errorf("got %v (called %v), want %v", got, called, want)
		}
	})
}
