package agentloop

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"sandboxd/policy"
)

// hookedWorld allows everything that hooks do not stop. Hooks of the process are
// the built-in ones.
func hookedWorld(t *testing.T, specs ...HookSpec) *world {
	t.Helper()
	return newWorld(t, func(p *PolicyInForce) {
		p.Config.Default = policy.Allow
		p.Config.Rules = append(p.Config.Rules, rule(policy.AllowRule, "run_bash"), rule(policy.AllowRule, "file_write"), rule(policy.DenyRule, "run_bash(rm *)"))
		for _, s := range specs {
			s.Source = user()
			p.Hooks = append(p.Hooks, s)
		}
	}, func(w *world) { w.opts.Hooks = registry(t, RedactionHook{}, &CancellationHook{}) })
}

func (w *world) made(name string) bool {
	_, err := os.Stat(w.host.path("home/u/w/" + name))
	return err == nil
}

func (w *world) read(name string) string {
	w.t.Helper()
	text, err := os.ReadFile(w.host.path("home/u/w/" + name))
	if err != nil {
		w.t.Fatal(err)
	}
	return string(text)
}

// Cases S063, S018 and S043: whatever way a hook stops a call, by its
// answer or by its failure, the call has no effect and the model learns why.
func TestStoppedCallHasNoEffect(t *testing.T) {
	for _, tt := range []struct{ name, command, reason string }{
		{"S063: exit 2 with a message", "echo not in this house >&2; exit 2", "not in this house"},
		{"S018: a deny at the top level", `echo '{"permissionDecision":"deny","reason":"not so"}'`, "not so"},
		{"S043: past its deadline", "sleep 1000", "no answer within 400ms"},
		{"a crash", "kill -SEGV $$", "signal 11"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := hookedWorld(t, HookSpec{Event: "PreToolUse", Command: tt.command, Timeout: 400 * time.Millisecond})
			for _, c := range []policy.Call{
				{Tool: "run_bash", Args: policy.Args{"command": "touch made"}},
				{Tool: "Bash", Args: policy.Args{"command": "touch made"}, Agent: "worker-1"},
				{Tool: "file_write", Args: policy.Args{"path": "made", "content": "x"}},
			} {
				res := w.d.Dispatch(t.Context(), w.s, ToolCall{Call: c})
				if res.Ran || w.made("made") || res.Status != StatusBlocked || !strings.Contains(res.Error, tt.reason) {
					t.Errorf("%s: ran %v, made %v, status %s, error %q", c.Tool, res.Ran, w.made("made"), res.Status, res.Error)
				}
			}
			if got := w.log.statuses(); !slices.Equal(got, []Status{StatusBlocked, StatusBlocked, StatusBlocked}) {
				t.Errorf("rows %v", got)
			}
		})
	}
	w := hookedWorld(t, HookSpec{Event: "PreToolUse", Command: "grep -q forbidden && exit 2; exit 0"})
	if res := w.bash("touch made"); res.Status != StatusOK || !w.made("made") {
		t.Errorf("beside it an honest call: %s %q", res.Status, res.Error)
	}
}

// Rules hold for what a hook made of the call, and the rows tell that.
func TestChangedCallIsCheckedRunAndRecorded(t *testing.T) {
	change := func(to string) HookSpec {
		return HookSpec{Event: "PreToolUse", Matcher: "Bash", Command: `echo '{"hookSpecificOutput":{"updatedInput":{"command":"` + to + `"},"additionalContext":"changed for you"}}'`}
	}
	w := hookedWorld(t, change("touch other"))
	res := w.bash("touch made")
	if w.made("made") || !w.made("other") || !slices.Equal(res.Context, []string{"changed for you"}) {
		t.Errorf("made %v, other %v, context %q", w.made("made"), w.made("other"), res.Context)
	}
	if row := w.log.rows[0]; !strings.Contains(string(row.Args), "touch other") {
		t.Errorf("the row says %s", row.Args)
	}
	if !slices.ContainsFunc(res.Trace, func(h HopTime) bool { return strings.Contains(h.Text, "changed the arguments (") }) {
		t.Errorf("the trace does not tell of the change: %+v", res.Trace)
	}
	w = hookedWorld(t, change("rm -rf /tmp/x"))
	if res := w.bash("touch made"); res.Ran || res.Status != StatusDeny || !strings.Contains(res.Error, "rm *") {
		t.Errorf("a change that a rule denies: %s %q", res.Status, res.Error)
	}
}

// Row 74, through the door: the formatter runs once after an edit, and not after
// anything else.
func TestFormatterRunsAfterAnEdit(t *testing.T) {
	w := hookedWorld(t, HookSpec{Event: "PostToolUse", Matcher: "Edit|Write", Write: true,
		Command: `f=$(sed -n 's/.*"file_path":"\([^"]*\)".*/\1/p'); sort -o "$f" "$f"; echo run >> log; echo sorted it >&2; exit 2`})
	w.bash("true")
	res := w.call("file_write", policy.Args{"path": "a.txt", "content": "b\na\n"})
	got, _ := os.ReadFile(w.host.path("home/u/w/a.txt"))
	log, _ := os.ReadFile(w.host.path("home/u/w/log"))
	if res.Status != StatusOK || string(got) != "a\nb\n" || string(log) != "run\n" || !slices.Equal(res.Context, []string{"sorted it"}) {
		t.Errorf("status %s %q, file %q, runs %q, context %q", res.Status, res.Error, got, log, res.Context)
	}
}

// Row 62: a secret in an output reaches neither the model, nor a later hook, nor
// the log.
func TestSecretInOutputIsMaskedEverywhere(t *testing.T) {
	w := hookedWorld(t, HookSpec{Event: "PostToolUse", Command: "grep -q ghp_0123 && { echo saw it >&2; exit 2; }; exit 0"})
	res := w.bash("printf 'ghp_%s end' 0123456789abcdefghijklmnop")
	if strings.Contains(res.Output, "0123456789") || !strings.Contains(res.Output, "end") || len(res.Context) > 0 {
		t.Errorf("the model gets %q and %q", res.Output, res.Context)
	}
	for _, row := range w.log.rows {
		if strings.Contains(row.OutputPreview, "0123456789") {
			t.Errorf("the log keeps %q", row.OutputPreview)
		}
	}
}

func TestSessionEventsFireOnce(t *testing.T) {
	w := hookedWorld(t,
		HookSpec{Event: "SessionStart", Write: true, Command: "echo start >> events"},
		HookSpec{Event: "SessionEnd", Write: true, Command: "echo stop >> events"})
	if err := w.m.Close(t.Context(), w.s.ID(), w.peer(), "done"); err != nil {
		t.Fatal(err)
	}
	got, _ := os.ReadFile(w.host.path("home/u/w/events"))
	if string(got) != "start\nstop\n" {
		t.Errorf("events %q", got)
	}
}

// What a hook has for the user reaches the clients of the session.
func TestHookNoticesAreEvents(t *testing.T) {
	w := hookedWorld(t, HookSpec{Event: "PostToolUse", Command: "echo no linter for AKIAABCDEFGHIJKLMNOP >&2; exit 1"})
	w.bash("true")
	got := ""
	for _, e := range w.s.events.ring {
		if e.Type == EventHookNotice {
			got += string(e.Data)
		}
	}
	if !strings.Contains(got, "no linter for [secret]") || !strings.Contains(got, `"failed":true`) {
		t.Errorf("events %q", got)
	}
}
