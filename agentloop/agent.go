package agentloop

import (
	"context"
	"errors"
	"iter"
)

// AgentOptions are the parts of an [Agent].
type AgentOptions struct {
	Session    *Session
	Dispatcher *Dispatcher
	Provider   Provider
	Config     AgentConfig
	// Tools are the names that the model is offered, canonical. Nil: all tools of
	// the dispatcher and of the session that have a schema.
	Tools []string
	// System is added to the built-in system prompt.
	System string
	// Store keeps the conversation. Nil keeps none.
	Store ConversationStore
	// Conversation continues one. Empty begins a new one.
	Conversation string
	// Headless: nobody answers questions.
	Headless bool
}

// Agent is one conversation with a model that works with tools. One turn runs at
// a time; the other methods are safe for concurrent use.
type Agent struct {
	o AgentOptions
}

// ErrTurnRuns reports that a turn of the agent has not ended yet.
var ErrTurnRuns = errors.New("a turn is running")

// NewAgent begins or continues a conversation. Calls that were cut off by the end
// of the daemon get a result that says so; they are not run again.
func NewAgent(ctx context.Context, o AgentOptions) (*Agent, error) {
	return &Agent{o: o}, errors.New("bug: not built")
}

// Turn gives prompt to the model and works until it has answered. It yields the
// events of the turn; the last one is of type [EventTurnEnded]. Breaking the loop
// cancels the turn, and waits for its end.
func (a *Agent) Turn(ctx context.Context, prompt string) iter.Seq[TurnEvent] {
	return func(yield func(TurnEvent) bool) {}
}

// Run is Turn for a caller who wants no more than the end; emit may be nil.
func (a *Agent) Run(ctx context.Context, prompt string, emit func(TurnEvent)) TurnEnd {
	return TurnEnd{}
}
