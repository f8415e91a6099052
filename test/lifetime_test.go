package test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestDeadlineHolds: whatever the command does against it, at the deadline its
// tree is gone and sbx returns.
func TestDeadlineHolds(t *testing.T) {
	const deadline, grace = time.Second, 2 * time.Second
	for _, tt := range []struct{ name, script string }{
		{"ignores every signal", `trap '' HUP INT QUIT TERM USR1 USR2 PIPE ALRM TSTP TTIN TTOU; while :; do sleep 8.MARK; done`},
		{"closes all descriptors", `exec <&- >&- 2>&-; sleep 8.MARK`},
		{"stops itself", `kill -STOP $$; sleep 8.MARK`},
		{"stops its parents' group", `sleep 8.MARK & kill -STOP 0`},
		{"double fork in an own session", `setsid sh -c 'trap "" TERM HUP; setsid sleep 8.MARK & sleep 8.MARK' & sleep 8.MARK`},
		{"pipeline", `yes 8.MARK | grep -v y | sort | head -1`}, // S033
		{"pipeline of stubborn stages", `(trap '' TERM; yes 8.MARK) | setsid grep -v y | sort`},
		{"vfork and busy", `while :; do sh -c ': 8.MARK'; done`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, uid := range users() { // without sbx it outlives its own end
				s := newScene(t, uid, "")
				c := s.command("/bin/sh", "-c", strings.ReplaceAll(tt.script, "MARK", s.mark()))
				s.must(c.Start())
				time.Sleep(50 * time.Millisecond)
				alive := soon(func() bool { return running(s.mark()) != "" })
				killGroups(s.mark())
				c.Wait()
				if !alive {
					t.Fatalf("uid %d: without confinement it does not run", uid)
				}
			}
			inTiers(t, func(s *scene) {
				o := s.observe([]string{"--timeout", deadline.String()}, "/bin/sh", "-c", strings.ReplaceAll(tt.script, "MARK", s.mark()))
				if o.Code != 124 || o.Report.Outcome != "timeout" || !slices.Contains(o.Report.Limits, "timeout") {
					s.Errorf("exit %d, %s %v", o.Code, o.Report.Outcome, o.Report.Limits)
				}
				if o.elapsed < deadline || o.elapsed > deadline+grace+2*time.Second {
					s.Errorf("it took %v", o.elapsed)
				}
				o.holds(s)
				if found := left(s.mark()); found != "" {
					s.Errorf("it left %s", found)
				}
			})
		})
	}
}

// mark is a number that no other process has among its arguments.
func (s *scene) mark() string {
	sum := 0
	for _, c := range s.Token {
		sum = (sum*31 + int(c)) % 99999989
	}
	return fmt.Sprintf("%08d", sum)
}

// TestNothingOutlivesTheCommand: a normal end is the end of the whole tree, and
// nobody who holds its output makes the caller wait.
func TestNothingOutlivesTheCommand(t *testing.T) {
	for _, tt := range []struct{ name, script string }{
		{"daemon", `(setsid sh -c 'trap "" HUP TERM; exec <&- >&- 2>&-; sleep 9.MARK' &)`},
		{"holder of the output", `sleep 9.MARK & echo done`},
		{"holder in an own session", `setsid sleep 9.MARK & echo done`},
		{"stopped child", `sh -c 'kill -STOP $$; : 9.MARK' & sleep 0.1`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, uid := range users() {
				s := newScene(t, uid, "")
				c := s.command("/bin/sh", "-c", strings.ReplaceAll(tt.script, "MARK", s.mark()))
				s.must(c.Run())
				alive := running(s.mark()) != "" || soon(func() bool { return running(s.mark()) != "" })
				killGroups(s.mark())
				if !alive {
					t.Fatalf("uid %d: without confinement nothing is left", uid)
				}
			}
			inTiers(t, func(s *scene) {
				o := s.observe(nil, "/bin/sh", "-c", strings.ReplaceAll(tt.script, "MARK", s.mark())+"; exit 7")
				if o.Code != 7 || o.elapsed > 3*time.Second {
					s.Errorf("exit %d after %v", o.Code, o.elapsed)
				}
				if found := left(s.mark()); found != "" {
					s.Errorf("it left %s", found)
				}
			})
		})
	}
}

// TestForkingChainEnds: one process after the other, each gone before it can be
// listed, with a normal end of the command and at the deadline.
func TestForkingChainEnds(t *testing.T) {
	inTiers(t, func(s *scene) {
		chain := s.part("chain")
		script := "\"$@\" & sleep 0.3; exit 7"
		o := s.observe(nil, append([]string{"/bin/sh", "-c", script, "sh"}, chain...)...)
		if o.Code != 7 || o.elapsed > 4*time.Second || !exists(s.Work+"/chain") {
			s.Errorf("exit %d after %v", o.Code, o.elapsed)
		}
		if found := left(s.Work); found != "" {
			s.Errorf("it left %s", found)
		}
		o = s.observe([]string{"--timeout", "500ms"}, append([]string{"/bin/sh", "-c", "\"$@\" & sleep 20", "sh"}, chain...)...)
		if o.Code != 124 || o.elapsed > 5*time.Second {
			s.Errorf("exit %d after %v", o.Code, o.elapsed)
		}
		if found := left(s.Work); found != "" {
			s.Errorf("it left %s", found)
		}
	})
}
