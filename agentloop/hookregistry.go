package agentloop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// HookRegistry is an ordered list of hooks: those of the process, or those of one
// session and its sub-agents. The list does not change; it is safe for
// concurrent use, and a nil registry has no hooks.
//
//	own, err := process.With(HookRegistryOptions{Specs: specs, Env: env}) // refuse the policy on an error
//	config.Hooks = own.PreToolUse(s)
//	config.Askers = append(config.Askers, own.Askers(s)...)
//	process.SetSession(s, own) // from here on process.Fire(ctx, s, e) asks them
type HookRegistry struct {
	hooks            []Hook
	agent, agentType string
	notify           func(HookNotice)
	sessions         *sync.Map // *Session to its *HookRegistry; shared by copies
}

// HookRegistryOptions are what a registry is made of.
type HookRegistryOptions struct {
	// Hooks run in this order, and before Specs.
	Hooks []Hook
	// Specs are command hooks; Env is what they are run with.
	Specs []HookSpec
	Env   HookEnvironment
	// Notify is told what the user should see. Nil drops it.
	Notify func(HookNotice)
}

// NewHookRegistry compiles the command hooks. The error is a [*HookError] with
// its place: a hook that cannot be used is refused, it never means "matches
// nothing".
func NewHookRegistry(o HookRegistryOptions) (*HookRegistry, error) {
	var none *HookRegistry
	return none.With(o)
}

// With returns a registry with more hooks after those of r.
func (r *HookRegistry) With(o HookRegistryOptions) (*HookRegistry, error) {
	out := &HookRegistry{notify: o.Notify, sessions: &sync.Map{}}
	if r != nil {
		out.hooks, out.agent, out.agentType = slices.Clone(r.hooks), r.agent, r.agentType
		if out.notify == nil {
			out.notify = r.notify
		}
	}
	out.hooks = append(out.hooks, o.Hooks...)
	var errs []error
	for _, s := range o.Specs {
		h, err := newCommandHook(s, o.Env)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out.hooks = append(out.hooks, h)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return out, nil
}

// Child returns the registry of a sub-agent: the same hooks, told who asks.
func (r *HookRegistry) Child(agent, agentType string) *HookRegistry {
	if r == nil {
		return nil
	}
	c := *r
	c.agent, c.agentType, c.sessions = agent, agentType, &sync.Map{}
	return &c
}

// SetSession makes own the registry of a session, in place of an earlier one.
func (r *HookRegistry) SetSession(s *Session, own *HookRegistry) { r.sessions.Store(s, own) }

// DropSession forgets the registry of a session that has ended.
func (r *HookRegistry) DropSession(s *Session) {
	if r != nil {
		r.sessions.Delete(s)
	}
}

// of returns the registry that answers for a session: its own, else r.
func (r *HookRegistry) of(s *Session) *HookRegistry {
	if r == nil || s == nil {
		return r
	}
	if own, ok := r.sessions.Load(s); ok {
		return own.(*HookRegistry)
	}
	return r
}

// selective is a hook that says which events concern it, so that it is neither
// run nor shown for others.
type selective interface {
	// concerns is only asked about the hook's own event and may read a script.
	concerns(e HookEvent) bool
	event() string
}

// tolerant is a hook that may fail without blocking.
type tolerant interface{ continueOnFailure() bool }

func mayFail(h Hook) bool {
	t, ok := h.(tolerant)
	return ok && t.continueOnFailure()
}

// Fire asks every hook of an event in turn and combines what they say. The first
// block ends the chain where the event can be blocked. A nil session leaves
// e.Session as it is.
func (r *HookRegistry) Fire(ctx context.Context, s *Session, e HookEvent) HookChainResult {
	res := HookChainResult{Action: HookContinue}
	r = r.of(s)
	if r == nil {
		return res
	}
	kind, ok := findHookEvent(e.Event)
	if !ok {
		return HookChainResult{Action: HookBlock, Blocked: true, Reason: "bug: unknown hook event " + e.Event}
	}
	e = r.complete(s, e, kind)
	for _, h := range r.order(kind) {
		out, run, asked := r.ask(ctx, h, kind, e)
		if !asked {
			continue
		}
		res.Runs = append(res.Runs, run)
		if run.Action == hookFailed && out.Action == HookContinue {
			res.Failed = append(res.Failed, h.Name())
		}
		res.add(h.Name(), out)
		if out.Args != nil {
			e.Args = out.Args
		}
		if out.Output != nil {
			e.Output = *out.Output
		}
		if out.Action == HookBlock && kind.blocks {
			break
		}
	}
	return res
}

// add folds one outcome into the result. Only a stronger action replaces the one
// that is there.
func (res *HookChainResult) add(hook string, out HookOutcome) {
	if out.Context != "" {
		res.Context = append(res.Context, out.Context)
	}
	if out.Args != nil {
		res.Args = out.Args
	}
	if out.Output != nil {
		res.Output = out.Output
	}
	if out.StopLoop && !res.StopLoop {
		res.StopLoop, res.StopReason = true, stopText(hook, out)
	}
	if out.Action < res.Action {
		res.Action, res.By, res.Reason = out.Action, hook, out.Reason
		res.Blocked = out.Action == HookBlock
		res.Permission, res.Tool = out.Permission, out.Tool
	}
}

// stopText says who ends a loop, and why.
func stopText(hook string, out HookOutcome) string {
	text := "hook " + hook + " ended the loop"
	if out.Reason != "" {
		text += ": " + out.Reason
	}
	return text
}

// hookFailed is the action of a hook that failed, in a trace.
const hookFailed = "failed"

// complete fills in what session and registry know.
func (r *HookRegistry) complete(s *Session, e HookEvent, kind hookEvent) HookEvent {
	e.Event, e.session = kind.name, s
	if s != nil && e.Session == "" {
		e.Session = s.ID()
	}
	if e.Result != nil {
		e.Status, e.Elapsed, e.Generation = e.Result.Status, e.Result.Elapsed, e.Result.Generation
	}
	if e.Agent == "" {
		e.Agent = r.agent
	}
	if e.AgentType == "" && e.Agent == r.agent {
		e.AgentType = r.agentType
	}
	return e
}

// ask puts one event to one hook. What comes back was checked: a failure that
// blocks is a block, any other one is told to the user and continues.
func (r *HookRegistry) ask(ctx context.Context, h Hook, kind hookEvent, e HookEvent) (HookOutcome, HookRun, bool) {
	start := time.Now()
	out, asked, err := askHook(ctx, h, kind, e)
	if !asked {
		return out, HookRun{}, false
	}
	run := HookRun{Hook: h.Name(), Action: out.Action.String(), Text: out.Reason, Elapsed: time.Since(start)}
	if err == nil {
		r.tell(h, e, out.Message, false)
		return out, run, true
	}
	run.Action, run.Text = hookFailed, err.Error()
	if kind.failureBlocks && !mayFail(h) {
		return HookOutcome{Action: HookBlock, Reason: "failed: " + err.Error(), Message: out.Message}, run, true
	}
	r.tell(h, e, err.Error(), true)
	return HookOutcome{Action: HookContinue}, run, true
}

// askHook calls a hook with its own copy of the arguments, and takes a copy of
// its answer: what was judged cannot be changed afterwards. A panic is an error.
func askHook(ctx context.Context, h Hook, kind hookEvent, e HookEvent) (out HookOutcome, asked bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			out, asked, err = HookOutcome{}, true, fmt.Errorf("panicked: %v", p)
		}
	}()
	if s, ok := h.(selective); ok && (s.event() != kind.name || !s.concerns(e)) {
		return HookOutcome{Action: HookContinue}, false, nil
	}
	// What a call gave is masked also when its other hooks were ended.
	if err := ctx.Err(); err != nil && (kind.name != EventPostToolUse || isProgram(h)) {
		return HookOutcome{}, true, err
	}
	e.Args = e.Args.Clone()
	out, err = h.Handle(ctx, e)
	if err != nil {
		return HookOutcome{Message: out.Message}, true, err
	}
	if err := out.canChange(kind); err != nil {
		return HookOutcome{Message: out.Message}, true, err
	}
	out.Args = out.Args.Clone()
	return out.fitting(kind), true, nil
}

// canChange refuses an answer that wants other arguments where none can be changed:
// what the hook did not want would run. A block stands.
func (o HookOutcome) canChange(kind hookEvent) error {
	switch {
	case o.Action == HookBlock:
	case o.Args != nil && kind.name != EventPreToolUse:
		return fmt.Errorf("updatedInput at the event %s: arguments are changed by PreToolUse, where the rules see them", kind.name)
	case o.Args == nil && o.Action == HookMutateInput:
		return errors.New("it changes the arguments and gives none")
	}
	return nil
}

// isProgram reports whether a hook is a process of its own.
func isProgram(h Hook) bool {
	_, is := h.(*commandHook)
	return is
}

// fitting drops what an answer cannot do at this event.
func (o HookOutcome) fitting(kind hookEvent) HookOutcome {
	if kind.name != EventPreToolUse {
		o.Args = nil
	}
	if kind.name != EventPostToolUse {
		o.Output = nil
	}
	switch {
	case o.Action > HookContinue:
		o.Action = HookBlock
	case o.Action == HookAllow && kind.name != EventPermissionRequest,
		o.Action == HookMutateOutput && o.Output == nil,
		o.Action == HookPermissionRequired && kind.name != EventPreToolUse && kind.name != EventPermissionRequest:
		o.Action = HookContinue
	case o.Action == HookContinue && o.Args != nil:
		o.Action = HookMutateInput
	case o.Action == HookContinue && o.Output != nil:
		o.Action = HookMutateOutput
	}
	return o
}

// EventHookNotice is the type of a session's event that holds a [HookNotice].
const EventHookNotice = "hook.notice"

// tell hands a text for the user to the clients of the session, masked, and to
// whom the registry was told of.
func (r *HookRegistry) tell(h Hook, e HookEvent, text string, failed bool) {
	if text == "" {
		return
	}
	n := HookNotice{Time: time.Now().UTC(), Hook: h.Name(), Event: e.Event, Session: e.Session, Agent: e.Agent,
		Call: e.Call, Text: text, Failed: failed}
	if s := e.session; s != nil && s.events != nil {
		shown := n
		shown.Text = s.secrets.Mask(n.Text)
		s.events.Publish(EventHookNotice, shown)
	}
	if r.notify != nil {
		r.notify(n)
	}
}
