package agentloop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"sandboxd/policy"
)

// Answer settles a question. Of several answers the first counts, also over a
// restart: the Store says who that is. Errors: *[ErrAnswered], [ErrNoQuestion],
// [ErrExpired], [ErrNothingToKeep], [ErrWantsText], [ErrWantsVerdict].
func (q *AskQueue) Answer(ctx context.Context, id string, peer Peer, a AskAnswer) (AnswerOutcome, error) {
	q.expireOld()
	w, err := q.find(id, peer)
	if err != nil {
		return AnswerOutcome{}, err
	}
	scope, err := a.check(w.shown, q.o.SaveRule != nil)
	if err = errors.Join(err, a.checkKind(w.shown)); err != nil {
		return AnswerOutcome{}, err
	}
	by := fmt.Sprintf("uid %d", peer.UID())
	if a.By != "" {
		by += " by " + a.By
	}
	stored := StoredAnswer{Verdict: "deny", Always: a.Always, Scope: scope, By: by, When: q.o.Now().UTC()}
	said := policy.Answer{Verdict: policy.Deny, By: by}
	if a.Verdict == policy.Allow {
		stored.Verdict, said.Verdict = "allow", policy.Allow
		said.Always = a.Always
		said.Rule = strings.Join(w.shown.AlwaysRules, " ")
	}
	if w.session != nil {
		stored.Text = w.session.Kept().Mask(a.Text)
	}
	won, err := q.settle(ctx, w, stored, said)
	if err != nil {
		return AnswerOutcome{}, err
	}
	if !won {
		return AnswerOutcome{}, q.lost(id)
	}
	out := AnswerOutcome{Question: w.shown, Answer: stored, CallGone: w.gone}
	w.text = a.Text
	if said.Always {
		q.keepAlways(ctx, w, scope, by, &out)
	}
	w.release(said)
	if said.Always && len(out.Saved) > 0 {
		q.reconsider(ctx, w, by)
	}
	return out, nil
}

// release lets the waiting call go on.
func (w *question) release(said policy.Answer) {
	w.won = said
	close(w.done)
}

// asker is the session whose rules the call must pass: a sub-agent has more of them
// than its lead.
func (w *question) asker() *Session {
	if w.by != nil {
		return w.by
	}
	return w.session
}

// check says whether the answer can be given to this question.
func (a AskAnswer) check(q PendingQuestion, canSave bool) (scope string, err error) {
	if !a.Always {
		return "", nil
	}
	if a.Verdict != policy.Allow {
		return "", errors.New(`"always" goes with allow: write a deny rule to deny always`)
	}
	switch a.Scope {
	case "", "session":
		scope = "session"
	case "project", "user":
		if !canSave {
			return "", fmt.Errorf("rules of scope %s cannot be kept here", a.Scope)
		}
		scope = a.Scope
	default:
		return "", fmt.Errorf("unknown scope %q: want session, project or user", a.Scope)
	}
	if len(q.AlwaysRules) == 0 {
		return "", ErrNothingToKeep
	}
	return scope, nil
}

// find returns a pending question of the peer, or says what became of it.
func (q *AskQueue) find(id string, peer Peer) (*question, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	w := q.pending[id]
	if w == nil || !peer.owns(w.shown.UID) {
		if answer, ok := q.settled[id]; ok && w == nil && peer.owns(answer.uid) {
			return nil, answeredError(answer.StoredAnswer)
		}
		return nil, ErrNoQuestion
	}
	return w, nil
}

func (q *AskQueue) lost(id string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if answer, ok := q.settled[id]; ok { // who asks was the owner of the question
		return answeredError(answer.StoredAnswer)
	}
	return ErrNoQuestion
}

func answeredError(a StoredAnswer) error {
	if a.By == "timeout" {
		return ErrExpired
	}
	return &ErrAnswered{By: a.By, Verdict: a.Verdict}
}

// settle lets one answer win: in this process under the lock, over a restart by
// the Store. It reports false when another one was first.
func (q *AskQueue) settle(ctx context.Context, w *question, stored StoredAnswer, said policy.Answer) (bool, error) {
	q.mu.Lock()
	if q.pending[w.shown.ID] != w || w.settling {
		q.mu.Unlock()
		q.wait(w)
		return false, nil
	}
	w.settling = true
	q.mu.Unlock()
	if q.o.Store != nil {
		ok, err := q.o.Store.SettleQuestion(context.WithoutCancel(ctx), w.shown.ID, stored)
		if err != nil && stored.By != "timeout" && stored.By != "cancelled" {
			// Nobody won: the question stays, until its time is over.
			q.mu.Lock()
			w.settling = false
			q.mu.Unlock()
			return false, fmt.Errorf("the answer cannot be kept, the question is still open: %w", err)
		}
		if err == nil && !ok {
			stored = StoredAnswer{Verdict: "deny", By: "another process", When: q.o.Now().UTC()}
			said = policy.Answer{Verdict: policy.Deny, By: stored.By}
			q.remove(w, stored, said)
			w.release(said)
			return false, nil
		}
	}
	q.remove(w, stored, said)
	if stored.By == "timeout" || stored.By == "cancelled" {
		w.release(said)
	}
	return true, nil
}

// wait lets the winner of a race finish, so that the loser can be told who won.
func (q *AskQueue) wait(w *question) {
	for range 100 {
		q.mu.Lock()
		_, told := q.settled[w.shown.ID]
		open := q.pending[w.shown.ID] == w && !w.settling
		q.mu.Unlock()
		if told || open {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// remove takes a settled question out and remembers the answer.
func (q *AskQueue) remove(w *question, stored StoredAnswer, said policy.Answer) {
	id := w.shown.ID
	q.mu.Lock()
	delete(q.pending, id)
	q.settled[id] = settledAnswer{stored, w.shown.UID}
	q.order = append(q.order, id)
	if len(q.order) > maxSettled {
		delete(q.settled, q.order[0])
		q.order = q.order[1:]
	}
	if w.gone && stored.By != "timeout" && stored.By != "cancelled" {
		q.keepAnswer(w.shown.Session, w.shown.Digest, said)
	}
	q.mu.Unlock()
	how := stored.Verdict
	if stored.By == "timeout" || stored.By == "cancelled" {
		how = stored.By
	}
	q.o.Metrics.add(-1, "sandboxd_questions_pending")
	q.o.Metrics.add(1, "sandboxd_questions_total", how)
	if w.session != nil {
		w.session.events.Publish(EventQuestionSettled, map[string]any{"id": id, "call_id": w.shown.Call, "answer": stored})
	}
	q.changed()
}

// keepAlways stores the rules of a question and asks at once whether they do what
// the person wants.
func (q *AskQueue) keepAlways(ctx context.Context, w *question, scope, by string, out *AnswerOutcome) {
	s := w.session
	if s == nil {
		out.SaveError = "the session has ended"
		return
	}
	rules := w.shown.AlwaysRules
	if scope != "session" {
		if err := q.o.SaveRule(ctx, s, scope, rules); err != nil {
			out.SaveError = err.Error()
			return
		}
	}
	// The session has the rule too: its own policy may not be read again soon.
	for _, rule := range rules {
		if err := s.AddRule(policy.AllowRule, rule, "answer to "+w.shown.ID+" of "+by); err != nil {
			out.SaveError = err.Error()
			return
		}
	}
	out.Saved = rules
	if reasonType(w.shown.Reason) == "hook" {
		out.StillAsks, out.Why = true, w.shown.Why
		return
	}
	if w.call.Tool == "" {
		return // the arguments were not kept as they were
	}
	d, _ := w.asker().Check(ctx, w.call)
	if d.Verdict != policy.Allow {
		out.StillAsks = true
		if d.Reason != nil {
			out.Why = d.Reason.String()
		}
	}
}

// reconsider settles the other questions of the session that the new rules
// answer. Where hooks look at calls it settles none: a hook may have asked, and a
// rule does not lift that.
func (q *AskQueue) reconsider(ctx context.Context, from *question, by string) {
	if from.session == nil || from.session.hookVotes.Load() {
		return
	}
	q.mu.Lock()
	var others []*question
	for _, w := range q.pending {
		if w.session == from.session && w != from && !w.settling && w.call.Tool != "" {
			others = append(others, w)
		}
	}
	q.mu.Unlock()
	for _, w := range others {
		if d, _ := w.asker().Check(ctx, w.call); d.Verdict != policy.Allow {
			continue
		}
		by := by + ", by the rule kept for " + from.shown.ID
		said := policy.Answer{Verdict: policy.Allow, By: by}
		if won, err := q.settle(ctx, w, StoredAnswer{Verdict: "allow", By: by, When: q.o.Now().UTC()}, said); won && err == nil {
			w.release(said)
		}
	}
}

// dropSession denies what a session that ends still asks.
func (q *AskQueue) dropSession(ctx context.Context, id string) {
	q.drop(ctx, func(p PendingQuestion) bool { return p.Session == id })
}

// dropCall denies what a call asked that is over.
func (q *AskQueue) dropCall(ctx context.Context, session, call string) {
	q.drop(ctx, func(p PendingQuestion) bool { return p.Session == session && p.Call == call })
}

func (q *AskQueue) drop(ctx context.Context, which func(PendingQuestion) bool) {
	q.mu.Lock()
	var open []*question
	for _, w := range q.pending {
		if which(w.shown) {
			open = append(open, w)
		}
	}
	q.mu.Unlock()
	for _, w := range open {
		_, _ = q.settle(ctx, w, StoredAnswer{Verdict: "deny", By: "cancelled", When: q.o.Now().UTC()}, policy.Answer{Verdict: policy.Deny, By: "cancelled"})
	}
}

// reasonType is the name of a reason's case.
func reasonType(reason json.RawMessage) string {
	var r struct{ Type string }
	if json.Unmarshal(reason, &r) != nil {
		return ""
	}
	return r.Type
}
