package agentloop

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"sandboxd/policy"
)

// What a hook of any kind makes of a command that was given as words is what starts;
// the words start as they are, without a shell, while nothing changes them.
func TestWordsStartOnlyAsTheyWereDecided(t *testing.T) {
	made := func(w *world) string {
		var names []string
		entries, err := os.ReadDir(w.host.path("home/u/w"))
		if err != nil {
			w.t.Fatal(err)
		}
		for _, e := range entries {
			if e.Name() != ".git" {
				names = append(names, e.Name())
			}
		}
		return strings.Join(names, " ")
	}
	inProcess := func(f func(HookEvent) HookOutcome) func(*world) {
		return withHooks(t, hookFunc{"program", EventPreToolUse, f})
	}
	words := []string{"touch", "as", "$(touch given)", "a;b"}
	for _, tt := range []struct {
		name, want string
		edit       func(*world)
	}{
		{"nothing changes them", "$(touch given) a;b as", nil},
		{"a hook of the program", "changed", inProcess(func(HookEvent) HookOutcome {
			return HookOutcome{Action: HookMutateInput, Args: policy.Args{"command": "touch changed"}}
		})},
		{"a hook that also asks for a question", "", inProcess(func(HookEvent) HookOutcome {
			return HookOutcome{Action: HookPermissionRequired, Args: policy.Args{"command": "touch changed"}}
		})},
		{"another argument takes the place", "changed", inProcess(func(HookEvent) HookOutcome {
			return HookOutcome{Action: HookMutateInput, Args: policy.Args{"cmd": "touch changed"}}
		})},
		{"another argument stands beside", "", inProcess(func(e HookEvent) HookOutcome {
			e.Args["cmd"] = "touch changed"
			return HookOutcome{Action: HookMutateInput, Args: e.Args}
		})},
		{"the arguments are gone", "", inProcess(func(HookEvent) HookOutcome {
			return HookOutcome{Action: HookMutateInput, Args: policy.Args{"note": "x"}}
		})},
		{"it changes and gives nothing", "", inProcess(func(HookEvent) HookOutcome { return HookOutcome{Action: HookMutateInput} })},
		{"it writes into what it was shown", "$(touch given) a;b as", inProcess(func(e HookEvent) HookOutcome {
			e.Args["command"] = "touch changed"
			return HookOutcome{Action: HookContinue}
		})},
		{"the same words again", "$(touch given) a;b as", inProcess(func(e HookEvent) HookOutcome {
			return HookOutcome{Action: HookMutateInput, Args: e.Args}
		})},
	} {
		t.Run(tt.name, func(t *testing.T) {
			more := []func(*world){}
			if tt.edit != nil {
				more = append(more, tt.edit)
			}
			w := newWorld(t, func(p *PolicyInForce) { p.Config.Default = policy.Allow }, more...)
			res := w.d.Dispatch(t.Context(), w.s, ToolCall{Call: policy.ArgvCall(words, ""), Argv: words, Attended: true})
			if got := made(w); got != tt.want || res.Ran != (tt.want != "") {
				t.Errorf("made %q, want %q; ran %v, %s %q", got, tt.want, res.Ran, res.Status, res.Error)
			}
			said := strings.Contains(strings.Join(res.Notes, "\n"), "a hook changed the call")
			if said != strings.HasPrefix(tt.want, "changed") && tt.want != "" {
				t.Errorf("notes %q", res.Notes)
			}
		})
	}
}

// A limit that a hook puts among the arguments holds, also for who may take any time.
func TestTimeThatAHookGivesHolds(t *testing.T) {
	w := newWorld(t, func(p *PolicyInForce) { p.Config.Default = policy.Allow }, withHooks(t, hookFunc{"limit", EventPreToolUse, func(e HookEvent) HookOutcome {
		e.Args["timeout_ms"] = 300
		return HookOutcome{Action: HookMutateInput, Args: e.Args}
	}}))
	words := []string{"sleep", "20.9"}
	for _, limit := range []time.Duration{0, -1, time.Minute} {
		c := ToolCall{Call: policy.ArgvCall(words, ""), Argv: words, Attended: true, Limits: policy.GrantLimits{Timeout: limit}}
		if res := w.d.Dispatch(t.Context(), w.s, c); res.Status != StatusTimeout {
			t.Errorf("limit %s: %s %q", limit, res.Status, res.Error)
		}
	}
}

// meddler is a tool that writes into its arguments.
type meddler struct{}

func (meddler) Name() string              { return "meddler" }
func (meddler) Traits(policy.Args) Traits { return Traits{} }
func (meddler) Call(_ context.Context, r *ToolRun) (string, error) {
	r.Call.Args["what"], r.Call.Args["list"].([]any)[0] = "other", "other"
	return "", nil
}

// The rows of a call keep what was decided, whoever holds its arguments.
func TestRowsKeepWhatWasDecided(t *testing.T) {
	w := newWorld(t, func(p *PolicyInForce) { p.Config.Default = policy.Allow }, func(w *world) { w.opts.Tools = append(w.opts.Tools, meddler{}) })
	args := policy.Args{"what": "this", "list": []any{"one"}}
	if res := w.call("meddler", args); res.Status != StatusOK {
		t.Fatalf("%s %q", res.Status, res.Error)
	}
	if len(w.log.rows) != 2 || args["what"] != "this" {
		t.Fatalf("%d rows, arguments %v", len(w.log.rows), args)
	}
	for _, row := range w.log.rows {
		if strings.Contains(string(row.Args), "other") {
			t.Errorf("row %s: %s", row.Status, row.Args)
		}
	}
}

// A hook that answers a question cannot change the call: its allow with other
// arguments is no answer, since what it did not mean would run.
func TestAnswerWithOtherArgumentsIsNoAnswer(t *testing.T) {
	for name, answer := range map[string]string{
		"in the object":   `{"hookSpecificOutput":{"updatedInput":{"command":"true"},"decision":{"behavior":"allow"}}}`,
		"at the top":      `{"decision":"allow","updatedInput":{"command":"true"}}`,
		"in the decision": `{"decision":{"behavior":"allow","updatedInput":{"command":"true"}}}`,
	} {
		w := newWorld(t, func(p *PolicyInForce) {
			p.Hooks = append(p.Hooks, HookSpec{Event: EventPermissionRequest, Command: "echo '" + answer + "'", Source: user()})
		}, func(w *world) { w.opts.Hooks = registry(t) })
		res := w.bash("touch made")
		if res.Ran || w.made("made") || res.Decision.Reason.Type() != "headless" || !strings.Contains(res.Error, "updatedInput") {
			t.Errorf("%s: ran %v: %s", name, res.Ran, res.Error)
		}
	}
	w := newWorld(t, func(p *PolicyInForce) {
		p.Hooks = append(p.Hooks, HookSpec{Event: EventPermissionRequest, Command: `echo '{"decision":{"behavior":"allow"}}'`, Source: user()})
	}, func(w *world) { w.opts.Hooks = registry(t) })
	if res := w.bash("touch made"); !w.made("made") {
		t.Errorf("a plain allow: %s", res.Error)
	}
}
