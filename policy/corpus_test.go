package policy

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

type corpusCase struct {
	ID, Family, Command, Cwd, Setup, Tier     string
	Positive, Undecidable, Outside, Sensitive bool
}

func corpus(t testing.TB, name string) []corpusCase {
	t.Helper()
	f, err := os.Open(filepath.Join("bash", "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var cases []corpusCase
	s := bufio.NewScanner(f)
	s.Buffer(nil, 4<<20)
	for s.Scan() {
		var c corpusCase
		if err := json.Unmarshal(s.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		cases = append(cases, c)
	}
	if err := s.Err(); err != nil || len(cases) < 100 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	return cases
}

// TestCorpusOfPaths: writing to the workspace alone, everything else allowed by
// default. Cases that need links are made in a workspace of their own.
func TestCorpusOfPaths(t *testing.T) {
	negatives, alarms := 0, 0
	for _, c := range corpus(t, "paths.jsonl") {
		cfg := Config{Workspace: "/w", Home: "/home/dev", Default: Allow}
		move := func(s string) string { return s }
		if c.Setup != "" {
			dir, _ := place(t)
			cfg.Workspace = dir
			move = strings.NewReplacer("/w/", dir+"/", "/w2", dir+"2").Replace
			cmd := exec.Command("bash", "-c", move(c.Setup))
			cmd.Dir = dir
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v: %s", c.ID, err, out)
			}
			c.Cwd = move(c.Cwd + "/")
		}
		d := engine(t, cfg).Check(t.Context(), BashCall(move(c.Command), c.Cwd))
		switch {
		case (c.Outside || c.Sensitive) && d.Verdict == Allow:
			t.Errorf("silent write %s: %q after %q (%v), writes %v", c.ID, c.Command, c.Setup, d.Reason, d.Writes)
		case !c.Outside && !c.Sensitive && !c.Undecidable:
			negatives++
			if d.Verdict != Allow {
				alarms++
				t.Logf("false alarm %s: %v %q (%v)", c.ID, d.Verdict, c.Command, d.Reason)
			}
		}
	}
	if alarms*50 > negatives {
		t.Errorf("%d false alarms on %d decidable cases, at most 2 percent", alarms, negatives)
	}
}

// TestPromptRateOfEverydayWork reports how often ordinary work is interrupted.
func TestPromptRateOfEverydayWork(t *testing.T) {
	_, cfg := place(t)
	cfg.PrivateTmp = true
	rate := func(c Config) float64 {
		asked, n := 0, 0
		e := engine(t, c)
		for _, x := range corpus(t, "bash.jsonl") {
			if x.Family != "everyday" || x.Positive {
				continue
			}
			n++
			if d := e.Check(t.Context(), BashCall(x.Command, "")); d.Verdict != Allow {
				asked++
				if testing.Verbose() {
					t.Logf("%v %.120q (%v)", d.Verdict, x.Command, d.Reason)
				}
			}
		}
		return float64(asked) / float64(n)
	}
	plain := rate(cfg)
	cfg.AllowConfined, cfg.Confinement = true, FullyConfined
	confined := rate(cfg)
	t.Logf("questions in everyday work: %.0f%% with confined = ask, %.0f%% with confined = allow", 100*plain, 100*confined)
	if plain > 0.65 || confined > 0.10 {
		t.Errorf("%.2f and %.2f of everyday commands ask", plain, confined)
	}
}

func BenchmarkCorpus(b *testing.B) {
	_, cfg := place(b)
	cfg.Default, cfg.PrivateTmp = Allow, true
	e := engine(b, cfg, deny("run_bash(canary *)"), deny("run_bash(canary)"))
	cases := corpus(b, "bash.jsonl")
	n := 0
	for b.Loop() {
		for _, c := range cases {
			e.Check(b.Context(), BashCall(c.Command, ""))
			n++
		}
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "commands/s")
}
