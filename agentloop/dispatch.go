package agentloop

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"sandboxd/exec"
	"sandboxd/policy"
)

// DispatcherOptions are the parts that a Dispatcher works with.
type DispatcherOptions struct {
	Runner *exec.Runner
	Host   exec.Host
	// Audit keeps a row of every decision and end. Nil: nothing is recorded, as
	// in sbx run.
	Audit AuditLog
	// RunUnrecorded runs calls although the log cannot be written, where the policy
	// does not say ([PolicyInForce.Unrecorded]). Without it such a call is refused.
	RunUnrecorded bool
	Asks          *AskQueue
	Hooks         *HookRegistry
	Metrics       *Metrics
	// Tools are added to run_bash, which is built in, or stand in its place.
	Tools []Tool
	// StateDir is the daemon's own: journals of guards of other users' runs. Empty
	// means the caller's, when that is this process.
	StateDir string
	// OwnDirs are directories of the daemon, and its sockets, that no run sees, whatever is granted.
	OwnDirs []string
	// Results keeps the whole of a captured output that was cut, in a file of its
	// user. Nil keeps none.
	Results *ResultFiles
	// MaxRunning bounds the calls that run at once, MaxRunningPerUID those of
	// one user, MaxQueued those that wait, each user's in turn; of the places to
	// wait one user may take half. Zero: no bound.
	MaxRunning, MaxRunningPerUID, MaxQueued int
	Now                                     func() time.Time // nil: time.Now
}

// Dispatcher is the one door: every command and file access of every face
// passes it. It is safe for concurrent use.
//
// # Limits
//
// It trusts the faces to say who calls ([Session.Peer]). What a tool does
// outside of [ToolRun.Command] is not confined.
type Dispatcher struct {
	o     DispatcherOptions
	tools map[string]Tool
	queue *fairQueue
	tasks taskCount

	mu      sync.Mutex
	earlier map[string][]string // what users are told with their next run, by state directory
}

// NewDispatcher checks the options.
func NewDispatcher(o DispatcherOptions) (*Dispatcher, error) {
	if o.Runner == nil {
		return nil, errors.New("dispatcher without a runner")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	d := &Dispatcher{o: o, tools: map[string]Tool{}, earlier: map[string][]string{}, queue: newFairQueue(o.MaxRunning, o.MaxRunningPerUID, o.MaxQueued, o.Metrics)}
	for _, t := range append([]Tool{bashTool{}}, o.Tools...) {
		d.tools[t.Name()] = t
	}
	if o.Asks != nil {
		o.Asks.preview = d.preview
	}
	return d, nil
}

// Results is where large results are kept; nil: nowhere.
func (d *Dispatcher) Results() *ResultFiles { return d.o.Results }

// Names of the hops of a call in its trace; the stages of the decision stand
// between hopPrepare and hopSchedule.
const (
	hopLoop     = "loop"      // cancellation, end of the session
	hopPrepare  = "prepare"   // the tool, its traits, the arguments
	hopSchedule = "schedule"  // the wait for a turn
	hopRecord   = "record"    // the row of the decision
	hopConfine  = "confine"   // Grant to Spec
	hopRun      = "run"       // the command
	hopGuard    = "guard"     // what it left
	hopPost     = "post-hook" // PostToolUse
	hopAnswer   = "answer"    // the row of the end
)

// ErrCancelled reports that the session was cancelled.
var ErrCancelled = errors.New("the session was cancelled")

// Dispatch decides c and, when it may run, runs it and records what became of
// it. It returns when nothing of the call is left. A refusal is a result, not an
// error. Cancelling ctx ends the call.
func (d *Dispatcher) Dispatch(ctx context.Context, s *Session, c ToolCall) (res ToolResult) {
	return d.dispatch(ctx, context.Background(), s, c)
}

// dispatch is Dispatch for a loop: the end of stop asks the call to end, which it
// does as its traits say.
func (d *Dispatcher) dispatch(ctx, stop context.Context, s *Session, c ToolCall) (res ToolResult) {
	h := &handling{d: d, s: s, c: c, start: d.o.Now()}
	h.res.lastHop = h.start
	if h.c.ID == "" {
		h.c.ID = NewID("call")
	}
	h.c.Session = s.id
	h.res.Call, h.res.Status = h.c.ID, StatusFail
	defer func() {
		if p := recover(); p != nil {
			h.fail(fmt.Errorf("bug: %v", p))
			h.answer()
		}
		h.res.Elapsed = d.o.Now().Sub(h.start)
		res = h.res
	}()
	h.do(ctx, stop)
	return h.res
}

// NewID returns a name that nobody can guess.
func NewID(kind string) string { return kind + "-" + rand.Text() }

// handling is one call on its way.
type handling struct {
	d     *Dispatcher
	s     *Session
	c     ToolCall
	tool  Tool
	res   ToolResult
	start time.Time
	// decided is true once there is a decision, recorded once its row is kept.
	decided, recorded bool
	decidedAt         int64 // the session's revision
	at                moment
	interrupted       <-chan struct{}
	inQueue           bool // it has a place among those that run
	// release leaves the gate of the loop, which alone holds for this call only.
	release func()
	alone   bool
	mask    *Redactor // see kept; nil until it is needed
	changed bool      // a hook made the call another one
}

// hop ends a hop of the trace.
func (h *handling) hop(name, text string) { h.d.trace(&h.res, name, text) }

func (h *handling) fail(err error) {
	h.res.Err, h.res.Error = err, h.s.masked(err.Error())
}

// do is the list of hops.
func (h *handling) do(ctx, stop context.Context) {
	ctx, leave, err := h.s.enter(ctx, stop, h)
	if err != nil {
		h.hop(hopLoop, err.Error())
		h.refuse(policy.SafetyReason{Check: "cancelled", Text: err.Error()}, err)
		return
	}
	defer leave()
	h.s.wake(ctx)
	h.hop(hopLoop, h.c.checked)
	if r := h.c.refusal; r != nil {
		h.hop(hopPrepare, r.text)
		h.refuse(policy.SafetyReason{Check: r.check, Text: r.text}, errors.New(r.text))
		return
	}
	if err := h.prepare(); err != nil {
		h.hop(hopPrepare, err.Error())
		h.refuse(policy.SafetyReason{Check: "arguments", Text: err.Error()}, err)
		return
	}
	h.hop(hopPrepare, "")
	defer h.leaveGate()
	if !h.decideAndWait(ctx) {
		return
	}
	defer h.leaveQueue()
	h.s.events.Publish(EventCallStarted, callEvent{Call: h.c.ID, Tool: h.tool.Name(), Agent: h.c.Agent})
	h.call(ctx)
	h.post(ctx)
	h.answer()
}

// prepare finds the tool. A tool that nobody has is refused before any hook.
func (h *handling) prepare() error {
	name := policy.CanonicalTool(h.c.Tool)
	if h.tool = h.s.ownTool(name); h.tool == nil {
		h.tool = h.d.tools[name]
	}
	if h.tool == nil {
		return fmt.Errorf("no tool %q: nothing was done", h.c.Tool)
	}
	if err := checkArgs(h.tool, h.c.Args); err != nil {
		return fmt.Errorf("not run: %w", err)
	}
	if h.c.Step == 0 {
		h.c.Step = h.s.nextStep()
	}
	return nil
}

// maxRedecisions bounds how often a call is decided anew because rules or the
// mode changed while it waited.
const maxRedecisions = 16

// decideAndWait decides the call, waits for its turn and starts it. What changed
// meanwhile holds for it too: it is decided again. It reports whether the call may
// run, and then holds a turn, and what it was decided by.
func (h *handling) decideAndWait(ctx context.Context) bool {
	if !h.decide(ctx) {
		return false
	}
	for range maxRedecisions {
		err := h.enterGate(ctx)
		if err == nil {
			err = h.enterQueue(ctx)
		}
		if err != nil {
			h.hop(hopSchedule, err.Error())
			h.noTurn(ctx, err)
			return false
		}
		h.s.refresh(ctx)
		if h.s.revision.Load() == h.decidedAt {
			h.hop(hopSchedule, "")
			if again, ok := h.begin(ctx); ok {
				return true
			} else if !again {
				h.leaveQueue()
				return false
			}
		}
		h.leaveQueue()
		if !h.decideAgain(ctx) {
			return false
		}
	}
	h.refuse(policy.SafetyReason{Check: "internal", Text: "the policy changes faster than calls are decided"}, errors.New("the policy changes faster than calls are decided"))
	return false
}

// begin records the decision and starts the call. again says that something changed
// until now, so that the call is decided again; the new decision gets a row of its own.
func (h *handling) begin(ctx context.Context) (again, ok bool) {
	if !h.record(ctx) {
		return false, false
	}
	at, err := h.s.started(h.c.ID, h.decidedAt, h.tool.Traits(h.c.Args).Interrupt)
	switch {
	case err == nil:
		h.at = at
		return false, true
	case errors.Is(err, errDecidedBefore):
		h.recorded = false
		return true, false
	}
	h.fail(err)
	h.res.Status = StatusCancelled
	h.answer()
	return false, false
}

// enterQueue waits for a place among the calls that run. One that waits for calls
// of its own takes none, or those could wait for ever.
func (h *handling) enterQueue(ctx context.Context) error {
	if h.inQueue = !h.tool.Traits(h.c.Args).Unqueued; !h.inQueue {
		return ctx.Err()
	}
	if err := h.d.queue.acquire(ctx, h.s.peer.UID()); err != nil {
		h.inQueue = false
		return err
	}
	return nil
}

func (h *handling) leaveQueue() {
	if h.inQueue {
		h.inQueue = false
		h.d.queue.release(h.s.peer.UID())
	}
}

// enterGate waits until the call may run beside the others of its turn. Its traits
// are those of the final arguments: a hook may have made it one that runs alone.
func (h *handling) enterGate(ctx context.Context) error {
	if h.c.Loop == nil {
		return nil
	}
	alone := !h.tool.Traits(h.c.Args).ConcurrencySafe
	if h.release != nil && h.alone == alone {
		return nil
	}
	h.leaveGate()
	release, err := h.c.Loop.gate.enter(ctx, alone)
	if err == nil {
		h.alone, h.release = alone, release
	}
	return err
}

func (h *handling) leaveGate() {
	if h.release != nil {
		h.release()
		h.release = nil
	}
}

// noTurn ends a call that was allowed and never got its turn.
func (h *handling) noTurn(ctx context.Context, err error) {
	why := "queue-full"
	if ctx.Err() != nil {
		why = "cancelled"
		err = cancelCause(ctx)
	}
	h.d.o.Metrics.add(1, "sandboxd_refused_total", why)
	h.record(context.WithoutCancel(ctx))
	h.fail(err)
	h.res.Status = StatusFail
	if ctx.Err() != nil {
		h.res.Status = StatusCancelled
	}
	h.answer()
}

// decide asks the engine, with the rights of the session's user. It reports
// whether the call is allowed; if not, all is said and recorded.
func (h *handling) decide(ctx context.Context) bool {
	if stale := h.s.refresh(ctx); stale != "" {
		h.noteOnce("decided by the policy before, the new one cannot be read: " + clipLine(stale))
	}
	h.decidedAt = h.s.revision.Load()
	begin := h.d.o.Now()
	h.res.Decision, h.res.Generation = h.s.decide(ctx, h.c, true)
	if _, hook := h.res.Decision.Reason.(policy.HookReason); hook && ctx.Err() != nil && h.res.Decision.Verdict == policy.Deny {
		// The hook did not object: it was ended.
		h.res.Decision.Reason = policy.SafetyReason{Check: "cancelled", Text: cancelCause(ctx).Error()}
	}
	h.decided = true
	h.traceDecision()
	h.d.o.Metrics.observe("sandboxd_decision_seconds", h.d.o.Now().Sub(begin)-personTime(h.res.Decision))
	return h.allowed()
}

// decideAgain decides a call anew whose session changed while it waited. Hooks
// had their say, and an answer that a person gave for this call stands unless
// a deny rule speaks now.
func (h *handling) decideAgain(ctx context.Context) bool {
	h.decidedAt = h.s.revision.Load()
	old := h.res.Decision
	again := h.c
	again.Args = old.Args
	now, generation := h.s.decide(ctx, again, false)
	h.hop("decide: again", "rules or mode changed while the call waited")
	_, person := old.Reason.(policy.UserReason)
	switch {
	case generation != h.res.Generation && h.s.hookVotes.Load():
		// Another policy has other hooks.
		h.c.Args = old.Args
		return h.decide(ctx)
	case now.Verdict != policy.Deny && person:
		// Also where the rule that the answer kept allows it now: what was approved by
		// name is open to this call.
		h.res.Generation = generation
		return true
	case now.Verdict == policy.Ask:
		h.c.Args = old.Args
		return h.decide(ctx)
	}
	now.Context = old.Context
	h.res.Decision, h.res.Generation = now, generation
	return h.allowed()
}

// allowed records what was decided against the call.
func (h *handling) allowed() bool {
	if args := h.res.Decision.Args; args != nil {
		if !reflect.DeepEqual(h.c.Args, args) {
			h.noteChange(args)
		}
		h.c.Args, h.mask = args, nil
	}
	h.res.Context = h.res.Decision.Context
	if h.res.Decision.Verdict == policy.Allow {
		return true
	}
	h.refuse(nil, &DeniedError{Decision: h.res.Decision})
	return false
}

// refuse ends a call that may not run: one row, one event.
func (h *handling) refuse(why policy.Reason, err error) {
	if why != nil {
		h.res.Decision = policy.Decision{CallID: h.c.ID, Verdict: policy.Deny, Reason: why, Args: h.c.Args, Mode: h.s.Mode()}
	}
	h.decided = true
	h.fail(err)
	h.res.Status = StatusDeny
	switch r := h.res.Decision.Reason.(type) {
	case policy.HookReason:
		h.res.Status = StatusBlocked
	case policy.SafetyReason:
		if r.Check == "cancelled" {
			h.res.Status = StatusCancelled
		}
	}
	if r := h.c.refusal; r != nil && h.res.Status == StatusDeny {
		h.res.Status = r.status
	}
	h.record(context.Background())
	h.finished()
}

// DeniedError reports that a call was not allowed to run.
type DeniedError struct{ Decision policy.Decision }

func (e *DeniedError) Error() string {
	if e.Decision.Reason == nil {
		return "denied"
	}
	return "denied: " + e.Decision.Reason.String()
}

// traceDecision puts the stages of the decision into the trace of the call.
func (h *handling) traceDecision() {
	for _, st := range h.res.Decision.Trace {
		text := string(st.Result)
		if st.Text != "" {
			text += ": " + st.Text
		}
		h.res.Trace = append(h.res.Trace, HopTime{Name: "decide: " + string(st.Name), Elapsed: st.Elapsed, Text: text})
	}
	h.res.lastHop = h.d.o.Now()
}

// personTime is how long a person was waited for.
func personTime(d policy.Decision) (t time.Duration) {
	for _, st := range d.Trace {
		if st.Name == policy.StagePerson || st.Name == policy.StageHooks {
			t += st.Elapsed
		}
	}
	return t
}

func cancelCause(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return ErrCancelled
}
