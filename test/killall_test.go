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

// TestKeeperCannotBeEnded: who ends or stops the keeper would outlive the run.
func TestKeeperCannotBeEnded(t *testing.T) {
	const script = `kill -KILL $PPID; kill -STOP $PPID; setsid sleep 14.MARK & sleep 0.1; echo alive`
	for _, uid := range users() {
		s := newScene(t, uid, "")
		inner := strings.ReplaceAll(script, "MARK", s.mark())
		s.plain("/bin/sh", "-c", `/bin/sh -c "$0"; echo parent`, inner)
		alive := soon(func() bool { return running("\x0014."+s.mark()) != "" })
		killGroups(s.mark())
		if !alive {
			t.Fatalf("uid %d: without confinement it does not outlive its parent", uid)
		}
	}
	inTiers(t, func(s *scene) {
		r := s.sbx(nil, "/bin/bash", "-c", strings.ReplaceAll(script, "MARK", s.mark()))
		if r.Code != 0 || r.Stdout != "alive\n" || s.Tier == "base" && strings.Count(r.Stderr, "not permitted") != 2 {
			s.Errorf("exit %d, %s, %q %q", r.Code, r.Report.Outcome, r.Stdout, r.Stderr)
		}
		if found := left("14." + s.mark()); found != "" {
			s.Errorf("it left %s", found)
		}
	})
}
