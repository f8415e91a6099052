package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"sandboxd/agentloop"
)

// QuestionList is the answer of GET /api/approvals.
type QuestionList struct {
	Questions []agentloop.PendingQuestion `json:"questions"`
}

func (s *Server) listApprovals(w http.ResponseWriter, r *http.Request) error {
	writeJSON(w, http.StatusOK, QuestionList{list(s.o.Asks.Pending(peerOf(r)))})
	return nil
}

func (s *Server) getApproval(w http.ResponseWriter, r *http.Request) error {
	q, err := s.o.Asks.Get(r.PathValue("id"), peerOf(r))
	if err != nil {
		return questionFault(err)
	}
	writeJSON(w, http.StatusOK, q)
	return nil
}

// answerApproval answers a question. Who comes second is told who was first.
func (s *Server) answerApproval(w http.ResponseWriter, r *http.Request) error {
	var q AnswerRequest
	if err := readJSON(r, &q); err != nil {
		return err
	}
	answer, err := q.answer("the API")
	if err != nil {
		return err
	}
	switch name := r.Header.Get("User-Agent"); name {
	case WatchAnswerer, AgentAnswerer:
		answer.By = name
	case clientAgent:
		answer.By = "sbx approve"
		if q.Answer == "deny" {
			answer.By = "sbx deny"
		}
	}
	out, err := s.o.Asks.Answer(r.Context(), r.PathValue("id"), peerOf(r), answer)
	if err != nil {
		return questionFault(err)
	}
	writeJSON(w, http.StatusOK, out)
	return nil
}

func questionFault(err error) error {
	if e, ok := errors.AsType[*agentloop.ErrAnswered](err); ok {
		f := fault(CodeAnswered, "nothing was kept of this answer", "%v", err)
		f.By = e.By
		return f
	}
	switch {
	case errors.Is(err, agentloop.ErrNoQuestion):
		return fault(CodeNotFound, "sbx approvals lists those that wait", "no such question")
	case errors.Is(err, agentloop.ErrExpired):
		return fault(CodeConflict, "have it asked again", "%v", err)
	case errors.Is(err, agentloop.ErrNothingToKeep), errors.Is(err, agentloop.ErrWantsVerdict):
		return fault(CodeConflict, "answer allow or deny", "%v", err)
	case errors.Is(err, agentloop.ErrWantsText):
		return fault(CodeConflict, "sbx approve --text ANSWER ID, or sbx deny ID", "%v", err)
	}
	return fault(CodeBadRequest, "", "%v", err)
}

// watchApprovals streams the pending questions: each as an event "question" when it
// appears, and "settled" when it is gone. Whoever watches counts as an answerer, so
// that questions wait.
func (s *Server) watchApprovals(w http.ResponseWriter, r *http.Request) error {
	peer := peerOf(r)
	changed, stop := s.o.Asks.Watch()
	defer stop()
	defer s.o.Asks.Attach(peer, "watcher")()
	ctx, cancel := s.untilQuit(r.Context())
	defer cancel()
	out := newSSE(w)
	if err := out.begin(); err != nil {
		return nil
	}
	beat := time.NewTicker(sseHeartbeat)
	defer beat.Stop()
	seen := map[string]bool{}
	for {
		if err := sendQuestions(out, s.o.Asks.Pending(peer), seen); err != nil {
			return nil
		}
		select {
		case <-changed:
		case <-beat.C:
			if err := out.comment("alive"); err != nil {
				return nil
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// sendQuestions sends what differs from seen, and updates it.
func sendQuestions(out *sse, pending []agentloop.PendingQuestion, seen map[string]bool) error {
	now := map[string]bool{}
	for _, q := range pending {
		now[q.ID] = true
		if seen[q.ID] {
			continue
		}
		text, err := json.Marshal(q)
		if err != nil {
			return err
		}
		if err := out.event(0, "question", text); err != nil {
			return err
		}
		seen[q.ID] = true
	}
	for id := range seen {
		if now[id] {
			continue
		}
		delete(seen, id)
		text, err := json.Marshal(StreamQuestion{ID: id, Settled: true})
		if err != nil {
			return err
		}
		if err := out.event(0, "settled", text); err != nil {
			return err
		}
	}
	return nil
}
