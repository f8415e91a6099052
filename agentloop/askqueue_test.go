package agentloop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sandboxd/policy"
)

// memoryStore is a Store that lives as long as a test, so that "a restart" is a
// new queue on the same store.
type memoryStore struct {
	memoryLog
	mu        sync.Mutex
	sessions  map[string]SessionState
	questions map[string]PendingQuestion
	answers   map[string]StoredAnswer
}

func newMemoryStore() *memoryStore {
	return &memoryStore{sessions: map[string]SessionState{}, questions: map[string]PendingQuestion{}, answers: map[string]StoredAnswer{}}
}

func (m *memoryStore) SaveSession(_ context.Context, s SessionState) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sessions[s.ID] = s
	return nil
}

func (m *memoryStore) Sessions(context.Context) (out []SessionState, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.sessions {
		out = append(out, s)
	}
	return out, nil
}

func (m *memoryStore) DeleteSession(_ context.Context, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.sessions, id)
	return nil
}

func (m *memoryStore) EndSession(ctx context.Context, id string, last AuditRecord) error {
	_, err := m.Append(ctx, last)
	return errors.Join(err, m.DeleteSession(ctx, id))
}

func (m *memoryStore) SaveQuestion(_ context.Context, q PendingQuestion) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.questions[q.ID] = q
	return nil
}

func (m *memoryStore) Questions(context.Context) (out []PendingQuestion, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, q := range m.questions {
		if _, done := m.answers[id]; !done {
			out = append(out, q)
		}
	}
	return out, nil
}

func (m *memoryStore) SettleQuestion(_ context.Context, id string, a StoredAnswer) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, done := m.answers[id]; done {
		return false, nil
	}
	m.answers[id] = a
	return true, nil
}

// asked waits until n questions are pending.
func (w *world) asked(n int) []PendingQuestion {
	w.t.Helper()
	changed, stop := w.asks.Watch()
	defer stop()
	deadline := time.After(20 * time.Second)
	for {
		if list := w.asks.Pending(w.peer()); len(list) >= n {
			return list
		}
		select {
		case <-changed:
		case <-deadline:
			w.t.Fatalf("%d questions did not come: %+v", n, w.asks.Pending(w.peer()))
		}
	}
}

// later makes a call that waits for an answer.
func (w *world) later(script string) <-chan ToolResult {
	done := make(chan ToolResult, 1)
	go func() { done <- w.bash(script) }()
	return done
}

func withStore(store *memoryStore, timeout time.Duration) func(*world) {
	return func(w *world) {
		o := AskQueueOptions{Metrics: w.opts.Metrics, Timeout: timeout, Session: func(id string) (*Session, bool) { return w.m.Find(id) }}
		if store != nil {
			o.Store = store
		}
		w.asks = NewAskQueue(o)
	}
}

func TestHeadlessCallIsDeniedAtOnce(t *testing.T) {
	w := newWorld(t, nil)
	start := time.Now()
	res := w.bash("touch made")
	if _, ok := res.Decision.Reason.(policy.HeadlessReason); !ok || res.Ran || time.Since(start) > time.Second {
		t.Errorf("after %v: %v", time.Since(start), res.Decision.Reason)
	}
	detach := w.asks.Attach(w.peer(), "test")
	done := w.later("touch made")
	w.asked(1)
	detach()
	q := w.asked(1)[0]
	if _, err := w.asks.Answer(t.Context(), q.ID, w.peer(), AskAnswer{Verdict: policy.Allow}); err != nil {
		t.Fatal(err)
	}
	if res := <-done; res.Status != StatusOK {
		t.Errorf("answered: %+v", res)
	}
	stranger := w.peer()
	stranger.Caller.UID = 4242
	defer w.asks.Attach(stranger, "stranger")()
	if res := w.bash("touch made2"); res.Decision.Reason.Type() != "headless" {
		t.Errorf("another user's answerer counts: %v", res.Decision.Reason)
	}
	call := ToolCall{Call: policy.Call{Tool: "run_bash", Args: policy.Args{"command": "touch x"}, Headless: true}}
	defer w.asks.Attach(w.peer(), "test")()
	if res := w.d.Dispatch(t.Context(), w.s, call); res.Decision.Reason.Type() != "headless" {
		t.Errorf("a headless call asks: %v", res.Decision.Reason)
	}
}

func TestQuestionTellsExactlyWhatWouldRun(t *testing.T) {
	w := newWorld(t, nil)
	defer w.asks.Attach(w.peer(), "test")()
	script := "printf '\x1b[2Khi\u202e' > out.txt"
	done := w.later(script)
	q := w.asked(1)[0]
	if q.Script != script || q.Cwd != w.s.Workspace() || q.Mode != "default" || q.Tool != "run_bash" || q.UID != os.Getuid() || q.Session != w.s.ID() {
		t.Errorf("question %+v", q)
	}
	if strings.ContainsAny(q.Shown+q.Why, "\x1b\u202e\n") || !strings.Contains(q.Shown, `\x1b[2Khi\u{202e}`) {
		t.Errorf("shown %q, why %q", q.Shown, q.Why)
	}
	if len(q.Redirects) != 1 || q.Redirects[0] != w.s.Workspace()+"/out.txt" {
		t.Errorf("redirects %q", q.Redirects)
	}
	if q.Expires.Sub(q.Asked) != askTimeout || !strings.Contains(string(q.Risk), `"risk_level":"`) || !strings.Contains(string(q.Reason), `"type"`) || q.Placement == "" {
		t.Errorf("question %+v", q)
	}
	sub := w.s.Events().Subscribe(0)
	defer sub.Close()
	for e := range sub.C {
		if e.Type == EventQuestionAsked { // row 82: the explanation travels with the event
			if !strings.Contains(string(e.Data), `"risk_level":"`) {
				t.Errorf("event %s", e.Data)
			}
			break
		}
	}
	if _, err := w.asks.Answer(t.Context(), q.ID, w.peer(), AskAnswer{Verdict: policy.Deny}); err != nil {
		t.Fatal(err)
	}
	if res := <-done; res.Ran || res.Decision.Reason.Type() != "user" || res.Call == "" || res.Error == "" {
		t.Errorf("denied: %+v", res)
	}
}

func TestUnansweredQuestionIsDeniedByTimeout(t *testing.T) {
	w := newWorld(t, func(p *PolicyInForce) { p.Config.AskTimeout = 50 * time.Millisecond }, withStore(newMemoryStore(), 0))
	defer w.asks.Attach(w.peer(), "test")()
	res := w.bash("touch made")
	if res.Decision.Reason.Type() != "timeout" || res.Ran {
		t.Errorf("result %+v", res)
	}
	if list := w.asks.Pending(w.peer()); len(list) != 0 {
		t.Errorf("still pending: %+v", list)
	}
	if askTimeout != 120*time.Second {
		t.Errorf("the default is %v", askTimeout)
	}
}

// TestOneOfManyAnswersWins is row 152: three answerers for each of 1,000
// questions; one wins, the others are told who did, and no grant is left of them.
func TestOneOfManyAnswersWins(t *testing.T) {
	store := newMemoryStore()
	w := newWorld(t, nil, withStore(store, 0))
	defer w.asks.Attach(w.peer(), "test")()
	asker := w.asks.Asker(w.s)
	wins := map[string]int{}
	for i := range 1000 {
		rule := fmt.Sprintf("run_bash(touch f%d)", i)
		got := make(chan policy.Answer, 1)
		go func() {
			a, err := asker.Ask(t.Context(), policy.Question{
				Call:    policy.BashCall(fmt.Sprintf("touch f%d", i), ""),
				Reason:  policy.DefaultReason{},
				Suggest: &policy.Suggestion{Rules: []string{rule}},
			})
			if err != nil {
				a.By = err.Error()
			}
			got <- a
		}()
		q := w.asked(1)[0]
		answers := []AskAnswer{
			{Verdict: policy.Allow, Always: true, By: "a"}, {Verdict: policy.Deny, By: "b"}, {Verdict: policy.Allow, By: "c"},
		}
		var won atomic.Int32
		var winner atomic.Value
		var losers sync.Map
		var all sync.WaitGroup
		for _, a := range answers {
			all.Go(func() {
				defer func() { // two winners let one call go on twice
					if p := recover(); p != nil {
						t.Errorf("round %d: %s: %v", i, a.By, p)
					}
				}()
				_, err := w.asks.Answer(t.Context(), q.ID, w.peer(), a)
				if err == nil {
					won.Add(1)
					winner.Store(a.By)
					return
				}
				var answered *ErrAnswered
				if !errors.As(err, &answered) {
					t.Errorf("round %d: the loser is told %v", i, err)
					return
				}
				losers.Store(a.By, answered.By)
			})
		}
		all.Wait()
		if won.Load() != 1 {
			t.Fatalf("round %d: %d answers won", i, won.Load())
		}
		by := winner.Load().(string)
		wins[by]++
		losers.Range(func(k, v any) bool {
			if !strings.HasSuffix(v.(string), " by "+by) {
				t.Errorf("round %d: %v is told that %v won, not %s", i, k, v, by)
			}
			return true
		})
		if a := <-got; !strings.HasSuffix(a.By, " by "+by) || (a.Verdict == policy.Allow) != (by != "b") {
			t.Fatalf("round %d: the call got %+v, %s won", i, a, by)
		}
		kept := false
		for _, r := range w.s.OwnRules() {
			kept = kept || r.Pattern == rule
		}
		if kept != (by == "a") {
			t.Fatalf("round %d: rule kept %v, won by %s", i, kept, by)
		}
		if kept { // a session has room for so many
			if _, err := w.s.RemoveRule(policy.AllowRule, rule); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Log(wins)
	if len(w.s.OwnRules()) != 0 || len(w.asks.Pending(w.peer())) != 0 {
		t.Error("something is left")
	}
}

// Who answered a question, and how, is told to those who could have answered it: others
// are told what they are told of a question that never was.
func TestAnswersOfOthersAreNotTold(t *testing.T) {
	w := newWorld(t, nil)
	defer w.asks.Attach(w.peer(), "test")()
	other, admin := w.peer(), w.peer()
	other.Caller.UID++
	admin.Caller.UID, admin.Admin = other.Caller.UID, true
	done := w.later("touch x")
	q := w.asked(1)[0]
	answer := func(p Peer) error {
		_, err := w.asks.Answer(t.Context(), q.ID, p, AskAnswer{Verdict: policy.Allow})
		return err
	}
	if err := answer(other); !errors.Is(err, ErrNoQuestion) {
		t.Errorf("another user, before: %v", err)
	}
	if err := answer(w.peer()); err != nil {
		t.Fatal(err)
	}
	<-done
	if err := answer(other); !errors.Is(err, ErrNoQuestion) {
		t.Errorf("another user is told %v", err)
	}
	for who, p := range map[string]Peer{"the same user": w.peer(), "an admin": admin} {
		if e, ok := errors.AsType[*ErrAnswered](answer(p)); !ok || e.Verdict != "allow" {
			t.Errorf("%s is told %v", who, answer(p))
		}
	}
}

// TestAlwaysKeepsTheRuleThatWasShown is row 151.
func TestAlwaysKeepsTheRuleThatWasShown(t *testing.T) {
	w := newWorld(t, nil, withStore(newMemoryStore(), 0))
	defer w.asks.Attach(w.peer(), "test")()
	first, second := w.later("touch a"), w.later("touch a && touch a")
	list := w.asked(2)
	for _, q := range list {
		if q.AlwaysRule != "run_bash(touch a)" || len(q.AlwaysAllows) == 0 {
			t.Errorf("question %+v", q)
		}
	}
	q := list[0]
	for _, scope := range []string{"everywhere", "project"} {
		if _, err := w.asks.Answer(t.Context(), q.ID, w.peer(), AskAnswer{Verdict: policy.Allow, Always: true, Scope: scope}); err == nil {
			t.Errorf("scope %s is taken", scope)
		}
	}
	out, err := w.asks.Answer(t.Context(), q.ID, w.peer(), AskAnswer{Verdict: policy.Allow, Always: true})
	if err != nil || out.StillAsks || len(out.Saved) != 1 || out.Answer.Scope != "session" {
		t.Fatalf("outcome %+v %v", out, err)
	}
	// The other question is answered by the same rule.
	if a, b := <-first, <-second; a.Status != StatusOK || b.Status != StatusOK {
		t.Errorf("results %+v %+v", a, b)
	}
	if res := w.bash("touch a"); res.Status != StatusOK || res.Decision.Reason.Type() != "rule" {
		t.Errorf("asked again: %+v", res.Decision.Reason)
	}
	if other := w.session(); len(other.OwnRules()) != 0 {
		t.Error("another session has the rule")
	}
	// What cannot be kept is not pretended to be.
	done := w.later("python3 -c 1")
	q = w.asked(1)[0]
	if _, err := w.asks.Answer(t.Context(), q.ID, w.peer(), AskAnswer{Verdict: policy.Allow, Always: true}); !errors.Is(err, ErrNothingToKeep) {
		t.Errorf("error %v", err)
	}
	_, _ = w.asks.Answer(t.Context(), q.ID, w.peer(), AskAnswer{Verdict: policy.Deny})
	<-done
}

func TestAlwaysSaysWhenItWouldStillAsk(t *testing.T) {
	w := newWorld(t, nil)
	defer w.asks.Attach(w.peer(), "test")()
	done := w.later("touch a")
	q := w.asked(1)[0]
	if err := w.s.AddRule(policy.AskRule, "run_bash(touch *)", "test"); err != nil {
		t.Fatal(err)
	}
	out, err := w.asks.Answer(t.Context(), q.ID, w.peer(), AskAnswer{Verdict: policy.Allow, Always: true})
	if err != nil || !out.StillAsks || !strings.Contains(out.Why, "touch *") {
		t.Errorf("outcome %+v %v", out, err)
	}
	if res := <-done; res.Status != StatusOK {
		t.Errorf("the answer does not count for the call itself: %+v", res)
	}
}

// TestQuestionsSurviveARestart: the queue of a new process on the same store has
// the question; its answer counts for the repetition of the call, once.
func TestQuestionsSurviveARestart(t *testing.T) {
	store := newMemoryStore()
	w := newWorld(t, nil, withStore(store, 0))
	w.m.o.Store = store
	w.s = w.session()
	detach := w.asks.Attach(w.peer(), "test")
	ctx, kill := context.WithCancel(t.Context())
	dead := make(chan ToolResult, 1)
	go func() {
		dead <- w.d.Dispatch(ctx, w.s, ToolCall{Call: policy.Call{Tool: "run_bash", Args: policy.Args{"command": "touch made"}}})
	}()
	q := w.asked(1)[0]
	detach()

	// The new process.
	n := &world{t: t, host: w.host, log: w.log, opts: w.opts}
	withStore(store, 0)(n)
	n.opts.Asks = n.asks
	var err error
	if n.d, err = NewDispatcher(n.opts); err != nil {
		t.Fatal(err)
	}
	n.m, err = NewSessions(SessionsOptions{Load: n.load, Confinement: policy.FullyConfined, Asks: n.asks, Store: store, Audit: n.log})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.m.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := n.asks.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n.s, err = n.m.Get(w.s.ID(), w.peer()); err != nil {
		t.Fatal(err)
	}
	list := n.asks.Pending(n.peer())
	if len(list) != 1 || list[0].ID != q.ID || list[0].Script != "touch made" {
		t.Fatalf("after the restart: %+v", list)
	}
	out, err := n.asks.Answer(t.Context(), q.ID, n.peer(), AskAnswer{Verdict: policy.Allow, By: "later"})
	if err != nil || !out.CallGone {
		t.Fatalf("answer %+v %v", out, err)
	}
	if res := n.bash("touch made"); res.Status != StatusOK || res.Decision.Reason.Type() != "user" {
		t.Errorf("the repetition: %+v", res)
	}
	if res := n.bash("touch made"); res.Decision.Reason.Type() != "headless" {
		t.Errorf("the answer counted twice: %v", res.Decision.Reason)
	}
	// The old process, were it still there, has lost.
	kill()
	if res := <-dead; res.Ran {
		t.Errorf("the dead call ran: %+v", res)
	}
}

func TestRepetitionJoinsTheRestoredQuestion(t *testing.T) {
	store := newMemoryStore()
	w := newWorld(t, nil, withStore(store, 0))
	defer w.asks.Attach(w.peer(), "test")()
	w.m.o.Store = store
	w.s = w.session()
	call := policy.BashCall("touch made", "")
	store.questions["question-old"] = PendingQuestion{ID: "question-old", UID: os.Getuid(), Session: w.s.ID(), Tool: "run_bash", Agent: "lead",
		Args: []byte(`{"command":"touch made"}`), Script: "touch made", Digest: digestOf(w.s, call), AlwaysRules: []string{"run_bash(touch made)"}}
	if err := w.asks.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	done := w.later("touch made")
	for { // until the call waits for it
		w.asks.mu.Lock()
		joined := len(w.asks.pending) == 1 && !w.asks.pending["question-old"].gone
		w.asks.mu.Unlock()
		if joined {
			break
		}
		time.Sleep(time.Millisecond)
	}
	out, err := w.asks.Answer(t.Context(), "question-old", w.peer(), AskAnswer{Verdict: policy.Allow, Always: true})
	if err != nil || out.CallGone || out.StillAsks || len(out.Saved) != 1 {
		t.Fatalf("answer %+v %v", out, err)
	}
	if res := <-done; res.Status != StatusOK {
		t.Errorf("result %+v", res)
	}
}

func TestSecretsOfAQuestionAreNotKept(t *testing.T) {
	store := newMemoryStore()
	w := newWorld(t, nil, withStore(store, 0))
	w.host.Environ = append(w.host.Environ, "DEPLOY_TOKEN=hunter2hunter2")
	w.s = w.session()
	defer w.asks.Attach(w.peer(), "test")()
	done := w.later("touch hunter2hunter2")
	q := w.asked(1)[0]
	if q.Script != "touch hunter2hunter2" {
		t.Errorf("the person is not shown what would run: %q", q.Script)
	}
	if text := fmt.Sprintf("%+v %s", store.questions[q.ID], store.questions[q.ID].Args); strings.Contains(text, "hunter2") || !strings.Contains(text, mask) {
		t.Errorf("kept %s", text)
	}
	_, _ = w.asks.Answer(t.Context(), q.ID, w.peer(), AskAnswer{Verdict: policy.Deny})
	<-done
	for _, row := range append(w.log.rows, store.rows...) {
		if text := fmt.Sprintf("%+v %s %s", row, row.Args, row.Reason); strings.Contains(text, "hunter2") {
			t.Errorf("row %s", text)
		}
	}
}
