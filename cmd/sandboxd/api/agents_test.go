package api

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"sandboxd/agentloop"
)

// heldLoop is an agent of which only the size of its conversation counts.
type heldLoop struct {
	Loop
	held   int64
	closed *int
}

func (l *heldLoop) Held() int64                          { return l.held }
func (l *heldLoop) Conversation() agentloop.Conversation { return agentloop.Conversation{} }
func (l *heldLoop) Close()                               { *l.closed++ }

// The conversations that the agents of one uid hold have one bound together, before
// one is loaded, when it is, and before a turn. Others have their own.
func TestConversationsInMemoryAreBoundedByUID(t *testing.T) {
	o := testOptions(t)
	var size int64
	var closed, made int
	o.Agents = func(context.Context, *agentloop.Session, AgentRequest, string) (Loop, error) {
		made++
		return &heldLoop{held: size, closed: &closed}, nil
	}
	a := newAgents(o)
	a.maxHeld = 100
	s := &Server{agents: a}
	session := func(uid int) *agentloop.Session {
		t.Helper()
		c := agentloop.Caller{Cwd: t.TempDir(), UID: uid, GID: os.Getgid()}
		one, err := o.Sessions.Create(t.Context(), agentloop.Peer{Caller: c}, agentloop.SessionRequest{Cwd: c.Cwd, Workspace: c.Cwd})
		if err != nil {
			t.Fatal(err)
		}
		return one
	}
	start := func(one *agentloop.Session, n int64) error {
		size = n
		return s.startAgent(t.Context(), one, &AgentRequest{}, "")
	}
	refused := func(what string, err error) {
		t.Helper()
		if f, ok := errors.AsType[*Fault](err); !ok || f.Code != CodeBusy || !strings.Contains(f.Hint, "close a session") {
			t.Errorf("%s: %v, want code busy and a way on", what, err)
		}
	}
	me := os.Geteuid()
	first, second, third := session(me), session(me), session(me)
	if err := errors.Join(start(first, 60), start(second, 30)); err != nil {
		t.Fatal(err)
	}
	refused("one that does not fit", start(third, 20))
	if closed != 1 {
		t.Errorf("%d were closed again, want the one that did not fit", closed)
	}
	if err := start(third, 5); err != nil {
		t.Errorf("one that fits: %v", err)
	}
	if err := a.room(me+1, nil, 99); err != nil {
		t.Errorf("another user: %v", err)
	}
	// A turn made one grow.
	a.peek(first.ID()).agent().(*heldLoop).held = 70
	made = 0
	refused("one more", start(session(me), 0))
	if made != 0 {
		t.Error("it was loaded nevertheless")
	}
	_, _, err := s.say(t.Context(), second, MessageRequest{Text: "x"}, func() {})
	refused("a turn", err)
	// A session ends, however: what it held is free.
	if err := o.Sessions.Close(t.Context(), first.ID(), agentloop.Peer{Caller: agentloop.Caller{UID: me}}, "over"); err != nil {
		t.Fatal(err)
	}
	if err := start(session(me), 50); err != nil {
		t.Errorf("after a session was closed: %v", err)
	}
}
