package agentloop

import (
	"context"
	"errors"
	"sync"
	"time"

	"sandboxd/exec"
)

// call lets the tool do its work.
func (h *handling) call(ctx context.Context) {
	c := h.c
	c.Args = c.Args.Clone() // the rows keep what was decided, whatever the tool does with it
	r := &ToolRun{Call: c, Session: h.s, d: h.d, traits: h.tool.Traits(h.c.Args), result: &h.res, at: &h.at, interrupted: h.interrupted}
	text, err := h.tool.Call(ctx, r)
	h.res.Output = text
	switch {
	case h.res.Exec != nil && h.res.Exec.Outcome == exec.TimedOut:
		h.res.Status = StatusTimeout
	case ctx.Err() != nil:
		h.res.Status = StatusCancelled
		err = errors.Join(err, cancelCause(ctx))
	case errors.Is(err, ErrCancelled), errors.Is(err, ErrSessionClosed): // it ended when it was asked to
		h.res.Status = StatusCancelled
	case err != nil, h.res.Exec != nil && h.res.Exec.ExitCode != 0:
		h.res.Status = StatusFail
	default:
		h.res.Status = StatusOK
	}
	if err != nil {
		h.fail(err)
	}
}

// postTime is how long the PostToolUse hooks of a call that was cancelled have before
// they are ended as well: with their grace period this stays below the 250 ms within
// which a cancellation is seen.
const postTime = 100 * time.Millisecond

// postContext is the context of the PostToolUse hooks. They are told of a call although
// its caller is gone; somebody who cancelled it does not wait for them. done must be
// called.
func postContext(ctx context.Context) (post context.Context, done func()) {
	post, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	var ending sync.WaitGroup
	ending.Go(func() {
		select {
		case <-ctx.Done():
		case <-post.Done():
			return
		}
		why := cancelCause(ctx)
		if !errors.Is(why, ErrCancelled) && !errors.Is(why, ErrSessionClosed) && !errors.Is(why, ErrAgentClosed) {
			return
		}
		late := time.NewTimer(postTime)
		defer late.Stop()
		select {
		case <-late.C:
			cancel(why)
		case <-post.Done():
		}
	})
	return post, func() { cancel(nil); ending.Wait() }
}

// post runs the PostToolUse hooks and masks the output as they say.
func (h *handling) post(ctx context.Context) {
	if h.d.o.Hooks == nil {
		h.hop(hopPost, "no hooks")
		return
	}
	ctx, done := postContext(ctx)
	defer done()
	chain := h.d.o.Hooks.Fire(ctx, h.s, HookEvent{
		Event: EventPostToolUse, Session: h.s.id, Agent: h.c.Agent, Call: h.c.ID, Step: h.c.Step, Tool: h.tool.Name(),
		Args: h.c.Args, Output: h.res.Output, Cwd: h.c.Cwd, Result: &h.res,
	})
	if chain.Output != nil {
		h.res.Output = *chain.Output
	}
	h.res.Context = append(h.res.Context, chain.Context...)
	h.res.StopLoop = chain.StopReason
	text := ""
	if chain.Blocked {
		// It ran already; the model is told not to build on it.
		text = "hook " + chain.By + " objects: " + chain.Reason
		h.res.Notes = append(h.res.Notes, text)
	}
	h.hop(hopPost, text)
}

// runCommand is hops 4 to 7: it turns the grant into a Spec, runs it, and looks
// at what it left.
func (d *Dispatcher) runCommand(ctx context.Context, r *ToolRun, c Command) (_ *exec.Result, setup error) {
	defer func() {
		r.result.setup = setup
		if setup != nil || !r.grant.ReadOnlyWorkspace { // less is set up for what only reads
			r.Session.sandboxWorks.Store(setup == nil)
		}
	}()
	p, err := d.confine(r, c)
	r.result.Plan, r.result.Spec = p.report, p.spec
	d.trace(r.result, hopConfine, "")
	if err != nil {
		d.o.Metrics.add(1, "sandboxd_refused_total", "setup")
		return nil, err
	}
	defer p.cleanUp(r)
	p.connect(r, c)
	if listen := r.Call.IO.Listen; listen != nil {
		signals, stop, err := listen()
		if err != nil {
			return nil, err
		}
		defer stop()
		p.spec.Signals = signals
	}
	guard, err := d.newGuard(p, r)
	r.result.Plan = p.report
	if err != nil {
		return nil, err
	}
	p.spec.BeforeStart = func() (err error) { // while the view is made
		guard, err = d.beginGuard(guard, p, r)
		return err
	}
	d.o.Metrics.add(1, "sandboxd_launches_total")
	var home homeWatch
	if err := r.Session.asUser(func() { home = watchHome(p.report.HomeSource) }); err != nil {
		return nil, err
	}
	began := d.o.Now()
	var whole outputFiles
	if d.o.Results != nil {
		p.spec.OpenOutput = func() (exec.OutputFile, error) { return whole.open(d.o.Results, r) }
	}
	res, err := d.o.Runner.Run(ctx, p.spec)
	whole.close()
	r.result.Ran = err == nil
	d.o.Metrics.observe("sandboxd_call_seconds", d.o.Now().Sub(began))
	d.trace(r.result, hopRun, string(res.Outcome))
	r.result.Detected = append(r.result.Detected, d.finishGuard(guard, p, r, err == nil)...)
	d.trace(r.result, hopGuard, "")
	res.Enforced.Weakened = append(res.Enforced.Weakened, p.report.Gaps...)
	over := ""
	if err := r.Session.asUser(func() { over = home.over() }); err != nil {
		over = "the private home was not measured: " + err.Error()
	}
	if over != "" {
		p.report.Warnings = append(p.report.Warnings, over)
	}
	r.result.Plan, r.result.Warnings = p.report, p.report.Warnings
	if err != nil {
		return nil, err
	}
	r.result.Exec = &res
	r.out = output{stdout: res.Stdout.Text, stderr: res.Stderr.Text}
	return &res, nil
}

// trace adds a hop whose time is that since the last one.
func (d *Dispatcher) trace(res *ToolResult, name, text string) {
	now := d.o.Now()
	res.Trace = append(res.Trace, HopTime{Name: name, Elapsed: now.Sub(res.lastHop), Text: text})
	res.lastHop = now
}

// connect gives the command its streams.
func (p *confined) connect(r *ToolRun, c Command) {
	io := r.Call.IO
	p.spec.Stdin, p.spec.Stdout, p.spec.Stderr = io.Stdin, io.Stdout, io.Stderr
	p.spec.TTY, p.spec.Signals, p.spec.PassFDs = io.TTY, io.Signals, io.PassFDs
	p.spec.Watch = io.Output
	if c.Stdin != nil {
		p.spec.Stdin = c.Stdin
	}
	if c.Stdout != nil {
		p.spec.Stdout = c.Stdout
	}
}

// newGuard completes what earlier runs of the same user left undone by a crash, and
// makes the guard of this one. It returns nil where nothing is to be looked at.
func (d *Dispatcher) newGuard(p *confined, r *ToolRun) (*Guard, error) {
	if p.grant.ReadOnlyWorkspace {
		return nil, nil
	}
	dir := d.stateDir(r.Session)
	if dir == "" {
		p.report.Gaps = append(p.report.Gaps, exec.Gap{Part: "protected names that are new",
			Why: "no private directory for the journal", Instead: "not looked at after the run"})
		return nil, nil
	}
	p.report.Warnings = append(p.report.Warnings, d.earlierRuns(dir)...)
	var held []string
	for _, name := range p.report.Protected {
		if name.Level == LevelKernel {
			held = append(held, name.Path)
		}
	}
	guard, err := NewGuard(dir, p.report.Workspace, GuardOptions{Kernel: held, User: p.spec.User, Kept: keptDir(r.Session), Beside: d.userDirs()})
	if err != nil {
		return nil, p.unguarded(r, err)
	}
	return guard, nil
}

// beginGuard notes what is there before the run. It returns the guard if there is
// something to finish.
func (d *Dispatcher) beginGuard(guard *Guard, p *confined, r *ToolRun) (*Guard, error) {
	if guard == nil {
		return nil, nil
	}
	if err := guard.Begin(); err != nil {
		return nil, p.unguarded(r, err)
	}
	return guard, nil
}

// unguarded refuses a run whose workspace could not be looked at afterwards, or
// warns.
func (p *confined) unguarded(r *ToolRun, err error) error {
	if r.Call.BestEffort {
		p.report.Warnings = append(p.report.Warnings, "protected names are not looked at after the run: "+err.Error())
		return nil
	}
	return &GuardError{Err: err}
}

// GuardError reports that a run could not be guarded; nothing ran.
type GuardError struct{ Err error }

func (e *GuardError) Error() string { return "protected names: " + e.Err.Error() }
func (e *GuardError) Unwrap() error { return e.Err }

// finishGuard never hides a failure: a workspace that could not be looked at may
// hold anything. Where nothing ran, nothing is looked at: what changed meanwhile
// is the work of others.
func (d *Dispatcher) finishGuard(guard *Guard, p *confined, r *ToolRun, ran bool) []GuardFinding {
	if guard == nil {
		return nil
	}
	if !ran {
		if err := guard.Discard(); err != nil {
			p.report.Warnings = append(p.report.Warnings, "the journal of this start stays: "+err.Error())
		}
		return nil
	}
	found, err := guard.Finish()
	if err != nil {
		r.Note("the workspace could not be looked at after the run; the next run tries again: %v", err)
	}
	for _, f := range found {
		d.o.Metrics.add(1, "sandboxd_detected_total", string(f.Action))
	}
	return found
}
