package agentloop

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sandboxd/policy"
)

// AskAnswer is what an answerer says.
type AskAnswer struct {
	// Verdict allows or denies; anything but Allow denies.
	Verdict policy.Verdict
	// Always keeps the rule that the question shows, at Scope ("session",
	// "project" or "user"; empty means session).
	Always bool
	Scope  string
	// By names the answerer: "sbx approve", "webhook".
	By string
}

// AnswerOutcome is what became of an answer that won.
type AnswerOutcome struct {
	Question PendingQuestion `json:"question"`
	Answer   StoredAnswer    `json:"answer"`
	// Saved are the rules that were kept, SaveError why they were not.
	Saved     []string `json:"saved,omitempty"`
	SaveError string   `json:"save_error,omitempty"`
	// StillAsks is true when the same call would be asked about again although
	// the rule was kept; Why says by what.
	StillAsks bool   `json:"still_asks,omitempty"`
	Why       string `json:"why,omitempty"`
	// CallGone: the call that asked does not wait any more (the daemon was
	// restarted); its repetition passes once.
	CallGone bool `json:"call_gone,omitempty"`
}

var (
	// ErrNoQuestion reports that there is no such question for this peer.
	ErrNoQuestion = errors.New("no such question")
	// ErrExpired reports that nobody answered in time.
	ErrExpired = errors.New("the question has expired")
	// ErrNothingToKeep reports an answer "always" to a question that no rule
	// could answer. The question is still pending.
	ErrNothingToKeep = errors.New("no rule can be kept for this question")
)

// ErrAnswered reports that somebody else was first. Nothing was kept of this
// answer.
type ErrAnswered struct {
	By      string
	Verdict string
}

func (e *ErrAnswered) Error() string {
	return fmt.Sprintf("answered already: %s by %s", e.Verdict, e.By)
}

// AskQueueOptions are the parts of an [AskQueue].
type AskQueueOptions struct {
	// Store keeps pending questions over a restart. Nil: none is kept.
	Store Store
	// Timeout is how long a question waits. Zero: 120 s (requirement 150).
	Timeout time.Duration
	// SaveRule keeps an allow rule at scope "project" or "user", with the rights
	// of the session's user. Nil refuses these scopes.
	SaveRule func(ctx context.Context, s *Session, scope string, patterns []string) error
	// Session finds the session of a question that was restored.
	Session func(id string) (*Session, bool)
	// Placement says in one line how a call of s would be confined.
	Placement func(s *Session) string
	Metrics   *Metrics
	Now       func() time.Time // nil: time.Now
}

// AskQueue holds the questions that wait for a person. It is safe for concurrent
// use.
type AskQueue struct{ o AskQueueOptions }

// NewAskQueue returns an empty queue.
func NewAskQueue(o AskQueueOptions) *AskQueue { return &AskQueue{o: o} }

// Asker puts the questions of a session into the queue.
func (q *AskQueue) Asker(s *Session) policy.Asker { return noAsker{} }

type noAsker struct{}

func (noAsker) Ask(context.Context, policy.Question) (policy.Answer, error) {
	return policy.Answer{}, errors.New("no answerer is attached")
}

// Pending returns the questions that peer may answer, oldest first.
func (q *AskQueue) Pending(peer Peer) []PendingQuestion { return nil }

// Get returns one of them, or [ErrNoQuestion].
func (q *AskQueue) Get(id string, peer Peer) (PendingQuestion, error) {
	return PendingQuestion{}, ErrNoQuestion
}

// Answer settles a question. Of several answers the first counts, also over a
// restart. Errors: *[ErrAnswered], [ErrNoQuestion], [ErrExpired],
// [ErrNothingToKeep].
func (q *AskQueue) Answer(ctx context.Context, id string, peer Peer, a AskAnswer) (AnswerOutcome, error) {
	return AnswerOutcome{}, ErrNoQuestion
}

// Attach says that an answerer is there, so that questions of the peer's
// sessions (of all, for an admin) wait. Without one they are denied at once.
func (q *AskQueue) Attach(peer Peer, name string) (detach func()) { return func() {} }

// Watch returns a channel that gets a value whenever the pending questions
// changed, and a function that ends it.
func (q *AskQueue) Watch() (changed <-chan struct{}, stop func()) {
	return make(chan struct{}), func() {}
}

// Restore reads the pending questions of the Store after a restart.
func (q *AskQueue) Restore(ctx context.Context) error { return nil }
