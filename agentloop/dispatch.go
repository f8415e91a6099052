package agentloop

import (
	"context"
	"errors"

	"sandboxd/exec"
)

// DispatcherOptions are the parts that a Dispatcher works with.
type DispatcherOptions struct {
	Runner *exec.Runner
	Host   exec.Host
	// Audit keeps a row of every decision and end. Nil: nothing is recorded, as
	// in sbx run.
	Audit AuditLog
	// RunUnrecorded runs calls although the log cannot be written. It is a
	// setting of the policy; without it such a call is refused.
	RunUnrecorded bool
	Asks          *AskQueue
	Hooks         *HookRegistry
	Metrics       *Metrics
	// StateDir is the daemon's own: journals of guards and whole outputs of
	// other users' runs. Empty means the caller's, when that is this process.
	StateDir string
	// MaxRunning bounds the calls that run at once, MaxRunningPerUID those of
	// one user, MaxQueued those that wait, each user's in turn. Zero: no bound.
	MaxRunning, MaxRunningPerUID, MaxQueued int
}

// Dispatcher is the one door: every command and file access of every face
// passes it. It is safe for concurrent use.
type Dispatcher struct {
	o DispatcherOptions
}

// NewDispatcher checks the options.
func NewDispatcher(o DispatcherOptions) (*Dispatcher, error) {
	if o.Runner == nil {
		return nil, errors.New("dispatcher without a runner")
	}
	return &Dispatcher{o: o}, nil
}

// Dispatch decides c and, when it may run, runs it and records what became of
// it. It returns when nothing of the call is left. A refusal is a result, not an
// error. Cancelling ctx ends the call.
func (d *Dispatcher) Dispatch(ctx context.Context, s *Session, c ToolCall) ToolResult {
	err := errors.New("no tool is built in")
	return ToolResult{Call: c.ID, Status: StatusFail, Err: err, Error: err.Error()}
}
