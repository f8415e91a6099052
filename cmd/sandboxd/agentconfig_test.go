package main

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"sandboxd/agentloop"
	"sandboxd/policy/settings"
)

// loadAgent reads a user's and a project's policy; the second is not trusted.
func loadAgent(t *testing.T, user, project string) *settings.Effective {
	t.Helper()
	home, work := t.TempDir(), t.TempDir()
	if err := os.MkdirAll(filepath.Join(home, ".config/sandboxd"), 0o700); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{filepath.Join(home, ".config/sandboxd/policy.toml"): user, filepath.Join(work, settings.ProjectFile): project} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	e, err := settings.Load(settings.Options{Workspace: work, ManagedDir: t.TempDir(), Environ: []string{"HOME=" + home}})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// limitKeys are the keys of [agent.limits] in the order of the fields of
// agentloop.AgentLimits that have a default.
var limitKeys = map[string]string{"MaxSteps": "max_steps", "SoftLimit": "soft_tokens", "HardLimit": "hard_tokens", "MaxOutput": "output_chars", "MaxAnswer": "answer_tokens",
	"Repeats": "repeats", "Stale": "stale", "Parallel": "parallel", "Depth": "depth", "Spawns": "spawns"}

// Every field has a key, and every key reaches its field.
func TestAgentTableReachesTheLoop(t *testing.T) {
	text := "[limits]\ndenials_in_row = 101\ndenials_total = 102\n[agent]\nprovider = \"openai\"\nmodel = \"m\"\nbase_url = \"https://b\"\nkey_env = \"K\"\nscript = \"s\"\nclassifier = \"c\"\nexplainer = \"e\"\nexplain = true\n" +
		"[agent.prices]\nm = { input = 1, output = 2, cache_read = 3, cache_write = 4 }\n[agent.limits]\nbudget = 1.5\ntime = \"9s\"\nsilence = \"8s\"\n"
	for i, key := range []string{"max_steps", "soft_tokens", "hard_tokens", "output_chars", "answer_tokens", "repeats", "stale", "parallel", "depth", "spawns"} {
		text += fmt.Sprintf("%s = %d\n", key, i+2)
	}
	e := loadAgent(t, text, "")
	c := agentConfig(e.Agent, e.Limits)
	seen := map[any]string{}
	var walk func(v reflect.Value, name string)
	walk = func(v reflect.Value, name string) {
		for i := range v.NumField() {
			f, name := v.Field(i), name+v.Type().Field(i).Name
			if f.Kind() == reflect.Struct {
				walk(f, name+".")
				continue
			}
			if f.IsZero() {
				t.Errorf("%s is not set", name)
			}
			if f.Comparable() && seen[f.Interface()] != "" {
				t.Errorf("%s and %s have the same value %v", name, seen[f.Interface()], f)
			}
			if f.Comparable() {
				seen[f.Interface()] = name
			}
		}
	}
	walk(reflect.ValueOf(c), "")
	if want := (agentloop.Price{Input: 1, Output: 2, CacheRead: 3, CacheWrite: 4}); c.Prices["m"] != want {
		t.Errorf("prices %+v", c.Prices)
	}
}

// The defaults that an untrusted limit is compared with are those of the loop.
func TestDefaultLimitsOfAgentsAgree(t *testing.T) {
	defaults := reflect.ValueOf(agentloop.AgentLimits{}.OrDefault())
	for field, key := range limitKeys {
		usual := defaults.FieldByName(field).Int()
		for n, told := range map[int64]int{usual: 0, usual + 1: 1} {
			e := loadAgent(t, "", fmt.Sprintf("[agent.limits]\n%s = %d\n", key, n))
			if len(e.Ignored) != told {
				t.Errorf("%s = %d: told %v, want %d notes", key, n, e.Ignored, told)
			}
		}
	}
	usual := agentloop.AgentLimits{}.OrDefault().Silence
	for d, told := range map[time.Duration]int{usual: 0, usual + time.Second: 1} {
		if e := loadAgent(t, "", fmt.Sprintf("[agent.limits]\nsilence = %q\n", d)); len(e.Ignored) != told {
			t.Errorf("silence = %v: told %v, want %d notes", d, e.Ignored, told)
		}
	}
}
