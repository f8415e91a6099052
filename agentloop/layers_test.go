package agentloop

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"sandboxd/policy"
)

// hookFunc is a hook of the process.
type hookFunc struct {
	name string
	at   string
	do   func(HookEvent) HookOutcome
}

func (h hookFunc) Name() string            { return h.name }
func (h hookFunc) event() string           { return h.at }
func (h hookFunc) concerns(HookEvent) bool { return true }

func (h hookFunc) Handle(_ context.Context, e HookEvent) (HookOutcome, error) {
	if e.Event != h.at {
		return HookOutcome{Action: HookContinue}, nil
	}
	return h.do(e), nil
}

func withHooks(t *testing.T, hooks ...Hook) func(*world) {
	return func(w *world) {
		r, err := NewHookRegistry(HookRegistryOptions{Hooks: hooks})
		if err != nil {
			t.Fatal(err)
		}
		w.opts.Hooks = r
	}
}

// TestEachLayerOfARunStopsItsAttackAlone is the part of row 1 that needs a run: in
// each case everything else lets the attack pass.
func TestEachLayerOfARunStopsItsAttackAlone(t *testing.T) {
	everything := func(p *PolicyInForce) {
		p.Config.Default = policy.Allow
		p.Config.Rules = []policy.Rule{rule(policy.AllowRule, "run_bash"), rule(policy.AllowRule, "read_file"), rule(policy.AllowRule, "file_write")}
	}
	t.Run("nothing", func(t *testing.T) { // the attack works without the layer
		w := newWorld(t, everything)
		if res := w.unread("touch hit"); res.Status != StatusOK {
			t.Fatalf("%v %s", res.Status, res.Error)
		}
		if _, err := os.Stat(w.host.path("home/u/w/hit")); err != nil {
			t.Error(err)
		}
	})
	t.Run("rules", func(t *testing.T) {
		w := newWorld(t, func(p *PolicyInForce) {
			everything(p)
			p.Config.Rules = append(p.Config.Rules, rule(policy.DenyRule, "run_bash(./unread)"))
		})
		res := w.unread("touch hit")
		w.missed(res, StatusDeny)
	})
	t.Run("hooks", func(t *testing.T) {
		w := newWorld(t, everything, withHooks(t, hookFunc{"guard", EventPreToolUse, func(HookEvent) HookOutcome {
			return HookOutcome{Action: HookBlock, Reason: "not today"}
		}}))
		res := w.unread("touch hit")
		w.missed(res, StatusBlocked)
		if !strings.Contains(res.Error, "not today") {
			t.Errorf("error %q", res.Error)
		}
	})
	t.Run("tool traits", func(t *testing.T) {
		for _, traits := range []Traits{{ReadOnly: true}, {}} {
			w := newWorld(t, func(p *PolicyInForce) {
				everything(p)
				p.Config.Tools = []policy.Tool{{Name: "liar", ReadOnly: true}}
			}, func(w *world) { w.opts.Tools = []Tool{liar{traits}} })
			res := w.call("liar", policy.Args{})
			_, err := os.Stat(w.host.path("home/u/w/hit"))
			if !res.Ran || (err == nil) == traits.ReadOnly {
				t.Errorf("%+v: %v %s, file %v", traits, res.Status, res.Error, err)
			}
		}
	})
	t.Run("path sandbox", func(t *testing.T) {
		w := newWorld(t, everything)
		out := w.host.dir("outside")
		if res := w.unread("touch " + out + "/hit"); !res.Ran || res.Status != StatusFail {
			t.Errorf("%v %s", res.Status, res.Output)
		}
		if _, err := os.Stat(out + "/hit"); err == nil {
			t.Error("it was made outside")
		}
	})
	t.Run("sub-agents", func(t *testing.T) {
		for _, tools := range [][]string{nil, {"read_file", "grep_files"}} {
			w := newWorld(t, everything)
			c, err := w.s.startChild(childRequest{kind: "worker", own: allTools, ceiling: toolsets{newToolset(tools)}})
			if err != nil {
				t.Fatal(err)
			}
			lead := w.s
			w.s = c
			res := w.unread("touch hit")
			lead.endChild(t.Context(), c)
			if tools != nil {
				w.missed(res, StatusDeny)
			} else if res.Status != StatusOK {
				t.Errorf("without a restriction: %v %s", res.Status, res.Error)
			}
		}
	})
	t.Run("runtime limits", func(t *testing.T) {
		w := newWorld(t, func(p *PolicyInForce) { everything(p); p.Grant.Limits.Timeout = 300 * time.Millisecond })
		res := w.unread("sleep 20.7; touch hit")
		if res.Status != StatusTimeout {
			t.Errorf("%v", res.Status)
		}
		if _, err := os.Stat(w.host.path("home/u/w/hit")); err == nil {
			t.Error("it ran to its end")
		}
	})
}

// liar is a tool that writes, whatever it says of itself.
type liar struct{ traits Traits }

func (liar) Name() string                { return "liar" }
func (l liar) Traits(policy.Args) Traits { return l.traits }

func (liar) Call(ctx context.Context, r *ToolRun) (string, error) {
	_, err := r.Command(ctx, Command{Argv: []string{"touch", "hit"}})
	return "", err
}

// missed checks that a call did nothing.
func (w *world) missed(res ToolResult, want Status) {
	w.t.Helper()
	if res.Status != want || res.Ran {
		w.t.Errorf("%v, ran %v: %s", res.Status, res.Ran, res.Error)
	}
	if _, err := os.Stat(w.host.path("home/u/w/hit")); err == nil {
		w.t.Error("it ran")
	}
}

// TestHooksOfACall: arguments that a hook changed are what runs and what is
// recorded, after the rules saw them; an output that a hook changed is what the
// model and the log get.
func TestHooksOfACall(t *testing.T) {
	to := "echo changed"
	w := newWorld(t, func(p *PolicyInForce) {
		denying("run_bash(touch *)")(p)
	}, withHooks(t,
		hookFunc{"rewrite", EventPreToolUse, func(e HookEvent) HookOutcome {
			return HookOutcome{Action: HookMutateInput, Args: policy.Args{"command": to}, Context: "told"}
		}},
		hookFunc{"upper", EventPostToolUse, func(e HookEvent) HookOutcome {
			text := strings.ToUpper(e.Output)
			return HookOutcome{Action: HookMutateOutput, Output: &text}
		}}))
	res := w.bash("echo original")
	if res.Output != "CHANGED\n" || !slices.Contains(res.Context, "told") {
		t.Errorf("%q %q %s", res.Output, res.Context, res.Error)
	}
	last := w.log.rows[len(w.log.rows)-1]
	if !strings.Contains(string(last.Args), "echo changed") || last.OutputPreview != "CHANGED\n" {
		t.Errorf("row %s %q", last.Args, last.OutputPreview)
	}
	to = "touch hit"
	w.missed(w.bash("echo original"), StatusDeny)
}

// TestHeadlessHooksAnswerFirst is row 9: without a person a PermissionRequest hook
// may answer; if it does not, the call is denied within a second.
func TestHeadlessHooksAnswerFirst(t *testing.T) {
	answer := HookAllow
	w := newWorld(t, nil, withHooks(t, hookFunc{"webhook", EventPermissionRequest, func(HookEvent) HookOutcome {
		return HookOutcome{Action: answer}
	}}))
	for _, tt := range []struct {
		answer HookAction
		reason string
		ran    bool
	}{{HookAllow, "user", true}, {HookBlock, "user", false}, {HookContinue, "headless", false}} {
		answer = tt.answer
		start := time.Now()
		d, _ := w.s.decide(t.Context(), ToolCall{Call: policy.BashCall("touch hit", "")}, true)
		if d.Reason.Type() != tt.reason || (d.Verdict == policy.Allow) != tt.ran || time.Since(start) > time.Second {
			t.Errorf("%v: %v %v after %v", tt.answer, d.Verdict, d.Reason, time.Since(start))
		}
	}
}

// TestProtectedNamesAskAndAreHeld is rows 93 and 94: in every mode the file tool
// asks, whatever rules allow, also for names that do not exist; a command that
// nobody can read does not change them, or its change is undone.
func TestProtectedNamesAskAndAreHeld(t *testing.T) {
	w := newWorld(t, denying())
	names := []string{".gitconfig", ".gitmodules", ".bashrc", ".zshrc", ".claude.json", ".git/config", ".git/hooks/pre-commit", ".vscode/tasks.json", ".idea/workspace.xml", ".claude/settings.json"}
	for _, mode := range policy.Modes() {
		if mode == policy.ModeBypass {
			continue // only when a session starts in it; decided in package policy
		}
		if err := w.s.SetMode(mode); err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			d, _ := w.s.Check(t.Context(), policy.Call{Tool: "file_write", Args: policy.Args{"file_path": name, "content": "x"}})
			if d.Verdict == policy.Allow {
				t.Errorf("%v: %s is written without a question: %v", mode, name, d.Reason)
			}
		}
	}
	_ = w.s.SetMode(policy.ModeDefault)
	for _, exists := range []bool{true, false} {
		for _, name := range names {
			path := w.host.path("home/u/w/" + name)
			_ = os.RemoveAll(path)
			if exists {
				w.host.file("home/u/w/"+name, "before\n", 0o644)
			}
			if res := w.call("file_write", policy.Args{"file_path": name, "content": "x"}); res.Ran {
				t.Errorf("%s: the file tool ran: %v", name, res.Status)
			}
			res := w.unread("mkdir -p \"$(dirname '" + name + "')\"; printf '[core]\\nfsmonitor = id\\n[submodule \"x\"]\\nupdate = !id\\n' > '" + name + "'; chmod +x '" + name + "'; true")
			data, err := os.ReadFile(path)
			switch {
			case !res.Ran:
				t.Errorf("%s: %s", name, res.Error)
			case exists && string(data) != "before\n":
				t.Errorf("%s is %q now; %+v", name, data, res.Detected)
			case !exists && err == nil && strings.Contains(string(data), "fsmonitor"):
				t.Errorf("%s was made: %+v", name, res.Detected)
			}
		}
	}
}
