package main

import "testing"

// The whole command line over the corpus: no command that starts the forbidden
// program is allowed, at most 2 % false alarms, plain ones are denied. Figures by
// family are those of package bash.
func TestCorpusOfCommands(t *testing.T) {
	data := corpus(t, "bash.jsonl")
	got := runBatch(t, "default = \"allow\"\n[rules]\ndeny = [\"run_bash(canary *)\", \"run_bash(canary)\"]\n", "/w", "/home/dev", data)
	decidable, alarms := 0, 0
	for _, c := range cases(t, data) {
		a, ok := got[c.ID]
		switch {
		case !ok || a.Error != "":
			t.Errorf("%s: no answer (%s)", c.ID, a.Error)
		case c.Positive && a.Verdict == "allow":
			t.Errorf("bypass %s: %.200s", c.ID, c.Command)
		case c.Positive && c.Tier == "plain" && a.Verdict != "deny":
			t.Errorf("%s: %s, want deny: %.200s", c.ID, a.Verdict, c.Command)
		case !c.Positive && !c.Undecidable:
			decidable++
			if a.Verdict != "allow" {
				alarms++
				t.Logf("false alarm %s: %s %s: %.120s", c.ID, a.Reason.Check, a.Reason.Text, c.Command)
			}
		}
	}
	if decidable == 0 || alarms*50 > decidable {
		t.Errorf("%d false alarms on %d decidable commands, want at most 2 %%", alarms, decidable)
	}
}
