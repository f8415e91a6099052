package api

import (
	"context"
	"io"
	"net/http"
	"strings"

	"sandboxd/agentloop"
)

// postMessage begins a turn with what a person says.
func (s *Server) postMessage(w http.ResponseWriter, r *http.Request) error {
	one, err := s.ownSession(r)
	if err != nil {
		return err
	}
	var q MessageRequest
	if err := readJSON(r, &q); err != nil {
		return err
	}
	switch {
	case strings.TrimSpace(q.Text) == "":
		return fault(CodeBadRequest, "", "the text is empty")
	case len(q.Text) > maxPromptBytes:
		return fault(CodeTooLarge, "put it into a file of the workspace and name that", "the text is longer than %d bytes", maxPromptBytes)
	case len(q.Data) > MaxDataBytes:
		return fault(CodeTooLarge, "put it into a file of the workspace and name that", "the data is longer than %d bytes", MaxDataBytes)
	}
	end, err := s.begin()
	if err != nil {
		return err
	}
	freeTimes(w)
	run, accepted, err := s.say(r.Context(), one, q, end)
	if err != nil {
		end()
		return err
	}
	select { // what is acknowledged is not lost
	case <-run.kept:
	case <-run.done:
	case <-r.Context().Done():
	}
	answerTime(w)
	if !q.Stream {
		w.Header().Set("Location", "/api/chat/sessions/"+one.ID()+"/events")
		writeJSON(w, http.StatusAccepted, accepted)
		return nil
	}
	ctx, cancel := s.untilQuit(r.Context())
	defer cancel()
	out := newSSE(w)
	if err := out.begin(); err != nil {
		return nil // the turn goes on
	}
	_ = followEvents(ctx, one.Events(), accepted.After, out, run.done)
	return nil
}

// say begins the turn; ended is called when it is over.
func (s *Server) say(ctx context.Context, one *agentloop.Session, q MessageRequest, ended func()) (*turnRun, TurnAccepted, error) {
	slot := s.agents.slot(one.ID())
	free, err := slot.hold()
	if err != nil {
		return nil, TurnAccepted{}, err
	}
	defer free()
	if err := s.agents.ready(ctx, slot, one, q.Agent, ""); err != nil {
		return nil, TurnAccepted{}, err
	}
	if err := s.agents.room(one.Peer().UID(), nil, 0); err != nil {
		return nil, TurnAccepted{}, err
	}
	run, accepted := slot.start(s.base, one, q, ended)
	return run, accepted, nil
}

// startAgent makes the agent of a session that was just made for it.
func (s *Server) startAgent(ctx context.Context, one *agentloop.Session, q *AgentRequest, conversation string) error {
	slot := s.agents.slot(one.ID())
	free, err := slot.hold()
	if err != nil {
		return err
	}
	defer free()
	return s.agents.ready(ctx, slot, one, q, conversation)
}

// listMessages tells what was said in a session, all of it, also what a compaction
// has taken out of the model's sight.
func (s *Server) listMessages(w http.ResponseWriter, r *http.Request) error {
	one, err := s.session(r)
	if err != nil {
		return err
	}
	out := MessageList{Session: one.ID(), Messages: []agentloop.Message{}}
	if v := s.agents.peek(one.ID()).view(); v != nil {
		out.Conversation, out.Running = v.Conversation, v.Running
	} else if s.o.Conversations != nil {
		last, err := s.o.Conversations.List(r.Context(), agentloop.ConversationQuery{UID: -1, Session: one.ID(), Limit: 1})
		if err != nil {
			return err
		}
		if len(last) > 0 {
			out.Conversation = last[0].ID
		}
	}
	if out.Conversation == "" || s.o.Conversations == nil {
		writeJSON(w, http.StatusOK, out)
		return nil
	}
	done, err := s.wholes.begin(peerOf(r).UID())
	if err != nil {
		return err
	}
	defer done()
	return sendWhole(w, "application/json", func(w io.Writer) error {
		return writeMessages(w, out, s.entries(r.Context(), out.Conversation))
	})
}

// compact summarises the conversation of a session.
func (s *Server) compact(w http.ResponseWriter, r *http.Request) error {
	one, err := s.ownSession(r)
	if err != nil {
		return err
	}
	var q CompactRequest
	if err := readJSON(r, &q); err != nil {
		return err
	}
	end, err := s.begin()
	if err != nil {
		return err
	}
	defer end()
	slot := s.agents.slot(one.ID())
	free, err := slot.hold()
	if err != nil {
		return err
	}
	defer free()
	freeTimes(w)
	if err := s.agents.ready(r.Context(), slot, one, nil, ""); err != nil {
		return err
	}
	done, err := slot.agent().Compact(r.Context(), q.Focus)
	if err != nil {
		return agentFault(err)
	}
	answerTime(w)
	writeJSON(w, http.StatusOK, done)
	return nil
}
