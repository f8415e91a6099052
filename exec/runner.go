package exec

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"sandboxd/exec/child"
	"sandboxd/seccomp"
)

// Runner starts Specs on one host. It is safe for concurrent use.
type Runner struct {
	host Host
	// CacheDir keeps compiled filters. It must not be reachable by a run.
	// Empty keeps none.
	CacheDir string

	// Warm is how many keepers are kept ready for each kind of run, for a process
	// that serves many. Set it before the first Run, and call Close after the
	// last. 0 keeps none: a process that runs one command gains nothing.
	Warm int

	warm  warm
	runs  atomic.Uint64 // tells the control groups of this process apart
	sweep sync.Once
}

// NewRunner returns a Runner for what host can enforce.
func NewRunner(host Host) *Runner {
	return &Runner{host: host}
}

// Close ends the keepers that wait for a run.
func (r *Runner) Close() { r.warm.close() }

// Settle is for a process that is about to end: it reaps what is left of its runs,
// so that nothing of them becomes a zombie where nobody reaps. Nothing can be run after it.
func Settle() { child.Settle() }

// Run starts s and returns when nothing of its tree is left. A command that
// fails is a Result, not an error. The error is a *SetupError when nothing ran.
// Cancelling ctx ends the run as its deadline would.
func (r *Runner) Run(ctx context.Context, s Spec) (Result, error) {
	l, err := r.prepare(s)
	if err != nil {
		l.release()
		return Result{Version: ResultVersion, Outcome: NotSetUp, Enforced: l.enforced}, err
	}
	defer l.release()
	start := time.Now()
	namespaces := l.namespaces
	if l.lateMounts() {
		namespaces &^= nsMount
	}
	proc, err := child.Start(&l.plan, child.Options{Namespaces: namespaces, Meanwhile: s.BeforeStart,
		Ready: r.warm.take(namespaces, r.Warm)})
	l.started()
	if err != nil {
		l.stop()
		return Result{Version: ResultVersion, Outcome: NotSetUp, Enforced: l.enforced}, l.explain(err)
	}
	defer proc.Close()
	l.sweepLeftovers()
	end := l.supervise(ctx, proc, start)
	return l.result(end, start), nil
}

// sweepLeftovers removes what killed runs left, once per Runner and beside the
// command: the start does not wait for it, the end does.
func (l *launch) sweepLeftovers() {
	l.runner.sweep.Do(func() {
		done := make(chan struct{})
		go func() {
			defer close(done)
			l.runner.host.Cgroups.sweep()
		}()
		l.onRelease(func() { <-done })
	})
}

// Check prepares s without starting anything and tells what would be enforced.
func (r *Runner) Check(s Spec) (Enforced, error) {
	l, err := r.prepare(s)
	defer l.release()
	l.stop()
	return l.enforced, err
}

// launch is one run on its way: what was prepared, and what must be let go of.
type launch struct {
	runner        *Runner
	spec          Spec
	limits        Limits
	plan          child.Plan
	namespaces    uint64
	view          bool // a mount view is used
	pidNS         bool
	enforced      Enforced
	cgroup        *cgroup
	restrictFlags uint32
	stdio         *stdio
	covered       []covered
	closers       []func()
}

// lateMounts reports whether the plan makes the mount namespace, not the clone of
// the keeper: one that has waited would not see what was mounted meanwhile.
func (l *launch) lateMounts() bool { return l.view && l.runner.Warm > 0 }

func (l *launch) onRelease(f func()) { l.closers = append(l.closers, f) }

func (l *launch) release() {
	for i := len(l.closers) - 1; i >= 0; i-- {
		l.closers[i]()
	}
	l.closers = nil
}

// started closes this side's copies of what the command has now.
func (l *launch) started() { l.stdio.closeChild() }

func (l *launch) stop() {
	if l.stdio != nil {
		l.stdio.abandon()
	}
}

// prepare is the list of steps from a Spec to a plan. It always returns a launch
// that can be released.
func (r *Runner) prepare(s Spec) (*launch, error) {
	l := &launch{runner: r, spec: s, limits: s.Limits.withDefaults()}
	for _, step := range []func() error{
		l.validate, l.chooseNamespaces, l.refuseUnenforceable, l.makeCgroup, l.openStdio, l.planView, l.planBinding, l.planCommand,
	} {
		if err := step(); err != nil {
			return l, err
		}
	}
	l.describe()
	return l, nil
}

func (l *launch) validate() error {
	s := l.spec
	switch {
	case len(s.Argv) == 0 || s.Path == "":
		return &SetupError{Stage: "command", Err: errors.New("empty command"), Hint: "name a program after --"}
	case !strings.HasPrefix(s.Path, "/"):
		return &SetupError{Stage: "command", Err: fmt.Errorf("program %q is not an absolute path", s.Path)}
	case !strings.HasPrefix(s.Dir, "/"):
		return &SetupError{Stage: "directory", Err: fmt.Errorf("%q is not an absolute path", s.Dir)}
	}
	for _, fd := range s.PassFDs {
		if fd.Number < 3 || fd.Number >= maxPassNumber {
			return &SetupError{Stage: "stdio", Err: fmt.Errorf("descriptor %d cannot be passed", fd.Number),
				Hint: fmt.Sprintf("use a number from 3 to %d", maxPassNumber-1)}
		}
	}
	for _, e := range s.View.Entries {
		if !strings.HasPrefix(e.Path, "/") || strings.Contains(e.Path, "/../") {
			return &SetupError{Stage: "filesystem", Err: fmt.Errorf("path %q is not absolute and clean", e.Path)}
		}
	}
	if l.runner.host.LandlockABI == 0 {
		return &SetupError{Stage: "landlock", Err: errors.New("this kernel offers no Landlock"),
			Hint: "sbx doctor says who refuses it; nothing is run without it"}
	}
	return nil
}

// maxPassNumber is PLACE_ABOVE of child.h.
const maxPassNumber = 200

func (l *launch) chooseNamespaces() error {
	h := l.runner.host
	if l.spec.Tier == TierBase {
		return nil
	}
	if l.spec.Tier == TierFull && !h.MountView {
		return &SetupError{Stage: "namespaces", Err: errors.New("this host does not allow a mount view"), Hint: "sbx doctor says who refuses it"}
	}
	add := func(ok bool, ns uint64) {
		if ok {
			l.namespaces |= ns
		}
	}
	// An own user namespace holds one id: another user cannot be had in it.
	if h.UserNS && l.spec.User != nil && l.spec.User.UID != os.Geteuid() {
		return nil
	}
	add(h.PIDNS, nsPID)
	add(h.IPCNS, nsIPC)
	add(h.NetNS && l.spec.Network == NetNone, nsNet)
	add(h.MountView, nsMount)
	add(h.UserNS && l.namespaces != 0, nsUser)
	l.view, l.pidNS = h.MountView, h.PIDNS
	return nil
}

// refuseUnenforceable finds denials inside of grants that Landlock alone cannot
// hold. What the user wrote is refused, a default is reported.
func (l *launch) refuseUnenforceable() error {
	if l.view {
		return nil
	}
	if err := l.weakenNoExecWrite(); err != nil {
		return err
	}
	for _, e := range l.spec.View.Entries {
		if e.Access > Protect || !l.grantedAbove(e) {
			continue
		}
		part := "deny " + e.Path
		if e.Access == Protect {
			part = "protect " + e.Path
		}
		if e.Demanded && !l.spec.BestEffort {
			return &SetupError{Stage: "filesystem", Err: fmt.Errorf("%s: it lies inside a granted directory, and this host has no mount view to take it away", part),
				Hint: "grant its neighbours one by one instead, or accept the gap with --best-effort"}
		}
		l.enforced.Missing = append(l.enforced.Missing, Gap{Part: part, Why: "no mount view, and Landlock cannot take a path out of a grant"})
	}
	return nil
}

// weakenNoExecWrite refuses what noexec mounts alone can hold: Landlock's execute
// right is asked for by execve(2), not by the loader's mmap(2) of a written file
// (tried on Linux 6.18).
func (l *launch) weakenNoExecWrite() error {
	if !l.spec.NoExecWrite {
		return nil
	}
	gap := Gap{Part: "no-exec-write", Why: "no mount view: a written file can be mapped executable, as the dynamic loader does",
		Instead: "starting a written file and executable memory files are refused"}
	if !l.spec.BestEffort {
		return &SetupError{Stage: "filesystem", Err: errors.New(gap.Part + ": " + gap.Why),
			Hint: "accept the gap with --best-effort, or leave --no-exec-write out"}
	}
	l.enforced.Weakened = append(l.enforced.Weakened, gap)
	return nil
}

// grantedAbove reports whether the closest entry above or at e's path grants more.
func (l *launch) grantedAbove(e Entry) bool {
	best, access := -1, Deny
	for _, o := range l.spec.View.Entries {
		if len(o.Path) > best && o.Path != e.Path && within(e.Path, o.Path) {
			best, access = len(o.Path), o.Access
		}
	}
	return best >= 0 && access > e.Access && (e.Access == Deny || access == ReadWrite)
}

// within reports whether path is dir or beneath it. Both are clean.
func within(path, dir string) bool {
	if dir == "/" || path == dir {
		return true
	}
	return len(path) > len(dir) && path[len(dir)] == '/' && path[:len(dir)] == dir
}

func (l *launch) makeCgroup() error {
	if l.spec.Tier != TierBase {
		c, parts, gaps, err := l.cgroupFor()
		if err != nil {
			return &SetupError{Stage: "cgroup", Err: err}
		}
		l.enforced.Parts = append(l.enforced.Parts, parts...)
		l.enforced.Weakened = append(l.enforced.Weakened, gaps...)
		if c != nil {
			l.cgroup = c
			l.onRelease(func() { c.remove() })
		}
	}
	l.substitutes()
	return nil
}

// planBinding adds what binds keeper and command to less than the caller has.
func (l *launch) planBinding() error {
	privileged := os.Geteuid() == 0 || l.namespaces&nsUser != 0
	if !l.pidNS {
		l.plan.Scope()
		l.plan.Subreaper()
	}
	bounding := child.Flag(0)
	if !privileged {
		bounding = child.Optional
	}
	l.plan.Bounding(bounding)
	if u := l.spec.User; u != nil && (u.UID != os.Geteuid() || u.GID != os.Getegid()) {
		if l.namespaces&nsUser != 0 {
			return &SetupError{Stage: "user", Err: errors.New("only root can run as another user")}
		}
		l.plan.User(u.UID, u.GID, u.Groups)
	}
	l.plan.Drop()
	if l.stdio.tty && l.view {
		l.plan.PTY()
	}
	return l.planLandlock()
}

// planCommand ends the plan with the command itself.
func (l *launch) planCommand() error {
	profile, err := seccomp.ByName(l.profileName())
	if err != nil {
		return &SetupError{Stage: "seccomp", Err: err, Hint: "profiles are: " + strings.Join(seccomp.Names(), ", ")}
	}
	inet := l.spec.Network == NetFull || l.namespaces&nsNet != 0
	filter, err := seccomp.Cached(l.runner.CacheDir, profile, runtime.GOARCH, seccomp.Options{
		Inet: inet, Unix: l.view || l.spec.UnixSockets, NoExecWrite: l.spec.NoExecWrite,
		OwnPID: l.pidNS, OwnIPC: l.namespaces&nsIPC != 0})
	if err != nil {
		return &SetupError{Stage: "seccomp", Err: err}
	}
	l.enforced.Seccomp, l.enforced.SeccompUnknown = l.profileName(), filter.Unknown
	umask := uint32(l.spec.Umask)
	if umask == 0 {
		umask = 0o022
	}
	c := child.Command{Path: l.spec.Path, Dir: l.spec.Dir, Argv: l.spec.Argv, Env: l.spec.Env,
		Stdio: l.stdio.child, Pass: map[int]int{}, Limits: l.rlimits(), Umask: umask,
		BPF: filter.BPF, RestrictFlags: l.restrictFlags, TTY: l.stdio.tty}
	for _, fd := range l.spec.PassFDs {
		c.Pass[fd.Number] = int(fd.File.Fd())
	}
	if l.cgroup != nil {
		for _, f := range l.cgroup.joinFDs() {
			c.CGroups = append(c.CGroups, int(f.Fd()))
		}
		if first := l.cgroup.dirs[0]; first.V2 {
			fd, err := unix.Open(first.Path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
			if err != nil {
				return &SetupError{Stage: "cgroup", Err: err}
			}
			l.onRelease(func() { unix.Close(fd) })
			c.CGroupDir = fd
		}
	}
	if t := l.stdio.saved; t != nil {
		l.plan.RestoreTerminal(int(l.spec.TTY.Fd()), t)
	}
	l.planTasks()
	if l.spec.BeforeStart != nil {
		l.plan.Wait()
	}
	l.plan.Run(c)
	return nil
}

func (l *launch) profileName() string {
	if l.spec.Syscalls == "" {
		return "default"
	}
	return l.spec.Syscalls
}

// explain turns a keeper's report into an error for people.
func (l *launch) explain(err error) error {
	e, ok := errors.AsType[*child.StartError](err)
	if !ok && l.spec.BeforeStart != nil {
		return err // of BeforeStart: child has no other
	}
	if !ok {
		return &SetupError{Stage: "start", Err: err}
	}
	out := &SetupError{Stage: e.Stage, Err: e.Err}
	if e.Detail != "" {
		out.Err = fmt.Errorf("%s: %w", e.Detail, e.Err)
	}
	switch {
	case e.Stage == "plan" && e.Detail == "":
		out.Hint = "too many paths: grant, hide or protect a directory above several of them"
	case e.Stage == "exec":
		out.Err = fmt.Errorf("%s: %w", l.spec.Path, e.Err)
		if errors.Is(e.Err, unix.EACCES) {
			out.Hint = "it is not executable, or its directory is not granted: --ro " + parent(l.spec.Path)
		}
		if errors.Is(e.Err, unix.ENOENT) {
			out.Hint = "the program, or the interpreter it names, is not in the view: --ro grants a path"
		}
	case e.Stage == "directory":
		out.Err = fmt.Errorf("%s: %w", l.spec.Dir, e.Err)
		out.Hint = "the start directory must be in the view: --ro or --rw grants it"
	case errors.Is(e.Err, unix.ESTALE):
		out.Hint = "it was replaced while the run started; try again"
	case errors.Is(e.Err, unix.E2BIG) && e.Stage == "landlock":
		out.Hint = "too many sandboxes inside each other (16)"
	case errors.Is(e.Err, unix.ENOMEM) && l.limits.Memory > 0:
		out.Hint = "the memory limit is too small to start a program: raise it"
	case errors.Is(e.Err, unix.EINVAL) && (e.Stage == "stdio" || e.Stage == "landlock"):
		out.Hint = "raise the limit of open files (ulimit -n)"
	}
	return out
}

func parent(path string) string {
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		return path[:i]
	}
	return "/"
}

// cgroupFor makes a control group where the host has one to give and a limit
// needs it. A nil group and no error mean that there is none.
//
// Joining a group by writing to cgroup.procs waits for a grace period of the
// kernel: 0.5 to 20 ms here, as much as the rest of a launch together. So the
// default task limit is left to a substitute where that is good enough, and the
// unified hierarchy of a hybrid host to the pid namespace. A v2 group is entered
// by clone3, which does not wait.
func (l *launch) cgroupFor() (*cgroup, []Part, []Gap, error) {
	host := l.runner.host.Cgroups
	host.Parents = nil
	limits := l.limits
	tasks := limits.Tasks > 0 && (l.spec.Limits.Tasks > 0 || !l.limitByNPROC() && !l.limitByPIDMax())
	for _, p := range l.runner.host.Cgroups.Parents {
		has := func(c string) bool { return slices.Contains(p.Controllers, c) }
		switch {
		case (tasks || p.V2) && limits.Tasks > 0 && has("pids"),
			limits.Memory > 0 && has("memory"), limits.CPU > 0 && has("cpuacct"),
			limits.CPU > 0 && p.V2 && len(p.Controllers) > 0,
			p.V2 && !l.pidNS:
			host.Parents = append(host.Parents, p)
		}
	}
	if len(host.Parents) == 0 {
		return nil, nil, nil, nil
	}
	if !slices.ContainsFunc(host.Parents, func(p cgroupParent) bool { return slices.Contains(p.Controllers, "pids") }) {
		limits.Tasks = Unlimited
	}
	return host.create(strconv.FormatUint(l.runner.runs.Add(1), 10), limits)
}
