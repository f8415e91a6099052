package bash_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"sort"
	"strings"
	"testing"

	"sandboxd/policy/bash"
)

// caseLine is one line of testdata/bash.jsonl or testdata/paths.jsonl.
type caseLine struct {
	ID, Family, Command, Tier, Cwd, Setup string
	Positive, Undecidable                 bool
	Outside, Sensitive                    bool
	Writes                                []string
}

func readCases(t testing.TB, name string) []caseLine {
	t.Helper()
	f, err := os.Open("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []caseLine
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 4<<20)
	for sc.Scan() {
		var c caseLine
		if err := json.Unmarshal(sc.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		out = append(out, c)
	}
	return out
}

// judge applies one rule, deny run_bash(canary *) and run_bash(canary), with all
// else allowed, as DESIGN defines it.
func judge(script string) (verdict, why string) {
	return judgeAnalysis(bash.Analyze(script, bash.Options{Cwd: "/w", Home: "/home/dev"}))
}

func judgeAnalysis(a bash.Analysis) (verdict, why string) {
	for i := range a.Commands {
		c := &a.Commands[i]
		if len(c.Argv) > 0 && path.Base(c.Argv[0].Text) == "canary" {
			return "deny", strings.Join(c.Via, ">") + " " + strings.Join(c.Words(), " ")
		}
	}
	for _, u := range a.Unknown {
		return "ask", u.Kind.String() + ": " + u.Text
	}
	for i := range a.Commands {
		c := &a.Commands[i]
		if c.InTable || len(c.Argv) == 0 {
			continue
		}
		for _, w := range c.Argv[1:] {
			if path.Base(w.Text) == "canary" {
				return "ask", "unknown program " + c.Argv[0].Text + " with the word canary"
			}
		}
	}
	return "allow", ""
}

func TestCorpusOfCommands(t *testing.T) {
	type figures struct{ pos, bypass, asked, neg, alarm int }
	families := map[string]*figures{}
	var total figures
	for _, c := range readCases(t, "bash.jsonl") {
		f := families[c.Family]
		if f == nil {
			f = &figures{}
			families[c.Family] = f
		}
		got, why := judge(c.Command)
		show := c.Command[:min(len(c.Command), 160)]
		switch {
		case c.Positive:
			f.pos++
			if got == "allow" {
				f.bypass++
				t.Errorf("%s: allowed: %q", c.ID, show)
			}
			if got == "ask" {
				f.asked++
				if c.Tier == "plain" {
					t.Errorf("%s: plain, but asked (%s): %q", c.ID, why, show)
				}
			}
		case !c.Undecidable:
			f.neg++
			if got != "allow" {
				f.alarm++
				t.Logf("%s: false alarm: %s (%s): %q", c.ID, got, why, show)
			}
		}
	}
	var names []string
	for n, f := range families {
		names = append(names, n)
		total.pos += f.pos
		total.bypass += f.bypass
		total.asked += f.asked
		total.neg += f.neg
		total.alarm += f.alarm
	}
	sort.Strings(names)
	for _, n := range names {
		f := families[n]
		t.Logf("%-10s positives %3d bypassed %d asked %3d   negatives %3d alarms %d", n, f.pos, f.bypass, f.asked, f.neg, f.alarm)
	}
	rate := float64(total.alarm) / float64(total.neg)
	t.Logf("total: positives %d, bypassed %d, asked %d; decidable negatives %d, alarms %d (%.2f %%)",
		total.pos, total.bypass, total.asked, total.neg, total.alarm, rate*100)
	if rate > 0.02 {
		t.Errorf("false alarms: %.2f %%, more than 2 %%", rate*100)
	}
}

func ExampleAnalyze() {
	a := bash.Analyze(`cd src && timeout 5 rm -rf "$x"`, bash.Options{Cwd: "/w"})
	for _, c := range a.Commands {
		fmt.Println(strings.ReplaceAll(strings.Join(c.Words(), " "), bash.Hole, "…"), c.Via)
	}
	// Output:
	// cd src []
	// timeout 5 rm -rf … []
	// rm -rf … [timeout]
}
