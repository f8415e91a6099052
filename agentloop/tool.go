package agentloop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"sandboxd/exec"
	"sandboxd/policy"
)

// Interrupt says what becomes of a running tool when its session is cancelled.
type Interrupt uint8

const (
	// InterruptBlock lets it finish first: it could leave half of something. It has
	// two seconds for that; then it is ended all the same.
	InterruptBlock Interrupt = iota
	// InterruptCancel ends it at once.
	InterruptCancel
	// InterruptTerm asks its command to end, by TERM, and kills what is left after
	// the grace of the run, two seconds.
	InterruptTerm
)

func (i Interrupt) String() string {
	switch i {
	case InterruptCancel:
		return "cancel"
	case InterruptTerm:
		return "term"
	case InterruptBlock:
	}
	return "block"
}

// Traits say how a tool may be treated. The zero Traits are the cautious ones:
// alone, may change anything, and is not torn down in the middle.
type Traits struct {
	// ConcurrencySafe calls may run beside others of the same turn.
	ConcurrencySafe bool
	// ReadOnly calls change nothing outside the session. The sandbox holds them
	// to it.
	ReadOnly bool
	// SiblingAbort: when the call fails, those that run beside it are ended.
	SiblingAbort bool
	// Harmless calls destroy nothing that could not be had back.
	Harmless bool
	// Unqueued calls start nothing themselves and wait for others, or for a person:
	// they take no place among the calls that run.
	Unqueued  bool
	Interrupt Interrupt
}

// Tool is something that can be called. What it does on the machine it does
// through [ToolRun.Command], inside the confinement of its call.
type Tool interface {
	// Name is the canonical name.
	Name() string
	// Traits may depend on the arguments.
	Traits(args policy.Args) Traits
	// Call does the work and returns what the model is told. The error is for a
	// call that could not be done as asked; a command that fails is none.
	Call(ctx context.Context, r *ToolRun) (output string, err error)
}

// Command is what a tool starts.
type Command struct {
	Argv []string
	// Stdin is nil for the call's own, or none.
	Stdin *os.File
	// Stdout is nil for the call's own, or a capture.
	Stdout io.Writer
	// Own is an executable of ours that the command is: it is granted for reading
	// and execution, that one file and for this command alone. Empty: none.
	Own string
	// Network, if not nil, is what a command with Own may reach in place of what the
	// policy grants.
	Network []string
	// Again: the command before was a program that did not do what it was started
	// for, and nothing else; this one stands in for it.
	Again bool
}

// ToolRun is one call of a tool after it was decided. It is used by the tool's
// goroutine alone.
type ToolRun struct {
	// Call holds the final arguments.
	Call ToolCall
	// Session is whose call it is.
	Session *Session

	d           *Dispatcher
	traits      Traits
	result      *ToolResult
	grant       policy.Grant
	out         output
	interrupted <-chan struct{}
	// at is what the call was decided by. Nil: what holds when it is confined.
	at *moment
	// adjust changes what the command may use. Nil: nothing is changed.
	adjust func(*policy.Grant)
}

// output is what became of the streams of the last command.
type output struct{ stdout, stderr string }

// Agent is the loop that the call belongs to; nil for a call of another face.
func (r *ToolRun) Agent() *Agent { return r.Call.Loop }

// Decision is what allowed the call.
func (r *ToolRun) Decision() policy.Decision { return r.result.Decision }

// Expand makes a path of the call absolute, as the decision did: from the
// directory of the call, or from the home for "~".
func (r *ToolRun) Expand(path string) string { return r.Session.expand(path, r.Call.Cwd) }

// MaxFileBytes is the most that a file tool of this call may read whole or write;
// zero means that the policy sets no limit.
func (r *ToolRun) MaxFileBytes() int64 { return r.Session.inForce().Config.MaxFileSize }

// InView reports whether a path, absolute and without links, lies in what the last
// command of the call was shown.
func (r *ToolRun) InView(path string) bool {
	return slices.ContainsFunc(r.result.Plan.Grants, func(l Line) bool { return l.Access != exec.Deny && within(path, l.Path) })
}

// Changed tells what a call did to a file, as a unified diff for people.
func (r *ToolRun) Changed(diff string) { r.result.Diff = r.Session.masked(diff) }

// Interrupted is closed when the call is asked to end: a tool that may finish first
// and waits for something returns then.
func (r *ToolRun) Interrupted() <-chan struct{} { return r.interrupted }

// Note adds a fact that people must be told.
func (r *ToolRun) Note(format string, args ...any) {
	r.result.Notes = append(r.result.Notes, fmt.Sprintf(format, args...))
}

// Command starts one command under the confinement of the call and returns when
// nothing of it is left. The error says that nothing ran.
func (r *ToolRun) Command(ctx context.Context, c Command) (*exec.Result, error) {
	if r.result.Ran && !c.Again {
		return nil, errors.New("bug: a call starts one command")
	}
	return r.d.runCommand(ctx, r, c)
}
