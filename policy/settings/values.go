package settings

import "sandboxd/policy"

// Shown is one value of a policy as it is shown to people.
type Shown struct {
	Key   string
	Value any
	From  policy.Source
}

func shown[T any](out []Shown, key string, v Value[T], value any) []Shown {
	if !v.Set {
		return out
	}
	return append(out, Shown{key, value, v.From})
}

// Values lists what is set.
func (a Agent) Values() (out []Shown) {
	for _, w := range a.words() {
		out = shown(out, "agent."+w.key, *w.value, w.value.V)
	}
	out = shown(out, "agent.explain", a.Explain, a.Explain.V)
	for _, c := range a.Limits.counts() {
		out = shown(out, "agent.limits."+c.key, *c.value, c.value.V)
	}
	out = shown(out, "agent.limits.budget", a.Limits.Budget, a.Limits.Budget.V)
	out = shown(out, "agent.limits.time", a.Limits.Time, a.Limits.Time.V.String())
	for _, p := range a.Prices {
		out = append(out, Shown{"agent.prices." + p.Model, map[string]float64{"input": p.Input, "output": p.Output, "cache_read": p.CacheRead, "cache_write": p.CacheWrite}, p.Source})
	}
	return out
}

// Values lists what is set.
func (c Classifier) Values() (out []Shown) {
	out = shown(out, "classifier.allow_above", c.AllowAbove, c.AllowAbove.V)
	out = shown(out, "classifier.deny_below", c.DenyBelow, c.DenyBelow.V)
	out = shown(out, "classifier.timeout", c.Timeout, c.Timeout.V.String())
	return shown(out, "classifier.patience", c.Patience, c.Patience.V.String())
}
