package api

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"sandboxd/agentloop"
)

// archive is where conversations are kept.
func (s *Server) archive() (agentloop.ConversationArchive, error) {
	if s.o.Conversations == nil {
		return nil, fault(CodeMissing, "", "this daemon keeps no conversations")
	}
	return s.o.Conversations, nil
}

// maxListed bounds the heads of one answer.
const maxListed = 1000

func (s *Server) listConversations(w http.ResponseWriter, r *http.Request) error {
	from, err := s.archive()
	if err != nil {
		return err
	}
	v := r.URL.Query()
	for name := range v {
		if !slices.Contains([]string{"workspace", "limit", "agents"}, name) {
			return fault(CodeBadRequest, "see GET /api/openapi.json", "unknown parameter %q", name)
		}
	}
	q := agentloop.ConversationQuery{UID: peerOf(r).UID(), Workspace: v.Get("workspace"), Agents: v.Get("agents") == "1"}
	if peerOf(r).Admin {
		q.UID = -1
	}
	if text := v.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return fault(CodeBadRequest, "", "limit=%q is no number above zero", text)
		}
		q.Limit = min(n, maxListed)
	}
	heads, err := from.List(r.Context(), q)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, ConversationList{list(heads)})
	return nil
}

// conversation is the head of the one that id names, if the peer may see it.
func (s *Server) conversation(r *http.Request, id string) (agentloop.Conversation, error) {
	from, err := s.archive()
	if err != nil {
		return agentloop.Conversation{}, err
	}
	head, err := from.Head(r.Context(), id)
	if peer := peerOf(r); err == nil && !peer.Admin && peer.UID() != head.UID {
		err = agentloop.ErrNoConversation
	}
	if err != nil {
		return agentloop.Conversation{}, agentFault(err)
	}
	return head, nil
}

// ownConversation is conversation for requests that change or continue it.
func (s *Server) ownConversation(r *http.Request, id string) (agentloop.Conversation, error) {
	head, err := s.conversation(r, id)
	if uid := peerOf(r).UID(); err == nil && uid != 0 && uid != head.UID {
		err = fault(CodeForbidden, "", "the conversation is uid %d's", head.UID)
	}
	return head, err
}

func (s *Server) getConversation(w http.ResponseWriter, r *http.Request) error {
	head, err := s.conversation(r, r.PathValue("id"))
	if err != nil {
		return err
	}
	done, err := s.wholes.begin(peerOf(r).UID())
	if err != nil {
		return err
	}
	defer done()
	return sendWhole(w, "application/json", func(w io.Writer) error {
		return writeView(w, head, s.entries(r.Context(), head.ID))
	})
}

// exportConversation writes a conversation for a program (JSON lines: the head, then
// each entry) or for people (Markdown).
func (s *Server) exportConversation(w http.ResponseWriter, r *http.Request) error {
	format := r.URL.Query().Get("format")
	write := writeLines
	kind := "application/x-ndjson"
	switch format {
	case "", "jsonl":
	case "markdown":
		write, kind = writeMarkdown, "text/markdown; charset=utf-8"
	default:
		return fault(CodeBadRequest, "one of jsonl, markdown", "unknown format %q", format)
	}
	head, err := s.conversation(r, r.PathValue("id"))
	if err != nil {
		return err
	}
	done, err := s.wholes.begin(peerOf(r).UID())
	if err != nil {
		return err
	}
	defer done()
	return sendWhole(w, kind, func(w io.Writer) error {
		return write(w, head, s.entries(r.Context(), head.ID))
	})
}

// deleteConversation removes one for good. Its audit rows stay.
func (s *Server) deleteConversation(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	if _, err := s.ownConversation(r, id); err != nil {
		return err
	}
	if err := s.agents.release(id, nil); err != nil {
		return err
	}
	freeTimes(w)
	if err := s.o.Conversations.DeleteConversation(r.Context(), id); err != nil {
		return agentFault(err)
	}
	answerTime(w)
	writeJSON(w, http.StatusOK, Done{true})
	return nil
}

// continued is the conversation that a new session goes on with: the one to resume,
// or a fork of it. Empty: a new one.
func (s *Server) continued(r *http.Request, one *agentloop.Session, q SessionRequest) (string, error) {
	id := q.Resume
	if id == "" {
		id = q.Fork
	}
	if id == "" {
		return "", nil
	}
	if id == LastConversation {
		from, err := s.archive()
		if err != nil {
			return "", err
		}
		last, err := from.List(r.Context(), agentloop.ConversationQuery{UID: one.Peer().UID(), Workspace: one.Workspace(), Limit: 1})
		if err != nil {
			return "", err
		}
		if len(last) == 0 {
			return "", fault(CodeNotFound, "begin one", "there is no conversation about %s", one.Workspace())
		}
		id = last[0].ID
	}
	head, err := s.ownConversation(r, id)
	if err != nil {
		return "", err
	}
	switch {
	case head.Agent != "":
		return "", fault(CodeConflict, "resume the one it belongs to: "+head.Parent, "it is the conversation of a sub-agent")
	case head.Workspace != one.Workspace():
		return "", fault(CodeConflict, "work there, or begin a new one", "the conversation is about %s, the session works in %s", head.Workspace, one.Workspace())
	case q.Fork == "":
		return id, nil
	}
	fork, err := s.fork(r, head, q.ForkAt, one.ID())
	return fork.ID, err
}

// fork takes a conversation up in one of its own.
func (s *Server) fork(r *http.Request, head agentloop.Conversation, at int64, session string) (agentloop.Conversation, error) {
	done, err := s.wholes.begin(peerOf(r).UID())
	if err != nil {
		return agentloop.Conversation{}, err
	}
	defer done()
	at, err = forkPoint(s.entries(r.Context(), head.ID), at)
	if err != nil {
		return agentloop.Conversation{}, agentFault(err)
	}
	now := time.Now().UTC()
	fork := agentloop.Conversation{ID: agentloop.NewID("conversation"), UID: head.UID, Session: session, Parent: head.ID, ParentLast: at,
		Workspace: head.Workspace, Title: head.Title, Provider: head.Provider, Model: head.Model, Created: now, Changed: now}
	err = s.o.Conversations.ForkConversation(r.Context(), head.ID, at, fork)
	if errors.Is(err, agentloop.ErrNoEntry) {
		err = fault(CodeBadRequest, "", "%v", err)
	}
	return fork, err
}

// ForkRequest says where a conversation is forked: after entry At, 0 for the last one
// before which all calls have results.
type ForkRequest struct {
	At int64 `json:"at,omitempty"`
}

func (s *Server) forkConversation(w http.ResponseWriter, r *http.Request) error {
	var q ForkRequest
	if err := readJSON(r, &q); err != nil {
		return err
	}
	head, err := s.ownConversation(r, r.PathValue("id"))
	if err != nil {
		return err
	}
	fork, err := s.fork(r, head, q.At, "")
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusCreated, fork)
	return nil
}

// forkPoint checks that a conversation can be taken up after entry at: every call
// before has its result. 0 means the last such entry.
func forkPoint(entries entrySeq, at int64) (int64, error) {
	open := map[string]bool{}
	before, after, last := int64(0), int64(0), int64(0)
	for e, err := range entries {
		if err != nil {
			return 0, err
		}
		last = e.Seq
		switch {
		case e.Kind == agentloop.EntryCompact:
			clear(open)
		case e.Kind == agentloop.EntryResult && e.Block != nil:
			delete(open, e.Block.CallID)
		case e.Message != nil && e.Message.Role == agentloop.RoleAssistant:
			for _, use := range e.Message.Uses() {
				open[use.CallID] = true
			}
		}
		if len(open) > 0 || e.Kind == agentloop.EntryStarted {
			continue
		}
		if at == 0 || e.Seq <= at {
			before = e.Seq
		} else if after == 0 {
			after = e.Seq
		}
	}
	switch {
	case before == at && at > 0, at == 0 && (before > 0 || last == 0):
		return before, nil
	case last == 0 || at > last || at < 0:
		return 0, fault(CodeBadRequest, "", "the conversation has no entry %d: %d are there", at, last)
	}
	hint := fmt.Sprintf("fork at %d", before)
	if after > 0 {
		hint += fmt.Sprintf(" or %d", after)
	}
	return 0, fault(CodeConflict, hint, "entry %d is in the middle of a step: calls before it have no result", at)
}
