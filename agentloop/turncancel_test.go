package agentloop

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sandboxd/policy"
)

// cancelBound is how soon a cancellation must be seen (requirement 136), with what
// a loaded machine needs to start and reap processes.
const cancelBound = 250 * time.Millisecond

// stalls is a model that never answers.
func stalls(begun chan<- struct{}) modelStep {
	return func(ctx context.Context, _ ModelRequest, emit func(ModelDelta)) (ModelAnswer, error) {
		emit(ModelDelta{Text: "I will"})
		close(begun)
		<-ctx.Done()
		return ModelAnswer{}, ctx.Err()
	}
}

// TestCancelIsSeenEverywhere is rows 135 and 136: wherever a turn is, it ends
// within 250 ms, with its reason, and every call has its result.
func TestCancelIsSeenEverywhere(t *testing.T) {
	waits := func(begun chan struct{}) testTool {
		return testTool{name: "wait", traits: safeTraits, call: func(ctx context.Context, _ *ToolRun) (string, error) {
			close(begun)
			<-ctx.Done()
			return "", cancelCause(ctx)
		}}
	}
	type place struct {
		name  string
		steps func(begun chan struct{}) []modelStep
		tools func(begun chan struct{}) []Tool
		hooks func(begun chan struct{}) []Hook
		edit  func(l *loopWorld, begun chan struct{})
		// when the turn is there
		there func(l *loopWorld, begun chan struct{})
		// status of the first result; empty without one
		want Status
	}
	bash := func(script string) func(chan struct{}) []modelStep {
		return func(chan struct{}) []modelStep {
			return []modelStep{asks("run_bash", map[string]any{"command": script}, "run_bash", map[string]any{"command": "echo second"})}
		}
	}
	running := func(l *loopWorld, _ chan struct{}) {
		for sub := l.s.Events().Subscribe(0); ; {
			if e := <-sub.C; e.Type == EventCallStarted {
				time.Sleep(100 * time.Millisecond) // the command itself runs
				return
			}
		}
	}
	blockingHook := func(event string) func(chan struct{}) []Hook {
		return func(begun chan struct{}) []Hook {
			return []Hook{goHook{"slow", func(ctx context.Context, e HookEvent) (HookOutcome, error) {
				if e.Event == event {
					close(begun)
					<-ctx.Done()
					return HookOutcome{}, ctx.Err()
				}
				return HookOutcome{Action: HookContinue}, nil
			}}}
		}
	}
	for _, p := range []place{
		{name: "model stream", steps: func(b chan struct{}) []modelStep { return []modelStep{stalls(b)} }},
		{name: "a tool that may be ended", tools: func(b chan struct{}) []Tool { return []Tool{waits(b)} },
			steps: func(chan struct{}) []modelStep { return []modelStep{asks("wait", n("a"))} }, want: StatusCancelled},
		{name: "run_bash", steps: bash("sleep 30"), there: running, want: StatusCancelled},
		{name: "queue", steps: bash("echo never"), want: StatusCancelled,
			edit:  func(l *loopWorld, _ chan struct{}) { l.t.Cleanup(l.holdTurns()) },
			there: func(l *loopWorld, _ chan struct{}) { l.waiting(1) }},
		{name: "question", steps: bash("echo never"), want: StatusCancelled,
			edit: func(l *loopWorld, _ chan struct{}) {
				l.t.Cleanup(l.asks.Attach(l.peer(), "t"))
				if err := l.s.AddRule(policy.AskRule, "run_bash", "t"); err != nil {
					l.t.Fatal(err)
				}
			},
			there: func(l *loopWorld, _ chan struct{}) { l.asked(1) }},
		{name: "compaction", want: StatusOK, steps: func(b chan struct{}) []modelStep {
			full := func(ctx context.Context, r ModelRequest, emit func(ModelDelta)) (ModelAnswer, error) {
				a, err := asks("run_bash", map[string]any{"command": "seq 2000"})(ctx, r, emit)
				a.Usage.Input = 50_000
				return a, err
			}
			return []modelStep{full, func(ctx context.Context, r ModelRequest, _ func(ModelDelta)) (ModelAnswer, error) {
				return stalls(b)(ctx, r, func(ModelDelta) {})
			}}
		}},
		{name: "hook of the prompt", hooks: blockingHook(EventUserPromptSubmit)},
		{name: "hook of a call", hooks: blockingHook(EventPreToolUse), steps: bash("echo never"), want: StatusCancelled},
		{name: "hook after a call", hooks: blockingHook(EventPostToolUse), steps: bash("true"), want: StatusOK},
		{name: "hook after a step", hooks: blockingHook(EventStepComplete), steps: bash("true"), want: StatusOK},
		{name: "hook of the end", hooks: blockingHook(EventStop), steps: func(chan struct{}) []modelStep { return []modelStep{words("done")} }},
	} {
		t.Run(p.name, func(t *testing.T) {
			begun := make(chan struct{})
			var tools []Tool
			var hooks []Hook
			var steps []modelStep
			if p.tools != nil {
				tools = p.tools(begun)
			}
			if p.hooks != nil {
				hooks = p.hooks(begun)
			}
			if p.steps != nil {
				steps = p.steps(begun)
			}
			l := newLoopWith(t, loopParts{hooks: hooks, tools: tools, world: oneAtATime}, func(made *loopWorld) {
				if p.edit != nil {
					p.edit(made, begun)
				}
			}, steps...)
			end := make(chan TurnEnd, 1)
			go func() { end <- l.a.Run(context.Background(), "go", nil) }()
			if p.there != nil {
				p.there(l, begun)
			} else {
				<-begun
			}
			at := time.Now()
			l.s.Cancel("test")
			got := <-end
			if took := time.Since(at); took > cancelBound {
				t.Errorf("the turn ended after %v", took)
			}
			if got.Reason != EndCancelled || !errors.Is(got.Err, ErrCancelled) {
				t.Errorf("%+v", got)
			}
			l.paired()
			if res := l.results(); p.want != "" && (len(res) == 0 || res[0].Status != p.want) || p.want == "" && len(res) > 0 {
				t.Errorf("results %+v", res)
			} else if p.want == StatusCancelled && !strings.Contains(res[0].Text, "execution was cancelled by the user") {
				t.Errorf("the text does not say it: %q", res[0].Text)
			}
			if l.s.Cancelled() {
				t.Error("the session is still cancelled")
			}
			// The session works on.
			l.model.steps = append(l.model.steps[:len(l.model.asked())], words("again"))
			if p.edit == nil && hooks == nil {
				if end, _ := l.run("more"); end.Reason != EndCompleted {
					t.Errorf("the next turn: %+v", end)
				}
			}
		})
	}
}

// TestCommandsGetTheirGraceAndNoMore is row 20 and resolution C17: run_bash is asked
// to end at once and may clean up; one that does not end is killed after two
// seconds, with all that it started; a tool that finishes first has two seconds.
func TestCommandsGetTheirGraceAndNoMore(t *testing.T) {
	commit := testTool{name: "commit", call: func(ctx context.Context, r *ToolRun) (string, error) {
		_, err := r.Command(ctx, Command{Argv: []string{"bash", "-c", `trap "" TERM; echo > ready; sleep 0.5; echo whole > record; ` + r.Call.Args["then"].(string)}})
		return r.out.stdout, err
	}}
	for _, tt := range []struct {
		name     string
		call     []any
		min, max time.Duration
		want     Status
		file     string
	}{
		{"run_bash cleans up", []any{"run_bash", map[string]any{"command": `trap "echo whole > record; exit 0" TERM; echo > ready; sleep 30 & wait`}}, 0, time.Second, StatusCancelled, "record"},
		{"run_bash ignores it", []any{"run_bash", map[string]any{"command": `trap "" TERM; (sleep 4; echo > late) & echo > ready; sleep 30`}}, 1900 * time.Millisecond, 3 * time.Second, StatusCancelled, ""},
		{"a short commit finishes", []any{"commit", map[string]any{"then": "exit 0"}}, 0, 1900 * time.Millisecond, StatusOK, "record"},
		{"a long one is ended", []any{"commit", map[string]any{"then": "sleep 30"}}, 3 * time.Second, 5 * time.Second, StatusCancelled, "record"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLoop(t, []Tool{commit}, nil, asks(tt.call...))
			end := make(chan TurnEnd, 1)
			go func() { end <- l.a.Run(context.Background(), "go", nil) }()
			for readText(l.host.path("home/u/w/ready")) == "-" {
				time.Sleep(time.Millisecond)
			}
			at := time.Now()
			l.s.Cancel("test")
			got := <-end
			if took := time.Since(at); took < tt.min || took > tt.max {
				t.Errorf("ended after %v, want %v to %v", took, tt.min, tt.max)
			}
			if got.Reason != EndCancelled || l.results()[0].Status != tt.want {
				t.Errorf("%+v %+v", got, l.results())
			}
			if tt.file != "" && readText(l.host.path("home/u/w/"+tt.file)) != "whole\n" {
				t.Errorf("no whole %s", tt.file)
			}
			if len(l.s.LiveCalls()) > 0 {
				t.Errorf("calls live on: %v", l.s.LiveCalls())
			}
		})
	}
}

// TestCancelLifecycleOfATurn is row 140 with a loop: inserted, a call blocked, the
// loop broken, the tools ended, removed.
func TestCancelLifecycleOfATurn(t *testing.T) {
	l := newLoop(t, nil, nil, asks("read_file", map[string]any{"file_path": "fifo"}, "run_bash", map[string]any{"command": "touch made"}), words("again"))
	if err := unix.Mkfifo(l.host.path("home/u/w/fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	end := make(chan TurnEnd, 1)
	go func() { end <- l.a.Run(context.Background(), "go", nil) }()
	sub := l.s.Events().Subscribe(0)
	defer sub.Close()
	for e := range sub.C {
		if e.Type == EventCallStarted {
			break
		}
	}
	time.Sleep(100 * time.Millisecond)
	l.s.Cancel("test")
	l.s.Cancel("test")
	<-end
	var got []string
	for e := range sub.C {
		if strings.HasPrefix(e.Type, "cancel.") {
			got = append(got, e.Type)
		}
		if e.Type == EventTurnEnded {
			break
		}
	}
	if want := []string{EventCancelInserted, EventCancelBlocked, EventCancelLoop, EventCancelTools, EventCancelRemoved}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	l.paired()
	if made := readText(l.host.path("home/u/w/made")); made != "-" {
		t.Error("a call ran after the cancellation")
	}
	if rows := l.log.statuses(); count(rows, StatusCancelled) != 3 { // both calls, and the turn
		t.Errorf("rows %v", rows)
	}
	if end, _ := l.run("more"); end.Reason != EndCompleted {
		t.Errorf("the next turn: %+v", end)
	}
}

// TestTurnEndsWithItsCaller: breaking the iterator, the caller's context, the end of
// the session and the agent's all end the turn and wait for it.
func TestTurnEndsWithItsCaller(t *testing.T) {
	sleeping := func(l *loopWorld) {
		for sub := l.s.Events().Subscribe(0); ; {
			if e := <-sub.C; e.Type == EventCallStarted {
				return
			}
		}
	}
	for _, tt := range []struct {
		name string
		want EndReason
		end  func(l *loopWorld, cancel func())
	}{
		{"context", EndCancelled, func(_ *loopWorld, cancel func()) { cancel() }},
		{"session", EndClosed, func(l *loopWorld, _ func()) {
			if err := l.m.Close(context.Background(), l.s.ID(), l.peer(), "test"); err != nil {
				l.t.Error(err)
			}
		}},
		{"agent", EndClosed, func(l *loopWorld, _ func()) { l.a.Close() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLoop(t, nil, nil, asks("run_bash", map[string]any{"command": "sleep 30"}))
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			end := make(chan TurnEnd, 1)
			go func() { end <- l.a.Run(ctx, "go", nil) }()
			sleeping(l)
			tt.end(l, cancel)
			if got := <-end; got.Reason != tt.want {
				t.Errorf("%+v", got)
			}
			l.paired()
		})
	}
	t.Run("iterator", func(t *testing.T) {
		l := newLoop(t, nil, nil, asks("run_bash", map[string]any{"command": "sleep 30"}), words("again"))
		for e := range l.a.Turn(context.Background(), "go") {
			if e.Type == EventTurnTool {
				break
			}
		}
		if l.a.Running() || len(l.s.LiveCalls()) > 0 {
			t.Error("the turn goes on")
		}
		l.paired()
		last := ""
		for e := range l.a.Turn(context.Background(), "more") {
			last = e.Type
		}
		if last != EventTurnEnded {
			t.Errorf("the last event is %s", last)
		}
		func() {
			defer func() { _ = recover() }()
			for range l.a.Turn(context.Background(), "panics") {
				panic("in the caller")
			}
		}()
		if l.a.Running() {
			t.Error("the turn goes on after a panic of its caller")
		}
	})
}

func TestOneTurnAtATime(t *testing.T) {
	begun := make(chan struct{})
	l := newLoop(t, nil, nil, stalls(begun))
	end := make(chan TurnEnd, 1)
	go func() { end <- l.a.Run(context.Background(), "go", nil) }()
	<-begun
	if got := l.a.Run(context.Background(), "too", nil); got.Reason != EndBusy || !errors.Is(got.Err, ErrTurnRuns) {
		t.Errorf("%+v", got)
	}
	// A cancellation that comes between a prompt and its turn is not lost.
	l.s.Cancel("test")
	<-end
	l.s.Cancel("test")
	if got := l.a.Run(context.Background(), "more", nil); got.Reason != EndCancelled || len(l.model.asked()) != 1 {
		t.Errorf("%+v", got)
	}
	l.a.Close()
	if got := l.a.Run(context.Background(), "more", nil); got.Reason != EndClosed || !errors.Is(got.Err, ErrAgentClosed) {
		t.Errorf("%+v", got)
	}
}
