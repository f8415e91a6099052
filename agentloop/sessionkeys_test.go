package agentloop

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"sandboxd/policy"
)

// Keys of model APIs do not reach a run although the policy passes them, nor what is
// kept, and texts that hold them are masked; a session for no model is as it was.
func TestKeysOfModelsStayInMemory(t *testing.T) {
	const own, other, later = "first-key-of-a-vendor", "second-key-of-a-house", "third-key-sent-later"
	names := []string{"ANTHROPIC_API_KEY", "HOUSE_KEY", "PLAIN"}
	w := newWorld(t, func(p *PolicyInForce) {
		p.Agent.KeyEnv = "HOUSE_KEY"
		p.Grant.EnvPass = append(p.Grant.EnvPass, names...)
		p.Config.Rules = append(p.Config.Rules, rule(policy.AllowRule, "run_bash(*)"))
	})
	request := SessionRequest{
		Cwd: w.host.Cwd, Agent: true, Keys: map[string]string{"OPENAI_API_KEY": "a-key-of-its-own"},
		Environ: append(slices.Clone(w.host.Environ), "ANTHROPIC_API_KEY="+own, "HOUSE_KEY="+other, "PLAIN=plain-value"),
	}
	print := func(s *Session) string {
		res := w.d.Dispatch(t.Context(), s, ToolCall{Call: policy.Call{Tool: "run_bash", Args: policy.Args{"command": "printenv | sed s/key/KEY/"}}})
		if res.Error != "" {
			t.Fatal(res.Error)
		}
		return res.Exec.Stdout.Text
	}
	s, err := w.m.Create(t.Context(), w.peer(), request)
	if err != nil {
		t.Fatal(err)
	}
	s.SetProviderKeys(map[string]string{"LATER": later})
	out := print(s)
	if strings.Contains(out, "-KEY-") || !strings.Contains(out, "PLAIN=plain-value") {
		t.Errorf("the run's environment:\n%s", out)
	}
	for name, want := range map[string]string{"ANTHROPIC_API_KEY": own, "HOUSE_KEY": other, "OPENAI_API_KEY": "a-key-of-its-own", "LATER": later, "PLAIN": "plain-value", "NONE": ""} {
		if got := s.ProviderEnv(name); got != want {
			t.Errorf("ProviderEnv(%s) = %q, want %q", name, got, want)
		}
	}
	state, err := json.Marshal(s.State())
	if err != nil {
		t.Fatal(err)
	}
	masked := s.Redactor().Mask("they are " + own + " " + other + " " + later + " and plain-value")
	for _, key := range []string{own, other, later} {
		if strings.Contains(string(state), key) || strings.Contains(masked, key) {
			t.Errorf("%q is in the state or was not masked: %s\n%s", key, state, masked)
		}
	}
	if !strings.Contains(masked, "plain-value") {
		t.Errorf("masked too much: %s", masked)
	}
	request.Agent, request.Keys = false, nil
	if s, err = w.m.Create(t.Context(), w.peer(), request); err != nil {
		t.Fatal(err)
	}
	if out := print(s); !strings.Contains(out, "HOUSE_KEY=second-KEY-of-a-house") {
		t.Errorf("a session for no model does not pass what the policy passes:\n%s", out)
	}
}

// Who answers for one session is not taken for somebody who answers for others.
func TestAnswererOfOneSession(t *testing.T) {
	w := newWorld(t, nil)
	other := w.session()
	detach := w.asks.AttachSession(w.peer(), w.s.ID(), "sbx agent")
	child := newSession(w.s.ID()+"/worker", w.peer(), SessionRequest{}, w.m.parts())
	alike := newSession(w.s.ID()+"2", w.peer(), SessionRequest{}, w.m.parts())
	for _, tt := range []struct {
		s    *Session
		want bool
	}{{w.s, true}, {child, true}, {alike, false}, {other, false}} {
		if got := w.asks.someoneFor(tt.s); got != tt.want {
			t.Errorf("somebody answers for %s: %v, want %v", tt.s.ID(), got, tt.want)
		}
	}
	detach()
	if w.asks.someoneFor(w.s) {
		t.Error("it still counts after it has left")
	}
}
