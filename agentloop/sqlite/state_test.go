package sqlite

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sandboxd/agentloop"
)

func mkfifo(path string) error { return syscall.Mkfifo(path, 0o600) }

func question(n int) agentloop.PendingQuestion {
	when := time.Date(2026, 11, 30, 12, 0, 0, n, time.UTC)
	return agentloop.PendingQuestion{
		ID: fmt.Sprintf("q%d", n), UID: 1000, Session: "s1", Call: "c1", Agent: "lead", Asked: when, Expires: when.Add(2 * time.Minute),
		Tool: "run_bash", Argv: []string{"rm", "-rf", "build"}, Script: "rm -rf build", Args: json.RawMessage(`{"a":"\u001b"}`),
		Cwd: "/w", Writes: []string{"/w/build"}, Mode: "default", Reason: json.RawMessage(`{"type":"default"}`), Why: "nothing matched",
		Risk: json.RawMessage(`{"risk":"HIGH"}`), AlwaysRule: "run_bash(rm -rf build)", Placement: "namespaces",
	}
}

func TestSessionsAndQuestionsOutliveTheStore(t *testing.T) {
	path := newPath(t)
	s := open(t, path, Options{})
	when := time.Date(2026, 11, 30, 12, 0, 0, 5, time.UTC)
	sessions := []agentloop.SessionState{
		{ID: "b", UID: 1000, GID: 1000, Groups: []int{4, 5}, Created: when, Workspace: "/w", Mode: "plan", Environ: []string{"A=1"},
			Rules: []agentloop.SessionRule{{Kind: "deny", Pattern: "run_bash(rm *)", Added: when, By: "uid 1000"}}},
		{ID: "a", UID: 0, Created: when.Add(time.Second), Workspace: "/v", Mode: "default"},
	}
	for _, st := range append(sessions, agentloop.SessionState{ID: "ended", Created: when}) {
		if err := s.SaveSession(t.Context(), st); err != nil {
			t.Fatal(err)
		}
	}
	sessions[0].Mode = "auto"
	for _, err := range []error{
		s.SaveSession(t.Context(), sessions[0]), s.DeleteSession(t.Context(), "ended"),
		s.SaveQuestion(t.Context(), question(2)), s.SaveQuestion(t.Context(), question(1)), s.SaveQuestion(t.Context(), question(3)),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	answer := agentloop.StoredAnswer{Verdict: "allow", Always: true, Scope: "session", By: "uid 1000", When: when}
	if won, err := s.SettleQuestion(t.Context(), "q3", answer); !won || err != nil {
		t.Fatalf("SettleQuestion = %v, %v", won, err)
	}
	_ = s.Close()
	s = open(t, path, Options{})
	if got, err := s.Sessions(t.Context()); err != nil || !reflect.DeepEqual(got, sessions) {
		t.Errorf("Sessions = %+v, %v\nwant %+v", got, err, sessions)
	}
	if got, err := s.Questions(t.Context()); err != nil || !reflect.DeepEqual(got, []agentloop.PendingQuestion{question(1), question(2)}) {
		t.Errorf("Questions = %+v, %v", got, err)
	}
	if got, ok, err := s.Answer(t.Context(), "q3"); err != nil || !ok || got != answer {
		t.Errorf("Answer = %+v, %v, %v", got, ok, err)
	}
	if won, err := s.SettleQuestion(t.Context(), "q3", answer); won || err != nil {
		t.Errorf("a second answer: %v, %v", won, err)
	}
	if won, err := s.SettleQuestion(t.Context(), "unknown", answer); won || err != nil {
		t.Errorf("an unknown question: %v, %v", won, err)
	}
	if err := s.SaveQuestion(t.Context(), question(3)); !errors.Is(err, ErrSettled) {
		t.Errorf("a settled question is opened again: %v", err)
	}
}

func TestOneAnswerWins(t *testing.T) {
	s := open(t, newPath(t), Options{})
	for n := range 1000 {
		if err := s.SaveQuestion(t.Context(), question(n)); err != nil {
			t.Fatal(err)
		}
		var wins atomic.Int32
		var winner atomic.Pointer[string]
		var wg sync.WaitGroup
		begin := make(chan struct{})
		for _, by := range []string{"uid 1000", "webhook"} {
			wg.Go(func() {
				<-begin
				won, err := s.SettleQuestion(t.Context(), question(n).ID, agentloop.StoredAnswer{Verdict: "allow", By: by})
				if err != nil {
					t.Error(err)
				}
				if won {
					wins.Add(1)
					winner.Store(&by)
				}
			})
		}
		close(begin)
		wg.Wait()
		got, ok, err := s.Answer(t.Context(), question(n).ID)
		if wins.Load() != 1 || err != nil || !ok || got.By != *winner.Load() {
			t.Fatalf("round %d: %d won, stored %+v %v %v", n, wins.Load(), got, ok, err)
		}
	}
}
