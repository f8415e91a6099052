package agentloop

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"sandboxd/policy"
)

// spawnTool starts sub-agents with the request that its arguments are.
var spawnTool = testTool{name: "subagent", traits: Traits{Unqueued: true}, call: func(ctx context.Context, r *ToolRun) (string, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() {})()
	go func() {
		select {
		case <-r.Interrupted():
			cancel(ErrCancelled)
		case <-ctx.Done():
		}
	}()
	var req SpawnRequest
	text, _ := json.Marshal(r.Call.Args)
	if err := json.Unmarshal(text, &req); err != nil {
		return "", err
	}
	end, err := r.Agent().Spawn(ctx, req)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("[%s] %s", end.Reason, end.Text), nil
}}

// spawns is a call that starts a sub-agent.
func spawns(r SpawnRequest) modelStep {
	if r.Prompt == "" {
		r.Prompt = "the task"
	}
	return asks("subagent", r)
}

// hookLog is a hook that notes what it is told.
type hookLog struct {
	mu     sync.Mutex
	events []HookEvent
}

func (h *hookLog) Name() string { return "log" }

func (h *hookLog) Handle(_ context.Context, e HookEvent) (HookOutcome, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
	return HookOutcome{Action: HookContinue}, nil
}

// of are the events of a kind, as "kind agent type tool".
func (h *hookLog) of(agent string, kinds ...string) (out []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.events {
		if e.Agent == agent && (kinds == nil || slices.Contains(kinds, e.Event)) {
			out = append(out, strings.TrimSpace(strings.Join([]string{e.Event, e.AgentType, e.Tool}, " ")))
		}
	}
	return out
}

// family is a loop that can start sub-agents.
type family struct {
	*loopWorld
	hooks *hookLog
}

// newFamily makes one under a policy that asks for what its rules do not decide.
func newFamily(t *testing.T, edit func(*PolicyInForce), more []Tool, steps ...modelStep) *family {
	t.Helper()
	f := &family{hooks: &hookLog{}}
	f.loopWorld = &loopWorld{model: &playedModel{steps: steps}, store: newMemoryConversations()}
	tools := append([]Tool{describedBash{}, describedRead{}, spawnTool}, more...)
	f.world = newWorld(t, func(p *PolicyInForce) {
		p.Config.Rules = []policy.Rule{rule(policy.AllowRule, "subagent"), rule(policy.AllowRule, "run_bash(echo *)"), rule(policy.AllowRule, "look")}
		if edit != nil {
			edit(p)
		}
	}, func(w *world) {
		w.opts.Tools = tools
		w.opts.Hooks = registry(t, f.hooks)
	})
	f.o = AgentOptions{Session: f.s, Dispatcher: f.d, Provider: f.model, Config: AgentConfig{Model: "m"}, Store: f.store}
	f.a = f.agent()
	return f
}

// define writes a definition of the user's.
func (f *family) define(name, head string) {
	f.host.file("home/u/.claude/agents/"+name+".md", "---\nname: "+name+"\ndescription: d\n"+head+"---\nYou are "+name+".\n", 0o644)
}

// told are the results that the n-th request of the model holds.
func (f *family) told(n int) string {
	var out []string
	for _, m := range f.model.asked()[n].Messages {
		for _, b := range m.Blocks {
			if b.Kind == BlockToolResult {
				out = append(out, string(b.Status)+": "+b.Text)
			}
		}
	}
	return strings.Join(out, "\n")
}

func bashes(script string) modelStep { return asks("run_bash", map[string]any{"command": script}) }
