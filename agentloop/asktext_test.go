package agentloop

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"sandboxd/policy"
)

// askTestTool asks what its arguments say.
type askTestTool struct{}

func (askTestTool) Name() string { return "ask_user" }

func (askTestTool) Traits(policy.Args) Traits { return Traits{} }

func (askTestTool) Call(ctx context.Context, r *ToolRun) (string, error) {
	t := TextQuestion{Text: r.Call.Args["question"].(string)}
	if list, ok := r.Call.Args["options"].([]any); ok {
		for _, o := range list {
			t.Options = append(t.Options, o.(string))
		}
	}
	return r.AskText(ctx, t)
}

func textWorld(t *testing.T, more ...func(*world)) *world {
	return newWorld(t, nil, append(more, func(w *world) { w.opts.Tools = []Tool{askTestTool{}} })...)
}

// askedText starts a call that asks, and returns its question and result.
func (w *world) askedText(args policy.Args) (PendingQuestion, chan ToolResult) {
	w.t.Helper()
	done := make(chan ToolResult, 1)
	go func() {
		done <- w.d.Dispatch(context.Background(), w.s, ToolCall{Call: policy.Call{Tool: "ask_user", Args: args}})
	}()
	for range 500 {
		if list := w.asks.Pending(w.peer()); len(list) == 1 {
			return list[0], done
		}
		time.Sleep(5 * time.Millisecond)
	}
	w.t.Fatal("nothing was asked")
	return PendingQuestion{}, nil
}

func TestQuestionInWords(t *testing.T) {
	w := textWorld(t)
	defer w.asks.Attach(w.peer(), "test")()
	question := policy.Args{"question": "Which \x1b[31mport?", "options": []any{"80", "443"}}
	for _, tt := range []struct {
		name         string
		answer       AskAnswer
		output, fail string
	}{
		{"words", AskAnswer{Verdict: policy.Allow, Text: "8080, please"}, "8080, please", ""},
		{"number of an option", AskAnswer{Verdict: policy.Allow, Text: " 2"}, "443", ""},
		{"number beyond the options", AskAnswer{Verdict: policy.Allow, Text: "3"}, "3", ""},
		{"declined", AskAnswer{Verdict: policy.Deny}, "", ErrDeclined.Error()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w.t = t
			q, done := w.askedText(question)
			if q.Kind != QuestionText || q.Text != "Which \x1b[31mport?" || q.Shown != `Which \x1b[31mport? [1] 80 [2] 443` || len(q.Options) != 2 {
				t.Errorf("question %+v", q)
			}
			if _, err := w.asks.Answer(t.Context(), q.ID, w.peer(), AskAnswer{Verdict: policy.Allow}); !errors.Is(err, ErrWantsText) {
				t.Errorf("allowed without words: %v", err)
			}
			if _, err := w.asks.Answer(t.Context(), q.ID, w.peer(), AskAnswer{Verdict: policy.Allow, Text: "x", Always: true}); !errors.Is(err, ErrNothingToKeep) {
				t.Errorf("always: %v", err)
			}
			other := w.peer()
			other.Caller.UID += 4711
			if _, err := w.asks.Answer(t.Context(), q.ID, other, tt.answer); !errors.Is(err, ErrNoQuestion) {
				t.Errorf("answer of another user: %v", err)
			}
			if _, err := w.asks.Answer(t.Context(), q.ID, w.peer(), tt.answer); err != nil {
				t.Fatal(err)
			}
			res := <-done
			if res.Output != tt.output || res.Error != tt.fail {
				t.Errorf("output %q, error %q; want %q, %q", res.Output, res.Error, tt.output, tt.fail)
			}
		})
	}
}

// Words allow nothing: a question whether a call may run does not take them.
func TestWordsDoNotAllowACall(t *testing.T) {
	w := textWorld(t)
	defer w.asks.Attach(w.peer(), "test")()
	done := make(chan ToolResult, 1)
	go func() { done <- w.bash("touch made") }()
	var list []PendingQuestion
	for len(list) == 0 {
		list = w.asks.Pending(w.peer())
		time.Sleep(5 * time.Millisecond)
	}
	for _, a := range []AskAnswer{{Verdict: policy.Allow, Text: "yes"}, {Verdict: policy.Deny, Text: "no"}} {
		if _, err := w.asks.Answer(t.Context(), list[0].ID, w.peer(), a); !errors.Is(err, ErrWantsVerdict) {
			t.Errorf("words: %v", err)
		}
	}
	if _, err := w.asks.Answer(t.Context(), list[0].ID, w.peer(), AskAnswer{Verdict: policy.Allow}); err != nil {
		t.Fatal(err)
	}
	if res := <-done; res.Status != StatusOK {
		t.Errorf("%s: %s", res.Status, res.Error)
	}
}

func TestQuestionInWordsThatNobodyAnswers(t *testing.T) {
	short := func(w *world) {
		w.asks = NewAskQueue(AskQueueOptions{Timeout: 100 * time.Millisecond})
	}
	w := textWorld(t, short)
	args := policy.Args{"question": "who?"}
	for _, tt := range []struct {
		name string
		call policy.Call
		want error
	}{
		{"nobody attached", policy.Call{}, ErrNoAnswerer},
		{"headless", policy.Call{Headless: true}, ErrNoAnswerer},
		{"sub-agent", policy.Call{Agent: "worker"}, ErrSilentAgent},
	} {
		if tt.want != ErrNoAnswerer || tt.call.Headless {
			defer w.asks.Attach(w.peer(), "test")()
		}
		tt.call.Tool, tt.call.Args = "ask_user", args
		began := time.Now()
		res := w.d.Dispatch(t.Context(), w.s, ToolCall{Call: tt.call})
		if took := time.Since(began); !errors.Is(res.Err, tt.want) || took > 50*time.Millisecond {
			t.Errorf("%s: %v after %v, want %v at once", tt.name, res.Err, took, tt.want)
		}
	}
	if res := w.call("ask_user", args); !errors.Is(res.Err, ErrExpired) {
		t.Errorf("timeout: %v", res.Err)
	}
	for _, bad := range []policy.Args{{"question": " "}, {"question": strings.Repeat("x", maxQuestion+1)}, {"question": "q", "options": []any{""}},
		{"question": "q", "options": []any{"1", "2", "3", "4", "5", "6", "7", "8", "9"}}} {
		if res := w.call("ask_user", bad); res.Err == nil || errors.Is(res.Err, ErrExpired) {
			t.Errorf("%.40v: %v, want an error at once", bad, res.Err)
		}
	}
	if n := len(w.asks.Pending(w.peer())); n != 0 {
		t.Errorf("%d questions are left", n)
	}
}

func TestQuestionInWordsEndsWithTheSession(t *testing.T) {
	w := textWorld(t)
	defer w.asks.Attach(w.peer(), "test")()
	_, done := w.askedText(policy.Args{"question": "who?"})
	if err := w.m.Close(t.Context(), w.s.ID(), w.peer(), "test"); err != nil {
		t.Fatal(err)
	}
	select {
	case res := <-done:
		if res.Error == "" {
			t.Errorf("answered: %q", res.Output)
		}
	case <-time.After(2 * time.Second):
		t.Fatal("waits after the end of its session")
	}
	if n := len(w.asks.Pending(w.peer())); n != 0 {
		t.Errorf("%d questions are left", n)
	}
}
