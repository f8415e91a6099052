package agentloop

import (
	"io"
	"os"
	"time"

	"sandboxd/exec"
	"sandboxd/policy"
)

// ToolCall is one call on its way through the Dispatcher.
type ToolCall struct {
	policy.Call
	// Step numbers the calls of a session, from 1. Zero lets the session count.
	Step int
	// Argv is a command that is started without a shell, if the arguments say the
	// same when they are decided: Call is that of [policy.ArgvCall]. Empty means what
	// the tool makes of the arguments.
	Argv []string
	IO   CallIO
	// Loop is the agent that makes the call, if one does, and Use the id of the call
	// in its conversation.
	Loop *Agent
	Use  string
	// Limits tighten or replace those of the policy; zero fields leave them.
	Limits policy.GrantLimits
	// Attended: a person waits for it, as in sbx exec. It may take as long as it
	// likes, unless a limit says otherwise; a call of an agent may not.
	Attended bool
	// Tier and BestEffort are those of [exec.Spec].
	Tier       exec.Tier
	BestEffort bool
	// Paths are granted besides the policy's, each with its source (flags of the
	// client). A peer's path is opened with the peer's rights.
	Paths []policy.PathGrant
	// NoNetwork and NoExecWrite hold this call tighter than the policy does.
	NoNetwork, NoExecWrite bool

	checked string   // what the loop looked at
	refusal *refusal // by the loop, before anything is decided
}

// CallIO connects a call that streams. The zero value captures the output.
type CallIO struct {
	// Printed is the beginning of what goes to Stdout and Stderr, or to a terminal, for
	// the audit log. Nil: the log has of the output what is captured.
	Printed        *OutputHead
	Stdin          *os.File
	Stdout, Stderr io.Writer
	TTY            *os.File
	Signals        <-chan os.Signal
	// Listen is called when the command is about to start, in place of Signals;
	// stop when it has ended. Until then a signal ends the caller as usual.
	Listen  func() (signals <-chan os.Signal, stop func(), err error)
	PassFDs []exec.PassFD
	// Output, if not nil, gets the pieces of an output that is captured, as they
	// come, and with TTY of what the command's terminal prints: stream is "stdout",
	// "stderr" or "terminal". It is called by two goroutines at once,
	// must not wait, and must not keep the piece.
	Output func(stream string, piece []byte)
}

// ToolResult is what became of a call. There is always one, also for a call that
// was denied or never started.
type ToolResult struct {
	Call     string          `json:"call_id"`
	Decision policy.Decision `json:"decision"`
	// Generation is that of the policy which decided.
	Generation int64 `json:"policy_generation"`
	// Ran says that a process was started.
	Ran    bool         `json:"ran"`
	Exec   *exec.Result `json:"exec,omitempty"`
	Output string       `json:"output,omitempty"`
	// Diff is what the call did to a file, as a unified diff; empty for none.
	Diff string `json:"diff,omitempty"`
	// Error is one line for the model and for people; empty for a call that did
	// what it was asked to, whatever status its command had. Err is the same for
	// a caller that branches.
	Error string `json:"error,omitempty"`
	Err   error  `json:"-"`
	// Plan is how the call was confined, Spec what was started.
	Plan Report    `json:"-"`
	Spec exec.Spec `json:"-"`
	// Notes are facts about this call that people must be told: a clamped limit,
	// a path that was added for this call alone.
	Notes []string `json:"notes,omitempty"`
	// Warnings are those of the confinement.
	Warnings []string       `json:"warnings,omitempty"`
	Detected []GuardFinding `json:"detected,omitempty"`
	Status   Status         `json:"status"`
	// Context is what hooks add for the model.
	Context []string `json:"context,omitempty"`
	// StopLoop: a hook wants the loop to end after this call; it says why.
	StopLoop string        `json:"stop_loop,omitempty"`
	Elapsed  time.Duration `json:"-"`
	Trace    []HopTime     `json:"trace,omitempty"`

	lastHop time.Time
	setup   error // why the command was not started
}

// HopTime is one line of the trace of a call. The stages of the decision stand
// in it as "decide: NAME".
type HopTime struct {
	Name    string        `json:"name"`
	Elapsed time.Duration `json:"elapsed_ns"`
	// Text says what happened, where there is something to say.
	Text string `json:"text,omitempty"`
}
