package test

import (
	"bytes"
	osexec "os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// eachTerminal runs f on a terminal for each user and tier.
func eachTerminal(t *testing.T, f func(term *terminal)) {
	inTiers(t, func(s *scene) { f(newTerminal(s)) })
}

// S022: a program that sets its terminal raw works.
func TestCaseRawMode(t *testing.T) {
	eachTerminal(t, func(term *terminal) {
		script := "stty raw -echo && stty -a | grep -q -- -icanon && stty sane && echo raw-worked"
		if code := term.wait(term.start(nil, term.run([]string{"--tty"}, "/bin/sh", "-c", script)...)); code != 0 {
			term.Errorf("exit %d: %q", code, term.text())
		}
		term.want("raw-worked")
		if _, err := osexec.LookPath("/usr/bin/node"); err == nil {
			if code := term.wait(term.start(nil, term.run([]string{"--tty"}, "/usr/bin/node", "-e", "process.stdin.setRawMode(true); process.exit(0)")...)); code != 0 {
				term.Errorf("node: exit %d: %q", code, term.text())
			}
		}
	})
}

// S030: Ctrl-C ends the confined program, with and without a terminal of its own.
func TestCaseInterruptKey(t *testing.T) {
	eachTerminal(t, func(term *terminal) {
		for _, flags := range [][]string{nil, {"--tty"}} {
			c := term.start(nil, term.run(flags, "/bin/sh", "-c", "echo begun$((1+1)); sleep 12."+term.mark())...)
			term.want("begun2")
			if !soon(func() bool { return running("\x0012."+term.mark()) != "" }) { // not the shell that has it in a script
				term.Fatalf("the program does not run: %q", term.text())
			}
			start := time.Now()
			term.typeIn("\x03")
			if code := term.wait(c); code != 128+int(unix.SIGINT) || time.Since(start) > 5*time.Second {
				term.Errorf("%v: exit %d after %v: %q", flags, code, time.Since(start), term.text())
			}
			if found := left("12." + term.mark()); found != "" {
				term.Errorf("%v: it left %s", flags, found)
			}
			term.mu.Lock()
			term.seen.Reset()
			term.mu.Unlock()
		}
	})
}

// S049: job control works inside, and the outer shell has its terminal back.
func TestCaseJobControlInside(t *testing.T) {
	eachTerminal(t, func(term *terminal) {
		// The outer shell is interactive too: it asks for its terminal back.
		outer := term.command("/bin/bash", "--norc", "--noprofile", "-i")
		outer.Env = append(outer.Env, "TERM=dumb", "PS1=outer> ")
		outer.Stdin, outer.Stdout, outer.Stderr = term.slave, term.slave, term.slave
		outer.SysProcAttr.Setpgid, outer.SysProcAttr.Setsid, outer.SysProcAttr.Setctty = false, true, true
		outer.Cancel = func() error { return unix.Kill(outer.Process.Pid, unix.SIGKILL) }
		term.must(outer.Start())
		term.Cleanup(func() { unix.Kill(-outer.Process.Pid, unix.SIGKILL) })
		term.want("outer> ")
		sleep := "sleep 13." + term.mark()
		// What is typed is shown as well, so a prompt is what only a shell makes of it.
		inner := term.run([]string{"--tty", "--env", "'PS1=i$((1+1))r> '"}, "/bin/bash", "--norc", "--noprofile", "-i")
		term.typeIn(strings.Join(inner, " ") + "\n")
		term.want("i2r>")
		term.typeIn(sleep + "\n")
		if !soon(func() bool { return running("\x0013."+term.mark()) != "" }) {
			term.Fatalf("the job does not run: %q", term.text())
		}
		term.typeIn("\x1a")
		term.want("Stopped")
		term.typeIn("fg\n")
		time.Sleep(100 * time.Millisecond) // the shell hands the terminal over
		term.typeIn("\x03")
		if found := left("\x0013." + term.mark()); found != "" {
			term.Errorf("the interrupted job is still there: %s: %q", found, term.text())
		}
		term.typeIn("echo in$((1+1))side\n")
		term.want("in2side")
		term.mu.Lock()
		term.seen.Reset()
		term.mu.Unlock()
		term.typeIn("exit 6\n")
		term.want("outer> ")
		term.typeIn("echo status $?$?\n")
		term.want("status 66")
		term.typeIn("exit\n")
		term.wait(outer)
	})
}

// S005: whoever starts sbx may hold a secret in its environment; neither sbx nor
// its keeper show it to the command.
func TestCaseSecretOfTheSupervisor(t *testing.T) {
	script := `for d in /proc/[0-9]*; do
	tr '\0' '\n' <$d/environ; cat $d/fd/3 $d/root/proc/1/environ
	grep -l . $d/maps
done 2>/dev/null | grep -a ` + "token-" + `; exit 0`
	for _, uid := range users() {
		s := newScene(t, uid, "")
		c := s.command("/bin/sh", "-c", "sleep 0.5 & exec env -i PATH=$PATH /bin/sh -c '"+script+"'")
		c.Env = append(c.Env, "SUPERVISOR_TOKEN="+s.Token)
		if r := s.finish(c); !strings.Contains(r.Stdout, s.Token) {
			t.Fatalf("uid %d: without confinement it is not seen: %q %q", uid, r.Stdout, r.Stderr)
		}
	}
	inTiers(t, func(s *scene) {
		c := s.command(s.sbxArgs(nil, "/bin/sh", "-c", script+"; echo looked")...)
		c.Env = append(c.Env, "SUPERVISOR_TOKEN="+s.Token)
		r := s.report(s.finish(c))
		if strings.Contains(r.Stdout+r.Stderr, s.Token) {
			s.Errorf("the command saw it: %q", r.Stdout)
		}
		var out bytes.Buffer
		trace := s.command(s.sbxArgs([]string{"--syscalls", "debug"}, "/bin/sh", "-c", script)...)
		trace.Env = append(trace.Env, "SUPERVISOR_TOKEN="+s.Token)
		trace.Stdout = &out
		s.must(trace.Run())
		if strings.Contains(out.String(), s.Token) {
			s.Errorf("with debug calls it saw it: %q", out.String())
		}
	})
}

// S046: a refused call gets the same answer whatever else is allowed.
func TestCaseRefusedCallsAnswerAlike(t *testing.T) {
	inTiers(t, func(s *scene) {
		for _, flags := range [][]string{nil, {"--syscalls", "debug"}, {"--net", "full"}} {
			r := s.sbx(flags, "/bin/sh", "-c", "chroot / true; echo chroot $?; unshare -U true; echo unshare $?")
			if strings.Count(r.Stderr, "Operation not permitted") != 2 || r.Report.Outcome != "exited" {
				s.Errorf("%v: %s, %q %q", flags, r.Report.Outcome, r.Stdout, r.Stderr)
			}
		}
	})
}

// S019: programs that choose where and how they are scheduled work.
func TestCaseSchedulingCallsWork(t *testing.T) {
	inTiers(t, func(s *scene) {
		if r := s.sbx(nil, "/bin/sh", "-c", "taskset 1 true && chrt --batch 0 true && nice -n 5 true && ionice -c 3 true"); r.Code != 0 {
			s.Errorf("exit %d: %s", r.Code, r.Stderr)
		}
	})
}

// S026 and S053: a limit that was reached has its name in the result.
func TestCaseLimitsAreNamed(t *testing.T) {
	for _, tt := range []struct {
		limit, script string
		flags         []string
	}{
		{"cpu", "while :; do :; done", []string{"--cpu", "1"}},
		{"tasks", "for i in $(seq 40); do sleep 5 & done; wait", []string{"--pids", "5"}},
		{"file-size", "dd if=/dev/zero of=f bs=1M count=10", []string{"--file-size", "1MiB"}},
		{"memory", "head -c 600000000 /dev/zero | tail -c 600000000 >/dev/null", []string{"--memory", "128MiB"}},
		{"timeout", "sleep 30", []string{"--timeout", "1s"}},
		{"output", "seq 100000", []string{"--output-limit", "1000"}},
	} {
		t.Run(tt.limit, func(t *testing.T) {
			inTiers(t, func(s *scene) {
				// bash tries a refused fork again, so that samples see it.
				r := s.sbx(append([]string{"--timeout", "20s"}, tt.flags...), "/bin/bash", "-c", tt.script)
				if strings.Join(r.Report.Limits, " ") != tt.limit {
					s.Errorf("%s %d, limits %v: %s", r.Report.Outcome, r.Code, r.Report.Limits, r.Stderr)
				}
			})
		})
	}
}
