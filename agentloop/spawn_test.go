package agentloop

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestSubAgentWorksSilentlyOnFreshMessages is rows 123 and 124.
func TestSubAgentWorksSilentlyOnFreshMessages(t *testing.T) {
	f := newFamily(t, nil, nil,
		bashes("echo before"), spawns(SpawnRequest{Prompt: "find it", Description: "a search"}),
		bashes("echo inside"), words("found it"), words("done"))
	sub := f.s.Events().Subscribe(0)
	end, _ := f.run("go")
	if end.Text != "done" || end.Usage.Output != 20*3+10*2 || end.Steps != 3 {
		t.Fatalf("%+v", end)
	}
	requests := f.model.asked()
	child := requests[2]
	if len(child.Messages) != 1 || child.Messages[0].Text() != "find it" || child.Messages[0].Blocks[0].Origin != OriginModel || !child.NoThinking || requests[0].NoThinking {
		t.Errorf("the first request of the child: %+v", child.Messages)
	}
	if text := strings.Join(child.System, "\n"); !strings.Contains(text, "You are a sub-agent") || strings.Contains(strings.Join(requests[0].System, "\n"), "You are a sub-agent") {
		t.Errorf("system %q", text)
	}
	if !strings.Contains(f.told(4), "ok: ") || !strings.Contains(f.told(4), "[completed] found it") {
		t.Errorf("the parent is told %q", f.told(4))
	}
	sub.Close()
	var kinds []string
	for e := range sub.C {
		if strings.Contains(string(e.Data), "explore-1") || strings.Contains(string(e.Data), "general-1") {
			kinds = append(kinds, e.Type)
		}
	}
	if !slices.Equal(kinds, []string{EventSubagentStarted, EventSubagentEnded}) {
		t.Errorf("events that name the child: %q", kinds)
	}
	// Its rows name it and its session.
	var rows []string
	for _, r := range f.log.rows {
		if r.Agent == "general-1" {
			rows = append(rows, string(r.Status)+" "+r.Tool)
			if r.Session != f.s.ID()+"/general-1" {
				t.Errorf("session %s", r.Session)
			}
		}
	}
	if !slices.Equal(rows, []string{"SUBAGENT_START subagent", "allow run_bash", "ok run_bash", "ok turn"}) {
		t.Errorf("rows %q", rows)
	}
	if len(f.s.heirs()) != 0 {
		t.Error("the child's session is left")
	}
	for id, c := range f.store.heads {
		if c.Agent == "general-1" && (c.Parent != f.a.ID() || id == f.a.ID()) {
			t.Errorf("conversation %+v", c)
		}
	}
}

// TestHooksFireForSubAgents is rows 71, 130 and 131.
func TestHooksFireForSubAgents(t *testing.T) {
	f := newFamily(t, nil, nil, spawns(SpawnRequest{Type: "explore"}), bashes("echo no such tool"), words("x"),
		spawns(SpawnRequest{}), bashes("echo hi"), words("x"), words("y"))
	f.run("go")
	if got := f.hooks.of("explore-1"); !slices.Equal(got, []string{"SubagentStart explore", "StepComplete explore", "StepComplete explore", "SubagentStop explore"}) {
		t.Errorf("explore: %q", got)
	}
	want := []string{"SubagentStart general", "PreToolUse general run_bash", "PostToolUse general run_bash", "StepComplete general", "StepComplete general", "SubagentStop general"}
	if got := f.hooks.of("general-2"); !slices.Equal(got, want) {
		t.Errorf("general: %q", got)
	}
	if got := f.hooks.of("", EventStop, EventSubagentStart, EventSubagentStop, EventUserPromptSubmit); !slices.Equal(got, []string{"UserPromptSubmit", "Stop"}) {
		t.Errorf("lead: %q", got)
	}
	block := compactHook(func(_ context.Context, e HookEvent) (HookOutcome, error) {
		if e.Event == EventSubagentStart {
			return HookOutcome{Action: HookBlock, Reason: "not today"}, nil
		}
		return HookOutcome{Action: HookContinue}, nil
	})
	f = newFamily(t, nil, nil)
	f.d.o.Hooks = registry(t, block)
	f.model.steps = []modelStep{spawns(SpawnRequest{}), words("y")}
	f.run("go")
	if !strings.Contains(f.told(1), "hook test blocked the sub-agent: not today") || len(f.model.asked()) != 2 {
		t.Errorf("told %s", f.told(1))
	}
}

// TestCancelReachesSubAgents: within 250 ms, at every depth, and the stop hooks are
// told once.
func TestCancelReachesSubAgents(t *testing.T) {
	for _, how := range []string{"session", "context", "end of the session"} {
		t.Run(how, func(t *testing.T) {
			waits := make(chan struct{})
			wait := func(ctx context.Context, _ ModelRequest, _ func(ModelDelta)) (ModelAnswer, error) {
				close(waits)
				<-ctx.Done()
				return ModelAnswer{}, ctx.Err()
			}
			f := newFamily(t, nil, nil, spawns(SpawnRequest{}), spawns(SpawnRequest{}), wait)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(chan TurnEnd, 1)
			go func() { done <- f.a.Run(ctx, "go", nil) }()
			<-waits
			begun := time.Now()
			want := EndCancelled
			switch how {
			case "session":
				f.s.Cancel("test")
			case "context":
				cancel()
			default:
				want = EndClosed
				go f.s.end(context.Background(), "test")
			}
			end := <-done
			if took := time.Since(begun); end.Reason != want || took > 700*time.Millisecond {
				t.Errorf("%+v after %v", end, took)
			}
			for _, agent := range []string{"general-1", "general-1/general-2"} {
				if got := f.hooks.of(agent, EventSubagentStart, EventSubagentStop); len(got) != 2 {
					t.Errorf("%s: %q", agent, got)
				}
			}
			f.paired()
			if how != "end of the session" {
				f.model.steps = append(f.model.steps, words("again"))
				if end := f.a.Run(t.Context(), "go on", nil); end.Text != "again" {
					t.Errorf("the next turn: %+v", end)
				}
			}
		})
	}
}

// TestSubAgentsShareTheBudget: the number of sub-agents, their depth, money, and the
// steps of the definition.
func TestSubAgentsShareTheBudget(t *testing.T) {
	f := newFamily(t, nil, nil)
	f.o.Config.Limits = AgentLimits{Spawns: 2, Depth: 2, MaxSteps: 20}
	f.a = f.agent()
	f.model.steps = []modelStep{
		spawns(SpawnRequest{}), spawns(SpawnRequest{}), spawns(SpawnRequest{}), words("third level"), words("second level"),
		spawns(SpawnRequest{}), words("end")}
	f.run("go")
	offered := func(n int) bool {
		return slices.ContainsFunc(f.model.asked()[n].Tools, func(s ToolSchema) bool { return s.Name == "subagent" })
	}
	if !offered(1) || offered(2) {
		t.Error("the deepest level is offered sub-agents, or the one above is not")
	}
	if !strings.Contains(f.told(3), "go no deeper than 2 levels") || !strings.Contains(f.told(6), "no further sub-agent in this turn: it has started 2") {
		t.Errorf("told %s and %s", f.told(3), f.told(6))
	}

	f = newFamily(t, nil, nil)
	f.o.Config.Limits = AgentLimits{Cost: 0.05, MaxSteps: 20}
	f.o.Config.Prices = map[string]Price{"m": {Input: 1, Output: 1}}
	f.a = f.agent()
	look := counting("look", news)
	f.model.steps = []modelStep{filling(10_000, spawns(SpawnRequest{}))}
	for i := range 9 {
		f.model.steps = append(f.model.steps, filling(10_000, bashes(fmt.Sprint("echo ", i))))
	}
	end, _ := f.run("go")
	if end.Reason != EndCost || *end.Cost > 0.05 || len(f.model.asked()) > 5 || *look.calls != 0 {
		t.Errorf("%+v after %d requests", end, len(f.model.asked()))
	}

	f = newFamily(t, nil, nil, spawns(SpawnRequest{Type: "short"}), bashes("echo 1"), words("had to"), words("done"))
	f.define("short", "maxTurns: 2\n")
	f.run("go")
	if !strings.Contains(f.told(3), "[max-steps] had to") || !f.model.asked()[2].NoTools {
		t.Errorf("told %s", f.told(3))
	}

	f = newFamily(t, nil, nil, spawns(SpawnRequest{Model: "other"}), words("done"))
	f.o.Config.Limits.Cost, f.o.Config.Prices = 1, map[string]Price{"m": {Input: 1}}
	f.a = f.agent()
	f.run("go")
	if !strings.Contains(f.told(1), `model "other": a cost budget is set and the price`) {
		t.Errorf("told %s", f.told(1))
	}
}

// TestSubAgentHasDetectorsOfItsOwn is row 128.
func TestSubAgentHasDetectorsOfItsOwn(t *testing.T) {
	look := counting("look", news)
	same := asks("look", map[string]any{"at": 1})
	f := newFamily(t, nil, []Tool{look}, same, same, spawns(SpawnRequest{}), same, same, same, words("x"), same, words("y"))
	f.run("go")
	// Two of the lead, two of the child, and after it one of the lead again: the
	// start of the child stood between.
	if *look.calls != 5 || !strings.Contains(f.told(6), "not run: This call") || strings.Contains(f.told(8), "not run") {
		t.Errorf("%d calls", *look.calls)
	}
	// A child compacts by itself, and its parent does not.
	big := counting("look", func(n int) string { return linesOf(fmt.Sprint("p", n), 100) })
	f = newFamily(t, nil, []Tool{big}, spawns(SpawnRequest{Prompt: "the child's task"}),
		filling(20_000, asks("look", `{"at":1}`)), filling(41_000, asks("look", `{"at":2}`)), words("summary of the child"), words("x"), words("y"))
	f.run("go")
	child, lead := fmt.Sprint(f.model.asked()[4].Messages), fmt.Sprint(f.model.asked()[5].Messages)
	if !strings.Contains(child, "summary of the child") || !strings.Contains(child, "the child's task") || strings.Contains(lead, "summary of the child") {
		t.Errorf("child %s\nlead %s", child, lead)
	}
}
