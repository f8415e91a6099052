package agentloop

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"time"
)

// AgentOptions are the parts of an [Agent].
type AgentOptions struct {
	Session    *Session
	Dispatcher *Dispatcher
	Provider   Provider
	Config     AgentConfig
	// Price is that of the model. Nil: the one of Config.Prices, or not known.
	Price *Price
	// PriceOf knows the prices of other models, which a sub-agent may have. Nil: those
	// of Config.Prices.
	PriceOf func(model string) *Price
	// Tools are the names that the model is offered, canonical. Nil: all tools of
	// the dispatcher and of the session that have a schema.
	Tools []string
	// Path and Type name a sub-agent; empty for the lead.
	Path, Type string
	// System is added to the built-in system prompt.
	System string
	// Context, if not nil, gives further parts of it, once for each turn: skills,
	// memories. They are framed as data.
	Context func(ctx context.Context) []SystemPart
	// Store keeps the conversation. Nil keeps none.
	Store ConversationStore
	// Conversation continues one. Empty begins a new one.
	Conversation string
	// Headless: nobody answers questions.
	Headless bool
	// Silent: the events of its turns are given to the caller alone, not to those
	// who read the events of the session.
	Silent bool

	above  *turn   // of the agent that a sub-agent belongs to
	shared *limits // of a sub-agent, with the budget of that turn
}

// SystemPart is a text of the system prompt that no person wrote for it.
type SystemPart struct {
	Origin     Origin
	Name, Text string
}

// Agent is one conversation with a model that works with tools. One turn runs at
// a time; the other methods are safe for concurrent use.
type Agent struct {
	o      AgentOptions
	limits AgentLimits
	price  *Price // nil: not known
	now    func() time.Time
	begun  time.Time
	gate   *gate

	storing  sync.Mutex // held while an entry is kept; its number is under it
	mu       sync.Mutex
	conv     conversation
	waiting  []Block // what comes before the next request
	turn     *turn   // the one that runs
	idle     chan struct{}
	closed   bool
	compacts *string // a compaction that a tool asked for, with its focus
	// instructions are those of the repository, once they were read.
	instructions *string
	todos        TodoList
}

var (
	// ErrTurnRuns reports that a turn of the agent has not ended yet.
	ErrTurnRuns = errors.New("a turn is running")
	// ErrAgentClosed reports that the agent takes no more prompts.
	ErrAgentClosed = errors.New("the agent is closed")
)

// NewAgent begins or continues a conversation. Calls that were cut off by the end
// of the daemon get a result that says so; they are not run again.
func NewAgent(ctx context.Context, o AgentOptions) (*Agent, error) {
	if o.Session == nil || o.Dispatcher == nil || o.Provider == nil {
		return nil, errors.New("agent without a session, a dispatcher or a provider")
	}
	a := &Agent{o: o, limits: o.Config.Limits.OrDefault(), now: o.Dispatcher.o.Now}
	a.begun, a.gate = a.now(), newGate(a.limits.Parallel)
	if a.price = o.Price; a.price == nil {
		if p, ok := o.Config.Prices[o.Config.Model]; ok {
			a.price = &p
		}
	}
	o.Session.files.Clear() // what another conversation has read this one has not
	if o.Conversation != "" {
		return a, a.resume(ctx)
	}
	a.conv.begin(a)
	return a, nil
}

// Turn gives prompt to the model and works until it has answered. It yields the
// events of the turn; the last one is of type [EventTurnEnded]. Breaking the loop
// cancels the turn, and waits for its end.
func (a *Agent) Turn(ctx context.Context, prompt string) iter.Seq[TurnEvent] {
	return func(yield func(TurnEvent) bool) {
		ctx, cancel := context.WithCancelCause(ctx)
		events := make(chan TurnEvent)
		go func() {
			defer close(events)
			a.Run(ctx, prompt, func(e TurnEvent) { events <- e })
		}()
		defer func() { // also when yield panics
			cancel(ErrCancelled)
			for range events { // what is left of the turn
			}
		}()
		for e := range events {
			if !yield(e) {
				return
			}
		}
	}
}

// Run is Turn for a caller who wants no more than the end; emit may be nil. It is
// called for one event at a time, and not after Run has returned.
func (a *Agent) Run(ctx context.Context, prompt string, emit func(TurnEvent)) TurnEnd {
	return a.RunAs(ctx, NewID("turn"), prompt, emit)
}

// RunAs is Run with an id of the turn that the caller made ([NewID]).
func (a *Agent) RunAs(ctx context.Context, id, prompt string, emit func(TurnEvent)) TurnEnd {
	t, err := a.enter(id, emit)
	if err != nil {
		return TurnEnd{Reason: refusedTurn(err), Error: err.Error(), Err: err}
	}
	end := t.run(ctx, prompt)
	a.leave(t, end)
	return end
}

func refusedTurn(err error) EndReason {
	if errors.Is(err, ErrTurnRuns) {
		return EndBusy
	}
	return EndClosed
}

// enter makes the turn that runs, unless there is one.
func (a *Agent) enter(id string, emit func(TurnEvent)) (*turn, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.closed:
		return nil, ErrAgentClosed
	case a.turn != nil:
		return nil, ErrTurnRuns
	}
	a.turn = newTurn(a, id, emit)
	a.idle = make(chan struct{})
	return a.turn, nil
}

// leave tells that a turn has ended, when the next one can begin.
func (a *Agent) leave(t *turn, end TurnEnd) {
	t.events.close()
	a.mu.Lock()
	a.turn = nil
	close(a.idle)
	t.events.publishEnd(end)
	a.mu.Unlock()
	t.events.emitEnd(end)
}

// rest is leave without an end that is told.
func (a *Agent) rest() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.turn = nil
	close(a.idle)
}

// Close ends a running turn, waits for its end, and takes no more prompts.
func (a *Agent) Close() {
	a.mu.Lock()
	a.closed = true
	t, idle := a.turn, a.idle
	a.mu.Unlock()
	if t != nil {
		t.stop(ErrAgentClosed)
		<-idle
	}
}

// ID names the conversation.
func (a *Agent) ID() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.conv.head.ID
}

// Session is the session that the agent works in.
func (a *Agent) Session() *Session { return a.o.Session }

// Running reports whether a turn, or a compaction, has not ended.
func (a *Agent) Running() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.turn != nil
}

// Todos is what the agent means to do.
func (a *Agent) Todos() *TodoList { return &a.todos }

// Config is how the agent was made.
func (a *Agent) Config() AgentConfig { return a.o.Config }

// Messages are what the model has been told and has said, oldest first. They are
// shared: nobody changes them.
func (a *Agent) Messages() []Message {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.conv.messages)
}

// Held is how many bytes the texts of Messages have.
func (a *Agent) Held() (bytes int64) {
	for _, m := range a.Messages() {
		for _, b := range m.Blocks {
			bytes += int64(len(b.Text) + len(b.Args) + len(b.Opaque))
		}
	}
	return bytes
}

// Usage sums up the conversation.
func (a *Agent) Usage() Usage {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.conv.head.Usage
}

// Conversation is the head of the conversation as it stands.
func (a *Agent) Conversation() Conversation {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.conv.head
}

// maxWaiting bounds what waits to be told to the model, in texts; the oldest is
// dropped, and that is told.
const maxWaiting = 64

// Inject tells the model a text before its next request. It is framed as data
// unless it is of the loop itself; name says what it is from.
func (a *Agent) Inject(origin Origin, name, text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if origin == OriginUser || origin == OriginModel {
		origin = OriginTool // nobody speaks for the person
	}
	if len(a.waiting) == maxWaiting {
		a.waiting = append(a.waiting[:0], a.waiting[1:]...)
		a.waiting[0] = Block{Kind: BlockText, Origin: OriginLoop, Text: "[earlier notices were dropped: there were too many]"}
	}
	a.waiting = append(a.waiting, Block{Kind: BlockText, Origin: origin, Name: name, Text: text})
}

// Publish tells of an event of a tool: to the caller of the turn that runs, and to
// those who read the events of the session.
func (a *Agent) Publish(kind string, data any) {
	a.mu.Lock()
	t := a.turn
	a.mu.Unlock()
	if t != nil {
		t.events.send(kind, data)
		return
	}
	if !a.o.Silent {
		a.o.Session.events.Publish(kind, data)
	}
}

// Compact replaces what was said by a summary. While a turn runs it is done before
// its next request, and the result says only that.
func (a *Agent) Compact(ctx context.Context, focus string) (TurnCompaction, error) {
	a.mu.Lock()
	switch {
	case a.closed:
		a.mu.Unlock()
		return TurnCompaction{}, ErrAgentClosed
	case a.turn != nil:
		a.compacts = &focus
		a.mu.Unlock()
		return TurnCompaction{Kind: compactManual}, nil
	}
	t := newTurn(a, NewID("turn"), nil)
	a.turn, a.idle = t, make(chan struct{})
	a.mu.Unlock()
	defer a.rest()
	live, leave, err := a.o.Session.beginTurn(ctx, t.id)
	if err != nil {
		return TurnCompaction{}, err
	}
	defer leave()
	live = t.stoppable(live)
	defer t.stop(nil)
	done, err := a.compact(live, compactManual, focus)
	usage, cost := t.limits.total()
	return done, errors.Join(err, a.addSpent(ctx, usage, cost))
}
