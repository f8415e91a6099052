package agentloop

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sandboxd/policy"
)

// eventLog is a hook that notes the events, and answers some.
type eventLog struct {
	mu     sync.Mutex
	seen   []HookEvent
	answer func(e HookEvent) (HookOutcome, bool)
}

func (h *eventLog) Name() string { return "log" }

func (h *eventLog) Handle(_ context.Context, e HookEvent) (HookOutcome, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seen = append(h.seen, e)
	if h.answer != nil {
		if out, ok := h.answer(e); ok {
			return out, nil
		}
	}
	return HookOutcome{Action: HookContinue}, nil
}

func (h *eventLog) events() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []string
	for _, e := range h.seen {
		out = append(out, e.Event)
	}
	return out
}

// TestHookEventsOfATurnFireOnce is row 67 for the lead: each at its point, once.
func TestHookEventsOfATurnFireOnce(t *testing.T) {
	h := &eventLog{}
	l := newLoopWith(t, loopParts{hooks: []Hook{h}}, nil, asks("run_bash", map[string]any{"command": "seq 2000"}), words("done"), words("what was said"))
	l.run("go")
	if _, err := l.a.Compact(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if err := l.m.Close(t.Context(), l.s.ID(), l.peer(), "over"); err != nil {
		t.Fatal(err)
	}
	want := []string{EventSessionStart, EventUserPromptSubmit, EventPreToolUse, EventPostToolUse, EventStepComplete, EventStepComplete, EventStop,
		EventPreCompact, EventPostCompact, EventSessionStop}
	if got := h.events(); !slices.Equal(got, want) {
		t.Errorf("events %v, want %v", got, want)
	}
	for _, e := range h.seen {
		switch e.Event {
		case EventUserPromptSubmit:
			if e.Prompt != "go" {
				t.Errorf("prompt %q", e.Prompt)
			}
		case EventStop:
			if e.LastMessage != "done" || e.Reason != string(EndCompleted) || e.StopHookActive {
				t.Errorf("stop %+v", e)
			}
		}
		if e.Session != l.s.ID() || e.Agent != "" || e.Cwd == "" && e.Event != EventPreToolUse && e.Event != EventPostToolUse {
			t.Errorf("%s: %+v", e.Event, e)
		}
	}
}

// TestHooksSteerATurn: what hooks may do at each event, and what of it reaches the
// model, as data.
func TestHooksSteerATurn(t *testing.T) {
	block := func(event, why string) func(HookEvent) (HookOutcome, bool) {
		return func(e HookEvent) (HookOutcome, bool) {
			return HookOutcome{Action: HookBlock, Reason: why}, e.Event == event
		}
	}
	tell := func(event string) func(HookEvent) (HookOutcome, bool) {
		return func(e HookEvent) (HookOutcome, bool) {
			return HookOutcome{Action: HookContinue, Context: "told by " + event}, e.Event == event
		}
	}
	stop := func(event string) func(HookEvent) (HookOutcome, bool) {
		return func(e HookEvent) (HookOutcome, bool) {
			return HookOutcome{Action: HookContinue, StopLoop: true, Reason: "enough"}, e.Event == event
		}
	}
	script := func() []modelStep {
		return []modelStep{asks("run_bash", map[string]any{"command": "echo >> ran"}, "run_bash", map[string]any{"command": "echo >>  ran"}), words("one"), words("two"), words("three"), words("four"), words("five")}
	}
	for _, tt := range []struct {
		name     string
		answer   func(HookEvent) (HookOutcome, bool)
		want     EndReason
		requests int
		told     string // the last request holds it, framed
		err      string
		ran      int
	}{
		{"block the prompt", block(EventUserPromptSubmit, "not today"), EndHook, 0, "", "not today", 0},
		{"context of the start", tell(EventSessionStart), EndCompleted, 2, "told by SessionStart", "", 2},
		{"context of the prompt", tell(EventUserPromptSubmit), EndCompleted, 2, "told by UserPromptSubmit", "", 2},
		{"context of a call", tell(EventPreToolUse), EndCompleted, 2, "told by PreToolUse", "", 2},
		{"context after a call", tell(EventPostToolUse), EndCompleted, 2, "told by PostToolUse", "", 2},
		{"context of a step", tell(EventStepComplete), EndCompleted, 2, "told by StepComplete", "", 2},
		{"a step ends the loop", stop(EventStepComplete), EndHook, 1, "", "enough", 2},
		{"a call ends the loop", stop(EventPostToolUse), EndHook, 1, "", "enough", 1},
		{"a decision ends the loop", stop(EventPreToolUse), EndHook, 1, "", "enough", 1},
		{"a block that cannot be", block(EventStepComplete, "no"), EndCompleted, 2, "", "", 2},
		{"go on", block(EventStop, "run the tests"), EndCompleted, 5, "run the tests", "", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := &eventLog{answer: tt.answer}
			l := newLoopWith(t, loopParts{hooks: []Hook{h}}, nil, script()...)
			end, _ := l.run("go")
			asked := l.model.asked()
			if end.Reason != tt.want || len(asked) != tt.requests || !strings.Contains(end.Error, tt.err) {
				t.Errorf("%+v after %d requests", end, len(asked))
			}
			if ran := strings.Count(readText(l.host.path("home/u/w/ran")), "\n"); ran != tt.ran {
				t.Errorf("%d calls ran, want %d", ran, tt.ran)
			}
			if tt.told != "" {
				var framed bool
				for _, m := range asked[len(asked)-1].Messages {
					for _, b := range m.Blocks {
						if strings.Contains(b.Text, tt.told) {
							framed = b.Origin == OriginHook && strings.HasPrefix(b.Text, "<data id=")
						}
					}
				}
				if !framed {
					t.Errorf("not told as data: %+v", asked[len(asked)-1].Messages)
				}
			}
			if end.Reason == EndHook && tt.requests == 0 && len(l.a.Messages()) != 0 {
				t.Errorf("a blocked prompt is kept: %+v", l.a.Messages())
			}
			if n := count2(h.events(), EventStop); tt.name == "go on" && n != 4 || tt.name != "go on" && n != 1 {
				t.Errorf("Stop fired %d times", n)
			}
		})
	}
}

func count2(list []string, what string) (n int) {
	for _, s := range list {
		if s == what {
			n++
		}
	}
	return n
}

// TestCommandHookThatIgnoresTermIsEnded: a cancellation does not wait for a hook's
// grace.
func TestCommandHookThatIgnoresTermIsEnded(t *testing.T) {
	l := newLoop(t, nil, nil, asks("run_bash", map[string]any{"command": "echo never"}))
	l.edit = func(p *PolicyInForce) {
		denying()(p)
		p.Hooks = []HookSpec{{Event: EventPreToolUse, Command: `trap "" TERM; echo > ready; sleep 30`, Write: true, Source: user()}}
	}
	if err := l.m.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	end := make(chan TurnEnd, 1)
	go func() { end <- l.a.Run(context.Background(), "go", nil) }()
	for readText(l.host.path("home/u/w/ready")) == "-" {
		select {
		case got := <-end:
			t.Fatalf("the hook did not begin: %+v %+v", got, l.results())
		case <-time.After(time.Millisecond):
		}
	}
	at := time.Now()
	l.s.Cancel("test")
	got := <-end
	if took := time.Since(at); took > cancelBound || got.Reason != EndCancelled {
		t.Errorf("%v, %+v", took, got)
	}
	l.paired()
}

// TestEndOfATurnIsKnownEverywhere: the same reason in the result, in the last event,
// in the conversation, in its head and in the audit log.
func TestEndOfATurnIsKnownEverywhere(t *testing.T) {
	for _, tt := range []struct {
		name  string
		steps []modelStep
		edit  func(l *loopWorld)
		want  EndReason
		row   Status
	}{
		{"answered", []modelStep{words("done")}, nil, EndCompleted, StatusOK},
		{"model error", nil, nil, EndModel, StatusFail},
		{"refusal", []modelStep{func(context.Context, ModelRequest, func(ModelDelta)) (ModelAnswer, error) {
			return ModelAnswer{Message: TextMessage(RoleAssistant, OriginModel, "no"), Stop: StopRefusal}, nil
		}}, nil, EndRefusal, StatusFail},
		{"time", []modelStep{stalls(make(chan struct{}))}, func(l *loopWorld) { l.o.Config.Limits.Time = 50 * time.Millisecond }, EndTime, StatusTimeout},
		{"no price", []modelStep{words("done")}, func(l *loopWorld) { l.o.Config.Limits.Cost = 1 }, EndCost, StatusFail},
		{"cost", []modelStep{asks("run_bash", map[string]any{"command": "true"}), asks("run_bash", map[string]any{"command": "echo 2"})}, func(l *loopWorld) {
			l.o.Config.Limits.Cost, l.o.Config.Prices = 0.0011, map[string]Price{"m": {Input: 10}}
		}, EndCost, StatusFail},
		{"denials", []modelStep{asks("run_bash", map[string]any{"command": "rm a"}, "run_bash", map[string]any{"command": "rm b"}, "run_bash", map[string]any{"command": "rm c"})},
			func(l *loopWorld) { _ = l.s.AddRule(0, "run_bash(rm *)", "t") }, EndDenials, StatusFail},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLoop(t, nil, tt.edit, tt.steps...)
			end, events := l.run("go")
			last := events[len(events)-1]
			told, _ := last.Data.(TurnEnd)
			entries := l.store.entries[l.a.ID()]
			row := l.log.rows[len(l.log.rows)-1]
			if end.Reason != tt.want || last.Type != EventTurnEnded || told.Reason != tt.want || told.Error != end.Error {
				t.Errorf("%+v, told %+v", end, told)
			}
			if tt.want != EndCompleted && end.Error == "" {
				t.Error("it does not say why")
			}
			if n := len(entries); n > 0 && (entries[n-1].Kind != EntryEnd || entries[n-1].End.Reason != tt.want || l.store.heads[l.a.ID()].Ended != tt.want) {
				t.Errorf("kept %+v %+v", entries[n-1], l.store.heads)
			}
			if row.Tool != "turn" || row.Status != tt.row || !strings.Contains(string(row.Reason), fmt.Sprintf("%q", tt.want)) {
				t.Errorf("row %+v %s", row, row.Reason)
			}
		})
	}
}

// TestPanicsInALoopEndOneConversation: of a provider, and of code of ours.
func TestPanicsInALoopEndOneConversation(t *testing.T) {
	l := newLoop(t, nil, nil, func(context.Context, ModelRequest, func(ModelDelta)) (ModelAnswer, error) { panic("in the provider") })
	if end, events := l.run("go"); end.Reason != EndInternal || !strings.Contains(end.Error, "in the provider") || events[len(events)-1].Type != EventTurnEnded {
		t.Errorf("%+v", end)
	}
	if end := l.a.Run(t.Context(), "more", nil); end.Reason != EndClosed {
		t.Errorf("%+v", end)
	}
	l = newLoop(t, []Tool{oddTraits{testTool{name: "odd"}}}, nil, asks("odd", `{}`))
	if end := l.a.Run(t.Context(), "go", nil); end.Reason != EndInternal {
		t.Errorf("%+v", end)
	}
	if res := l.s.LiveCalls(); len(res) > 0 {
		t.Errorf("live %v", res)
	}
	r := l.resumed(len(l.store.entries[l.a.ID()]), words("on"))
	if end, _ := r.run("more"); end.Reason != EndCompleted {
		t.Errorf("resumed: %+v", end)
	}
}

// oddTraits cannot say what it is.
type oddTraits struct{ testTool }

func (oddTraits) Traits(policy.Args) Traits { panic("odd") }
