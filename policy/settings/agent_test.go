package settings

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"sandboxd/policy"
)

// agentTable uses every key.
const agentTable = `
[agent]
provider = "openai"
model = "qwen"
base_url = "https://models.example/v1"
key_env = "MODELS_KEY"
script = "/srv/s.yaml"
classifier = "small"
explainer = "tiny"
explain = true

[agent.limits]
max_steps = 30
soft_tokens = 100000
hard_tokens = 150000
output_chars = 9000
answer_tokens = 4096
repeats = 5
stale = 6
parallel = 4
depth = 2
spawns = 7
budget = 2.5
time = "10m"
silence = "90s"

[agent.prices]
qwen = { input = 1, output = 2.5 }
"gpt-6.1-sol" = { input = 2, output = 10, cache_read = 0.1, cache_write = 2.5 }

[classifier]
allow_above = 0.9
deny_below = 0.3
timeout = "5s"
patience = "1s"
`

// values of an agent without their sources.
func values(a Agent) map[string]any {
	out := map[string]any{}
	for _, w := range a.words() {
		if w.value.Set {
			out[w.key] = w.value.V
		}
	}
	for _, c := range a.Limits.counts() {
		if c.value.Set {
			out[c.key] = c.value.V
		}
	}
	if a.Explain.Set {
		out["explain"] = a.Explain.V
	}
	if a.Limits.Budget.Set {
		out["budget"] = a.Limits.Budget.V
	}
	if a.Limits.Time.Set {
		out["time"] = a.Limits.Time.V
	}
	if a.Limits.Silence.Set {
		out["silence"] = a.Limits.Silence.V
	}
	for _, p := range a.Prices {
		out["price "+p.Model] = [4]float64{p.Input, p.Output, p.CacheRead, p.CacheWrite}
	}
	return out
}

var whole = map[string]any{
	"provider": "openai", "model": "qwen", "base_url": "https://models.example/v1", "key_env": "MODELS_KEY", "script": "/srv/s.yaml", "classifier": "small",
	"explainer": "tiny", "explain": true, "max_steps": int64(30), "soft_tokens": int64(100000), "hard_tokens": int64(150000), "output_chars": int64(9000),
	"answer_tokens": int64(4096), "repeats": int64(5), "stale": int64(6), "parallel": int64(4), "depth": int64(2), "spawns": int64(7), "budget": 2.5,
	"time": 10 * time.Minute, "silence": 90 * time.Second, "price qwen": [4]float64{1, 2.5, 1, 1}, "price gpt-6.1-sol": [4]float64{2, 10, 0.1, 2.5},
}

func TestAgentTableIsRead(t *testing.T) {
	p := newPlace(t)
	p.user(agentTable)
	e := p.load(p.options())
	if got := values(e.Agent); !reflect.DeepEqual(got, whole) {
		t.Errorf("got  %v\nwant %v", got, whole)
	}
	if from := e.Agent.Model.From; from.Kind != policy.SourceUser || from.Line != 4 {
		t.Errorf("model from %v", from)
	}
	c, err := e.Config()
	if err != nil {
		t.Fatal(err)
	}
	if c.Thresholds != (policy.Thresholds{AllowAbove: 0.9, DenyBelow: 0.3}) || c.ClassifierTimeout != 5*time.Second || c.ClassifierPatience != time.Second {
		t.Errorf("classifier %+v, %v, %v", c.Thresholds, c.ClassifierTimeout, c.ClassifierPatience)
	}
	if _, err := policy.NewEngine(c); err != nil {
		t.Error(err)
	}
	written, err := Parse(policy.Source{File: "again.toml"}, e.Policy.TOML())
	if err != nil {
		t.Fatal(err)
	}
	if got := values(written.Agent); !reflect.DeepEqual(got, whole) || written.Classifier.AllowAbove.V != 0.9 || written.Classifier.Timeout.V != 5*time.Second {
		t.Errorf("written and read back: %v, %+v", got, written.Classifier)
	}
}

func TestAgentTableIsChecked(t *testing.T) {
	for text, want := range map[string]string{
		"[agent]\nprovder = \"openai\"":                  "did you mean agent.provider?",
		"[agent]\napi_key = \"sk-1\"":                    "the name of a variable",
		"[agent]\nmax_steps = 3":                         "agent.limits.max_steps",
		"[agent]\nprovider = \"gemini\"":                 "anthropic",
		"[agent]\nmodel = 3":                             "agent.model",
		"[agent]\nmodel = \"\"":                          "empty",
		"[agent]\nmodel = \"a\\nb\"":                     "control characters",
		"[agent.limits]\nmaxsteps = 3":                   "did you mean agent.limits.max_steps?",
		"[agent.limits]\nmax_steps = 0":                  "from 1 to 10000",
		"[agent.limits]\nmax_steps = \"unlimited\"":      "from 1 to 10000",
		"[agent.limits]\nbudget = 0":                     "US dollars",
		"[agent.limits]\nbudget = -1":                    "US dollars",
		"[agent.limits]\nbudget = nan":                   "US dollars",
		"[agent.limits]\nbudget = inf":                   "US dollars",
		"[agent.limits]\ntime = \"soon\"":                "agent.limits.time",
		"[agent.limits]\nsilence = \"unlimited\"":        "from 1s to 30m",
		"[agent.limits]\nsilence = \"31m\"":              "from 1s to 30m",
		"[agent.limits]\nsilence = \"1ms\"":              "from 1s to 30m",
		"[agent.prices]\nm = 3":                          "a table such as",
		"[agent.prices]\nm = { input = 1 }":              "needs input and output",
		"[agent.prices]\nm = { input = 1, output = -1 }": "US dollars",
		"[agent.prices]\nm = { input = 1, out = 1 }":     "agent.prices.m.out",
		"agent = 3":                                           "must be a table",
		"[classifier]\nallow = 0.9":                           "did you mean classifier.allow_above?",
		"[classifier]\nallow_above = 1.5":                     "from 0 to 1",
		"[classifier]\nallow_above = 0":                       "would allow",
		"[classifier]\nallow_above = nan":                     "from 0 to 1",
		"[classifier]\ntimeout = \"3m\"":                      "at most 2m",
		"[classifier]\ntimeout = \"unlimited\"":               "at most 2m",
		"[classifier]\nallow_above = 0.3\ndeny_below = 0.5\n": "deny_below",
	} {
		_, err := Parse(policy.Source{File: "p.toml"}, []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "p.toml:") {
			t.Errorf("%q: error %v, want %q with its place", text, err, want)
		}
	}
}

// A file that came with the checkout says neither who answers nor where keys go.
// It may bound what others allow.
func TestUntrustedAgentTableOnlyLowersLimits(t *testing.T) {
	p := newPlace(t)
	p.project(agentTable)
	e := p.load(p.options())
	want := map[string]any{"answer_tokens": int64(4096), "parallel": int64(4), "depth": int64(2), "spawns": int64(7), "budget": 2.5, "time": 10 * time.Minute, "silence": 90 * time.Second}
	if got := values(e.Agent); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	var told []string
	for _, n := range e.Ignored {
		told = append(told, n.String())
	}
	all := strings.Join(told, "\n")
	for _, what := range []string{"agent.provider", "agent.model", "agent.base_url", "agent.key_env", "agent.script", "agent.classifier", "agent.explainer", "agent.explain",
		"agent.prices.qwen", "agent.limits.max_steps", "agent.limits.soft_tokens", "agent.limits.repeats", "classifier.timeout", "classifier.patience"} {
		if !strings.Contains(all, what+" ") && !strings.Contains(all, what+":") {
			t.Errorf("nothing told of %s in\n%s", what, all)
		}
	}
	if th := e.Classifier.thresholds(); th != (policy.Thresholds{AllowAbove: 0.9, DenyBelow: 0.3}) {
		t.Errorf("thresholds %+v: stricter ones count", th)
	}
	p.trust(ProjectFile)
	if got := values(p.load(p.options()).Agent); !reflect.DeepEqual(got, whole) {
		t.Errorf("trusted: %v", got)
	}
}

func TestUntrustedLimitsOfAgentsDoNotLoosenOthers(t *testing.T) {
	p := newPlace(t)
	p.user("[agent.limits]\nmax_steps = 5\nbudget = 1.0\ntime = \"1m\"\n[classifier]\nallow_above = 0.95\n")
	p.project("[agent.limits]\nmax_steps = 7\nbudget = 2.0\ntime = \"2m\"\n[classifier]\nallow_above = 0.9\n")
	e := p.load(p.options())
	want := map[string]any{"max_steps": int64(5), "budget": 1.0, "time": time.Minute}
	if got := values(e.Agent); !reflect.DeepEqual(got, want) || len(e.Ignored) != 4 || e.Classifier.AllowAbove.V != 0.95 {
		t.Errorf("got %v, classifier %v, told %v", got, e.Classifier.AllowAbove.V, e.Ignored)
	}
	p.project("[agent.limits]\nbudget = \"unlimited\"\ntime = \"unlimited\"\n")
	if got := values(p.load(p.options()).Agent); !reflect.DeepEqual(got, want) {
		t.Errorf("unlimited counted: %v", got)
	}
}

func TestManagedAgentBoundsOthers(t *testing.T) {
	p := newPlace(t)
	p.etc("[agent]\nprovider = \"anthropic\"\nmodel = \"claude-haiku-4-5\"\n[agent.limits]\nmax_steps = 20\nparallel = 6\nbudget = 5\n[classifier]\ndeny_below = 0.4\nallow_above = 0.85\n")
	p.user("[agent]\nprovider = \"openai\"\nmodel = \"gpt\"\nbase_url = \"https://other.example\"\nkey_env = \"OTHER\"\n[agent.limits]\nmax_steps = 50\nparallel = 2\nbudget = 1\nstale = 9\n[classifier]\ndeny_below = 0.1\nallow_above = 0.9\n")
	e := p.load(p.options())
	want := map[string]any{"provider": "anthropic", "model": "claude-haiku-4-5", "max_steps": int64(20), "parallel": int64(2), "budget": 1.0, "stale": int64(9)}
	if got := values(e.Agent); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	want = map[string]any{"provider": "anthropic", "model": "claude-haiku-4-5", "max_steps": int64(20), "parallel": int64(6), "budget": 5.0}
	if got := values(e.ManagedAgent()); !reflect.DeepEqual(got, want) {
		t.Errorf("managed alone %v\nwant %v", got, want)
	}
	if th := e.Classifier.thresholds(); th != (policy.Thresholds{AllowAbove: 0.9, DenyBelow: 0.4}) {
		t.Errorf("thresholds %+v", th)
	}
}

// The address and the key of one provider are not used with another.
func TestAnotherProviderTakesNothingOfTheWeakerOne(t *testing.T) {
	p := newPlace(t)
	p.user("[agent]\nprovider = \"openai\"\nmodel = \"qwen\"\nbase_url = \"https://models.example\"\nkey_env = \"K\"\n")
	file := p.write(p.home+"/other.toml", "[agent]\nprovider = \"anthropic\"\n")
	o := p.options()
	o.PolicyFiles = []string{file}
	if got, want := values(p.load(o).Agent), map[string]any{"provider": "anthropic"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
