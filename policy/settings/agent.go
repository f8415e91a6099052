package settings

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"sandboxd/policy"
)

// Agent is the tables [agent], [agent.limits] and [agent.prices]: the model that
// works in a session, and what bounds it.
type Agent struct {
	Provider, Model, BaseURL, KeyEnv, Script Value[string]
	// Classifier and Explainer name other models for these two; Explain switches
	// the second on.
	Classifier, Explainer Value[string]
	Explain               Value[bool]
	Prices                []Price
	Limits                AgentLimits
}

// Price is what a model costs, in US dollars for a million tokens.
type Price struct {
	Model                                string
	Input, Output, CacheRead, CacheWrite float64
	Source                               policy.Source
}

// AgentLimits are the limits of a turn; see agentloop.AgentLimits for each. Budget
// is in US dollars. A negative Budget or Time is "unlimited".
type AgentLimits struct {
	MaxSteps, SoftTokens, HardTokens, OutputChars, AnswerTokens Value[int64]
	Repeats, Stale, Parallel, Depth, Spawns                     Value[int64]
	Budget                                                      Value[float64]
	Time, Silence                                               Value[time.Duration]
}

// agentCount is one of the numbers, with what holds where nobody says anything.
type agentCount struct {
	key     string
	value   *Value[int64]
	unset   int64
	loosest int64 // the greatest that may be written
}

// counts lists the numbers. The defaults are those of agentloop.
func (l *AgentLimits) counts() []agentCount {
	const many = 1 << 31
	return []agentCount{
		{"max_steps", &l.MaxSteps, 8, 10_000},
		{"soft_tokens", &l.SoftTokens, 32_000, many},
		{"hard_tokens", &l.HardTokens, 40_000, many},
		{"output_chars", &l.OutputChars, 4000, 10 << 20},
		{"answer_tokens", &l.AnswerTokens, 8192, 1 << 20},
		{"repeats", &l.Repeats, 3, 1000},
		{"stale", &l.Stale, 4, 1000},
		{"parallel", &l.Parallel, 8, 128},
		{"depth", &l.Depth, 3, 16},
		{"spawns", &l.Spawns, 16, 1000},
	}
}

// words lists the settings that are texts. All of them say where words and keys
// go, or who answers: an untrusted file has no say.
func (a *Agent) words() []struct {
	key   string
	value *Value[string]
} {
	return []struct {
		key   string
		value *Value[string]
	}{{"provider", &a.Provider}, {"model", &a.Model}, {"base_url", &a.BaseURL}, {"key_env", &a.KeyEnv}, {"script", &a.Script},
		{"classifier", &a.Classifier}, {"explainer", &a.Explainer}}
}

// providers are the names that agentloop/provider knows.
var providers = []string{"anthropic", "openai", "openai-responses", "scripted"}

// agent decodes one key of [agent].
func (d *decoder) agent(m member) error {
	a := &d.p.Agent
	var err error
	switch m.key {
	case "provider":
		a.Provider, err = d.word(m.value, "agent.provider", providers)
	case "explain":
		var yes bool
		yes, err = d.boolOf(m.value, "agent.explain")
		a.Explain = set(yes, d.from(m.value))
	case "limits":
		err = d.agentLimits(m.value)
	case "prices":
		err = d.prices(m.value)
	default:
		for _, w := range a.words() {
			if w.key != m.key {
				continue
			}
			var text string
			if text, err = d.textOf(m.value, "agent."+m.key); err == nil && (text == "" || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' })) {
				err = d.errorf(m.value, "agent.%s: %s is empty or has control characters", m.key, quote(text))
			}
			*w.value = set(text, d.from(m.value))
		}
	}
	return err
}

func (d *decoder) agentLimits(n *node) error {
	if !n.isTable() {
		return d.errorf(n, "agent.limits must be a table, not %s", n.kind)
	}
	if err := d.checkKeys(n, "agent limits", "agent.limits"); err != nil {
		return err
	}
	l := &d.p.Agent.Limits
	for _, m := range n.members {
		var err error
		switch m.key {
		case "budget":
			l.Budget, err = d.dollars(m.value, "agent.limits.budget")
		case "time":
			l.Time, err = d.duration(m.value, "agent.limits.time")
		case "silence":
			l.Silence, err = d.silence(m.value)
		default:
			for _, c := range l.counts() {
				if c.key != m.key {
					continue
				}
				if m.value.kind != integer || m.value.integer < 1 || m.value.integer > c.loosest {
					return d.errorf(m.value, "agent.limits.%s must be a number from 1 to %d", c.key, c.loosest)
				}
				*c.value = set(m.value.integer, d.from(m.value))
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// usualSilence holds where nobody says anything, as in agentloop; an answer has no
// longer than longestSilence as a whole.
const (
	usualSilence   = 5 * time.Minute
	longestSilence = 30 * time.Minute
)

func (d *decoder) silence(n *node) (Value[time.Duration], error) {
	v, err := d.duration(n, "agent.limits.silence")
	if err == nil && (v.V < time.Second || v.V > longestSilence) {
		err = d.errorf(n, "agent.limits.silence must be from 1s to %v", longestSilence)
	}
	return v, err
}

// dollars reads an amount above zero, or "unlimited".
func (d *decoder) dollars(n *node, what string) (Value[float64], error) {
	if n.isText() && n.text == "unlimited" {
		return set(-1.0, d.from(n)), nil
	}
	v, ok := number(n)
	if !ok || !(v > 0 && v <= 1e6) {
		return Value[float64]{}, d.errorf(n, "%s must be US dollars such as 2.50, or \"unlimited\"", what)
	}
	return set(v, d.from(n)), nil
}

// number reads an integer or a decimal.
func number(n *node) (float64, bool) {
	switch n.kind {
	case integer:
		return float64(n.integer), true
	case float:
		return n.float, !math.IsNaN(n.float) && !math.IsInf(n.float, 0)
	}
	return 0, false
}

func (d *decoder) prices(n *node) error {
	if !n.isTable() {
		return d.errorf(n, "agent.prices must be a table of models, not %s", n.kind)
	}
	for _, m := range n.members {
		where := "agent.prices." + m.key
		if !m.value.isTable() {
			return d.errorf(m.value, "%s must be a table such as { input = 3.00, output = 15.00 }, not %s", where, m.value.kind)
		}
		if err := d.checkKeys(m.value, "price", where); err != nil {
			return err
		}
		p := Price{Model: m.key, Source: d.p.source(m.line)}
		into := map[string]*float64{"input": &p.Input, "output": &p.Output, "cache_read": &p.CacheRead, "cache_write": &p.CacheWrite}
		given := map[string]bool{}
		for _, f := range m.value.members {
			v, ok := number(f.value)
			if !ok || !(v >= 0 && v <= 1e6) {
				return d.errorf(f.value, "%s.%s must be US dollars for a million tokens", where, f.key)
			}
			*into[f.key], given[f.key] = v, true
		}
		if !given["input"] || !given["output"] {
			return d.errorf(m.value, "%s needs input and output", where)
		}
		// What is read from a cache, or put there, costs as any other token where
		// nothing else is said.
		if !given["cache_read"] {
			p.CacheRead = p.Input
		}
		if !given["cache_write"] {
			p.CacheWrite = p.Input
		}
		d.p.Agent.Prices = append(d.p.Agent.Prices, p)
	}
	return nil
}

// agent merges the table [agent]. A file that is not trusted may lower limits and
// say nothing else. The limits of a managed policy are upper bounds: what is lower
// stays.
func (m *merger) agent(l layer) {
	out, in := &m.out.Policy.Agent, l.Agent
	if l.Source.Kind == policy.SourceManaged {
		m.managedAgent(in)
	}
	if !l.trusted {
		for _, w := range in.words() {
			if w.value.Set {
				m.ignore(w.value.From, fmt.Sprintf("agent.%s = %s", w.key, quote(w.value.V)), untrusted)
			}
		}
		if in.Explain.Set {
			m.ignore(in.Explain.From, fmt.Sprintf("agent.explain = %v", in.Explain.V), untrusted)
		}
		for _, p := range in.Prices {
			m.ignore(p.Source, "agent.prices."+p.Model, untrusted)
		}
		m.agentLimits(l)
		return
	}
	// The address, the key and the models of a weaker source belong to its provider.
	other := in.Provider.Set && out.Provider.Set && in.Provider.V != out.Provider.V
	from := in.words()
	for i, w := range out.words() {
		if from[i].value.Set || other {
			*w.value = *from[i].value
		}
	}
	if in.Explain.Set {
		out.Explain = in.Explain
	}
	out.Prices = slices.DeleteFunc(out.Prices, func(p Price) bool {
		return slices.ContainsFunc(in.Prices, func(q Price) bool { return q.Model == p.Model })
	})
	out.Prices = append(slices.Clone(in.Prices), out.Prices...)
	m.agentLimits(l)
}

// managedAgent keeps what the managed policy says by itself; its layers come the
// weakest first.
func (m *merger) managedAgent(in Agent) {
	own := merger{out: &Effective{}}
	own.out.Policy.Agent = m.out.managedAgent
	own.agent(layer{&Policy{Source: policy.Source{Kind: policy.SourceUser}, Agent: in}, true})
	m.out.managedAgent = own.out.Policy.Agent
}

func (m *merger) agentLimits(l layer) {
	out, in := &m.out.Policy.Agent.Limits, l.Agent.Limits
	bound := l.Source.Kind == policy.SourceManaged
	from := in.counts()
	for i, c := range out.counts() {
		v := *from[i].value
		if bound && v.Set && c.value.Set && c.value.V <= v.V {
			continue
		}
		pickLimit(m, l, "agent.limits."+c.key, c.value, v, c.unset)
	}
	if v := in.Time; !bound || !out.Time.Set || moreThan(v.V, out.Time.V) {
		pickLimit(m, l, "agent.limits.time", &out.Time, v, -1)
	}
	if v := in.Silence; !bound || !out.Silence.Set || v.V < out.Silence.V {
		pickLimit(m, l, "agent.limits.silence", &out.Silence, v, usualSilence)
	}
	switch v := in.Budget; {
	case !v.Set:
	case !l.trusted && v.V < 0, !l.trusted && out.Budget.Set && out.Budget.V >= 0 && v.V > out.Budget.V:
		m.ignore(v.From, fmt.Sprintf("agent.limits.budget = %v", v.V), untrusted)
	case bound && v.V >= 0 && out.Budget.Set && out.Budget.V >= 0 && out.Budget.V <= v.V:
	default:
		out.Budget = v
	}
}

// ManagedAgent is what the managed policy itself says of agents: nothing replaces
// its words, and nothing exceeds its limits.
func (e *Effective) ManagedAgent() Agent { return e.managedAgent }

// ManagedDenials are the denials that end a loop as the managed policy sets them;
// its other limits are in [Effective.ManagedLimits].
func (e *Effective) ManagedDenials() Limits {
	var l Limits
	if v := e.Limits.DenialsInRow; v.From.Kind == policy.SourceManaged {
		l.DenialsInRow = v
	}
	if v := e.Limits.DenialsTotal; v.From.Kind == policy.SourceManaged {
		l.DenialsTotal = v
	}
	return l
}
