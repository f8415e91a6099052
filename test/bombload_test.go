package test

import (
	"bytes"
	"fmt"
	"os"
	osexec "os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sandboxd/test/require"
)

const (
	busyLoops = 6
	busyLimit = 64
	// busySlack is how far above its limit a bomb may get where the keeper counts
	// and every processor is taken: the kernel lets it wait for half a second. See
	// "Limits and life time" in docs/confinement.md.
	busySlack = 8192
	// busyBest is what at least one bomb in three is held to.
	busyBest = 64
)

// keepBusy takes every processor until the test ends.
func keepBusy(t *testing.T) {
	t.Helper()
	for range busyLoops {
		c := osexec.Command("/bin/sh", "-c", "while :; do :; done")
		c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	}
}

// inside runs argv as the scene's user in a pid namespace of its own, which ends
// with it, and tells the most processes that were in there.
func (s *scene) inside(argv []string) (r result, most int, slowest time.Duration) {
	s.Helper()
	user := fmt.Sprintf("setpriv --reuid %d --regid %d --clear-groups", s.UID, s.UID)
	script := fmt.Sprintf("mount -t proc proc /proc; cd %s; HOME=%s timeout -s KILL 30 %s \"$@\"; exit $?", s.Work, s.Home, user)
	c := osexec.Command("/bin/sh", append([]string{"-c", script, "sh"}, argv...)...)
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr, c.WaitDelay = &out, &errs, 5*time.Second
	s.must(c.Start())
	ended, counted, forked := make(chan struct{}), make(chan int), make(chan time.Duration)
	go func() { forked <- neighbour(ended) }()
	go func() { counted <- countInside(fmt.Sprintf("/proc/%d/root/proc", c.Process.Pid), ended) }()
	c.Wait() // the code tells; the namespace's first process ends the rest
	close(ended)
	return result{Code: c.ProcessState.ExitCode(), Stdout: out.String(), Stderr: errs.String()}, <-counted, <-forked
}

func countInside(proc string, stop <-chan struct{}) (most int) {
	for {
		names, _ := os.ReadDir(proc) // gone: none
		n := 0
		for _, e := range names {
			if e.Name()[0] >= '0' && e.Name()[0] <= '9' {
				n++
			}
		}
		most = max(most, n)
		select {
		case <-stop:
			return most
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// TestForkBombOnABusyHost: nothing of a bomb is left, the host goes on, and the run
// says which limit ended it, where the keeper has to compete for the processor.
func TestForkBombOnABusyHost(t *testing.T) {
	require.Root(t, "only root makes pid namespaces that nothing leaves")
	newScene(t, 0, "") // builds the programs while there is a processor
	keepBusy(t)
	for _, uid := range users() {
		for _, tier := range tiers() {
			t.Run(fmt.Sprintf("uid%d/%s", uid, tier), func(t *testing.T) { bombsInTier(newScene(t, uid, tier)) })
		}
	}
}

func bombsInTier(s *scene) {
	storm := s.file(s.Work+"/storm", "setsid bash storm & setsid bash storm & exit\n")
	best := 1 << 30
	for _, bomb := range [][]string{
		{"bash", "-c", ":(){ :|:& };: ; sleep 20"},
		{"perl", "-e", "while (1) { fork }"},
		{"bash", "-c", "bash " + storm + "; sleep 20"},
	} {
		argv := s.sbxArgs([]string{"--pids", fmt.Sprint(busyLimit), "--timeout", "5s"}, bomb...)
		r, most, slowest := s.inside(argv)
		r = s.report(r)
		s.Logf("%s: %d tasks, %s %v, slowest neighbour %v", bomb[0], most, r.Report.Outcome, r.Report.Limits, slowest)
		best = min(best, most)
		if most > busyLimit+busySlack {
			s.Errorf("%q came to %d tasks", bomb, most)
		}
		if slowest > 5*time.Second {
			s.Errorf("a program outside took %v", slowest)
		}
		if !slices.Contains(r.Report.Limits, "tasks") {
			s.Errorf("%q: the result does not name the limit: %s %v", bomb, r.Report.Outcome, r.Report.Limits)
		}
		if held := (observed{result: r}).mechanism("tasks"); !strings.Contains(held, "sampling") && most > busyLimit+busyBest {
			s.Errorf("%q came to %d tasks, and the limit is exact by %s", bomb, most, held)
		}
	}
	if best > busyLimit+busyBest {
		s.Errorf("no bomb was held below %d tasks", best)
	}
	if r, _, _ := s.inside(s.sbxArgs([]string{"--pids", fmt.Sprint(busyLimit)}, "bash", "-c", "for i in $(seq 50); do sleep 0.2 & done; wait")); r.Code != 0 {
		s.Errorf("fifty programs at once fail: %d %s %s", r.Code, r.Stdout, r.Stderr)
	}
}
