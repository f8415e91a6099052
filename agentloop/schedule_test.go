package agentloop

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sandboxd/policy"
)

// TestPartitionOfATurn is row 19.
func TestPartitionOfATurn(t *testing.T) {
	for _, tt := range []struct {
		calls string // r is safe beside others, w is not
		want  [][]int
	}{
		{"rrrwrr", [][]int{{0, 1, 2}, {3}, {4, 5}}},
		{"", nil},
		{"w", [][]int{{0}}},
		{"r", [][]int{{0}}},
		{"ww", [][]int{{0}, {1}}},
		{"wrw", [][]int{{0}, {1}, {2}}},
		{"rwwr", [][]int{{0}, {1}, {2}, {3}}},
	} {
		safe := make([]bool, len(tt.calls))
		for i, c := range tt.calls {
			safe[i] = c == 'r'
		}
		if got := partition(safe); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("partition(%s) = %v, want %v", tt.calls, got, tt.want)
		}
	}
}

// TestPartitionKeepsOrderAndSafety: every call once and in order, nothing unsafe
// beside another, and no batch that could be one with its neighbour.
func TestPartitionKeepsOrderAndSafety(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		safe := rapid.SliceOfN(rapid.Bool(), 0, 40).Draw(t, "safe")
		next := 0
		before := false
		for _, batch := range partition(safe) {
			for _, i := range batch {
				if i != next {
					t.Fatalf("call %d stands where %d should", i, next)
				}
				next++
				if len(batch) > 1 && !safe[i] {
					t.Fatalf("call %d is not safe, and not alone in %v", i, batch)
				}
			}
			if len(batch) == 0 || before && safe[batch[0]] {
				t.Fatalf("batch %v is empty, or belongs to the one before", batch)
			}
			before = safe[batch[0]]
		}
		if next != len(safe) {
			t.Fatalf("%d of %d calls", next, len(safe))
		}
	})
}

// spans notes when calls run.
type spans struct {
	mu   sync.Mutex
	live int
	most int
	log  []string
}

// tool is a tool whose calls take a while.
func (s *spans) tool(name string, traits Traits) testTool {
	return testTool{name: name, traits: traits, call: func(ctx context.Context, r *ToolRun) (string, error) {
		what, _ := r.Call.Args["n"].(string)
		s.note("+"+what, 1)
		defer s.note("-"+what, -1)
		select {
		case <-time.After(30 * time.Millisecond):
			return what, nil
		case <-ctx.Done():
			return "", cancelCause(ctx)
		}
	}}
}

func (s *spans) note(what string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, what)
	s.live += n
	s.most = max(s.most, s.live)
}

func n(name string) map[string]any { return map[string]any{"n": name} }

var safeTraits = Traits{ConcurrencySafe: true, ReadOnly: true, Harmless: true, Interrupt: InterruptCancel}

// TestCallsOfATurnRunByTheirTraits is rows 13 and 19: safe calls overlap, so many
// at once as may be; others never do; results stand in the order of the calls.
func TestCallsOfATurnRunByTheirTraits(t *testing.T) {
	s := &spans{}
	calls := []any{}
	for i := range 12 {
		calls = append(calls, "look", n(fmt.Sprint("r", i)))
	}
	calls = append(calls, "change", n("w0"), "change", n("w1"), "look", n("r12"), "look", n("r13"))
	l := newLoop(t, []Tool{s.tool("look", safeTraits), s.tool("change", Traits{})}, func(l *loopWorld) { l.o.Config.Limits.Parallel = 5 }, asks(calls...), words("ok"))
	end, events := l.run("go")
	if end.Reason != EndCompleted || end.Calls != 16 {
		t.Fatalf("%+v", end)
	}
	if s.most != 5 {
		t.Errorf("%d calls at once, want 5", s.most)
	}
	for i, b := range l.results() {
		if want := calls[2*i+1].(map[string]any)["n"]; b.Text != want {
			t.Errorf("result %d is %q, want %v", i, b.Text, want)
		}
	}
	// Everything before the first change has ended, and the changes are alone.
	order := strings.Join(s.log[24:28], " ")
	if order != "+w0 -w0 +w1 -w1" {
		t.Errorf("order %v", s.log)
	}
	batches := map[int]int{}
	for _, e := range events {
		if tool, ok := e.Data.(TurnTool); ok {
			batches[tool.Batch]++
		}
	}
	if want := map[int]int{1: 12, 2: 1, 3: 1, 4: 2}; !reflect.DeepEqual(batches, want) {
		t.Errorf("batches %v, want %v", batches, want)
	}
}

// TestToolsCarryTheirSafety is rows 11 and 12: each tool says how it may be treated,
// and one that says nothing is treated with care.
func TestToolsCarryTheirSafety(t *testing.T) {
	var zero Traits
	if zero.ConcurrencySafe || zero.ReadOnly || zero.SiblingAbort || zero.Harmless || zero.Unqueued || zero.Interrupt != InterruptBlock {
		t.Errorf("the zero traits open something: %+v", zero)
	}
	var _ Tool = testTool{}
	var _ Ruled = ruledTool{}
	if _, ruled := Tool(testTool{}).(Ruled); ruled {
		t.Error("a tool without rules has some")
	}
	for want, i := range map[string]Interrupt{"block": InterruptBlock, "cancel": InterruptCancel, "term": InterruptTerm} {
		if i.String() != want {
			t.Errorf("%d is called %s", i, i)
		}
	}
	s := &spans{}
	l := newLoop(t, []Tool{s.tool("silent", zero)}, nil, asks("silent", n("a"), "silent", n("b"), "silent", n("c")), words("ok"))
	if end, _ := l.run("go"); end.Calls != 3 || s.most != 1 {
		t.Errorf("%+v, %d at once", end, s.most)
	}
}

// changedTraits is safe beside others unless its argument says that it writes.
type changedTraits struct{ testTool }

func (c changedTraits) Traits(args policy.Args) Traits {
	if args["write"] == true {
		return Traits{}
	}
	return safeTraits
}

// TestHookThatMakesACallUnsafeMakesItRunAlone: traits are those of the final
// arguments.
func TestHookThatMakesACallUnsafeMakesItRunAlone(t *testing.T) {
	s := &spans{}
	hook := goHook{name: "h", handle: func(_ context.Context, e HookEvent) (HookOutcome, error) {
		if e.Event == EventPreToolUse && e.Args["n"] == "b" {
			return HookOutcome{Action: HookMutateInput, Args: policy.Args{"n": "b", "write": true}}, nil
		}
		return HookOutcome{Action: HookContinue}, nil
	}}
	l := newLoopWith(t, loopParts{hooks: []Hook{hook}, tools: []Tool{changedTraits{s.tool("look", safeTraits)}}}, nil,
		asks("look", n("a"), "look", n("b"), "look", n("c"), "look", n("d")), words("ok"))
	if end, _ := l.run("go"); end.Reason != EndCompleted {
		t.Fatalf("%+v", end)
	}
	at := slices.Index(s.log, "+b")
	if s.log[at+1] != "-b" || strings.Count(strings.Join(s.log[:at], ""), "+") != strings.Count(strings.Join(s.log[:at], ""), "-") {
		t.Errorf("not alone: %v", s.log)
	}
	if s.most < 2 {
		t.Errorf("the others did not overlap: %v", s.log)
	}
}

// TestSiblingAbort is row 15: a call that fails and says so ends those beside it;
// without the flag they finish; a denied one ends nobody.
func TestSiblingAbort(t *testing.T) {
	fail := func(traits Traits) testTool {
		return testTool{name: "fetch", traits: traits, call: func(context.Context, *ToolRun) (string, error) {
			time.Sleep(10 * time.Millisecond) // its siblings run by now
			return "", errors.New("no route")
		}}
	}
	slow := testTool{name: "slow", traits: safeTraits, call: func(ctx context.Context, r *ToolRun) (string, error) {
		select {
		case <-time.After(300 * time.Millisecond):
			return "whole", nil
		case <-ctx.Done():
			return "half", cancelCause(ctx)
		}
	}}
	abort := safeTraits
	abort.SiblingAbort = true
	for _, tt := range []struct {
		name   string
		traits Traits
		deny   bool
		want   []Status // of slow, and of one that waits for its turn
	}{
		{"flag", abort, false, []Status{StatusCancelled, StatusCancelled}},
		{"no flag", safeTraits, false, []Status{StatusOK, StatusOK}},
		{"denied", abort, true, []Status{StatusOK, StatusOK}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLoop(t, []Tool{fail(tt.traits), slow}, func(l *loopWorld) {
				l.o.Config.Limits.Parallel = 2
				if tt.deny {
					l.s.AddRule(policy.DenyRule, "fetch", "t")
				}
			}, asks("slow", n("a"), "fetch", n("b"), "slow", n("c"), "run_bash", map[string]any{"command": "echo after"}), words("ok"))
			if end, _ := l.run("go"); end.Reason != EndCompleted {
				t.Fatalf("%+v", end)
			}
			r := l.results()
			if got := []Status{r[0].Status, r[2].Status}; !slices.Equal(got, tt.want) {
				t.Errorf("%v, want %v: %+v", got, tt.want, r)
			}
			if tt.want[0] == StatusCancelled && (!strings.Contains(r[0].Text, "a call of fetch that ran beside it failed") || !strings.Contains(r[2].Text, "not run")) {
				t.Errorf("texts %q %q", r[0].Text, r[2].Text)
			}
			if r[3].Text != "after" {
				t.Errorf("the batch after it: %+v", r[3])
			}
		})
	}
}

// TestCallsThatWaitForOthersTakeNoPlace: with one place for all, a call that makes
// calls of its own would wait for ever.
func TestCallsThatWaitForOthersTakeNoPlace(t *testing.T) {
	outer := testTool{name: "outer", traits: Traits{Unqueued: true}, call: func(ctx context.Context, r *ToolRun) (string, error) {
		res := r.d.Dispatch(ctx, r.Session, ToolCall{Call: policy.BashCall("echo inner", "")})
		return res.Output, res.Err
	}}
	w := newWorld(t, denying(), oneAtATime, func(w *world) { w.opts.Tools = []Tool{outer} })
	if err := w.s.AddRule(policy.AllowRule, "outer", "t"); err != nil {
		t.Fatal(err)
	}
	if res := w.call("outer", policy.Args{}); res.Output != "inner\n" {
		t.Errorf("%+v", res)
	}
	release := w.holdTurns() // the place is free again, once
	release()
}

func TestGateLetsOneAloneOrSomeBesideEachOther(t *testing.T) {
	g := newGate(3)
	var mu sync.Mutex
	beside, lonely := 0, 0
	var wait sync.WaitGroup
	for i := range 60 {
		wait.Go(func() {
			alone := i%7 == 0
			leave, err := g.enter(t.Context(), alone)
			if err != nil {
				t.Error(err)
				return
			}
			defer leave()
			mu.Lock()
			if alone {
				lonely++
			} else {
				beside++
			}
			if lonely > 1 || lonely == 1 && beside > 0 || beside > 3 {
				t.Errorf("%d alone, %d beside each other", lonely, beside)
			}
			mu.Unlock()
			time.Sleep(time.Millisecond)
			mu.Lock()
			if alone {
				lonely--
			} else {
				beside--
			}
			mu.Unlock()
		})
	}
	wait.Wait()
	leave, _ := g.enter(t.Context(), false)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(ErrCancelled)
	if _, err := g.enter(ctx, true); !errors.Is(err, ErrCancelled) {
		t.Errorf("error %v", err)
	}
	leave()
	if leave, err := g.enter(t.Context(), true); err != nil {
		t.Errorf("a place is lost: %v", err)
	} else {
		leave()
	}
}
