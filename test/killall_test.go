package test

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestKillAllReachesTheRunOnly: kill(-1) is for everything that may be
// signalled. Unconfined it would reach this test as well, so the control is the
// neighbour inside: he is gone, so the call did what it does.
func TestKillAllReachesTheRunOnly(t *testing.T) {
	inTiers(t, func(s *scene) {
		victim(s)
		script := `sleep 20 & neighbour=$!; sleep 0.2; kill -TERM -1; wait $neighbour; echo neighbour $?`
		r := s.sbx(nil, "/bin/bash", "-c", script)
		if !strings.Contains(r.Stdout, "neighbour 143") {
			s.Errorf("nobody was signalled: exit %d, %q %q", r.Code, r.Stdout, r.Stderr)
		}
		if ended(s, r) {
			s.Errorf("the process outside is gone")
		}
		if err := unix.Kill(s.victim(), 0); err != nil {
			s.Errorf("the process outside: %v", err)
		}
	})
}
