package agentloop

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"sandboxd/policy"
)

// goHook is a hook in this process.
type goHook struct {
	name   string
	handle func(context.Context, HookEvent) (HookOutcome, error)
}

func (h goHook) Name() string { return h.name }
func (h goHook) Handle(ctx context.Context, e HookEvent) (HookOutcome, error) {
	return h.handle(ctx, e)
}

// says is a hook with one answer to tool calls.
func says(name string, out HookOutcome) goHook {
	return goHook{name, func(_ context.Context, e HookEvent) (HookOutcome, error) {
		if e.Event != EventPreToolUse && e.Event != EventPostToolUse {
			return HookOutcome{Action: HookContinue}, nil
		}
		return out, nil
	}}
}

// fails is a hook that cannot answer.
func fails(name string) goHook {
	return goHook{name, func(context.Context, HookEvent) (HookOutcome, error) { return HookOutcome{}, errors.New("broken") }}
}

func registry(t *testing.T, hooks ...Hook) *HookRegistry {
	t.Helper()
	r, err := NewHookRegistry(HookRegistryOptions{Hooks: hooks})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// decide runs the engine with the hooks of r; what nothing forbids is allowed.
func decide(t *testing.T, r *HookRegistry, rules []policy.Rule, askers []policy.Asker, c policy.Call) policy.Decision {
	t.Helper()
	w := t.TempDir()
	e, err := policy.NewEngine(policy.Config{Rules: rules, Default: policy.Allow, Workspace: w, Home: t.TempDir(), Hooks: r.PreToolUse(nil), Askers: askers})
	if err != nil {
		t.Fatal(err)
	}
	return e.Decide(t.Context(), c)
}

func bashCall(script string) policy.Call {
	c := policy.BashCall(script, "")
	c.ID, c.Session = "call1", "s1"
	return c
}

func denyRule(pattern string) []policy.Rule {
	return []policy.Rule{{Kind: policy.DenyRule, Pattern: pattern}}
}

func hookStage(d policy.Decision) string {
	for _, s := range d.Trace {
		if s.Name == policy.StageHooks {
			return s.Text
		}
	}
	return ""
}

func TestHookActionsOnADecision(t *testing.T) {
	args := func(command string) policy.Args { return policy.Args{"command": command} }
	for _, tt := range []struct {
		name    string
		hooks   []Hook
		verdict policy.Verdict
		command string
		context []string
		reason  string
	}{
		{"continue changes nothing", []Hook{says("a", HookOutcome{Action: HookContinue})}, policy.Allow, "true", nil, ""},
		{"block denies", []Hook{says("a", HookOutcome{Action: HookBlock, Reason: "not now"})}, policy.Deny, "true", nil, "hook a: not now"},
		{"the zero outcome blocks", []Hook{says("a", HookOutcome{})}, policy.Deny, "true", nil, "hook a"},
		{"an unknown action blocks", []Hook{says("a", HookOutcome{Action: 77})}, policy.Deny, "true", nil, "hook a"},
		{"mutated input is what runs", []Hook{says("a", HookOutcome{Action: HookMutateInput, Args: args("ls"), Context: "ls instead"})}, policy.Allow, "ls", []string{"ls instead"}, ""},
		{"contexts concatenate, the last change wins", []Hook{
			says("a", HookOutcome{Action: HookMutateInput, Args: args("ls -a"), Context: "one"}),
			says("b", HookOutcome{Action: HookMutateInput, Args: args("ls -b"), Context: "two"}),
			says("c", HookOutcome{Action: HookContinue}),
		}, policy.Allow, "ls -b", []string{"one", "two"}, ""},
		{"permission required raises allow to ask, and nobody is there", []Hook{
			says("a", HookOutcome{Action: HookPermissionRequired, Permission: "deploy", Tool: "run_bash"}),
			says("b", HookOutcome{Action: HookContinue}),
		}, policy.Deny, "true", nil, "nobody"},
		{"rules run on what a hook made of the call", []Hook{says("a", HookOutcome{Action: HookMutateInput, Args: args("rm -rf /x")})}, policy.Deny, "rm -rf /x", nil, "rm *"},
		{"block then continue stays a block", []Hook{
			says("a", HookOutcome{Action: HookBlock, Reason: "first"}), says("b", HookOutcome{Action: HookContinue})}, policy.Deny, "true", nil, "hook a: first"},
		{"an allow of a hook lifts nothing", []Hook{
			says("a", HookOutcome{Action: HookPermissionRequired}), says("b", HookOutcome{Action: HookAllow})}, policy.Deny, "true", nil, "nobody"},
		{"a failing hook blocks", []Hook{fails("a")}, policy.Deny, "true", nil, "hook a: failed: broken"},
		{"a panic blocks", []Hook{goHook{"a", func(context.Context, HookEvent) (HookOutcome, error) { panic("oh") }}}, policy.Deny, "true", nil, "panicked: oh"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := decide(t, registry(t, tt.hooks...), denyRule("run_bash(rm *)"), nil, bashCall("true"))
			reason := d.Reason.String()
			if d.Verdict != tt.verdict || d.Args["command"] != tt.command || !slices.Equal(d.Context, tt.context) || !strings.Contains(reason, tt.reason) {
				t.Errorf("verdict %v, command %v, context %q, reason %q; want %v, %v, %q, %q", d.Verdict, d.Args["command"], d.Context, reason, tt.verdict, tt.command, tt.context, tt.reason)
			}
		})
	}
}

func TestPermissionRequiredAsksThePerson(t *testing.T) {
	asked := ""
	person := askerFunc(func(_ context.Context, q policy.Question) (policy.Answer, error) {
		asked = q.Reason.String()
		return policy.Answer{Verdict: policy.Allow, By: "a person"}, nil
	})
	r := registry(t, says("gate", HookOutcome{Action: HookPermissionRequired, Permission: "deploy", Tool: "run_bash", Reason: "on Friday"}))
	d := decide(t, r, []policy.Rule{{Kind: policy.AllowRule, Pattern: "run_bash"}}, []policy.Asker{person}, bashCall("true"))
	if d.Verdict != policy.Allow || asked != "hook gate: deploy run_bash on Friday" {
		t.Errorf("verdict %v, the person was asked %q", d.Verdict, asked)
	}
}

type askerFunc func(context.Context, policy.Question) (policy.Answer, error)

func (f askerFunc) Ask(ctx context.Context, q policy.Question) (policy.Answer, error) {
	return f(ctx, q)
}

func TestHookTraceNamesEachHookWithItsTime(t *testing.T) {
	r := registry(t, says("first", HookOutcome{Action: HookContinue}), says("second", HookOutcome{Action: HookMutateInput, Args: policy.Args{"command": "ls"}}),
		says("third", HookOutcome{Action: HookBlock}), says("fourth", HookOutcome{Action: HookContinue}))
	text := hookStage(decide(t, r, nil, nil, bashCall("true")))
	for _, want := range []string{"hook first continued (", "hook second changed the arguments (", "hook third blocked (", "s)"} {
		if !strings.Contains(text, want) {
			t.Errorf("the trace says %q, without %q", text, want)
		}
	}
	if strings.Contains(text, "fourth") {
		t.Errorf("a hook ran after the block: %q", text)
	}
}

func TestFirstBlockEndsTheChainOfHooks(t *testing.T) {
	for _, event := range []string{EventPreToolUse, EventUserPromptSubmit, EventSubagentStart, EventPreCompact, EventStop} {
		ran := false
		r := registry(t,
			goHook{"a", func(context.Context, HookEvent) (HookOutcome, error) { return HookOutcome{Reason: "no"}, nil }},
			goHook{"b", func(context.Context, HookEvent) (HookOutcome, error) {
				ran = true
				return HookOutcome{Action: HookContinue}, nil
			}})
		res := r.Fire(t.Context(), nil, HookEvent{Event: event})
		if ran || !res.Blocked || res.By != "a" || res.Reason != "no" || len(res.Runs) != 1 {
			t.Errorf("%s: second hook ran: %v, result %+v", event, ran, res)
		}
	}
}

func TestPostToolUseChangesTheOutput(t *testing.T) {
	text := func(s string) *string { return &s }
	r := registry(t,
		says("a", HookOutcome{Action: HookMutateOutput, Output: text("one"), Context: "x"}),
		goHook{"b", func(_ context.Context, e HookEvent) (HookOutcome, error) {
			return HookOutcome{Action: HookMutateOutput, Output: text(e.Output + " two")}, nil
		}},
		fails("c"), says("d", HookOutcome{Action: HookBlock, Reason: "too late"}), says("e", HookOutcome{Action: HookContinue, Context: "y"}))
	res := r.Fire(t.Context(), nil, HookEvent{Event: EventPostToolUse, Tool: "run_bash", Output: "zero"})
	if res.Output == nil || *res.Output != "one two" || !slices.Equal(res.Context, []string{"x", "y"}) || !slices.Equal(res.Failed, []string{"c"}) || len(res.Runs) != 5 {
		t.Errorf("result %+v", res)
	}
}

// A hook that keeps the arguments, or the map it answered with, must not change
// them after they were judged.
func TestHooksCannotChangeWhatWasJudged(t *testing.T) {
	kept := policy.Args{"command": "true", "deep": map[string]any{"a": []any{"x"}}}
	evil := goHook{"evil", func(_ context.Context, e HookEvent) (HookOutcome, error) {
		e.Args["command"] = "rm -rf /"
		return HookOutcome{Action: HookContinue}, nil
	}}
	c := bashCall("true")
	d := decide(t, registry(t, evil), denyRule("run_bash(rm *)"), nil, c)
	if d.Args["command"] != "true" || c.Args["command"] != "true" {
		t.Errorf("a hook changed the arguments in place: %v", d.Args)
	}
	d = decide(t, registry(t, says("keeps", HookOutcome{Action: HookMutateInput, Args: kept})), nil, nil, bashCall("true"))
	kept["command"] = "rm -rf /"
	kept["deep"].(map[string]any)["a"].([]any)[0] = "y"
	if d.Args["command"] != "true" || d.Args["deep"].(map[string]any)["a"].([]any)[0] != "x" {
		t.Errorf("a hook changed its answer afterwards: %v", d.Args)
	}
}

func TestEveryEventReachesHooksOnce(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]int{}
	count := goHook{"count", func(_ context.Context, e HookEvent) (HookOutcome, error) {
		mu.Lock()
		defer mu.Unlock()
		seen[e.Event+" "+e.Agent]++
		return HookOutcome{Action: HookContinue}, nil
	}}
	lead := registry(t, count)
	child := lead.Child("worker-1", "worker")
	want := map[string]int{}
	for _, e := range hookEvents {
		for _, name := range append([]string{e.name}, e.aliases...) {
			if got, ok := CanonicalHookEvent(name); !ok || got != e.name {
				t.Errorf("CanonicalHookEvent(%q) = %q, %v", name, got, ok)
			}
		}
		lead.Fire(t.Context(), nil, HookEvent{Event: e.aliases[0]})
		child.Fire(t.Context(), nil, HookEvent{Event: e.name})
		want[e.name+" "], want[e.name+" worker-1"] = 1, 1
	}
	if !maps.Equal(seen, want) || len(want) != 24 {
		t.Errorf("seen %v, want each of 12 events once for the lead and once for the child", seen)
	}
	if res := lead.Fire(t.Context(), nil, HookEvent{Event: "NoSuchEvent"}); !res.Blocked {
		t.Error("an unknown event passed")
	}
}

func TestNilRegistryHasNoHooks(t *testing.T) {
	var r *HookRegistry
	res := r.Fire(t.Context(), nil, HookEvent{Event: EventPreToolUse})
	if res.Action != HookContinue || res.Blocked || r.PreToolUse(nil) != nil || r.Askers(nil) != nil || r.Child("a", "b") != nil {
		t.Errorf("a nil registry says %+v", res)
	}
	r.DropSession(nil)
}

func TestSessionsHaveRegistriesOfTheirOwn(t *testing.T) {
	block := registry(t, says("own", HookOutcome{Reason: "mine"}))
	process := registry(t, says("process", HookOutcome{Action: HookContinue}))
	a, b := &Session{id: "a"}, &Session{id: "b"}
	process.SetSession(a, block)
	pre := HookEvent{Event: EventPreToolUse}
	if !process.Fire(t.Context(), a, pre).Blocked || process.Fire(t.Context(), b, pre).Blocked || process.Fire(t.Context(), nil, pre).Blocked {
		t.Error("the hook of one session answers for another, or not for its own")
	}
	process.DropSession(a)
	if process.Fire(t.Context(), a, pre).Blocked {
		t.Error("a dropped registry still answers")
	}
}

func TestCancellationHook(t *testing.T) {
	h := &CancellationHook{}
	r := registry(t, h)
	call := func() bool {
		return r.Fire(t.Context(), nil, HookEvent{Event: EventPreToolUse, Session: "s"}).Blocked
	}
	tell := func(event string) { r.Fire(t.Context(), nil, HookEvent{Event: event, Session: "s"}) }
	if h.Cancel("s") {
		t.Error("a session that never started was cancelled")
	}
	tell(EventSessionStart)
	if call() {
		t.Error("a running session is blocked")
	}
	if !h.Cancel("s") || !call() || !h.Cancelled("s") || !r.Child("w", "").Fire(t.Context(), nil, HookEvent{Event: EventPreToolUse, Session: "s"}).Blocked {
		t.Error("a cancelled session, or its sub-agent, still calls")
	}
	if r.Fire(t.Context(), nil, HookEvent{Event: EventPreToolUse, Session: "other"}).Blocked {
		t.Error("another session is blocked")
	}
	tell(EventSessionStop)
	if len(h.cancelled) != 0 || h.Cancelled("s") {
		t.Errorf("after the stop %v is left", h.cancelled)
	}
	tell(EventSessionStart)
	if call() {
		t.Error("a new run with the same id starts cancelled")
	}
}

func TestMetricsHook(t *testing.T) {
	var log bytes.Buffer
	h := NewMetricsHook(slog.New(slog.NewTextHandler(&log, nil)))
	r := registry(t, h)
	fire := func(e HookEvent) { r.Fire(t.Context(), nil, e) }
	fire(HookEvent{Event: EventSessionStart, Session: "s"})
	for i := range 7 {
		status := StatusOK
		if i == 2 {
			status = StatusFail
		}
		fire(HookEvent{Event: EventPostToolUse, Tool: "Bash", Status: status, Session: "s"})
		fire(HookEvent{Event: EventStepComplete, Session: "s"})
	}
	fire(HookEvent{Event: EventSessionStop, Reason: "completed", Session: "s"})
	if n := strings.Count(log.String(), "session metrics"); n != 2 {
		t.Errorf("7 steps gave %d summaries, want 2:\n%s", n, log.String())
	}
	got := h.Snapshot()
	want := HookMetrics{Steps: 7, ToolCalls: 7, Errors: 1, Tools: map[string]int{"run_bash": 7}, Termination: "completed"}
	if got.Steps != want.Steps || got.ToolCalls != want.ToolCalls || got.Errors != want.Errors || got.Termination != want.Termination || !maps.Equal(got.Tools, want.Tools) {
		t.Errorf("snapshot %+v, want %+v", got, want)
	}
	if !strings.Contains(log.String(), `reason=completed`) {
		t.Errorf("the log does not say why the session stopped:\n%s", log.String())
	}
}

type maskerFunc func(string) string

func (f maskerFunc) Mask(s string) string { return f(s) }

func TestRedactionHook(t *testing.T) {
	replace := maskerFunc(func(s string) string { return strings.ReplaceAll(s, "hunter2", "[secret]") })
	seen := ""
	after := goHook{"after", func(_ context.Context, e HookEvent) (HookOutcome, error) {
		seen = e.Output
		return HookOutcome{Action: HookContinue}, nil
	}}
	res := registry(t, RedactionHook{replace}, after).Fire(t.Context(), nil, HookEvent{Event: EventPostToolUse, Output: "password hunter2"})
	if res.Output == nil || *res.Output != "password [secret]" || seen != "password [secret]" {
		t.Errorf("output %v, a later hook saw %q", res.Output, seen)
	}
	res = registry(t, RedactionHook{replace}).Fire(t.Context(), nil, HookEvent{Event: EventPostToolUse, Output: "plain"})
	if res.Output != nil {
		t.Errorf("an output without a secret became %q", *res.Output)
	}
	s := &Session{id: "s", secrets: NewRedactor([]string{"MY_TOKEN=correct-horse-battery"})}
	res = registry(t, RedactionHook{}).Fire(t.Context(), s, HookEvent{Event: EventPostToolUse, Output: "it is correct-horse-battery"})
	if res.Output == nil || *res.Output != "it is [secret]" {
		t.Errorf("a value of the session's variables came through: %v", res.Output)
	}
	res = registry(t, RedactionHook{}).Fire(t.Context(), nil, HookEvent{Event: EventPostToolUse, Output: "AKIAABCDEFGHIJKLMNOP"})
	if res.Output == nil || *res.Output != "[secret]" {
		t.Errorf("a known form came through: %v", res.Output)
	}
	broken := maskerFunc(func(string) string { panic("bug") })
	res = registry(t, RedactionHook{broken}).Fire(t.Context(), nil, HookEvent{Event: EventPostToolUse, Output: "hunter2"})
	if res.Output == nil || strings.Contains(*res.Output, "hunter2") {
		t.Errorf("a broken masker let the output pass: %v", res.Output)
	}
}

// Whatever comes later, the strongest that any hook wanted stands.
func TestContinueNeverOverwritesAnEarlierAction(t *testing.T) {
	for _, first := range []HookAction{HookBlock, HookPermissionRequired, HookMutateInput, HookContinue} {
		out := HookOutcome{Action: first, Reason: "first"}
		if first == HookMutateInput {
			out.Args = policy.Args{"command": "ls"}
		}
		r := registry(t, says("a", out), says("b", HookOutcome{Action: HookContinue}), says("c", HookOutcome{Action: HookAllow}))
		res := r.Fire(t.Context(), nil, HookEvent{Event: EventPreToolUse, Tool: "run_bash"})
		if res.Action != first || first != HookContinue && (res.By != "a" || res.Reason != "first") {
			t.Errorf("%v then continue became %v by %q", first, res.Action, res.By)
		}
	}
}
