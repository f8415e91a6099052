package api

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"time"

	"sandboxd/agentloop"
)

// agents holds the agents of sessions. It is safe for concurrent use.
type agents struct {
	make     func(context.Context, *agentloop.Session, AgentRequest, string) (Loop, error)
	archive  agentloop.ConversationArchive
	sessions *agentloop.Sessions
	maxHeld  int64

	mu    sync.Mutex
	slots map[string]*agentSlot // by session
}

// agentSlot is the place for the agent of one session.
type agentSlot struct {
	// busy is held while an agent is made, compacts or begins a turn. Nobody waits
	// for it: these take long.
	busy sync.Mutex

	mu   sync.Mutex
	uid  int      // whose session it is
	loop Loop     // nil: none yet
	turn *turnRun // the one that runs, or the last one
}

// hold takes the slot for a change of its agent; free gives it back.
func (s *agentSlot) hold() (free func(), err error) {
	if !s.busy.TryLock() {
		return nil, fault(CodeConflict, "try again", "the agent is being made or summarises the conversation")
	}
	if s.runs() {
		s.busy.Unlock()
		return nil, fault(CodeConflict, "wait for its end, or POST /api/chat/cancel", "a turn is running")
	}
	return s.busy.Unlock, nil
}

func (s *agentSlot) runs() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.turn.running()
}

// agent is the loop, or nil.
func (s *agentSlot) agent() Loop {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.loop
}

// held is how many bytes of a conversation the agent of a user's session has in memory.
func (s *agentSlot) held(uid int) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.loop == nil || s.uid != uid {
		return 0
	}
	return s.loop.Held()
}

// replace puts another loop in place, of a session of uid, or none, and ends the old
// one.
func (s *agentSlot) replace(uid int, loop Loop) {
	s.mu.Lock()
	old := s.loop
	s.uid, s.loop = uid, loop
	s.mu.Unlock()
	if old != nil {
		old.Close()
	}
}

// turnRun is one turn.
type turnRun struct {
	id   string
	kept chan struct{} // closed when the prompt is on disk
	done chan struct{} // closed when end is set
	end  agentloop.TurnEnd
}

func (t *turnRun) running() bool {
	if t == nil {
		return false
	}
	select {
	case <-t.done:
		return false
	default:
		return true
	}
}

func newAgents(o Options) *agents {
	return &agents{make: o.Agents, archive: o.Conversations, sessions: o.Sessions, maxHeld: maxHeldBytes, slots: map[string]*agentSlot{}}
}

// slot is the place of a session's agent. Places of sessions that ended are cleared
// when a new one is needed.
func (a *agents) slot(session string) *agentSlot {
	if slot := a.peek(session); slot != nil {
		return slot
	}
	a.clear()
	a.mu.Lock()
	defer a.mu.Unlock()
	slot := a.slots[session]
	if slot == nil {
		slot = &agentSlot{}
		a.slots[session] = slot
	}
	return slot
}

// clear ends the agents of sessions that ended.
func (a *agents) clear() {
	a.mu.Lock()
	var over []*agentSlot
	for id, old := range a.slots {
		if _, live := a.sessions.Find(id); !live {
			over = append(over, old)
			delete(a.slots, id)
		}
	}
	a.mu.Unlock()
	for _, old := range over {
		old.replace(0, nil)
	}
}

// maxHeldBytes bounds the conversations that the agents of one uid have in memory,
// before a further one is loaded or a further turn begins. A turn that runs is not cut.
const maxHeldBytes = 256 << 20

// room reports whether the agents of uid, but one, have fewer bytes in memory than
// the bound leaves for more.
func (a *agents) room(uid int, but *agentSlot, more int64) error {
	a.clear()
	a.mu.Lock()
	var all []*agentSlot
	for _, slot := range a.slots {
		if slot != but {
			all = append(all, slot)
		}
	}
	a.mu.Unlock()
	for _, slot := range all {
		more += slot.held(uid)
	}
	if more < a.maxHeld {
		return nil
	}
	return fault(CodeBusy, "close a session (sbx sessions close), or have its conversation summarised (POST .../compact), and try again",
		"the sessions of uid %d hold conversations of %d MiB in memory, of %d", uid, more>>20, a.maxHeld>>20)
}

// peek is slot for who only looks; nil: there is none.
func (a *agents) peek(session string) *agentSlot {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.slots[session]
}

// drop ends the agent of a session that ended.
func (a *agents) drop(session string) {
	a.mu.Lock()
	slot := a.slots[session]
	delete(a.slots, session)
	a.mu.Unlock()
	if slot != nil {
		slot.replace(0, nil)
	}
}

// close ends all agents, at the end of the daemon.
func (a *agents) close() {
	a.mu.Lock()
	all := a.slots
	a.slots = map[string]*agentSlot{}
	a.mu.Unlock()
	for _, slot := range all {
		slot.replace(0, nil)
	}
}

// view is the agent as it is shown, or nil.
func (s *agentSlot) view() *AgentView {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.loop == nil {
		return nil
	}
	c := s.loop.Conversation()
	v := &AgentView{Conversation: c.ID, Provider: c.Provider, Model: c.Model, Running: s.turn.running()}
	if s.turn != nil {
		v.Turn = s.turn.id
	}
	return v
}

// ready makes the agent of the slot if there is none, or a new one if q asks for it.
// The slot is held. conversation is what it continues; empty: what the session's last
// agent said, as after a restart of the daemon.
func (a *agents) ready(ctx context.Context, slot *agentSlot, one *agentloop.Session, q *AgentRequest, conversation string) error {
	old := slot.agent()
	switch {
	case a.make == nil:
		return fault(CodeMissing, "POST /api/exec with session_id runs calls in a session", "this daemon runs no agents")
	case old != nil && q == nil && conversation == "":
		return nil
	}
	if q == nil {
		q = &AgentRequest{}
	}
	if err := q.check(); err != nil {
		return err
	}
	if conversation == "" && old != nil {
		conversation = old.Conversation().ID
	}
	if conversation == "" && a.archive != nil {
		last, err := a.archive.List(ctx, agentloop.ConversationQuery{UID: -1, Session: one.ID(), Limit: 1})
		if err != nil {
			return err
		}
		if len(last) > 0 {
			conversation = last[0].ID
		}
	}
	if conversation != "" {
		if err := a.release(conversation, slot); err != nil {
			return err
		}
	}
	uid := one.Peer().UID()
	if err := a.room(uid, slot, 0); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), makeTime)
	defer cancel()
	one.SetProviderKeys(q.Keys)
	loop, err := a.make(ctx, one, *q, conversation)
	if err != nil {
		return agentFault(err)
	}
	if err := a.room(uid, slot, loop.Held()); err != nil {
		loop.Close()
		return err
	}
	slot.replace(uid, loop)
	return nil
}

// makeTime is how long the making of an agent may take: its servers start then.
const makeTime = 60 * time.Second

// release takes a conversation away from an agent of another session that does
// nothing with it: two never continue one.
func (a *agents) release(conversation string, but *agentSlot) error {
	a.mu.Lock()
	others := maps.Clone(a.slots)
	a.mu.Unlock()
	for session, slot := range others {
		if slot == but {
			continue
		}
		if v := slot.view(); v == nil || v.Conversation != conversation {
			continue
		}
		free, err := slot.hold()
		if err != nil {
			return fault(CodeConflict, "wait for its end, sbx sessions cancel "+session+", or fork the conversation", "this conversation goes on in %s right now", session)
		}
		slot.replace(0, nil)
		free()
	}
	return nil
}

// start begins a turn and returns it. The slot is held and has a loop; ended is
// called when the turn is over.
func (s *agentSlot) start(ctx context.Context, one *agentloop.Session, q MessageRequest, ended func()) (*turnRun, TurnAccepted) {
	run := &turnRun{id: agentloop.NewID("turn"), kept: make(chan struct{}), done: make(chan struct{})}
	s.mu.Lock()
	loop := s.loop
	s.turn = run
	s.mu.Unlock()
	// A cancellation that came after the last turn was about nothing.
	one.TurnEnded()
	accepted := TurnAccepted{Session: one.ID(), Conversation: loop.Conversation().ID, Turn: run.id, After: one.Events().Last()}
	one.Events().Publish(EventTurnAccepted, accepted)
	if q.Data != "" {
		loop.Inject(agentloop.OriginFile, cmp.Or(q.DataName, "the user"), strings.ToValidUTF8(q.Data, "\uFFFD"))
	}
	go func() {
		defer ended()
		kept := sync.OnceFunc(func() { close(run.kept) })
		run.end = loop.RunAs(ctx, run.id, q.Text, func(e agentloop.TurnEvent) {
			if e.Type == agentloop.EventTurnStep { // what came before it is kept
				kept()
			}
		})
		if errors.Is(run.end.Err, agentloop.ErrConversationMoved) {
			s.replace(0, nil) // what it remembers is not what is kept
		}
		close(run.done)
	}()
	return run, accepted
}

// agentFault gives the errors of making an agent their codes.
func agentFault(err error) error {
	if f, ok := errors.AsType[*Fault](err); ok {
		return f
	}
	if m, ok := errors.AsType[*agentloop.ModelError](err); ok {
		return fault(CodeModel, m.Hint, "%v", err)
	}
	switch {
	case errors.Is(err, agentloop.ErrNoConversation):
		return fault(CodeNotFound, "sbx sessions list --conversations, or GET /api/chat/conversations, lists yours", "no such conversation")
	case errors.Is(err, agentloop.ErrConversationMoved), errors.Is(err, agentloop.ErrTurnRuns):
		return fault(CodeConflict, "", "%v", err)
	case errors.Is(err, agentloop.ErrSessionClosed):
		return fault(CodeNotFound, "", "%v", err)
	}
	return err
}
