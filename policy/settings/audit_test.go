package settings

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"sandboxd/policy"
)

// A key that no table has is an error with its place and what to write instead, in each
// table that a policy can hold.
func TestUnknownKeysOfEachTableAreErrors(t *testing.T) {
	const key = "bogus_key = true"
	written := map[string]string{
		"": key, "rule": `rules.deny = [{ rule = "run_bash(x)", bogus_key = true }]`,
		"mcp server": "[mcp.servers.x]\ncommand = \"x\"\n" + key, "agent limits": "[agent.limits]\n" + key,
		"price": "[agent.prices.x]\n" + key, "hook": "[[hooks.PreToolUse]]\ncommand = \"x\"\n" + key,
	}
	for name := range schema {
		text, ok := written[name]
		if !ok {
			text = "[" + name + "]\n" + key
		}
		for _, where := range []string{"", "[profiles.p]\n"} {
			if where != "" {
				if name == "hook" || strings.HasPrefix(text, "[agent.") || strings.HasPrefix(text, "[mcp.") {
					continue // written otherwise in a profile; its keys are read by the same code
				}
				text = strings.Replace(text, "["+name+"]", "[profiles.p."+name+"]", 1)
				if name == "" || name == "rule" {
					text = where + text
				}
			}
			text = "# a comment\n" + strings.TrimPrefix(text, "# a comment\n")
			_, err := Parse(policy.Source{File: "p.toml"}, []byte(text))
			e, ok := errors.AsType[*Error](err)
			line := 1 + strings.Count(text[:strings.Index(text, "bogus_key")], "\n")
			if !ok || !strings.Contains(e.Text, "unknown key") || !strings.Contains(e.Text, "bogus_key") || e.Line != line || e.Hint == "" {
				t.Errorf("table %q: %v, want line %d and a hint:\n%s", name, err, line, text)
			}
		}
	}
	for name, hint := range keyless {
		_, err := Parse(policy.Source{File: "p.toml"}, []byte("["+name+"]\ntimeout = \"1s\"\n"))
		if e, ok := errors.AsType[*Error](err); !ok || e.Hint != hint {
			t.Errorf("[%s] timeout: %v", name, err)
		}
		if _, err := Parse(policy.Source{File: "p.toml"}, []byte("["+name+"]\n")); err != nil {
			t.Errorf("an empty table: %v", err)
		}
	}
}

// What becomes of unrecorded calls is loosened by the managed policy alone, and
// tightened by each source.
func TestAuditOfEachSource(t *testing.T) {
	failure := func(what string) string { return fmt.Sprintf("[audit]\non_failure = %q\n", what) }
	const runs = "[audit]\nrun = true\n"
	for _, tt := range []struct {
		name                     string
		etc, user, project, flag string
		trusted                  bool
		onFailure, ignored       string
		records                  bool
	}{
		{name: "nothing"},
		{name: "managed runs", etc: failure("run"), onFailure: "run"},
		{name: "managed runs, the project refuses", etc: failure("run"), project: failure("refuse"), onFailure: "refuse"},
		{name: "managed refuses, the user runs", etc: failure("refuse"), user: failure("run"), onFailure: "refuse", ignored: "audit.on_failure = run"},
		{name: "user runs", user: failure("run"), ignored: "audit.on_failure = run"},
		{name: "flag runs", flag: failure("run"), ignored: "audit.on_failure = run"},
		{name: "project runs", project: failure("run"), ignored: "audit.on_failure = run"},
		{name: "trusted project runs", project: failure("run"), trusted: true, ignored: "audit.on_failure = run"},
		{name: "managed records, the flag does not", etc: runs, flag: "[audit]\nrun = false\n", records: true},
		{name: "user records, a checkout does not", user: runs, project: "[audit]\nrun = false\n", records: true, ignored: "audit.run = false"},
		{name: "checkout records", project: runs, records: true},
		{name: "user records, the flag does not", user: runs, flag: "[audit]\nrun = false\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlace(t)
			o := p.options()
			for text, write := range map[string]func(string){tt.etc: func(s string) { p.etc(s) }, tt.user: func(s string) { p.user(s) }} {
				if text != "" {
					write(text)
				}
			}
			layer := func(kind policy.SourceKind, text string) {
				if text == "" {
					return
				}
				l, err := Parse(policy.Source{Kind: kind, File: "x.toml"}, []byte(text))
				if err != nil {
					t.Fatal(err)
				}
				o.Layers = append(o.Layers, l)
			}
			if tt.trusted {
				layer(policy.SourceProject, tt.project)
			} else if tt.project != "" {
				p.project(tt.project)
			}
			layer(policy.SourceCLI, tt.flag)
			e := p.load(o)
			if e.Audit.OnFailure.V != tt.onFailure || e.Audit.Run.V != tt.records {
				t.Errorf("%+v, want %q and %v", e.Audit, tt.onFailure, tt.records)
			}
			if told := slices.ContainsFunc(e.Ignored, func(n Note) bool { return n.What == tt.ignored }); told != (tt.ignored != "") {
				t.Errorf("ignored: %v, want %q", e.Ignored, tt.ignored)
			}
		})
	}
}
