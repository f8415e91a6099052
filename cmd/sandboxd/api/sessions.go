package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"

	"sandboxd/agentloop"
	"sandboxd/policy"
)

// SessionRequest asks for a session.
type SessionRequest struct {
	Cwd     Text   `json:"cwd"`
	Env     []Text `json:"env,omitempty"`
	Grant   Grant  `json:"grant"`
	Policy  []Text `json:"policy,omitempty"`
	Profile Text   `json:"profile,omitempty"`
	Mode    string `json:"mode,omitempty"`
	// Agent says which model works in the session. Resume is the conversation that
	// it goes on with, Fork one that it takes up after entry ForkAt (0: where all
	// calls have results) in a conversation of its own.
	Agent  *AgentRequest `json:"agent,omitempty"`
	Resume string        `json:"resume,omitempty"`
	Fork   string        `json:"fork,omitempty"`
	ForkAt int64         `json:"fork_at,omitempty"`
	// Attached: the session ends with its client, which follows its events with
	// attached=1 from the start.
	Attached bool `json:"attached,omitempty"`
}

// LastConversation stands for an id in resume and fork: the youngest conversation of
// the session's user about its workspace.
const LastConversation = "last"

// check compares the fields with each other.
func (q *SessionRequest) check() error {
	switch {
	case !filepath.IsAbs(string(q.Cwd)):
		return fault(CodeBadRequest, "write it from / on", "cwd %q is not absolute", q.Cwd)
	case q.Resume != "" && q.Fork != "":
		return fault(CodeBadRequest, "", "resume and fork exclude each other")
	case q.ForkAt != 0 && q.Fork == "":
		return fault(CodeBadRequest, "", "fork_at without fork")
	case q.ForkAt < 0:
		return fault(CodeBadRequest, "", "fork_at is the number of an entry")
	}
	names := ExecRequest{Cwd: q.Cwd, Grant: q.Grant, Policy: q.Policy, Profile: q.Profile}
	if err := names.checkNames(); err != nil {
		return err
	}
	if q.Agent == nil && (q.Resume != "" || q.Fork != "") {
		q.Agent = &AgentRequest{}
	}
	if q.Agent == nil {
		return nil
	}
	return q.Agent.check()
}

// Session is a session as the API shows it: without its environment, which holds
// secrets.
type Session struct {
	agentloop.SessionState
	// Environ hides the field of the state.
	Environ *struct{} `json:"environ,omitempty"`
	// Grant hides the field of the state: it is the client's own. So are the next two.
	Grant        *struct{} `json:"grant,omitempty"`
	Key          *struct{} `json:"key,omitempty"`
	ModeByPolicy *struct{} `json:"mode_by_policy,omitempty"`
	// Generation is that of the policy in force, Warnings say what it says in vain.
	Generation int64    `json:"policy_generation"`
	Warnings   []string `json:"warnings,omitempty"`
	Cancelled  bool     `json:"cancelled,omitempty"`
	// Agent is the model that works in it, if one does.
	Agent *AgentView `json:"agent,omitempty"`
}

// SessionList is the answer of GET /api/chat/sessions.
type SessionList struct {
	Sessions []Session `json:"sessions"`
}

func (s *Server) shown(one *agentloop.Session) Session {
	return Session{SessionState: one.State(), Generation: one.Generation(), Warnings: one.Warnings(), Cancelled: one.Cancelled(),
		Agent: s.agents.peek(one.ID()).view()}
}

func (s *Server) createSession(w http.ResponseWriter, r *http.Request) error {
	var q SessionRequest
	if err := readJSON(r, &q); err != nil {
		return err
	}
	if err := q.check(); err != nil {
		return err
	}
	end, err := s.begin()
	if err != nil {
		return err
	}
	defer end()
	peer := peerOf(r)
	c := peer.Caller
	if peer.Caller, _, err = agentloop.ClientCaller(c.UID, c.GID, c.Groups, string(q.Cwd), Strings(q.Env)); err != nil {
		return fault(CodeBadRequest, "", "%v", err)
	}
	req, err := sessionRequest(peer, ExecRequest{Env: q.Env, Grant: q.Grant, Policy: q.Policy, Profile: q.Profile, Mode: q.Mode})
	if err != nil {
		return err
	}
	req.Attached, req.Resumes = q.Attached, q.Resume != "" || q.Fork != ""
	if q.Agent != nil {
		req.Agent, req.Keys = true, q.Agent.Keys
	}
	freeTimes(w)
	made, err := s.o.Sessions.Create(r.Context(), peer, req)
	if err != nil {
		return sessionFault(err)
	}
	if q.Agent != nil {
		conversation, err := s.continued(r, made, q)
		if err == nil {
			err = s.startAgent(r.Context(), made, q.Agent, conversation)
		}
		if err != nil {
			s.agents.drop(made.ID())
			return errors.Join(err, s.o.Sessions.Close(context.WithoutCancel(r.Context()), made.ID(), peer, "its agent could not be made"))
		}
	}
	if q.Attached {
		s.attached.add(made.ID())
	}
	answerTime(w)
	writeJSON(w, http.StatusCreated, s.shown(made))
	return nil
}

func (s *Server) listSessions(w http.ResponseWriter, r *http.Request) error {
	out := SessionList{Sessions: []Session{}}
	for _, st := range s.o.Sessions.List(peerOf(r)) {
		if one, err := s.o.Sessions.Get(st.ID, peerOf(r)); err == nil {
			out.Sessions = append(out.Sessions, s.shown(one))
		}
	}
	writeJSON(w, http.StatusOK, out)
	return nil
}

// session is the one that the path names.
func (s *Server) session(r *http.Request) (*agentloop.Session, error) {
	one, err := s.o.Sessions.Get(r.PathValue("id"), peerOf(r))
	if err != nil {
		return nil, sessionFault(err)
	}
	return one, nil
}

// mayAct reports who may run calls in a session, and change what it allows: its
// own user, as whom the calls run, and root. The admin group sees and answers.
func mayAct(one *agentloop.Session, peer agentloop.Peer) error {
	if uid := one.Peer().UID(); peer.UID() != 0 && peer.UID() != uid {
		return fault(CodeForbidden, "see and answer its questions, or make a session of your own", "the session is uid %d's, and its calls run as that user", uid)
	}
	return nil
}

// ownSession is session for requests that act in it.
func (s *Server) ownSession(r *http.Request) (*agentloop.Session, error) {
	one, err := s.session(r)
	if err != nil {
		return nil, err
	}
	return one, mayAct(one, peerOf(r))
}

func (s *Server) getSession(w http.ResponseWriter, r *http.Request) error {
	one, err := s.session(r)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, s.shown(one))
	return nil
}

func (s *Server) closeSession(w http.ResponseWriter, r *http.Request) error {
	one, err := s.session(r)
	if err != nil {
		return err
	}
	freeTimes(w)
	if err := s.o.Sessions.Close(r.Context(), one.ID(), peerOf(r), "closed by "+who(r)); err != nil {
		return sessionFault(err)
	}
	s.agents.drop(one.ID())
	s.attached.drop(one.ID())
	answerTime(w)
	writeJSON(w, http.StatusOK, s.shown(one))
	return nil
}

// who names the peer in records.
func who(r *http.Request) string { return fmt.Sprintf("uid %d", peerOf(r).UID()) }

// CancelRequest names the session to cancel.
type CancelRequest struct {
	Session string `json:"session_id"`
}

// cancelSession may be repeated: a session that is cancelled stays so.
func (s *Server) cancelSession(w http.ResponseWriter, r *http.Request) error {
	var q CancelRequest
	if err := readJSON(r, &q); err != nil {
		return err
	}
	one, err := s.o.Sessions.Get(q.Session, peerOf(r))
	if err != nil {
		return sessionFault(err)
	}
	one.Cancel(who(r))
	writeJSON(w, http.StatusOK, s.shown(one))
	return nil
}

// Rule is a rule in force.
type Rule struct {
	Kind   string `json:"kind"`
	Rule   string `json:"rule"`
	Source string `json:"source"`
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Unkept: the rule holds a secret, and ends with the daemon.
	Unkept bool `json:"unkept,omitempty"`
}

// RuleList is the answer of the routes for rules.
type RuleList struct {
	Rules []Rule `json:"rules"`
	// Changed says whether the request changed anything.
	Changed bool `json:"changed"`
}

func rulesOf(one *agentloop.Session, changed bool) RuleList {
	out := RuleList{Rules: []Rule{}, Changed: changed}
	unkept := map[string]bool{}
	for _, r := range one.OwnRules() {
		unkept[r.Kind+" "+r.Pattern] = r.Unkept
	}
	for _, r := range one.Rules() {
		out.Rules = append(out.Rules, Rule{Unkept: r.Source.Kind == policy.SourceSession && unkept[r.Kind.String()+" "+r.Pattern],
			Kind: r.Kind.String(), Rule: r.Pattern, Source: r.Source.Kind.String(),
			File: r.Source.File, Line: r.Source.Line, Reason: r.Reason + r.Message})
	}
	return out
}

func (s *Server) listRules(w http.ResponseWriter, r *http.Request) error {
	one, err := s.session(r)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, rulesOf(one, false))
	return nil
}

// RuleChange adds or removes a rule of one session.
type RuleChange struct {
	Op   string `json:"op"`   // add or remove
	Kind string `json:"kind"` // deny, ask or allow
	Rule string `json:"rule"`
	// Reason is told when the rule denies or asks.
	Reason string `json:"reason,omitempty"`
}

func (s *Server) changeRule(w http.ResponseWriter, r *http.Request) error {
	var q RuleChange
	if err := readJSON(r, &q); err != nil {
		return err
	}
	one, err := s.ownSession(r)
	if err != nil {
		return err
	}
	kind, err := policy.ParseKind(q.Kind)
	if err != nil {
		return fault(CodeBadRequest, "one of deny, ask, allow", "unknown kind %q", q.Kind)
	}
	changed := true
	switch q.Op {
	case "add":
		err = one.AddRuleFor(kind, q.Rule, q.Reason, who(r))
	case "remove":
		changed, err = one.RemoveRule(kind, q.Rule)
	default:
		return fault(CodeBadRequest, "one of add, remove", "unknown op %q", q.Op)
	}
	if errors.Is(err, agentloop.ErrNoSession) {
		return sessionFault(err)
	}
	if err != nil {
		return fault(CodeBadRequest, "docs/policy.md describes rules", "%v", err)
	}
	if !changed {
		return fault(CodeNotFound, "rules of policy files are changed there", "the session has no rule %s %s of its own", q.Kind, q.Rule)
	}
	writeJSON(w, http.StatusOK, rulesOf(one, changed))
	return nil
}

// ModeRequest switches the mode of a session.
type ModeRequest struct {
	Mode string `json:"mode"`
}

func (s *Server) setMode(w http.ResponseWriter, r *http.Request) error {
	var q ModeRequest
	if err := readJSON(r, &q); err != nil {
		return err
	}
	one, err := s.ownSession(r)
	if err != nil {
		return err
	}
	mode, err := policy.ParseMode(q.Mode)
	if err != nil {
		return unknownMode(q.Mode)
	}
	if err := one.SetMode(mode); err != nil {
		return sessionFault(err)
	}
	writeJSON(w, http.StatusOK, s.shown(one))
	return nil
}

// CheckAnswer is what would be decided.
type CheckAnswer struct {
	Decision   policy.Decision `json:"decision"`
	Generation int64           `json:"policy_generation"`
	Session    string          `json:"session_id"`
}

// check decides and runs nothing.
func (s *Server) check(w http.ResponseWriter, r *http.Request) error {
	var q ExecRequest
	if err := readJSON(r, &q); err != nil {
		return err
	}
	end, err := s.begin()
	if err != nil {
		return err
	}
	defer end()
	c, err := s.prepare(r.Context(), peerOf(r), q)
	if err != nil {
		return err
	}
	defer c.done()
	d, generation := c.session.Check(context.WithoutCancel(r.Context()), c.tool.Call)
	writeJSON(w, http.StatusOK, CheckAnswer{d, generation, c.session.ID()})
	return nil
}
