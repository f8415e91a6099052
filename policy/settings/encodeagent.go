package settings

import (
	"strconv"
	"time"
)

// agent writes the tables [agent] and [classifier].
func (w *tomlWriter) agent(p *Policy, prefix string) {
	a := &p.Agent
	fresh := true
	begin := func(name string) {
		if fresh {
			w.table(prefix, name)
		}
		fresh = false
	}
	for _, v := range a.words() {
		if v.value.Set {
			begin("agent")
			w.word(v.key, *v.value)
		}
	}
	if a.Explain.Set {
		begin("agent")
		w.line("explain = %t", a.Explain.V)
	}
	fresh = true
	for _, c := range a.Limits.counts() {
		if c.value.Set {
			begin("agent.limits")
			w.line("%s = %d", c.key, c.value.V)
		}
	}
	if a.Limits.Budget.Set {
		begin("agent.limits")
		w.decimal("budget", a.Limits.Budget)
	}
	if a.Limits.Time.Set {
		begin("agent.limits")
		w.wait("time", a.Limits.Time)
	}
	if a.Limits.Silence.Set {
		begin("agent.limits")
		w.wait("silence", a.Limits.Silence)
	}
	fresh = true
	for _, m := range a.Prices {
		begin("agent.prices")
		w.line("%s = { input = %s, output = %s, cache_read = %s, cache_write = %s }", tomlKey(m.Model), decimal(m.Input), decimal(m.Output), decimal(m.CacheRead), decimal(m.CacheWrite))
	}
	c := p.Classifier
	if c == (Classifier{}) {
		return
	}
	w.table(prefix, "classifier")
	w.decimal("allow_above", c.AllowAbove)
	w.decimal("deny_below", c.DenyBelow)
	w.wait("timeout", c.Timeout)
	w.wait("patience", c.Patience)
}

// decimal is a number as TOML reads it.
func decimal(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

func (w *tomlWriter) decimal(key string, v Value[float64]) {
	switch {
	case v.Set && v.V < 0:
		w.line("%s = \"unlimited\"", key)
	case v.Set:
		w.line("%s = %s", key, decimal(v.V))
	}
}

func (w *tomlWriter) wait(key string, v Value[time.Duration]) {
	switch {
	case v.Set && v.V < 0:
		w.line("%s = \"unlimited\"", key)
	case v.Set:
		w.line("%s = %s", key, tomlString(v.V.String()))
	}
}
