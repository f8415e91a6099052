package settings

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"sandboxd/policy"
)

// FuzzParse: a policy file gives a policy or an *Error with the file's name,
// never a panic, and a policy can be written and read back.
func FuzzParse(f *testing.F) {
	f.Add("p.toml", []byte(fullPolicy))
	f.Add("p.toml", []byte(loosening))
	f.Add("p.yaml", []byte("mode: plan\nrules:\n  deny:\n    - a\n    - {rule: b, reason: c}\n"))
	f.Add("p.yaml", []byte("a: &x [*x]\n"))
	f.Add("p.toml", []byte("a.b.c = [[1,2],[{x=1}]]\n[[a.d]]\n[a.d.e]\n"))
	f.Add("p.toml", []byte("\"\\u0000\" = '''\n'''\n"))
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		if name != "p.yaml" {
			name = "p.toml"
		}
		source := policy.Source{Kind: policy.SourceUser, File: name}
		p, err := Parse(source, data)
		if err != nil {
			if e, ok := errors.AsType[*Error](err); !ok || e.File != name {
				t.Fatalf("error %v (%T) does not name the file", err, err)
			}
			return
		}
		back, err := Parse(policy.Source{Kind: policy.SourceUser, File: "p.toml"}, p.TOML())
		if err != nil {
			t.Fatalf("reading back: %v\n%s", err, p.TOML())
		}
		if len(back.Rules) != len(p.Rules) || back.Mode.V != p.Mode.V || len(back.Hooks) != len(p.Hooks) {
			t.Fatalf("reading back gives another policy\n%s", p.TOML())
		}
	})
}

// FuzzUntrustedOnlyTightens: whatever an untrusted project file says, no call is
// decided more freely by mode, default, rules or grants.
func FuzzUntrustedOnlyTightens(f *testing.F) {
	f.Add([]byte(loosening))
	f.Add([]byte(fullPolicy))
	f.Add([]byte(agentTable))
	f.Add([]byte("mode = \"bypassPermissions\"\n[limits]\ntimeout = \"unlimited\"\ntasks = \"unlimited\"\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Parse(policy.Source{Kind: policy.SourceProject, File: "p.toml"}, data)
		if err != nil {
			return
		}
		m := merger{out: &Effective{Workspace: "/w", Home: "/home/dev"}}
		m.add(layer{builtin(), true})
		before := *m.out
		m.add(layer{p, false})
		if err := m.finish(); err != nil {
			return
		}
		e := m.out
		if modeLoosens(before.Mode.V, e.Mode.V) || verdictLoosens(before.Default.V, e.Default.V) || e.Confined.V == "allow" || e.Syscalls.V != "default" || !e.netIs("none") {
			t.Fatalf("loosened: %+v", e.Policy)
		}
		for _, r := range e.Rules {
			if r.Kind == policy.AllowRule {
				t.Fatalf("allow rule %s", r.Pattern)
			}
		}
		for _, g := range e.Paths {
			if g.Access != policy.GrantDeny && g.Access != policy.GrantProtect {
				t.Fatalf("opens %+v", g)
			}
		}
		l := e.Limits
		if len(e.Hooks)+len(e.EnvPass)+len(e.EnvSet)+len(e.Unix) > 0 || e.Audit.OnFailure.V == auditRun || l.Timeout.V < 0 || l.Timeout.V > defaultTimeout || l.Tasks.V < 0 || l.Tasks.V > defaultTasks {
			t.Fatalf("starts or passes something: %+v", e.Policy)
		}
		for _, w := range e.Agent.words() {
			if w.value.Set {
				t.Fatalf("agent.%s = %q", w.key, w.value.V)
			}
		}
		for _, c := range e.Agent.Limits.counts() {
			if c.value.V < 0 || c.value.V > c.unset {
				t.Fatalf("agent.limits.%s = %d", c.key, c.value.V)
			}
		}
		if a := e.Agent; len(a.Prices) > 0 || a.Explain.Set || a.Limits.Budget.V < 0 || a.Limits.Time.V < 0 {
			t.Fatalf("loosened: %+v", a)
		}
		if th := e.Classifier.thresholds(); th.AllowAbove < defaultAllowAbove || th.DenyBelow < defaultDenyBelow || e.Classifier.Timeout.Set {
			t.Fatalf("loosened: %+v", th)
		}
	})
}

// FuzzImport: whatever a settings file holds, an import gives an *Error or a
// policy that can be written, read back and compiled, and that starts no mode of
// its own without questions.
func FuzzImport(f *testing.F) {
	for k, client := range Clients {
		names, err := filepath.Glob(filepath.Join("testdata/import", client, "*"))
		if err != nil {
			f.Fatal(err)
		}
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(k, filepath.Ext(name) == ".toml", data)
		}
	}
	f.Fuzz(func(t *testing.T, k int, toml bool, data []byte) {
		client := Clients[((k%len(Clients))+len(Clients))%len(Clients)]
		file := "x.json"
		if toml {
			file = "x.toml"
		}
		p, report, err := Import(client, policy.Source{Kind: policy.SourceProject, File: file}, data)
		if err != nil {
			if _, ok := errors.AsType[*Error](err); !ok {
				t.Fatalf("%s: error %v is a %T", client, err, err)
			}
			return
		}
		if p.Mode.V == "bypassPermissions" || p.Default.V == "allow" {
			t.Fatalf("%s: mode %s, default %s", client, p.Mode.V, p.Default.V)
		}
		if len(p.Rules) > 0 && len(report) == 0 {
			t.Fatalf("%s: rules without a report", client)
		}
		back, err := Parse(policy.Source{File: "p.toml"}, p.TOML())
		if err != nil {
			t.Fatalf("%s: reading back: %v\n%s", client, err, p.TOML())
		}
		if _, err := policy.NewRuleSet(back.Rules, policy.Base{Workspace: "/w", Home: "/home/dev"}); err != nil {
			t.Fatalf("%s: %v\n%s", client, err, p.TOML())
		}
	})
}
