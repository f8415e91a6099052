package policy

import "testing"

// TestCorpusOfCommands: one denied program, everything else allowed by default.
func TestCorpusOfCommands(t *testing.T) {
	_, cfg := place(t)
	cfg.Default, cfg.PrivateTmp = Allow, true
	e := engine(t, cfg, deny("run_bash(canary *)"), deny("run_bash(canary)"))
	negatives, alarms := 0, 0
	for _, c := range corpus(t, "bash.jsonl") {
		d := e.Check(t.Context(), BashCall(c.Command, ""))
		switch {
		case c.Positive && d.Verdict == Allow:
			t.Errorf("bypass %s: %.200q (%v)", c.ID, c.Command, d.Reason)
		case c.Positive && c.Tier == "plain" && d.Verdict != Deny:
			t.Errorf("asked about a plain case %s: %.200q (%v)", c.ID, c.Command, d.Reason)
		case !c.Positive && !c.Undecidable:
			negatives++
			if d.Verdict != Allow {
				alarms++
				t.Logf("false alarm %s: %v %.200q (%v)", c.ID, d.Verdict, c.Command, d.Reason)
			}
		}
	}
	t.Logf("%d false alarms on %d decidable negatives", alarms, negatives)
	if alarms*50 > negatives {
		t.Errorf("%d false alarms on %d decidable negatives, at most 2 percent", alarms, negatives)
	}
}
