package settings

import (
	"testing"

	"sandboxd/policy"
)

// Who sets HOME elsewhere does not move what the administrator wrote with ~: the
// home of the account counts. What the user writes follows HOME.
func TestManagedHomeIsThatOfTheAccount(t *testing.T) {
	p := newPlace(t)
	account := t.TempDir()
	p.etc(`[rules]
deny = ["read_file(~/.ssh/**)"]
ask = ["effect(read ~/mail/**)"]
allow = ["read_file(~/free/**)"]
[filesystem]
deny = ["~/keys"]
read = ["~/docs"]
`)
	p.user("[rules]\ndeny = [\"read_file(~/own/**)\"]\n")
	for _, c := range []struct {
		account                         string
		denied, asked, allowed, neither []string
	}{
		{account: account,
			denied:  []string{account + "/.ssh/id", p.home + "/.ssh/id", account + "/keys/k", p.home + "/keys/k", p.home + "/own/x"},
			asked:   []string{account + "/mail/m", p.home + "/mail/m"},
			allowed: []string{account + "/free/f"},
			neither: []string{p.home + "/free/f", account + "/own/x"}},
		{account: p.home,
			denied:  []string{p.home + "/.ssh/id", p.home + "/keys/k"},
			asked:   []string{p.home + "/mail/m"},
			allowed: []string{p.home + "/free/f"},
			neither: []string{account + "/.ssh/id"}},
		{account: "", denied: []string{p.home + "/.ssh/id"}, allowed: []string{p.home + "/free/f"}},
	} {
		o := p.options()
		o.AccountHome = func() string { return c.account }
		e, err := Load(o)
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := e.Config()
		if err != nil {
			t.Fatal(err)
		}
		cfg.Default = policy.Ask
		engine, err := policy.NewEngine(cfg)
		if err != nil {
			t.Fatal(err)
		}
		reason := func(path string) (policy.Decision, policy.RuleReason, bool) {
			d := engine.Check(t.Context(), policy.Call{Tool: "read_file", Args: policy.Args{"file_path": path}})
			r, ok := d.Reason.(policy.RuleReason)
			return d, r, ok
		}
		for want, paths := range map[policy.Verdict][]string{policy.Deny: c.denied, policy.Ask: c.asked, policy.Allow: c.allowed} {
			for _, path := range paths {
				if d, _, byRule := reason(path); d.Verdict != want || !byRule {
					t.Errorf("account %q: %s: %v (%v), want %v by a rule", c.account, path, d.Verdict, d.Reason, want)
				}
			}
		}
		for _, path := range c.neither {
			if d, r, byRule := reason(path); byRule {
				t.Errorf("account %q: %s: %v by %v, want no rule", c.account, path, d.Verdict, r)
			}
		}
	}
}

// The account database is only asked when the answer counts.
func TestAccountHomeIsAskedForWhenNeeded(t *testing.T) {
	p := newPlace(t)
	p.user("[rules]\ndeny = [\"read_file(~/own/**)\"]\n")
	o := p.options()
	o.AccountHome = func() string { t.Error("asked"); return "" }
	if _, err := Load(o); err != nil {
		t.Fatal(err)
	}
}
