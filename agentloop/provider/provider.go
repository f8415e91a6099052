package provider

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"sandboxd/agentloop"
)

// Options are what a caller may set beside the configuration. The zero value has
// the documented defaults.
type Options struct {
	// ReadFile reads the script of the scripted provider, with the rights of the
	// user whose agent it is. Nil: scripts are refused.
	ReadFile func(path string) ([]byte, error)
	// TLS replaces the system's roots; nil keeps them.
	TLS *tls.Config
	// Attempts bounds how often a request is sent: 4. Backoff is the first wait
	// between two: 500 ms. MaxWait bounds all waits of a request: 2 min; a server
	// that asks for more is not waited for.
	Attempts         int
	Backoff, MaxWait time.Duration
	// Silence is that of [agentloop.AgentLimits], for a configuration that says
	// nothing. Longest bounds a whole answer: 30 min.
	Silence, Longest time.Duration
}

func (o Options) orDefault() Options {
	if o.Attempts <= 0 {
		o.Attempts = 4
	}
	fill(&o.Backoff, 500*time.Millisecond)
	fill(&o.MaxWait, 2*time.Minute)
	fill(&o.Silence, agentloop.AgentLimits{}.OrDefault().Silence)
	fill(&o.Longest, 30*time.Minute)
	return o
}

func fill(d *time.Duration, value time.Duration) {
	if *d <= 0 {
		*d = value
	}
}

// Names of the providers.
const (
	Anthropic       = "anthropic"
	OpenAI          = "openai"
	OpenAIResponses = "openai-responses"
	ScriptedName    = "scripted"
)

// Names are the providers that New knows.
func Names() []string { return []string{Anthropic, OpenAI, OpenAIResponses, ScriptedName} }

// NoKey as the name of the variable says that there is no key.
const NoKey = "none"

// protocol is what is known of a provider beforehand.
type protocol struct {
	base    string
	baseVar string
	keyVars []string
	model   string // the default; empty: it must be named
	make    func(endpoint) api
}

// endpoint is where requests go.
type endpoint struct {
	base   *url.URL
	key    string
	bearer bool // of a token rather than a key, where the protocol tells them apart
	own    bool // the address is the provider's own
	http   *http.Client
}

func protocols() map[string]protocol {
	return map[string]protocol{
		Anthropic: {base: anthropicBase, baseVar: "ANTHROPIC_BASE_URL", keyVars: []string{"ANTHROPIC_API_KEY", anthropicToken}, model: defaultAnthropicModel, make: newAnthropic},
		OpenAI:    {base: openAIBase, baseVar: "OPENAI_BASE_URL", keyVars: []string{"OPENAI_API_KEY"}, model: defaultOpenAIModel, make: newChat},
		OpenAIResponses: {base: openAIBase, baseVar: "OPENAI_BASE_URL", keyVars: []string{"OPENAI_API_KEY"},
			model: defaultOpenAIModel, make: newResponses},
	}
}

const (
	anthropicBase = "https://api.anthropic.com"
	openAIBase    = "https://api.openai.com/v1"
	// anthropicToken holds a bearer token rather than a key.
	anthropicToken = "ANTHROPIC_AUTH_TOKEN"
)

// ConfigError reports a configuration that names no usable provider.
type ConfigError struct{ Text, Hint string }

func (e *ConfigError) Error() string {
	if e.Hint == "" {
		return e.Text
	}
	return e.Text + "; " + e.Hint
}

// New makes the provider that cfg and the environment of the user name, and
// returns cfg with what was chosen filled in: Provider, Model, BaseURL and KeyEnv.
// lookup reads that environment ([os.Getenv] in a program of the user's own). The
// key itself stays in the provider. Errors are *ConfigError, or of the script.
//
// The provider may be an io.Closer: Close drops its idle connections.
func New(cfg agentloop.AgentConfig, lookup func(string) string, o Options) (agentloop.Provider, agentloop.AgentConfig, error) {
	if cfg.Limits.Silence > 0 {
		o.Silence = cfg.Limits.Silence
	}
	o = o.orDefault()
	name, err := choose(cfg, lookup)
	if err != nil {
		return nil, cfg, err
	}
	cfg.Provider = name
	if name == ScriptedName {
		p, err := openScript(cfg.Script, o)
		if cfg.Model == "" && err == nil {
			cfg.Model = orText(p.script.Model, "script")
		}
		return p, cfg, err
	}
	proto := protocols()[name]
	var e endpoint
	if err := e.locate(&cfg, proto, lookup); err != nil {
		return nil, cfg, err
	}
	if err := e.unlock(&cfg, proto, lookup); err != nil {
		return nil, cfg, err
	}
	if cfg.Model == "" {
		if !e.own || proto.model == "" {
			return nil, cfg, &ConfigError{"no model is named for " + e.base.Host, "set model of [agent], or --model"}
		}
		cfg.Model = proto.model
	}
	if err := priced(cfg, e.base.Host); err != nil {
		return nil, cfg, err
	}
	e.http = newClient(e.base, e.key, lookup, o)
	return &client{api: proto.make(e), http: e.http, o: o, key: cfg.KeyEnv}, cfg, nil
}

// priced refuses a budget in dollars that would not see what some model costs: each
// that may be asked needs a price of its own.
func priced(cfg agentloop.AgentConfig, host string) error {
	if cfg.Limits.Cost <= 0 {
		return nil
	}
	models := []string{cfg.Model, cfg.Classifier}
	if cfg.Explain {
		models = append(models, cfg.Explainer)
	}
	for _, model := range models {
		if _, known := PriceOf(cfg, model); !known && model != "" {
			return &ConfigError{fmt.Sprintf("a budget in dollars needs a price, and none is known for %s at %s", model, host),
				"set one in [agent.prices], or bound tokens, steps and time instead"}
		}
	}
	return nil
}

func openScript(path string, o Options) (*Scripted, error) {
	switch {
	case path == "":
		return nil, &ConfigError{"the scripted provider has no script", "set script of [agent], or --script"}
	case o.ReadFile == nil:
		return nil, &ConfigError{"scripts are not read here", ""}
	}
	data, err := o.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s, err := ParseScript(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return NewScripted(s), nil
}

// choose finds the provider. Without a name it follows from a script, from the
// keys that are there, from the model where several are, or from an address.
func choose(cfg agentloop.AgentConfig, lookup func(string) string) (string, error) {
	if cfg.Provider != "" {
		if !slices.Contains(Names(), cfg.Provider) {
			return "", &ConfigError{fmt.Sprintf("unknown provider %q", cfg.Provider), "want one of " + strings.Join(Names(), ", ")}
		}
		return cfg.Provider, nil
	}
	if cfg.Script != "" {
		return ScriptedName, nil
	}
	var found []string
	for _, name := range []string{Anthropic, OpenAI} {
		p := protocols()[name]
		if slices.ContainsFunc(p.keyVars, func(v string) bool { return lookup(v) != "" }) || lookup(p.baseVar) != "" {
			found = append(found, name)
		}
	}
	ofModel := ""
	switch {
	case strings.HasPrefix(cfg.Model, "claude-"):
		ofModel = Anthropic
	case strings.HasPrefix(cfg.Model, "gpt-"):
		ofModel = OpenAI
	}
	switch {
	case len(found) == 1 && cfg.BaseURL == "":
		return found[0], nil
	case ofModel != "" && (cfg.BaseURL != "" || slices.Contains(found, ofModel)):
		return ofModel, nil
	case cfg.BaseURL != "":
		return OpenAI, nil // what most servers of one's own speak
	case len(found) > 1:
		return "", &ConfigError{"there are keys for " + strings.Join(found, " and "), "set provider of [agent], or --provider"}
	}
	return "", &ConfigError{"no model is configured", "set ANTHROPIC_API_KEY or OPENAI_API_KEY, or provider and base_url of [agent]; without a model there is --script"}
}

// locate finds the address.
func (e *endpoint) locate(cfg *agentloop.AgentConfig, p protocol, lookup func(string) string) error {
	text, from := cfg.BaseURL, "base_url"
	if text == "" {
		text, from = strings.TrimSpace(lookup(p.baseVar)), p.baseVar
	}
	if text == "" {
		text = p.base
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return &ConfigError{from + " is no address", "want https://HOST/PATH"} // its text may hold a password
	case u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "":
		return &ConfigError{fmt.Sprintf("%s %q is no HTTP address", from, u.Redacted()), "want https://HOST/PATH"}
	case u.User != nil, u.RawQuery != "", u.Fragment != "":
		return &ConfigError{from + " has a user, a query or a fragment", "a key belongs into a variable that key_env names"}
	}
	e.base, e.own = u, text == p.base
	cfg.BaseURL = u.String()
	return nil
}

// unlock finds the key.
func (e *endpoint) unlock(cfg *agentloop.AgentConfig, p protocol, lookup func(string) string) error {
	names := p.keyVars
	switch {
	case cfg.KeyEnv == NoKey:
		return e.open(cfg, "", "")
	case cfg.KeyEnv != "":
		names = []string{cfg.KeyEnv}
	}
	for _, name := range names {
		if key := strings.TrimSpace(lookup(name)); key != "" {
			return e.open(cfg, name, key)
		}
	}
	if e.own || cfg.KeyEnv != "" {
		return &ConfigError{"there is no key for " + e.base.Host, "set " + strings.Join(names, " or ")}
	}
	return e.open(cfg, "", "") // a server of one's own needs none
}

func (e *endpoint) open(cfg *agentloop.AgentConfig, name, key string) error {
	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return &ConfigError{"the key in " + name + " has characters that no key has", ""}
	}
	if key != "" && e.base.Scheme == "http" && !loopback(e.base.Hostname()) {
		return &ConfigError{fmt.Sprintf("the key in %s would go to %s without encryption", name, e.base.Host), `use https, or key_env = "none" where the server needs no key`}
	}
	e.key, e.bearer, cfg.KeyEnv = key, name == anthropicToken, name
	if key == "" {
		cfg.KeyEnv = NoKey
	}
	return nil
}

// loopback reports names of this host. That localhost is this host is checked when
// it is connected to.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || (ip != nil && ip.IsLoopback())
}
