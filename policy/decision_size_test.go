package policy

import (
	"encoding/json"
	"strings"
	"testing"
)

// A decision about a long text is not many times as long, and says how long
// what it cuts was.
func TestDecisionsRepeatLittle(t *testing.T) {
	word := strings.Repeat("a", 100_000)
	for _, tt := range []struct{ name, script string }{
		{"a long program", strings.Repeat("a", 1<<20)},
		{"a long word", "rm " + strings.Repeat("a", 1<<20-10)},
		{"one that is expanded often", "x=" + word + ";" + strings.Repeat("rm $x;", 1000)},
		{"a long target", "rm ${y}" + strings.Repeat("b", 100_000)},
		{"a long host", "curl http://" + strings.Repeat("c", 1<<19)},
	} {
		for _, v := range []Verdict{Deny, Ask, Allow} {
			d := engine(t, Config{Workspace: "/w", Default: v}).Check(t.Context(), BashCall(tt.script, "/w"))
			text, err := json.Marshal(d)
			if err != nil {
				t.Fatal(err)
			}
			if len(text) > 2<<20 {
				t.Errorf("%s, default %v: a decision of %d bytes about %d", tt.name, v, len(text), len(tt.script))
			}
			if !strings.Contains(string(text), " bytes)") {
				t.Errorf("%s, default %v: nothing says what was cut", tt.name, v)
			}
			if len(d.Reason.String()) > 1000 {
				t.Errorf("%s, default %v: a reason of %d bytes", tt.name, v, len(d.Reason.String()))
			}
		}
	}
	long := strings.Repeat("é", 5000)
	d := engine(t, Config{Workspace: "/w"}).Check(t.Context(), BashCall("rm "+long, "/w"))
	if got := d.Commands[0].Argv[1]; got != long {
		t.Errorf("a word of %d bytes is shown with %d", len(long), len(got))
	}
	for limit := range 60 {
		if s := shorten(long, limit); len(s) > max(limit, 20) || strings.ContainsRune(s, '�') || !strings.HasSuffix(s, "... (10000 bytes)") {
			t.Errorf("shorten to %d: %q", limit, s)
		}
	}
}

// The reason for an allowed script is what allowed its weakest part.
func TestReasonOfAllowedScriptIsOfItsWeakestPart(t *testing.T) {
	e := engine(t, Config{Workspace: "/w", Default: Allow}, allow("run_bash(make *)"))
	for script, want := range map[string]string{
		"ls; ls -l":                    "mode",
		"ls; make x":                   "rule",
		"ls; foo":                      "default",
		"make x; foo; ls":              "default",
		"find . -type f -exec ls {} +": "mode",
		"find . -exec rm {} + ; ls":    "default",
		"kill -0 1; kill 1":            "default",
		"tar --help; rm x; make x; ls": "default",
	} {
		if d := e.Check(t.Context(), BashCall(script, "/w")); d.Verdict != Allow || d.Reason.Type() != want {
			t.Errorf("%s: %v by %v, want %s", script, d.Verdict, d.Reason, want)
		}
	}
}

// What the setting default decides says so, in words that fit the verdict.
func TestReasonsOfTheSettingDefault(t *testing.T) {
	for v, want := range map[Verdict]string{
		Allow: `default = "allow", and no rule or check is against it`,
		Ask:   "no rule allows foo bar",
		Deny:  `default = "deny": no rule allows foo bar`,
	} {
		if d := engine(t, Config{Workspace: "/w", Default: v}).Check(t.Context(), BashCall("foo bar", "/w")); d.Verdict != v || d.Reason.String() != want {
			t.Errorf("default %v: %v by %q, want %q", v, d.Verdict, d.Reason, want)
		}
	}
}
