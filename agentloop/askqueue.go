package agentloop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
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
	// Text answers a question of kind [QuestionText]; Verdict is Allow then.
	Text string
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

// askTimeout is how long a question waits (requirement 150).
const askTimeout = 120 * time.Second

// AskQueue holds the questions that wait for a person. It is safe for concurrent
// use.
//
// # After a restart
//
// The call that asked died with the daemon and never ran. Its question is there
// again, with the whole time to answer it. What is answered then is kept for the
// same call (session, tool, arguments, directory), which takes the answer without
// a new question when it is repeated before the time is over, once; repeated
// earlier, it waits for the same question. "Always" is kept at once.
type AskQueue struct {
	o AskQueueOptions
	// preview adds what a call would change. It is set by [NewDispatcher], before
	// anything is asked; nil: nothing is added.
	preview func(context.Context, *Session, policy.Call, *PendingQuestion)

	mu        sync.Mutex
	pending   map[string]*question
	settled   map[string]settledAnswer // of questions that were answered lately
	order     []string                 // of settled, oldest first
	kept      map[string]keptAnswer    // by digest: answers whose call is to come again
	answerers map[int]answerer
	attached  int // the last key of answerers
	watchers  map[int]chan struct{}
	watched   int
}

// answerer is somebody who said to be there.
type answerer struct {
	peer Peer
	name string
	// session is the only one it answers for; empty: all of the peer's.
	session string
}

// answers reports whether it is there for s.
func (a answerer) answers(s *Session) bool {
	if a.session != "" && a.session != s.id && !strings.HasPrefix(s.id, a.session+"/") {
		return false
	}
	return a.peer.owns(s.peer.UID())
}

// settledAnswer is told to those who may see the question that it settled.
type settledAnswer struct {
	StoredAnswer
	uid int // whose question it was
}

// keptAnswer waits for the repetition of a call.
type keptAnswer struct {
	session string
	answer  policy.Answer
	expires time.Time
}

// question is one pending question.
type question struct {
	shown   PendingQuestion
	session *Session // in which it is put
	by      *Session // whose call asks: session, or one of a sub-agent in it
	call    policy.Call
	// answer is closed when it is settled; won is what was said. Both are nil
	// while no call waits for it (after a restart).
	done chan struct{}
	won  policy.Answer
	text string // the answer of a question of kind text
	risk string // what a model says of it; guarded by the queue's mutex
	gone bool   // no call waits
	// settling is set while an answer is being stored: nobody else may win.
	settling bool
	restored bool
}

// maxSettled bounds how many answers are remembered to tell losers who won.
const maxSettled = 1000

// maxPending bounds the questions that wait: of one user, so that nobody buries
// the questions of others.
const maxPending = 200

// NewAskQueue returns an empty queue.
func NewAskQueue(o AskQueueOptions) *AskQueue {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Timeout == 0 {
		o.Timeout = askTimeout
	}
	return &AskQueue{o: o, pending: map[string]*question{}, settled: map[string]settledAnswer{}, kept: map[string]keptAnswer{},
		answerers: map[int]answerer{}, watchers: map[int]chan struct{}{}}
}

// Asker puts the questions of a session into the queue.
func (q *AskQueue) Asker(s *Session) policy.Asker { return queueAsker{q, s} }

type queueAsker struct {
	q *AskQueue
	s *Session
}

// ErrNoAnswerer reports that nobody is there to answer.
var ErrNoAnswerer = errors.New("no answerer is attached")

// Ask waits for an answer, or returns at once when nobody is attached.
func (a queueAsker) Ask(ctx context.Context, asked policy.Question) (policy.Answer, error) {
	return a.q.ask(ctx, a.s, a.s, asked)
}

// ask puts a question of by into the session s: the same one, or that of the lead
// of a sub-agent.
func (q *AskQueue) ask(ctx context.Context, s, by *Session, asked policy.Question) (policy.Answer, error) {
	digest := digestOf(by, asked.Call)
	if answer, ok := q.takeKept(digest); ok {
		return answer, nil
	}
	if !q.someoneFor(s) {
		return policy.Answer{}, ErrNoAnswerer
	}
	w, err := q.put(ctx, s, by, asked, digest)
	if err != nil {
		return policy.Answer{}, err
	}
	defer q.explain(w)()
	select {
	case <-w.done:
		return w.won, nil
	case <-ctx.Done():
	}
	why := "timeout"
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		why = "cancelled"
	}
	return q.giveUp(w, why, ctx.Err())
}

// giveUp settles a question that nobody answered. If an answer came first, it
// counts.
func (q *AskQueue) giveUp(w *question, by string, err error) (policy.Answer, error) {
	won, serr := q.settle(context.Background(), w, StoredAnswer{Verdict: "deny", By: by, When: q.o.Now().UTC()}, policy.Answer{Verdict: policy.Deny, By: by})
	if won || serr != nil {
		return policy.Answer{}, err
	}
	select {
	case <-w.done:
		return w.won, nil
	case <-time.After(time.Second):
		return policy.Answer{}, err
	}
}

// put adds a question, or joins the same one that a restart left.
func (q *AskQueue) put(ctx context.Context, s, by *Session, asked policy.Question, digest string) (*question, error) {
	q.mu.Lock()
	for _, w := range q.pending {
		if w.restored && w.gone && w.shown.Digest == digest && !w.settling {
			w.gone, w.call = false, asked.Call
			q.mu.Unlock()
			return w, nil
		}
	}
	q.mu.Unlock()
	w := &question{session: s, by: by, call: asked.Call, done: make(chan struct{})}
	w.shown = q.describe(by, asked, digest)
	if q.preview != nil {
		q.preview(ctx, by, asked.Call, &w.shown)
	}
	if by != s {
		w.shown.Session = s.id
		w.shown.Why = ShowText("sub-agent "+w.shown.Agent+": ") + w.shown.Why
	}
	return w, q.enter(ctx, w)
}

// enter makes a question pending, unless its user has too many.
func (q *AskQueue) enter(ctx context.Context, w *question) error {
	s := w.session
	if n := q.pendingOf(s.peer.UID()); n >= maxPending {
		return fmt.Errorf("%d questions of uid %d wait already", n, s.peer.UID())
	}
	if q.o.Store != nil {
		args, _ := policy.DecodeArgs(w.shown.Args)
		if err := q.o.Store.SaveQuestion(ctx, storedQuestion(w.shown, s.keptWith(args))); err != nil {
			return fmt.Errorf("the question cannot be kept: %w", err)
		}
		if _, err := q.o.Store.Append(ctx, askRow(w.shown, s)); err != nil {
			return fmt.Errorf("the question cannot be recorded: %w", err)
		}
	}
	q.mu.Lock()
	q.pending[w.shown.ID] = w
	q.mu.Unlock()
	q.o.Metrics.add(1, "sandboxd_questions_pending")
	s.events.Publish(EventQuestionAsked, w.shown)
	q.changed()
	return nil
}

func (q *AskQueue) pendingOf(uid int) (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, w := range q.pending {
		if w.shown.UID == uid {
			n++
		}
	}
	return n
}

// someoneFor reports whether anybody who may answer for s is there.
func (q *AskQueue) someoneFor(s *Session) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, a := range q.answerers {
		if a.answers(s) {
			return true
		}
	}
	return false
}

// Attach says that an answerer is there, so that questions of the peer's
// sessions (of all, for an admin) wait. Without one they are denied at once. The
// function it returns may be called again.
func (q *AskQueue) Attach(peer Peer, name string) (detach func()) {
	return q.AttachSession(peer, "", name)
}

// AttachSession is Attach for the questions of one session, and of those of the
// sub-agents in it.
func (q *AskQueue) AttachSession(peer Peer, session, name string) (detach func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.attached++
	id := q.attached
	q.answerers[id] = answerer{peer, name, session}
	return func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		delete(q.answerers, id)
	}
}

// Answerers are the names of those who are there for uid.
func (q *AskQueue) Answerers(uid int) []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	var out []string
	for _, a := range q.answerers {
		if a.peer.owns(uid) {
			out = append(out, a.name)
		}
	}
	slices.Sort(out)
	return out
}

// Pending returns the questions that peer may answer, oldest first.
func (q *AskQueue) Pending(peer Peer) []PendingQuestion {
	q.expireOld()
	q.mu.Lock()
	defer q.mu.Unlock()
	var out []PendingQuestion
	for _, w := range q.pending {
		if peer.owns(w.shown.UID) && !w.settling {
			out = append(out, w.withModel())
		}
	}
	slices.SortFunc(out, func(a, b PendingQuestion) int {
		return cmp.Or(a.Asked.Compare(b.Asked), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// Get returns one of them, or [ErrNoQuestion].
func (q *AskQueue) Get(id string, peer Peer) (PendingQuestion, error) {
	q.expireOld()
	q.mu.Lock()
	defer q.mu.Unlock()
	w := q.pending[id]
	if w == nil || !peer.owns(w.shown.UID) {
		return PendingQuestion{}, ErrNoQuestion
	}
	return w.withModel(), nil
}

// Watch returns a channel that gets a value whenever the pending questions
// changed, and a function that ends it.
func (q *AskQueue) Watch() (changed <-chan struct{}, stop func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.watched++
	id := q.watched
	c := make(chan struct{}, 1)
	q.watchers[id] = c
	return c, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		delete(q.watchers, id)
	}
}

func (q *AskQueue) changed() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, c := range q.watchers {
		select {
		case c <- struct{}{}:
		default: // it has not looked yet
		}
	}
}
