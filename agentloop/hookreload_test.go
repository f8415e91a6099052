package agentloop

import (
	"strings"
	"testing"

	"sandboxd/policy"
)

// reloadable is a world whose hooks can be replaced.
func reloadable(t *testing.T, events ...string) (w *world, use func(marks ...string)) {
	t.Helper()
	var hooks []HookSpec
	w = newWorld(t, func(p *PolicyInForce) {
		p.Config.Rules = append(p.Config.Rules, rule(policy.AllowRule, "run_bash(echo *)"))
		p.Hooks = hooks
	}, func(w *world) { w.opts.Hooks = registry(t, RedactionHook{}) })
	return w, func(marks ...string) {
		t.Helper()
		hooks = nil
		for _, mark := range marks {
			for _, e := range events {
				hooks = append(hooks, HookSpec{Event: e, Write: true, Command: "echo " + mark + "-" + e + " >> log", Source: user()})
			}
		}
		if err := w.m.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// The hooks of the policy in force are asked, at every event, and no others: one that
// was removed is silent from the next call on, one that was added speaks.
func TestHooksAreThoseOfThePolicyInForce(t *testing.T) {
	w, use := reloadable(t, "PreToolUse", "PostToolUse", "PermissionRequest")
	for _, step := range []struct {
		marks []string
		want  string
	}{
		{nil, ""},
		{[]string{"a"}, "a-PreToolUse a-PostToolUse a-PermissionRequest"},
		{[]string{"a", "b"}, "a-PreToolUse b-PreToolUse a-PostToolUse b-PostToolUse a-PermissionRequest b-PermissionRequest"},
		{[]string{"b"}, "b-PreToolUse b-PostToolUse b-PermissionRequest"},
		{nil, ""},
		{[]string{"c"}, "c-PreToolUse c-PostToolUse c-PermissionRequest"},
	} {
		use(step.marks...)
		w.host.file("home/u/w/log", "", 0o644)
		if res := w.bash("echo x"); res.Status != StatusOK {
			t.Fatalf("%v: %s %q", step.marks, res.Status, res.Error)
		}
		w.bash("touch made") // nothing allows it: it is asked about
		got := map[string]int{}
		log := w.read("log")
		for line := range strings.Lines(log) {
			got[strings.TrimSpace(line)]++
		}
		want := strings.Fields(step.want)
		if len(got) != len(want) {
			t.Errorf("%v: the hooks that spoke: %v, want %v", step.marks, got, want)
		}
		for _, name := range want {
			if got[name] == 0 {
				t.Errorf("%v: %s was not asked: %v", step.marks, name, got)
			}
		}
	}
	// A policy that is refused leaves the hooks of the one before.
	w.edit = func(p *PolicyInForce) {
		p.Config.Rules = append(p.Config.Rules, rule(policy.AllowRule, "run_bash(echo *)"))
		p.Hooks = []HookSpec{{Event: "NoSuchEvent", Command: "true", Source: user()}}
	}
	if err := w.m.Reload(t.Context()); err == nil {
		t.Fatal("a hook of no event was taken")
	}
	w.host.file("home/u/w/log", "", 0o644)
	w.bash("echo x")
	if log := w.read("log"); !strings.Contains(log, "c-PreToolUse") {
		t.Errorf("after a policy that was refused: %q", log)
	}
}
