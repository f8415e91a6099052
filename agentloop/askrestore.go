package agentloop

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"sandboxd/policy"
)

// digestOf is the same for a call and its repetition. It is no secret: who makes
// the call knows it.
func digestOf(s *Session, c policy.Call) string {
	args, err := json.Marshal(c.Args)
	if err != nil {
		return ""
	}
	h := sha256.New()
	for _, part := range []string{s.id, policy.CanonicalTool(c.Tool), string(args), c.Cwd, c.Agent} {
		h.Write([]byte(part))
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// keepAnswer remembers the answer to a question whose call is to come again. q.mu
// is held.
func (q *AskQueue) keepAnswer(session, digest string, a policy.Answer) {
	if digest == "" || a.Always {
		return // the rule answers the repetition
	}
	q.kept[digest] = keptAnswer{session: session, answer: a, expires: q.o.Now().Add(q.o.Timeout)}
}

// Awaits reports whether a question of a session waits for its answer, or an answer
// for the repetition of its call.
func (q *AskQueue) Awaits(session string) bool {
	q.expireOld()
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, w := range q.pending {
		if w.shown.Session == session {
			return true
		}
	}
	for _, k := range q.kept {
		if k.session == session {
			return true
		}
	}
	return false
}

// takeKept returns such an answer, once.
func (q *AskQueue) takeKept(digest string) (policy.Answer, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	k, ok := q.kept[digest]
	delete(q.kept, digest)
	return k.answer, ok && q.o.Now().Before(k.expires)
}

// Restore reads the pending questions of the Store after a restart. It is called
// after the sessions were restored; a question whose session is gone is denied.
func (q *AskQueue) Restore(ctx context.Context) error {
	if q.o.Store == nil {
		return nil
	}
	kept, err := q.o.Store.Questions(ctx)
	if err != nil {
		return err
	}
	for _, shown := range kept {
		w := &question{shown: shown, gone: true, restored: true, done: make(chan struct{})}
		if q.o.Session != nil {
			w.session, _ = q.o.Session(shown.Session)
		}
		if w.session == nil || shown.Kind == QuestionText {
			// A question in words belongs to a turn, which ended with the daemon.
			_, err := q.o.Store.SettleQuestion(ctx, shown.ID, StoredAnswer{Verdict: "deny", By: "cancelled", When: q.o.Now().UTC()})
			if err != nil {
				return err
			}
			continue
		}
		// Nobody could answer meanwhile.
		w.shown.Expires = q.o.Now().Add(q.o.Timeout).UTC()
		w.call = restoredCall(w.session, shown)
		q.mu.Lock()
		q.pending[shown.ID] = w
		q.mu.Unlock()
		q.o.Metrics.add(1, "sandboxd_questions_pending")
		w.session.events.Publish(EventQuestionAsked, w.shown)
	}
	q.changed()
	return nil
}

// restoredCall is the call of a kept question, if its arguments were kept as they
// were: they are the same when the digest is.
func restoredCall(s *Session, q PendingQuestion) policy.Call {
	args, err := policy.DecodeArgs(q.Args)
	if err != nil {
		return policy.Call{}
	}
	agent := q.Agent
	if agent == "lead" {
		agent = ""
	}
	c := policy.Call{ID: q.Call, Tool: q.Tool, Args: args, Cwd: q.CallCwd, Session: s.id, Agent: agent}
	if digestOf(s, c) != q.Digest {
		return policy.Call{}
	}
	return c
}

// expireOld denies the questions without a waiting call whose time is over; those
// with one are denied by it.
func (q *AskQueue) expireOld() {
	q.mu.Lock()
	var old []*question
	now := q.o.Now()
	for _, w := range q.pending {
		if w.gone && !w.settling && now.After(w.shown.Expires) {
			old = append(old, w)
		}
	}
	for digest, k := range q.kept {
		if now.After(k.expires) {
			delete(q.kept, digest)
		}
	}
	q.mu.Unlock()
	for _, w := range old {
		_, _ = q.settle(context.Background(), w, StoredAnswer{Verdict: "deny", By: "timeout", When: now.UTC()}, policy.Answer{Verdict: policy.Deny, By: "timeout"})
	}
}
