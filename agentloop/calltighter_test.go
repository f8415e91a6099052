package agentloop

import (
	"testing"

	"sandboxd/exec"
	"sandboxd/policy"
)

// TestCallIsHeldTighterThanItsPolicy, for itself alone, and never looser.
func TestCallIsHeldTighterThanItsPolicy(t *testing.T) {
	w := newWorld(t, func(p *PolicyInForce) {
		denying()(p)
		p.Grant.Network = []string{"full"}
	})
	call := func(edit func(*ToolCall)) ToolResult {
		c := ToolCall{Call: policy.BashCall("true", "")}
		edit(&c)
		return w.d.Dispatch(t.Context(), w.s, c)
	}
	plain := func() ToolResult { return call(func(*ToolCall) {}) }
	if res := plain(); res.Spec.Network != exec.NetFull || res.Spec.NoExecWrite {
		t.Fatalf("the policy: %+v", res.Spec)
	}
	if res := call(func(c *ToolCall) { c.NoNetwork = true }); res.Spec.Network != exec.NetNone {
		t.Error("no network: it has one")
	}
	if res := call(func(c *ToolCall) { c.NoExecWrite = true }); !res.Spec.NoExecWrite {
		t.Error("what can be written can be executed")
	}
	if res := plain(); res.Spec.Network != exec.NetFull || res.Spec.NoExecWrite {
		t.Errorf("the next call: %+v", res.Spec)
	}
	w.edit = func(p *PolicyInForce) { denying()(p); p.Grant.NoExecWrite = true }
	w.s = w.session()
	if res := plain(); !res.Spec.NoExecWrite || res.Spec.Network != exec.NetNone {
		t.Errorf("a call that says nothing loosens: %+v", res.Spec)
	}
}
