package test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// ownBytes is what sbx itself may use, whatever the command does.
const ownBytes = 64 * mib

// inTiers runs f for each user and tier.
func inTiers(t *testing.T, f func(s *scene)) {
	for _, uid := range users() {
		for _, tier := range tiers() {
			t.Run(fmt.Sprintf("uid%d/%s", uid, tier), func(t *testing.T) { f(newScene(t, uid, tier)) })
		}
	}
}

// holds says that the run stayed small itself and the host usable.
func (o observed) holds(s *scene) {
	s.Helper()
	if o.own > ownBytes {
		s.Errorf("sbx itself grew to %d MiB", o.own/mib)
	}
	if o.slowest > 5*time.Second {
		s.Errorf("a program outside took %v meanwhile", o.slowest)
	}
}

// mechanism is what the result says holds part, and whether exactly.
func (o observed) mechanism(part string) string {
	for _, p := range o.Report.Enforced.Parts {
		if p.Part == part {
			return p.Mechanism
		}
	}
	return ""
}

func TestTaskLimit(t *testing.T) {
	const limit = 64
	for _, part := range []string{"processes", "threads", "zombies"} {
		t.Run(part, func(t *testing.T) {
			for _, uid := range users() {
				s := newScene(t, uid, "")
				s.Extra["zombies"] = "300"
				if o := s.observe(nil, s.part(part)...); o.tasks <= 2*limit {
					t.Fatalf("uid %d: without confinement only %d tasks: %s", uid, o.tasks, o.Stderr)
				}
			}
			inTiers(t, func(s *scene) {
				o := s.observe([]string{"--pids", "64", "--timeout", "10s"}, s.part(part)...)
				s.Logf("%d tasks, %s, %v, %v, by %s", o.tasks, o.Report.Outcome, o.Report.Limits, o.elapsed, o.mechanism("tasks"))
				o.holds(s)
				switch sampled := strings.Contains(o.mechanism("tasks"), "sampling"); {
				case !sampled && o.tasks > limit+1:
					s.Errorf("%d tasks", o.tasks)
				case sampled && !reported(o.result, "tasks"):
					s.Errorf("only sampled, and that is not reported: %+v", o.Report.Enforced.Weakened)
				case sampled && o.elapsed > 3*time.Second:
					s.Errorf("sampling took %v to end it", o.elapsed)
				}
				if s.Tier == "full" && s.UID != 0 && strings.Contains(o.mechanism("tasks"), "sampling") {
					s.Errorf("only sampled, where an own user namespace can hold it")
				}
				if !slices.Contains(o.Report.Limits, "tasks") {
					s.Errorf("the result does not name the limit: %s %v", o.Report.Outcome, o.Report.Limits)
				}
			})
		})
	}
	inTiers(t, func(s *scene) { // fifty programs at once are within it
		if r := s.sbx([]string{"--pids", "64"}, "/bin/sh", "-c", "for i in $(seq 50); do sleep 0.2 & done; wait"); r.Code != 0 || len(r.Report.Limits) != 0 {
			s.Errorf("honest work fails: %d %v %s", r.Code, r.Report.Limits, r.Stderr)
		}
	})
}

// TestForkBomb: the classic one, which no limit of its own stops. Row 111.
func TestForkBomb(t *testing.T) {
	inTiers(t, func(s *scene) {
		o := s.observe([]string{"--pids", "64", "--timeout", "5s"}, "/bin/bash", "-c", ":(){ :|:& };: ; sleep 20 # "+s.Token)
		s.Logf("%d tasks, %s, %v, %v", o.tasks, o.Report.Outcome, o.Report.Limits, o.elapsed)
		o.holds(s)
		if o.elapsed > 12*time.Second || !slices.Contains(o.Report.Limits, "tasks") {
			s.Errorf("it took %v: %s %v", o.elapsed, o.Report.Outcome, o.Report.Limits)
		}
		if !strings.Contains(o.mechanism("tasks"), "sampling") && o.tasks > 65 {
			s.Errorf("%d tasks", o.tasks)
		}
		if found := left(s.Token); found != "" {
			s.Errorf("it left %s", found)
		}
	})
}

func TestMemoryLimit(t *testing.T) {
	const limit = 256 * mib
	for _, tt := range []struct {
		part string
		// file: no process has it mapped, so sampling does not see it.
		file bool
	}{
		{"memory", false}, {"memory of many", false}, {"memory file", true},
		{"temporary files", false}, {"shared files", false}, {"segments", true},
	} {
		t.Run(tt.part, func(t *testing.T) {
			if tt.part != "temporary files" { // outside these lie on a disk
				for _, uid := range users() {
					s := newScene(t, uid, "")
					s.Cleanup(func() { os.Remove("/dev/shm/bomb") })
					if o := s.observe(nil, s.part(tt.part)...); o.bytes < 3*limit {
						t.Fatalf("uid %d: without confinement only %d MiB: %s", uid, o.bytes/mib, o.Stderr)
					}
				}
			}
			inTiers(t, func(s *scene) {
				o := s.observe([]string{"--memory", "256MiB", "--timeout", "10s"}, s.part(tt.part)...)
				s.Logf("%d MiB, %s %d, %v, %v, by %s: %s", o.bytes/mib, o.Report.Outcome, o.Code, o.Report.Limits, o.elapsed, o.mechanism("memory"), strings.TrimSpace(o.Stderr))
				o.holds(s)
				sampled := strings.Contains(o.mechanism("memory"), "sampling")
				slack := int64(32 * mib)
				if sampled {
					slack = 512 * mib // what is filled between two samples
				}
				if o.bytes <= limit+slack {
					return
				}
				if !tt.file || !sampled || !reported(o.result, "memory") {
					s.Errorf("it got %d MiB", o.bytes/mib)
				}
			})
		})
	}
	inTiers(t, func(s *scene) { // 100 MiB are within it
		if r := s.sbx([]string{"--memory", "256MiB"}, "/bin/sh", "-c", "head -c 100000000 /dev/zero | tail -c 100000000 | wc -c"); r.Code != 0 || r.Stdout != "100000000\n" {
			s.Errorf("honest work fails: %d %q %s", r.Code, r.Stdout, r.Stderr)
		}
	})
}
