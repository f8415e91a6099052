package api

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sandboxd/agentloop"
	"sandboxd/exec"
)

// A call that nothing ends does not keep the daemon from ending; one that ends late
// is waited for.
func TestShutdownDoesNotWaitForEver(t *testing.T) {
	for _, tt := range []struct {
		name  string
		ends  time.Duration // after it was told to; 0: never
		want  time.Duration
		stuck bool
	}{
		{"at once", time.Millisecond, time.Second + time.Millisecond, false},
		{"late", stuckTime - time.Millisecond, time.Second + stuckTime - time.Millisecond, false},
		{"never", 0, time.Second + stuckTime, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := NewServer(testOptions(t))
				if err != nil {
					t.Fatal(err)
				}
				end, err := s.begin()
				if err != nil {
					t.Fatal(err)
				}
				context.AfterFunc(s.base, func() {
					if tt.ends > 0 {
						time.Sleep(tt.ends)
						end()
					}
				})
				ctx, done := context.WithTimeout(t.Context(), time.Second)
				defer done()
				began := time.Now()
				err = s.Shutdown(ctx)
				if took := time.Since(began); took != tt.want {
					t.Errorf("it took %v, want %v", took, tt.want)
				}
				if (err != nil) != tt.stuck || tt.stuck && !strings.Contains(err.Error(), "1 calls did not end") {
					t.Errorf("error %v", err)
				}
				if _, err := s.begin(); !errors.As(err, new(*Fault)) {
					t.Errorf("a call after it: %v", err)
				}
				if tt.ends == 0 {
					end()
				}
			})
		})
	}
}

// testOptions are the least parts of a server.
func testOptions(t *testing.T) Options {
	t.Helper()
	d, err := agentloop.NewDispatcher(agentloop.DispatcherOptions{Runner: exec.NewRunner(exec.Host{})})
	if err != nil {
		t.Fatal(err)
	}
	m, err := agentloop.NewSessions(agentloop.SessionsOptions{Load: func(context.Context, agentloop.Peer, agentloop.SessionRequest) (agentloop.PolicyInForce, error) {
		return agentloop.PolicyInForce{}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return Options{Dispatcher: d, Sessions: m, Asks: agentloop.NewAskQueue(agentloop.AskQueueOptions{})}
}
