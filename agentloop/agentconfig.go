package agentloop

import (
	"maps"
	"time"
)

// AgentConfig is the table [agent] of a policy: the model and the limits of a
// loop. Zero fields mean the defaults of [AgentLimits.OrDefault].
type AgentConfig struct {
	// Provider is anthropic, openai, openai-responses or scripted. Empty: the one
	// whose key is in the environment.
	Provider string
	Model    string
	// BaseURL replaces the provider's address. From a checkout it counts only once
	// a person trusted the file, as does KeyEnv: they say who gets the key.
	BaseURL string
	// KeyEnv names the variable that holds the key.
	KeyEnv string
	// Script is the file of the scripted provider.
	Script string
	// Prices by model; they add to the built-in table.
	Prices map[string]Price
	// Classifier and Explainer name the models for mode auto and for risk texts;
	// empty: Model. Explain switches the explainer on.
	Classifier, Explainer string
	Explain               bool
	Limits                AgentLimits
}

// WithFlags is c with what the user asks for now, which is as strong as a flag.
// managed is what the administrator's policy says ([PolicyInForce.ManagedAgent]):
// its words stay, and no limit exceeds its own. Another provider takes nothing of
// the address, the key and the models that c has for the one before.
func (c AgentConfig) WithFlags(f, managed AgentConfig) AgentConfig {
	words := func(a *AgentConfig) []*string {
		return []*string{&a.Provider, &a.Model, &a.BaseURL, &a.KeyEnv, &a.Script, &a.Classifier, &a.Explainer}
	}
	other := f.Provider != "" && f.Provider != c.Provider && managed.Provider == ""
	fixed, asked := words(&managed), words(&f)
	for i, w := range words(&c) {
		switch {
		case *fixed[i] != "":
		case *asked[i] != "":
			*w = *asked[i]
		case other:
			*w = ""
		}
	}
	c.Explain = c.Explain || f.Explain
	if len(f.Prices) > 0 {
		prices := maps.Clone(c.Prices)
		if prices == nil {
			prices = map[string]Price{}
		}
		maps.Copy(prices, f.Prices)
		c.Prices = prices
	}
	c.Limits = c.Limits.with(f.Limits).bounded(managed.Limits)
	return c
}

// AgentLimits bound a turn. The zero value means the defaults.
type AgentLimits struct {
	MaxSteps  int           // 8; the last one is answered without tools
	SoftLimit int64         // 32,000 tokens: the model is reminded
	HardLimit int64         // 40,000 tokens: compaction, else the end
	Cost      float64       // US dollars of a conversation; 0: none
	Time      time.Duration // wall clock of a turn; 0: none
	// Silence is how long a model may send nothing, before its answer and within it,
	// until the request is given up: 5 minutes, which is what Codex waits for the next
	// event of a stream (its stream_idle_timeout_ms), and undici, the HTTP client of
	// Node.js, for headers and for the next piece of a body.
	Silence time.Duration
	// MaxOutput is how many characters of a result the model gets: 4,000. The
	// whole goes to a file.
	MaxOutput int
	// MaxAnswer bounds the tokens of one answer: 8,192.
	MaxAnswer int
	// Denials in a row and in total end a turn: 3 and 20.
	DenialsInARow, DenialsTotal int
	// Repeats of one call in a row from which on it is not run: 3.
	Repeats int
	// Stale is how many steps in a row without anything new end a turn: 4.
	Stale int
	// Parallel bounds the calls of a batch that run at once: 8.
	Parallel int
	// Depth and Spawns bound sub-agents: 3 levels, 16 in one turn.
	Depth, Spawns int
}

// OrDefault fills in the defaults, which are those of the design documents where
// they have one (requirements 132 to 142).
func (l AgentLimits) OrDefault() AgentLimits {
	fill(&l.MaxSteps, 8)
	fill(&l.SoftLimit, 32_000)
	fill(&l.HardLimit, 40_000)
	fill(&l.MaxOutput, 4000)
	fill(&l.MaxAnswer, 8192)
	fill(&l.DenialsInARow, 3)
	fill(&l.DenialsTotal, 20)
	fill(&l.Repeats, 3)
	fill(&l.Stale, 4)
	fill(&l.Parallel, 8)
	fill(&l.Depth, 3)
	fill(&l.Spawns, 16)
	fill(&l.Silence, 5*time.Minute)
	return l
}

// counts are the limits that are numbers without a special zero.
func (l *AgentLimits) counts() []*int {
	return []*int{&l.MaxSteps, &l.MaxOutput, &l.MaxAnswer, &l.DenialsInARow, &l.DenialsTotal, &l.Repeats, &l.Stale, &l.Parallel, &l.Depth, &l.Spawns}
}

// with replaces what o sets.
func (l AgentLimits) with(o AgentLimits) AgentLimits {
	from := o.counts()
	for i, n := range l.counts() {
		replace(n, *from[i])
	}
	replace(&l.SoftLimit, o.SoftLimit)
	replace(&l.HardLimit, o.HardLimit)
	replace(&l.Cost, o.Cost)
	replace(&l.Time, o.Time)
	replace(&l.Silence, o.Silence)
	return l
}

func replace[T int | int64 | float64 | time.Duration](field *T, value T) {
	if value != 0 {
		*field = value
	}
}

// bounded lowers what exceeds a bound. Where l says nothing the default counts, or
// none for Cost and Time, which are then the bound.
func (l AgentLimits) bounded(bounds AgentLimits) AgentLimits {
	defaults, upper := AgentLimits{}.OrDefault(), bounds.counts()
	usual := defaults.counts()
	for i, n := range l.counts() {
		lower(n, *upper[i], *usual[i])
	}
	lower(&l.SoftLimit, bounds.SoftLimit, defaults.SoftLimit)
	lower(&l.HardLimit, bounds.HardLimit, defaults.HardLimit)
	lower(&l.Cost, bounds.Cost, 0)
	lower(&l.Time, bounds.Time, 0)
	lower(&l.Silence, bounds.Silence, defaults.Silence)
	return l
}

// lower keeps a limit within its bound; usual holds where it is zero, and a
// negative one, or no usual one, is without end.
func lower[T int | int64 | float64 | time.Duration](field *T, bound, usual T) {
	now := *field
	if now == 0 {
		now = usual
	}
	if bound > 0 && (now <= 0 || now > bound) {
		*field = bound
	}
}

func fill[T int | int64 | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}
