package exec

import (
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// result turns an ending into what users see.
func (l *launch) result(end ending, start time.Time) Result {
	r := Result{
		Version: ResultVersion, Elapsed: time.Since(start), Enforced: l.enforced,
		CPU:       time.Duration(end.usage.V[0]+end.usage.V[1]) * time.Microsecond,
		MaxMemory: max(end.peakBytes, end.usage.V[2]), PeakTasks: end.peakTasks,
		LeftBehind: end.usage.C == 1,
		UID:        l.uid(), GID: l.gid(), LimitsHit: []string{},
	}
	for i, s := range []*Stream{&r.Stdout, &r.Stderr} {
		*s = l.stdio.stream(i)
	}
	r.Enforced.Missing = append(r.Enforced.Missing, l.uncovered()...)
	l.settle(&r, end)
	return r
}

func (l *launch) gid() int {
	if l.spec.User != nil {
		return l.spec.User.GID
	}
	return os.Getegid()
}

// cldExited is CLD_EXITED of waitid(2).
const cldExited = 1

// settle sets outcome and exit code. The first limit that ended the run names
// the outcome; others are listed.
func (l *launch) settle(r *Result, end ending) {
	r.Outcome = Exited
	switch {
	case !end.exited:
		r.Outcome, r.Signal = Signaled, int(unix.SIGKILL)
	case end.code == cldExited:
		r.ExitCode = int(end.status)
	default:
		r.Outcome, r.Signal = Signaled, int(end.status)
	}
	if r.Signal != 0 {
		r.ExitCode = 128 + r.Signal
	}
	failed := r.ExitCode != 0
	for _, limit := range []struct {
		hit     bool
		name    string
		outcome Outcome
	}{
		{end.timedOut, "timeout", TimedOut},
		{end.memory || failed && l.atMemoryLimit(r), "memory", OutOfMem},
		{end.cpu || l.endedBy(r, unix.SIGXCPU), "cpu", CPULimit},
		{l.endedBy(r, unix.SIGXFSZ), "file-size", FileLimit},
		{end.tasks || l.atTaskLimit(end), "tasks", TaskLimit},
	} {
		if !limit.hit {
			continue
		}
		r.LimitsHit = append(r.LimitsHit, limit.name)
		if len(r.LimitsHit) == 1 && (failed || limit.outcome == TimedOut) {
			r.Outcome = limit.outcome
		}
	}
	for i, s := range []Stream{r.Stdout, r.Stderr} {
		if s.Truncated && !slices.Contains(r.LimitsHit, "output") {
			r.LimitsHit = append(r.LimitsHit, "output")
		}
		_ = i
	}
	if r.Outcome == TimedOut {
		r.ExitCode = 124
	}
}

// endedBy reports whether a signal of a limit that this run has ended the
// command, or a child whose status a shell passed on as 128+n.
func (l *launch) endedBy(r *Result, sig unix.Signal) bool {
	if sig == unix.SIGXCPU && l.limits.CPU <= 0 || sig == unix.SIGXFSZ && l.limits.FileSize <= 0 {
		return false
	}
	if sig == unix.SIGXCPU && r.Signal == int(unix.SIGKILL) && r.CPU >= l.limits.CPU {
		return true
	}
	return r.Signal == int(sig) || r.ExitCode == 128+int(sig)
}

// atTaskLimit: RLIMIT_NPROC leaves no count of refusals, so a peak at the limit
// is taken for one.
func (l *launch) atTaskLimit(end ending) bool {
	return l.limitByNPROC() && end.peakTasks >= l.limits.Tasks
}

// atMemoryLimit: RLIMIT_DATA makes an allocation fail, and the program says so in
// its own way. A command that failed with a peak just below the limit is taken
// for one that reached it; a single allocation above the limit is not seen.
func (l *launch) atMemoryLimit(r *Result) bool {
	limit := l.limits.Memory
	return limit > 0 && !l.cgroupHolds("memory") && r.MaxMemory >= limit-limit/8
}

func (s *stdio) stream(i int) Stream {
	o := s.outputs[i]
	switch {
	case o == nil:
		return Stream{}
	case o.capture != nil:
		return o.capture.stream()
	}
	passed := Stream{Bytes: o.bytes.Load()}
	passed.Kept = passed.Bytes
	if lost := o.lost.Load(); lost != nil {
		passed.Kept, passed.Lost = o.passed.Load(), *lost
		passed.Dropped = passed.Bytes - passed.Kept
	}
	return passed
}

// resolveUnix is the Landlock ABI that judges connections to socket files.
const resolveUnix = 9

// describe lists what holds which part. It is called when the plan is complete.
func (l *launch) describe() {
	e := &l.enforced
	part := func(name, mechanism string) {
		e.Parts = append(e.Parts, Part{Part: name, Mechanism: mechanism, Exact: true})
	}
	gap := func(name, why, instead string) {
		e.Weakened = append(e.Weakened, Gap{Part: name, Why: why, Instead: instead})
	}
	part("privileges", "no_new_privs, no capabilities, identity")
	if os.Geteuid() != 0 && l.namespaces&nsUser == 0 {
		gap("bounding set", "emptying it needs CAP_SETPCAP", "no_new_privs: no program that is started gains anything from it")
	}
	part("system calls", "seccomp "+e.Seccomp)
	e.Tier = "base"
	if l.namespaces != 0 {
		e.Tier = "namespaces"
	}
	if l.cgroup != nil {
		e.Tier += "+cgroup"
	}
	if l.view {
		part("filesystem", "mount view + landlock")
	} else {
		part("filesystem", "landlock")
		gap("metadata", "stat(2), chdir(2), inotify(7), chmod(2), utime(2) and setxattr(2) on paths outside are not mediated by Landlock", "file modes")
		gap("private /tmp and /dev/shm", "no mount view", "a private TMPDIR; /dev/shm is not granted")
		gap("device nodes", "no mount view: Landlock has no right for reading and writing a device", "the modes of nodes that root made in a granted tree, no ioctl(2) on them")
	}
	switch {
	case l.spec.Network == NetFull:
		part("network", "granted")
	case l.namespaces&nsNet != 0:
		part("network", "net namespace with loopback")
	default:
		part("network", "seccomp: no IP sockets")
		gap("loopback", "no net namespace", "IP sockets are refused, inside the run too")
		gap("network state", "no net namespace", "the host's interfaces and listeners can be read in /proc/net; nothing can be sent")
	}
	if l.pidNS {
		part("processes", "pid namespace")
	} else {
		if l.uid() == 0 {
			gap("kernel files", "/proc is granted as a whole, and root's files in it need no capability to be read", "their modes; as another user (--user) none of them opens")
		}
		gap("process list", "no pid namespace", "names of other processes can be read in /proc; signals and tracing are refused")
		if l.runner.host.Scoped {
			part("end of the tree", "landlock signal scope and subreaper")
		} else {
			gap("end of the tree", "no pid namespace and no signal scope", "a walk of /proc, which a fast re-forking chain can outrun")
		}
	}
	if l.namespaces&nsIPC == 0 {
		gap("System V and POSIX queues", "no ipc namespace", "their system calls are refused, inside the run too")
	}
	if l.view && e.LandlockABI < resolveUnix {
		e.Parts = append(e.Parts, Part{Part: "UNIX sockets", Mechanism: "mount view: those at the start are hidden; one that is bound later below a directory granted for reading is reached"})
	} else if l.view {
		part("UNIX sockets", "mount view + landlock")
	}
	if !l.view && l.spec.UnixSockets {
		gap("UNIX sockets", "no mount view: the family is allowed as a whole", "Landlock scopes abstract ones; any socket file the user may reach can be connected to")
	}
	if l.limits.Wall > 0 {
		part("wall time", "timer and "+l.killer())
	}
	if l.limits.FileSize > 0 {
		part("file size", "RLIMIT_FSIZE")
		gap("total of files", "the limit is one of each file, and the file system gives no quota", "memory file systems of the run are size-capped")
	}
	if l.limits.CPU > 0 {
		if l.cgroup != nil {
			part("cpu time", "control group, sampled, and RLIMIT_CPU")
		} else {
			e.Parts = append(e.Parts, Part{Part: "cpu time", Mechanism: "RLIMIT_CPU of each process"})
		}
	}
	if e.SeccompUnknown == nil {
		e.SeccompUnknown = []string{}
	}
	if e.Missing == nil {
		e.Missing = []Gap{}
	}
	if e.Weakened == nil {
		e.Weakened = []Gap{}
	}
}

func (l *launch) killer() string {
	if l.pidNS {
		return "pid namespace"
	}
	return "keeper"
}
