package agentloop

import (
	"context"
	"slices"
	"strings"
	"testing"

	"sandboxd/policy"
)

// momentLog is an audit log in which something happens while the row of a decision
// is written: after the decision, before the start.
type momentLog struct {
	*memoryLog
	during func(AuditRecord)
}

func (l *momentLog) Append(ctx context.Context, r AuditRecord) (int64, error) {
	n, err := l.memoryLog.Append(ctx, r)
	if l.during != nil {
		l.during(r)
	}
	return n, err
}

// What changes between the decision and the start holds for the call: it is decided
// again, with a row that says so, and only then runs or not.
func TestChangeBetweenDecisionAndStartHolds(t *testing.T) {
	blocking := HookSpec{Event: "PreToolUse", Command: "echo stopped >&2; exit 2", Source: user()}
	for _, tt := range []struct {
		name   string
		change func(w *world) error
		want   Status
	}{
		{"nothing", func(*world) error { return nil }, StatusOK},
		{"an unrelated rule", func(w *world) error { return w.s.AddRule(policy.DenyRule, "run_bash(rm *)", "t") }, StatusOK},
		{"the same mode again", func(w *world) error { return w.s.SetMode(policy.ModeAcceptEdits) }, StatusOK},
		{"mode plan", func(w *world) error { return w.s.SetMode(policy.ModePlan) }, StatusDeny},
		{"mode dontAsk", func(w *world) error { return w.s.SetMode(policy.ModeDontAsk) }, StatusDeny},
		{"a deny rule", func(w *world) error { return w.s.AddRule(policy.DenyRule, "run_bash(touch *)", "t") }, StatusDeny},
		{"an ask rule and nobody there", func(w *world) error { return w.s.AddRule(policy.AskRule, "run_bash(touch *)", "t") }, StatusDeny},
		{"a policy that denies", func(w *world) error {
			w.edit = func(p *PolicyInForce) { p.Config.Rules = []policy.Rule{rule(policy.DenyRule, "run_bash(touch *)")} }
			return w.m.Reload(context.Background())
		}, StatusDeny},
		{"a policy with a hook that blocks", func(w *world) error {
			w.edit = func(p *PolicyInForce) { p.Config.Mode, p.Hooks = policy.ModeAcceptEdits, []HookSpec{blocking} }
			return w.m.Reload(context.Background())
		}, StatusBlocked},
		{"the session is cancelled", func(w *world) error { w.s.Cancel("t"); return nil }, StatusCancelled},
	} {
		t.Run(tt.name, func(t *testing.T) {
			log := &momentLog{memoryLog: &memoryLog{}}
			w := newWorld(t, nil, func(w *world) { w.opts.Audit, w.opts.Hooks = log, registry(t) })
			if err := w.s.SetMode(policy.ModeAcceptEdits); err != nil {
				t.Fatal(err)
			}
			done := false
			log.during = func(r AuditRecord) {
				if done || r.Status != StatusAllow {
					return
				}
				done = true
				if err := tt.change(w); err != nil {
					t.Error(err)
				}
			}
			res := w.bash("touch made")
			rows := log.statuses()
			if res.Status != tt.want || w.made("made") != (tt.want == StatusOK) || res.Ran != w.made("made") || rows[len(rows)-1] != tt.want {
				t.Errorf("status %s %q, made %v, rows %v; want %s", res.Status, res.Error, w.made("made"), rows, tt.want)
			}
			if rows[0] != StatusAllow {
				t.Errorf("the change came before the decision: rows %v", rows)
			}
		})
	}
}

// funcTool is a tool that is a function.
type funcTool struct {
	bashTool
	call func(ctx context.Context, r *ToolRun) (string, error)
}

func (f funcTool) Call(ctx context.Context, r *ToolRun) (string, error) { return f.call(ctx, r) }

// A call that started is confined by what it was decided by: what a change after that
// would open is not open for it, and plan closes it at once.
func TestCallIsConfinedByWhatItWasDecidedBy(t *testing.T) {
	for _, tt := range []struct {
		name   string
		mode   policy.Mode
		change func(w *world) error
		made   []string
	}{
		{"nothing changes", policy.ModeDefault, func(*world) error { return nil }, []string{"made"}},
		{"nothing changes in plan", policy.ModePlan, func(*world) error { return nil }, nil},
		{"out of plan", policy.ModePlan, func(w *world) error { return w.s.SetMode(policy.ModeDefault) }, nil},
		{"into plan", policy.ModeDefault, func(w *world) error { return w.s.SetMode(policy.ModePlan) }, nil},
		{"a rule that opens more", policy.ModeDefault, func(w *world) error {
			return w.s.AddRule(policy.AllowRule, "effect(write "+w.host.path("beside")+")", "t")
		}, []string{"made"}},
		{"a policy that opens more", policy.ModeDefault, func(w *world) error {
			w.edit = func(p *PolicyInForce) {
				p.Grant.Paths = []policy.PathGrant{from(policy.SourceUser, w.host.path("beside"), policy.GrantWrite)}
				p.Config.Rules = []policy.Rule{rule(policy.AllowRule, "run_bash")}
			}
			return w.m.Reload(context.Background())
		}, []string{"made"}},
		{"a policy without a denial", policy.ModeDefault, func(w *world) error {
			w.edit = func(p *PolicyInForce) { p.Config.Rules = []policy.Rule{rule(policy.AllowRule, "run_bash")} }
			return w.m.Reload(context.Background())
		}, []string{"made"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var w *world
			tool := funcTool{call: func(ctx context.Context, r *ToolRun) (string, error) {
				if err := tt.change(w); err != nil {
					t.Error(err)
				}
				return bashTool{}.Call(ctx, r)
			}}
			w = newWorld(t, func(p *PolicyInForce) {
				p.Config.Rules = []policy.Rule{rule(policy.AllowRule, "run_bash"), rule(policy.DenyRule, "effect(write closed)")}
			}, func(w *world) {
				w.opts.Tools = []Tool{tool}
				w.host.dir("beside")
				w.host.dir("home/u/w/closed")
			})
			if err := w.s.SetMode(tt.mode); err != nil {
				t.Fatal(err)
			}
			// A program that was there before: what it does is not foreseen.
			w.host.file("home/u/w/writer", "#!/bin/sh\ntouch made closed/made "+w.host.path("beside/made")+"\n", 0o755)
			if res := w.bash("./writer"); !res.Ran {
				t.Fatalf("%s %q", res.Status, res.Error)
			}
			var got []string
			for _, name := range []string{"made", "closed/made", "../../../beside/made"} {
				if w.made(name) {
					got = append(got, name)
				}
			}
			if !slices.Equal(got, tt.made) {
				t.Errorf("made %v, want %v", got, tt.made)
			}
		})
	}
	// Once it is in force, each change opens what it says.
	w := newWorld(t, allowing("run_bash"))
	beside := w.host.dir("beside")
	if err := w.s.AddRule(policy.AllowRule, "effect(write "+beside+")", "t"); err != nil {
		t.Fatal(err)
	}
	if res := w.bash("touch " + beside + "/made"); !w.made("../../../beside/made") {
		t.Errorf("the call after it: %s %q", res.Status, res.Error)
	}
}

// switching is an answerer, or a hook, that changes the mode before it answers.
type switching struct {
	w    *world
	mode func() policy.Mode
}

func (s switching) Ask(context.Context, policy.Question) (policy.Answer, error) {
	return policy.Answer{Verdict: policy.Allow, By: "test"}, s.w.s.SetMode(s.mode())
}
func (s switching) Name() string { return "switching" }
func (s switching) Handle(context.Context, HookEvent) (HookOutcome, error) {
	return HookOutcome{Action: HookContinue}, s.w.s.SetMode(s.mode())
}
func (s switching) event() string           { return EventPreToolUse }
func (s switching) concerns(HookEvent) bool { return true }

// The mode is switched to plan by who is asked: what was answered stands, and writes
// nothing. By a hook: the call is asked about, and nobody is there.
func TestModeThatIsSwitchedDuringTheDecision(t *testing.T) {
	var w *world
	s := switching{mode: func() policy.Mode { return policy.ModePlan }}
	w = newWorld(t, func(p *PolicyInForce) { p.Config.Askers = []policy.Asker{&s} })
	s.w = w
	if res := w.bash("touch made"); w.made("made") || !res.Ran || w.s.Mode() != policy.ModePlan {
		t.Errorf("asker: ran %v, made %v, mode %v: %s %q", res.Ran, w.made("made"), w.s.Mode(), res.Status, res.Error)
	}
	hook := switching{mode: s.mode}
	w = newWorld(t, func(p *PolicyInForce) { p.Config.Mode = policy.ModeAcceptEdits }, func(w *world) { w.opts.Hooks = registry(t, &hook) })
	hook.w = w
	if res := w.bash("touch made"); w.made("made") || res.Ran || res.Status != StatusDeny {
		t.Errorf("hook: ran %v, made %v: %s %q", res.Ran, w.made("made"), res.Status, res.Error)
	}
}

// Changes that never end do not hold a call for ever.
func TestRestlessPolicyRefusesTheCall(t *testing.T) {
	log := &momentLog{memoryLog: &memoryLog{}}
	w := newWorld(t, allowing("run_bash(touch *)"), func(w *world) { w.opts.Audit = log })
	n := 0
	log.during = func(AuditRecord) {
		n++
		if err := w.s.SetMode([]policy.Mode{policy.ModeDefault, policy.ModeAcceptEdits}[n%2]); err != nil {
			t.Error(err)
		}
	}
	res := w.bash("touch made")
	if w.made("made") || res.Ran || !strings.Contains(res.Error, "changes faster") || n > maxRedecisions+2 {
		t.Errorf("ran %v after %d decisions: %s %q", res.Ran, n, res.Status, res.Error)
	}
	log.during = nil
	if res := w.bash("touch made"); !w.made("made") {
		t.Errorf("the next call: %s %q", res.Status, res.Error)
	}
}
