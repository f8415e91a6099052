package provider_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"sandboxd/agentloop"
	"sandboxd/agentloop/provider"
	"sandboxd/test/model"
)

// overWire makes a provider for a server that plays a script.
func overWire(t *testing.T, p wireProtocol, text string) (agentloop.Provider, *model.Server) {
	t.Helper()
	s := model.StartWithKey(script(t, text), testKey)
	t.Cleanup(s.Close)
	got, _, err := provider.New(agentloop.AgentConfig{Provider: p.Name, Model: "m", BaseURL: s.Address(p.Name), KeyEnv: "KEY"}, environ{"KEY": testKey}.lookup, quick)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { got.(io.Closer).Close() })
	return got, s
}

// One script is the same conversation in the program and over every wire.
func TestAScriptPlaysOverTheWire(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p wireProtocol) {
		c, s := overWire(t, p, fixing)
		k := &talk{t: t, p: c, request: ask()}
		a := k.user("make the test pass").answer()
		if a.Message.Text() != "I run the test." || a.Stop != agentloop.StopTools || len(a.Message.Uses()) != 1 || a.Usage.Input == 0 {
			t.Errorf("first %+v", a)
		}
		a = k.results("sum_test.go:17: want 3").answer()
		if u := a.Message.Uses(); len(u) != 1 || u[0].Tool != "read_file" || u[0].Args != `{"path":"sum.go"}` {
			t.Errorf("second %+v", a)
		}
		if a = k.results("ok  \texample\t0.1s").answer(); a.Message.Text() != "The test passes after 3 answers." || a.Stop != agentloop.StopEnd {
			t.Errorf("third %+v", a)
		}
		if err := s.Errors(); err != nil || s.Requests() != 3 {
			t.Errorf("%d requests, %v", s.Requests(), err)
		}
		if _, err := k.user("more").try(); err == nil || !strings.Contains(err.Error(), "the script ends") || s.Errors() == nil {
			t.Errorf("beyond the end: %v, %v", err, s.Errors())
		}
	})
}

func TestErrorsOfAScriptAreThoseOfTheWire(t *testing.T) {
	for _, kind := range []agentloop.ModelErrorKind{agentloop.ModelBadKey, agentloop.ModelUnknown, agentloop.ModelTooLong, agentloop.ModelRateLimited,
		agentloop.ModelOverloaded, agentloop.ModelCut, agentloop.ModelUnreachable, agentloop.ModelBadRequest} {
		eachProtocol(t, func(t *testing.T, p wireProtocol) {
			c, s := overWire(t, p, "steps: [{say: half of an answer that is cut in the middle, error: {kind: "+string(kind)+", text: because}, repeat: -1}]")
			_, err := c.Stream(t.Context(), ask(), nil)
			e, ok := errors.AsType[*agentloop.ModelError](err)
			if !ok || e.Kind != kind || s.Errors() != nil {
				t.Errorf("%s: %v, %v", kind, err, s.Errors())
			}
		})
	}
}

func TestAServerOfAScriptWantsItsKey(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p wireProtocol) {
		_, s := overWire(t, p, "steps: [{say: a}]")
		c, _, err := provider.New(agentloop.AgentConfig{Provider: p.Name, Model: "m", BaseURL: s.Address(p.Name), KeyEnv: "KEY"}, environ{"KEY": "other"}.lookup, quick)
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Stream(t.Context(), ask(), nil)
		if e, ok := errors.AsType[*agentloop.ModelError](err); !ok || e.Kind != agentloop.ModelBadKey || strings.Contains(err.Error(), "other") {
			t.Errorf("error %v", err)
		}
		c.(io.Closer).Close()
	})
}
