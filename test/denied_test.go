package test

import (
	"os"
	"strings"
	"testing"
)

// A call that nobody could be asked about, or that a mode or a person denied, says
// what it was about and which rule would allow it, as sbx check does; and that rule
// does.
func TestDenialNamesTheRuleThatAllows(t *testing.T) {
	d := startDaemon(t, os.Getuid())
	allowing := func(text string) string {
		_, line, _ := strings.Cut(text, "sbx permissions add allow ")
		line, _, _ = strings.Cut(line, "\n")
		rule, _, _ := strings.Cut(line, " (also allows")
		return strings.Trim(strings.TrimSpace(rule), "'")
	}
	for _, tt := range []struct {
		name string
		run  func(name string) string
	}{
		{"nobody to ask", func(name string) string { return d.sbxTo(d, "exec", "--no-ask", "--", "touch", name).Stderr }},
		{"mode dontAsk", func(name string) string { return d.sbxTo(d, "exec", "--mode", "dontAsk", "--", "touch", name).Stderr }},
		{"an answer", func(name string) string {
			p := atTerminal(t, d.toDaemon(d, "exec", "--", "touch", name))
			p.await("allow it?")
			p.term.WriteString("n\n")
			p.ends()
			_, after, _ := strings.Cut(strings.ReplaceAll(p.seen.String(), "\r", ""), "allow it?")
			return after
		}},
		{"the API", func(name string) string {
			text, _ := d.request("POST", "/api/exec", d.execBody(map[string]any{"mode": "default"}, "touch", name))
			return strings.ReplaceAll(text, `\n`, "\n")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			name := "made-" + strings.ReplaceAll(tt.name, " ", "-")
			said := tt.run(name)
			want := "run_bash(touch " + name + ")"
			if exists(d.Work+"/"+name) || !strings.Contains(said, want) {
				t.Errorf("made %v, want a hint with %s: %s", exists(d.Work+"/"+name), want, said)
			}
			if tt.name != "an answer" && !strings.Contains(said, "no rule allows touch "+name) {
				t.Errorf("it does not say what was to be asked: %s", said)
			}
			if check := d.sbxTo(d, "check", "--", "touch", name); allowing(check.Stdout+check.Stderr) != want {
				t.Errorf("sbx check says %s", check.Stdout+check.Stderr)
			}
		})
	}
	name := "allowed"
	rule := allowing(d.sbxTo(d, "exec", "--no-ask", "--", "touch", name).Stderr)
	if r := d.sbxTo(d, "permissions", "add", "allow", rule); r.Code != 0 {
		t.Fatalf("%+v", r)
	}
	for _, mode := range []string{"default", "dontAsk"} {
		if r := d.sbxTo(d, "exec", "--no-ask", "--mode", mode, "--", "touch", name); r.Code != 0 || !exists(d.Work+"/"+name) {
			t.Errorf("with the rule, mode %s: %+v", mode, r)
		}
		os.Remove(d.Work + "/" + name)
	}
	// What no rule lifts says so, and names no rule.
	r := d.sbxTo(d, "exec", "--no-ask", "--", "rm", "-rf", "/srv/none")
	if r.Code != 126 || strings.Contains(r.Stderr, "permissions add") {
		t.Errorf("a floor: %+v", r)
	}
}

// What a person at the terminal is told before a path is opened is what is opened.
func TestApprovedAtTheTerminal(t *testing.T) {
	d := startDaemon(t, os.Getuid())
	d.policy("[filesystem]\ntmp = \"none\"\n") // the scene may lie below /tmp
	d.file(d.Out+"/e", "wanted\n")
	for _, tt := range []struct{ answer, script, file, before, after string }{
		{"y", "echo hi > " + d.Out + "/f", d.Out + "/f", "opens the directory " + d.Out + " for writing", "opens the directory " + d.Out + " for writing"},
		{"y", "echo hi > ~/made", "", "the command has a private home in place of yours", "the command has a private home in place of yours"},
		{"y", "cat " + d.Out + "/e > one", d.Work + "/one", "opens " + d.Out + "/e for reading", "was added for this call alone (read)"},
	} {
		p := atTerminal(t, d.toDaemon(d, "exec", "--", "bash", "-c", tt.script))
		p.await("allow it?")
		before := p.seen.String()
		p.term.WriteString(tt.answer + "\n")
		p.ends()
		after := strings.TrimPrefix(p.seen.String(), before)
		if !strings.Contains(before, tt.before) || !strings.Contains(after, tt.after) || tt.file != "" && !exists(tt.file) || exists(d.Home+"/made") {
			t.Errorf("%s: before %s\nafter %s", tt.script, before, after)
		}
	}
	for n, answer := range []string{"a", ""} { // the second is not asked about
		p := atTerminal(t, d.toDaemon(d, "exec", "--", "cat", d.Out+"/e"))
		if answer != "" {
			p.await("allow it?")
			p.term.WriteString(answer + "\n")
		}
		if code := p.ends(); code != 0 || strings.Count(p.seen.String(), "wanted") != 1 || strings.Contains(p.seen.String(), "allow it?") != (n == 0) {
			t.Errorf("always, %d: exit %d, %s", n, code, p.seen.String())
		}
	}
}
