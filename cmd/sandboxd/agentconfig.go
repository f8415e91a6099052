package main

import (
	"sandboxd/agentloop"
	"sandboxd/policy/settings"
)

// agentConfig is a table [agent] as the loop takes it. The denials that end a turn
// are among the limits of the policy.
func agentConfig(a settings.Agent, l settings.Limits) agentloop.AgentConfig {
	limits := a.Limits
	c := agentloop.AgentConfig{
		Provider: a.Provider.V, Model: a.Model.V, BaseURL: a.BaseURL.V, KeyEnv: a.KeyEnv.V, Script: a.Script.V,
		Classifier: a.Classifier.V, Explainer: a.Explainer.V, Explain: a.Explain.V,
		Limits: agentloop.AgentLimits{
			MaxSteps: int(limits.MaxSteps.V), SoftLimit: limits.SoftTokens.V, HardLimit: limits.HardTokens.V,
			Cost: max(limits.Budget.V, 0), Time: max(limits.Time.V, 0), // "unlimited" is none
			Silence:   limits.Silence.V,
			MaxOutput: int(limits.OutputChars.V), MaxAnswer: int(limits.AnswerTokens.V),
			DenialsInARow: int(l.DenialsInRow.V), DenialsTotal: int(l.DenialsTotal.V),
			Repeats: int(limits.Repeats.V), Stale: int(limits.Stale.V), Parallel: int(limits.Parallel.V),
			Depth: int(limits.Depth.V), Spawns: int(limits.Spawns.V),
		},
	}
	for _, p := range a.Prices {
		if c.Prices == nil {
			c.Prices = map[string]agentloop.Price{}
		}
		c.Prices[p.Model] = agentloop.Price{Input: p.Input, Output: p.Output, CacheRead: p.CacheRead, CacheWrite: p.CacheWrite}
	}
	return c
}
