package agentloop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"sandboxd/exec"
	"sandboxd/policy"
)

const (
	// maxHookInput bounds what a hook is told, in bytes. A larger call is not cut,
	// since a guard would judge another call than the one that runs: it fails.
	maxHookInput = 16 << 20
	// maxHookOutput bounds what a hook may print on each stream, in bytes.
	maxHookOutput = 1 << 20
	// hookGrace is between TERM and KILL at a hook's deadline.
	hookGrace = time.Second
	// cancelGrace is the same after a cancellation, for hooks and for tools that
	// may be ended at once: it is seen within 250 ms (requirement 136).
	cancelGrace = 100 * time.Millisecond
)

// commandHook runs a program at one event.
type commandHook struct {
	spec    HookSpec
	env     HookEnvironment
	kind    hookEvent
	match   hookMatch
	timeout time.Duration
}

func newCommandHook(s HookSpec, env HookEnvironment) (*commandHook, error) {
	fail := func(err error, hint string) (*commandHook, error) {
		return nil, &HookError{Event: s.Event, Command: s.Command, Source: s.Source, Hint: hint, Err: err}
	}
	kind, ok := findHookEvent(s.Event)
	switch {
	case !ok:
		return fail(errors.New("unknown event"), "docs/hooks.md lists them")
	case strings.TrimSpace(s.Command) == "":
		return fail(errors.New("no command"), "")
	case strings.ContainsRune(s.Command, 0):
		return fail(errors.New("the command holds a NUL byte"), "")
	case s.Timeout < 0:
		return fail(errors.New("the timeout is negative"), "")
	case env.Runner == nil || !filepath.IsAbs(env.Workspace):
		return fail(errors.New("bug: no runner or no workspace for command hooks"), "")
	case fromCheckout(s.Source) && (s.Write || len(s.Network) > 0):
		return fail(errors.New("a project's hook cannot have the workspace writable, nor a network"), "put it into your own policy")
	}
	if managed(s.Source) {
		env = env.managed()
	}
	match, err := newHookMatch(s, kind, policy.Base{Workspace: env.Workspace, Home: env.Caller.Home})
	if err != nil {
		return fail(err, "write names as Edit|Write, a pattern as mcp__.*, and a rule in if")
	}
	h := &commandHook{spec: s, env: env, kind: kind, match: match, timeout: s.Timeout}
	if h.timeout == 0 {
		h.timeout = DefaultHookTimeout
	}
	if err := newHookProgram(s, env).checkDynamic(); err != nil {
		return fail(err, `write the path out, or begin it with "$CLAUDE_PROJECT_DIR"/`)
	}
	return h, nil
}

// Name implements [Hook].
func (h *commandHook) Name() string { return shortCommand(h.spec.Command) }

func (h *commandHook) event() string             { return h.kind.name }
func (h *commandHook) concerns(e HookEvent) bool { return h.match.matches(e) }
func (h *commandHook) continueOnFailure() bool   { return h.spec.ContinueOnFailure }

// shortCommand is a command as a name, one line.
func shortCommand(command string) string {
	const most = 60
	line := strings.Join(strings.Fields(command), " ")
	if r := []rune(line); len(r) > most {
		line = string(r[:most-1]) + "…"
	}
	return line
}

// Handle implements [Hook].
func (h *commandHook) Handle(ctx context.Context, e HookEvent) (HookOutcome, error) {
	input, err := h.input(e)
	if err != nil {
		return HookOutcome{}, err
	}
	run, err := h.run(ctx, input)
	if err != nil {
		return HookOutcome{}, err
	}
	return h.answer(run)
}

// hookRunResult is what became of one run.
type hookRunResult struct {
	exitCode       int
	stdout, stderr string
}

// run starts the command and waits for its end. An error is a failure of the
// hook, whatever it printed.
func (h *commandHook) run(ctx context.Context, input []byte) (hookRunResult, error) {
	stdin, err := sealedFile(input)
	if err != nil {
		return hookRunResult{}, fmt.Errorf("could not be told: %w", err)
	}
	defer stdin.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	spec, cleanup, err := h.prepare()
	if err != nil {
		return hookRunResult{}, fmt.Errorf("not started: %w", err)
	}
	out, errs := &hookOutput{full: cancel}, &hookOutput{full: cancel}
	spec.Stdin, spec.Stdout, spec.Stderr = stdin, out, errs
	res, err := h.env.Runner.Run(ctx, spec)
	cleanErr := cleanup()
	if err != nil {
		return hookRunResult{}, fmt.Errorf("not started: %w", err)
	}
	if err := h.ended(ctx, res, out, errs); err != nil {
		return hookRunResult{}, err
	}
	if cleanErr != nil {
		return hookRunResult{}, fmt.Errorf("left something behind: %w", cleanErr)
	}
	return hookRunResult{res.ExitCode, strings.TrimSpace(out.text()), strings.TrimSpace(errs.text())}, nil
}

// ended says why a run that did not exit by itself counts for nothing.
func (h *commandHook) ended(ctx context.Context, res exec.Result, out, errs *hookOutput) error {
	switch {
	case out.over() || errs.over():
		return fmt.Errorf("printed more than %d KiB", maxHookOutput>>10)
	case res.Outcome == exec.TimedOut && ctx.Err() == nil:
		return fmt.Errorf("no answer within %s", h.timeout)
	case ctx.Err() != nil:
		return fmt.Errorf("stopped: %w", ctx.Err())
	case res.Outcome == exec.Signaled:
		return fmt.Errorf("was killed by signal %d", res.Signal)
	case res.Outcome != exec.Exited:
		return fmt.Errorf("was ended by its %s limit", res.Outcome)
	}
	return nil
}

// prepare builds the run with the rights of the caller: the files that it names,
// the checked copies, the view.
func (h *commandHook) prepare() (spec exec.Spec, cleanup func() error, err error) {
	c := h.env.Caller
	var report Report
	var copies hookCopies
	rights := withUser(c.UID, c.GID, c.Groups, func() {
		p := newHookProgram(h.spec, h.env)
		if err = p.find(); err != nil {
			return
		}
		if err = p.checkManaged(); err != nil {
			return
		}
		if err = p.checkTrust(); err != nil {
			return
		}
		if copies, err = p.copyFiles(); err != nil {
			return
		}
		if spec, report, err = h.build(p, copies); err != nil {
			err = errors.Join(err, copies.remove())
		}
	})
	if err := errors.Join(rights, err); err != nil {
		return exec.Spec{}, nil, err
	}
	return spec, func() (err error) {
		rights := withUser(c.UID, c.GID, c.Groups, func() { err = errors.Join(copies.remove(), report.Cleanup()) })
		return errors.Join(rights, err)
	}, nil
}

func (h *commandHook) build(p *hookProgram, copies hookCopies) (exec.Spec, Report, error) {
	c := h.env.Caller
	c.Cwd = h.env.Workspace
	spec, report, err := Build(h.grant(p), c, h.env.View, []string{"/bin/sh", "-c", copies.command})
	if err != nil {
		return spec, report, err
	}
	if managed(h.spec.Source) {
		h.detach(&spec, report)
	}
	spec.View.Entries = append(spec.View.Entries, copies.entries...)
	spec.Tier = h.env.Tier
	if spec.User == nil && (c.UID != unix.Geteuid() || c.GID != unix.Getegid()) {
		// Build takes the caller for this process.
		spec.User = &exec.User{UID: c.UID, GID: c.GID, Groups: c.Groups, OwnPaths: true}
	}
	spec.Limits.Wall, spec.Limits.Grace, spec.Limits.CancelGrace = h.timeout, hookGrace, cancelGrace
	return spec, report, nil
}

// grant is what a hook may reach: the workspace read-only, what the session may
// read, no network; more where the administrator or the user wrote so.
func (h *commandHook) grant(p *hookProgram) policy.Grant {
	g := h.env.Grant
	own := policy.Grant{
		Workspace: h.env.Workspace, Dir: h.env.Workspace, User: g.User, ReadOnlyWorkspace: !h.spec.Write, PrivateTmp: true,
		Paths: append([]policy.PathGrant(nil), g.Paths...), Network: h.spec.Network, Syscalls: g.Syscalls, NoExecWrite: g.NoExecWrite,
		Limits: policy.GrantLimits{MemoryBytes: g.Limits.MemoryBytes, Tasks: g.Limits.Tasks, FileBytes: g.Limits.FileBytes},
	}
	if !fromCheckout(h.spec.Source) {
		own.EnvPass, own.EnvSet = g.EnvPass, append([]string(nil), g.EnvSet...)
		for _, path := range p.outside {
			own.Paths = append(own.Paths, policy.PathGrant{Path: path, Access: policy.GrantRead, Source: h.spec.Source})
		}
	}
	own.EnvSet = append(own.EnvSet, h.told()...)
	return own
}

// told are the variables that every hook has.
func (h *commandHook) told() []string {
	return []string{"SANDBOXD_PROJECT_DIR=" + h.env.Workspace, "CLAUDE_PROJECT_DIR=" + h.env.Workspace, "SANDBOXD_HOOK_EVENT=" + h.kind.name, "PATH=" + h.path()}
}

// path is PATH without what a checkout could put a program into.
func (h *commandHook) path() string {
	if managed(h.spec.Source) {
		return managedPath(h.env.Caller)
	}
	path := lookupEnv(h.env.Caller.Environ, "PATH")
	var kept []string
	for _, dir := range filepath.SplitList(path) {
		real, err := filepath.EvalSymlinks(dir)
		if filepath.IsAbs(dir) && err == nil && !within(real, h.env.Workspace) && !within(dir, h.env.Workspace) {
			kept = append(kept, dir)
		}
	}
	if len(kept) == 0 {
		return defaultPath
	}
	return strings.Join(kept, string(filepath.ListSeparator))
}

// sealedFile is an open file without a name that holds data and can be changed
// by nobody: a hook that never reads it blocks no writer.
func sealedFile(data []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("hook", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, err
	}
	w := os.NewFile(uintptr(fd), "hook")
	defer w.Close()
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	if _, err := unix.FcntlInt(w.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_GROW|unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL); err != nil {
		return nil, err
	}
	return os.Open(fmt.Sprintf("/proc/self/fd/%d", fd))
}

// hookOutput keeps a stream up to its bound, and ends the run past it.
type hookOutput struct {
	full func()

	mu   sync.Mutex
	kept bytes.Buffer
	cut  bool
}

// Write implements io.Writer. It takes everything: the pipe is drained while the
// run ends.
func (o *hookOutput) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if room := maxHookOutput - o.kept.Len(); len(b) > room {
		if !o.cut {
			o.cut = true
			o.full()
		}
		o.kept.Write(b[:room])
		return len(b), nil
	}
	o.kept.Write(b)
	return len(b), nil
}

func (o *hookOutput) over() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.cut
}

func (o *hookOutput) text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.kept.String()
}
