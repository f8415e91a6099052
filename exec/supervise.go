package exec

import (
	"context"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"sandboxd/exec/child"
)

// ending is how a run came to its end.
type ending struct {
	exited    bool // the command's own status is known
	code      int32
	status    int32
	timedOut  bool
	cancelled bool
	memory    bool // the supervisor ended it for its memory
	tasks     bool
	cpu       bool
	lost      bool // the keeper went away or did not answer
	usage     child.Message
	peakTasks int
	peakBytes int64
}

// lastWait is how long the keeper may take to end a tree that was killed. A task
// in an uninterruptible call can hold it; the run is reported then anyhow.
const lastWait = 3 * time.Second

// supervise waits for the end of the run: the command's own end, the deadline,
// a limit that only sampling can see, or ctx.
func (l *launch) supervise(ctx context.Context, proc *child.Process, start time.Time) ending {
	l.stdio.start(proc.Terminal)
	proc.Terminal = nil
	var end ending
	messages := make(chan child.Message, 8)
	go receive(proc, messages)

	var wall <-chan time.Time
	if l.limits.Wall > 0 {
		t := time.NewTimer(time.Until(start.Add(l.limits.Wall)))
		defer t.Stop()
		wall = t.C
	}
	sampler := newSampler(l)
	defer sampler.stop()
	done := ctx.Done()
	var grace, last <-chan time.Time
	var killed atomic.Bool
	kill := func() {
		if killed.CompareAndSwap(false, true) {
			if l.cgroup != nil {
				l.cgroup.kill()
			}
			proc.Send(child.Message{Type: child.End})
			last = time.After(lastWait)
		}
	}
	terminate := func(wait time.Duration) {
		if grace == nil {
			proc.Send(child.Message{Type: child.SignalAll, A: int32(unix.SIGTERM)})
			grace = time.After(wait)
		}
	}
	for {
		select {
		case m, ok := <-messages:
			switch {
			case !ok:
				end.lost = !end.exited
				l.stdio.finish(false)
				return end
			case m.Type == child.ExitedMessage:
				end.exited, end.code, end.status = true, m.A, m.B
				if last == nil {
					last = time.After(lastWait)
				}
			case m.Type == child.Sample:
				l.judge(&end, m)
				if end.memory || end.tasks || end.cpu {
					kill()
				}
			case m.Type == child.Done:
				end.usage = m
				end.peakTasks = max(end.peakTasks, int(m.V[3]))
				end.tasks = end.tasks || m.B == 1
				l.finalStats(&end)
				l.stdio.finish(!end.timedOut && !end.cancelled)
				return end
			}
		case <-wall:
			end.timedOut = true
			wall = nil
			terminate(l.limits.Grace)
		case <-done:
			end.cancelled = true
			done = nil
			terminate(l.limits.CancelGrace)
		case <-grace:
			kill()
		case <-last:
			end.lost = !end.exited
			proc.Kill()
			l.stdio.finish(false)
			return end
		case s := <-l.spec.Signals:
			l.forward(proc, s)
		case <-sampler.c:
			sampler.next()
			proc.Send(child.Message{Type: child.Measure})
		}
	}
}

// receive ends when the keeper's socket does, which Close guarantees.
func receive(proc *child.Process, out chan<- child.Message) {
	defer close(out)
	for {
		m, err := proc.Receive()
		if err != nil {
			return
		}
		out <- m
		if m.Type == child.Done {
			return
		}
	}
}

func (l *launch) forward(proc *child.Process, s os.Signal) {
	n, ok := s.(syscall.Signal)
	switch {
	case !ok:
	case n == unix.SIGWINCH:
		l.stdio.resize()
	case n == unix.SIGSTOP || n == unix.SIGCONT: // also what left the command's group
		proc.Send(child.Message{Type: child.SignalAll, A: int32(n)})
	default:
		proc.Send(child.Message{Type: child.Signal, A: int32(n)})
	}
}

// sampler asks for samples, often at first, where a limit has no better judge.
type sampler struct {
	c      <-chan time.Time
	timer  *time.Timer
	period time.Duration
}

const (
	firstSample = 20 * time.Millisecond
	slowSample  = 250 * time.Millisecond
)

func newSampler(l *launch) *sampler {
	s := &sampler{period: firstSample}
	s.timer = time.NewTimer(s.period)
	s.c = s.timer.C
	return s
}

func (s *sampler) next() {
	s.period = min(s.period*3/2, slowSample)
	s.timer.Reset(s.period)
}

func (s *sampler) stop() { s.timer.Stop() }

// judge takes a sample into account.
func (l *launch) judge(end *ending, m child.Message) {
	tasks, private, shared := int(m.V[0]), m.V[1], m.V[2]
	end.peakTasks = max(end.peakTasks, tasks)
	end.peakBytes = max(end.peakBytes, private)
	if max := l.limits.Memory; max > 0 && !l.cgroupHolds("memory") && (private > max || shared > 4*max) {
		end.memory = true
	}
	if max := l.limits.Tasks; max > 0 && !l.cgroupHolds("tasks") && !l.limitByNPROC() && tasks > max {
		end.tasks = true
	}
	if l.cgroup == nil {
		return
	}
	_, _, killed, _, cpu := l.cgroup.stats()
	end.memory = end.memory || killed > 0
	if max := l.limits.CPU; max > 0 && cpu > max {
		end.cpu = true
	}
}

// finalStats reads the control group's own figures, which are exact.
func (l *launch) finalStats(end *ending) {
	if l.cgroup == nil {
		return
	}
	bytes, tasks, killed, refused, _ := l.cgroup.stats()
	if bytes > 0 {
		end.peakBytes = bytes
	}
	if tasks > 0 {
		end.peakTasks = tasks
	}
	end.memory = end.memory || killed > 0
	end.tasks = end.tasks || refused > 0
}
