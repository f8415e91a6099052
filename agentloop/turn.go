package agentloop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"
)

// turn is one turn of an agent, from the prompt to its end.
type turn struct {
	a      *Agent
	s      *Session
	id     string
	events *turnEvents
	limits *limits
	begun  time.Time

	step, calls int
	usage       Usage
	context     int64  // tokens that the last request and its answer filled
	text        string // the last answer
	parts       []SystemPart
	goneOn      int // how often Stop hooks made it go on
	saidBroken  bool

	mu      sync.Mutex
	cancel  context.CancelCauseFunc
	stopped error
	ending  *TurnEnd // what a call or a hook wants the turn to end with
}

// newTurn makes a turn that begins now; a.mu is held.
func newTurn(a *Agent, id string, emit func(TurnEvent)) *turn {
	t := &turn{a: a, s: a.o.Session, id: id, events: newTurnEvents(a, emit), limits: newLimits(a.limits, a.price, a.now), begun: a.now()}
	if a.o.shared != nil {
		t.limits = a.o.shared
		return t
	}
	if cost := a.conv.head.Cost; cost != nil {
		t.limits.startWith(*cost)
	}
	return t
}

// stoppable returns a context that stop ends.
func (t *turn) stoppable(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cancel = cancel
	if t.stopped != nil {
		cancel(t.stopped)
	}
	return ctx
}

// stop ends the turn with a reason, also before it has begun.
func (t *turn) stop(why error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = why
	if t.cancel != nil {
		t.cancel(why)
	}
}

// endWith keeps the first end that a call or a hook wants.
func (t *turn) endWith(end TurnEnd) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ending == nil {
		t.ending = &end
	}
}

func (t *turn) wanted() *TurnEnd {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ending
}

// run is a turn with its beginning and its end.
func (t *turn) run(ctx context.Context, prompt string) TurnEnd {
	live, leave, err := t.s.beginTurn(ctx, t.id)
	if err != nil {
		return TurnEnd{Reason: EndClosed, Error: err.Error(), Err: err}
	}
	defer leave()
	live = t.stoppable(live)
	defer t.stop(nil)
	live, cancel := t.limits.withDeadline(live)
	defer cancel()
	t.s.wake(live)
	t.events.send(EventTurnStarted, TurnStart{Turn: t.id, Conversation: t.a.ID(), Prompt: prompt, Model: t.a.o.Config.Model, Provider: t.a.o.Provider.Name()})
	if t.a.o.Context != nil {
		t.parts = t.a.o.Context(live)
	}
	end := t.work(live, prompt)
	return t.finish(live, end)
}

// work is the turn itself: the prompt, then step by step.
func (t *turn) work(ctx context.Context, prompt string) (end TurnEnd) {
	defer func() {
		if p := recover(); p != nil {
			end = t.bug(p)
		}
	}()
	if err := t.limits.check(); err != nil {
		return TurnEnd{Reason: EndCost, Error: err.Error(), Err: err}
	}
	if end := t.submit(ctx, prompt); end != nil {
		return *end
	}
	for {
		if end := t.oneStep(ctx); end != nil {
			return *end
		}
	}
}

// bug ends a turn whose code panicked: one conversation ends, not the daemon of all
// users. What is in memory may be half of something; what was kept is not.
func (t *turn) bug(p any) TurnEnd {
	t.a.mu.Lock()
	defer t.a.mu.Unlock()
	t.a.closed = true
	err := fmt.Errorf("bug: %v", p)
	return TurnEnd{Reason: EndInternal, Error: err.Error(), Err: err}
}

// oneStep is one request to the model and the calls of its answer. It returns nil
// when the turn goes on.
func (t *turn) oneStep(ctx context.Context) *TurnEnd {
	if end := t.broken(ctx); end != nil {
		return end
	}
	t.step++
	limit := t.limits.before(t.step, t.context)
	if limit.End != "" && !limit.Last {
		return &TurnEnd{Reason: limit.End, Error: limit.Why}
	}
	t.events.send(EventTurnStep, TurnStep{Step: t.step, Max: t.a.limits.MaxSteps, Last: limit.Last})
	if end := t.beforeRequest(ctx, limit); end != nil {
		return end
	}
	answer, end := t.ask(ctx, limit.Last)
	if end != nil {
		return end
	}
	uses := answer.Message.Uses()
	if len(uses) > 0 {
		if end := t.callAll(ctx, uses, limit.Last || answer.Stop == StopRefusal); end != nil {
			return end
		}
	}
	if end := t.stepComplete(ctx); end != nil {
		return end
	}
	switch {
	case answer.Stop == StopRefusal:
		return &TurnEnd{Reason: EndRefusal, Error: "the model declines to answer"}
	case limit.Last:
		return &TurnEnd{Reason: limit.End, Error: limit.Why}
	case len(uses) > 0:
		return nil
	}
	return t.completed(ctx, answer)
}

// beforeRequest does what comes before a request: a compaction, reminders, what
// others want to tell the model.
func (t *turn) beforeRequest(ctx context.Context, limit stepLimit) *TurnEnd {
	kind := limit.Compact
	focus, asked := t.a.compactAsked()
	if asked {
		kind = compactManual
	}
	if kind != "" {
		t.compact(ctx, kind, focus)
		if end := t.broken(ctx); end != nil {
			return end
		}
	}
	for _, n := range limit.Notices {
		t.events.send(EventTurnNotice, n)
		t.a.Inject(OriginLoop, n.Kind, n.Text)
	}
	return t.tellWaiting(ctx)
}

// compact makes the context smaller. A failure is told; the turn goes on until the
// limits end it.
func (t *turn) compact(ctx context.Context, kind, focus string) {
	done, err := t.a.compact(ctx, kind, focus)
	if err == nil && done.Kind == "" {
		return // there was too little to save
	}
	if err != nil {
		done.Kind, done.Error = kind, err.Error()
	}
	if kind == compactAuto {
		t.limits.compacted(err)
	}
	t.events.send(EventTurnCompact, done)
	if err == nil {
		t.context = done.After
	}
}

// tellWaiting makes what was injected a message.
func (t *turn) tellWaiting(ctx context.Context) *TurnEnd {
	blocks := t.a.takeWaiting()
	if len(blocks) == 0 {
		return nil
	}
	return t.say(ctx, Message{Role: RoleUser, Blocks: blocks, Step: t.step, Time: t.a.now().UTC()})
}

// say adds a message to the conversation.
func (t *turn) say(ctx context.Context, m Message) *TurnEnd {
	if err := t.a.append(ctx, m); err != nil {
		return storeEnd(err)
	}
	return nil
}

func storeEnd(err error) *TurnEnd {
	return &TurnEnd{Reason: EndStore, Error: "the conversation cannot be kept: " + err.Error(), Err: err}
}

// broken is the end of a turn whose context has ended, or that a call or a hook
// wants to end.
func (t *turn) broken(ctx context.Context) *TurnEnd {
	if ctx.Err() == nil {
		return t.wanted()
	}
	err := cancelCause(ctx)
	end := &TurnEnd{Reason: EndCancelled, Error: err.Error(), Err: err}
	switch {
	case errors.Is(err, ErrTimeBudget), errors.Is(err, context.DeadlineExceeded):
		end.Reason = EndTime
	case errors.Is(err, ErrSessionClosed), errors.Is(err, ErrAgentClosed):
		end.Reason = EndClosed
	}
	return end
}

// finish makes the end known: to hooks, in the conversation, in the audit log, and
// as the last event.
func (t *turn) finish(ctx context.Context, end TurnEnd) TurnEnd {
	end.Text, end.Steps, end.Calls = t.text, t.step, t.calls
	end.Usage, end.Cost = t.limits.total()
	cut := end.Reason == EndCancelled || end.Reason == EndClosed
	if end.Reason != EndCompleted && (!cut || t.a.o.Path != "") { // one that completed was told already
		t.fireEnd(ctx, end.Reason, cut)
	}
	end.Elapsed = t.a.now().Sub(t.begun)
	if err := t.a.endTurn(ctx, end); err != nil && end.Reason != EndStore {
		end.Error = joinLines(end.Error, "the end of the turn cannot be kept: "+err.Error())
		end.Err = errors.Join(end.Err, err)
	}
	if err := t.record(ctx, end); err != nil {
		end.Error = joinLines(end.Error, err.Error())
		end.Err = errors.Join(end.Err, err)
	}
	t.sayBroken()
	return end
}

// sayBroken tells once that the loop stops because of a cancellation.
func (t *turn) sayBroken() {
	if !t.saidBroken && t.s.Cancelled() {
		t.saidBroken = true
		t.s.LoopBroken()
	}
}

func joinLines(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

// record writes the row of the end.
func (t *turn) record(ctx context.Context, end TurnEnd) error {
	log := t.a.o.Dispatcher.o.Audit
	if log == nil {
		return nil
	}
	status := StatusFail
	switch end.Reason {
	case EndCompleted, EndMaxSteps:
		status = StatusOK
	case EndCancelled, EndClosed:
		status = StatusCancelled
	case EndTime:
		status = StatusTimeout
	}
	why, err := json.Marshal(map[string]any{"type": "turn", "end": end.Reason, "text": t.s.Kept().Mask(end.Error), "steps": end.Steps, "calls": end.Calls})
	if err != nil {
		return err
	}
	_, err = log.Append(context.WithoutCancel(ctx), AuditRecord{
		Time: t.a.now().UTC(), UID: t.s.peer.UID(), Session: t.s.id, Call: t.id, Step: end.Steps, Agent: agentName(t.a.o.Path), Tool: "turn", Status: status,
		ElapsedMS: end.Elapsed.Milliseconds(), Reason: why, Generation: t.s.Generation(), OutputPreview: firstCharacters(t.s.Kept().Mask(end.Text), auditPreview),
	})
	return err
}
