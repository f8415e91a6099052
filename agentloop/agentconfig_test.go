package agentloop

import (
	"reflect"
	"testing"
	"time"
)

func TestFlagsOfAnAgent(t *testing.T) {
	file := AgentConfig{Provider: "openai", Model: "qwen", BaseURL: "https://b", KeyEnv: "K", Classifier: "small", Prices: map[string]Price{"qwen": {Input: 1}},
		Limits: AgentLimits{MaxSteps: 10, Cost: 2}}
	with := func(f func(*AgentConfig)) AgentConfig { c := file; f(&c); return c }
	for _, tt := range []struct {
		name           string
		flags, managed AgentConfig
		want           AgentConfig
	}{
		{"none", AgentConfig{}, AgentConfig{}, file},
		{"a model", AgentConfig{Model: "other"}, AgentConfig{}, with(func(c *AgentConfig) { c.Model = "other" })},
		{"another provider", AgentConfig{Provider: "anthropic"}, AgentConfig{}, AgentConfig{Provider: "anthropic", Prices: file.Prices, Limits: file.Limits}},
		{"the same provider", AgentConfig{Provider: "openai"}, AgentConfig{}, file},
		{"a managed provider stays, with its address", AgentConfig{Provider: "anthropic", BaseURL: "https://evil", Model: "x"}, AgentConfig{Provider: "openai", BaseURL: "https://b"},
			with(func(c *AgentConfig) { c.Model = "x" })},
		{"limits", AgentConfig{Limits: AgentLimits{MaxSteps: 99, Time: time.Hour}}, AgentConfig{},
			with(func(c *AgentConfig) { c.Limits = AgentLimits{MaxSteps: 99, Cost: 2, Time: time.Hour} })},
		{"managed limits", AgentConfig{Limits: AgentLimits{MaxSteps: 99, Cost: 50, Stale: 2}}, AgentConfig{Limits: AgentLimits{MaxSteps: 20, Cost: 5, Time: time.Minute, Stale: 3, Parallel: 2, Depth: 9}},
			with(func(c *AgentConfig) {
				c.Limits = AgentLimits{MaxSteps: 20, Cost: 5, Time: time.Minute, Stale: 2, Parallel: 2}
			})},
		{"a negative limit is none", AgentConfig{Limits: AgentLimits{MaxSteps: -1, DenialsTotal: -1}}, AgentConfig{Limits: AgentLimits{MaxSteps: 20, DenialsTotal: 30}},
			with(func(c *AgentConfig) { c.Limits = AgentLimits{MaxSteps: 20, DenialsTotal: 30, Cost: 2} })},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := file.WithFlags(tt.flags, tt.managed); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
		})
	}
	before := len(file.Prices)
	if file.WithFlags(AgentConfig{Prices: map[string]Price{"new": {}}}, AgentConfig{}); len(file.Prices) != before {
		t.Error("the prices of the file were changed")
	}
}
