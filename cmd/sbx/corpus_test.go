package main

import (
	"bytes"
	"encoding/json"
	"os"
	osexec "os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// answer is what the tests need of one line of sbx check --batch.
type answer struct {
	ID      string `json:"id"`
	Verdict string `json:"verdict"`
	Error   string `json:"error"`
	Reason  struct{ Check, Text string }
}

// runBatch runs sbx check --batch in this process, with a policy file.
func runBatch(t *testing.T, policyText, workspace, home string, lines []byte) map[string]answer {
	t.Helper()
	dir := t.TempDir()
	for name, data := range map[string][]byte{"p.toml": []byte(policyText), "in.jsonl": lines} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out, errs bytes.Buffer
	args := []string{"check", "--policy", filepath.Join(dir, "p.toml"), "--workspace", workspace, "--cwd", workspace, "--batch", filepath.Join(dir, "in.jsonl")}
	if code := run(t.Context(), args, []string{"HOME=" + home, "XDG_CONFIG_HOME=" + dir, "XDG_STATE_HOME=" + dir}, nil, &out, &errs); code != 0 {
		t.Fatalf("exit status %d: %s", code, errs.String())
	}
	answers := map[string]answer{}
	for line := range bytes.Lines(out.Bytes()) {
		var a answer
		if err := json.Unmarshal(line, &a); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		answers[a.ID] = a
	}
	return answers
}

type corpusCase struct {
	ID, Family, Command, Cwd, Setup, Tier string
	Positive, Undecidable                 bool
	Outside, Sensitive                    bool
}

func cases(t *testing.T, data []byte) []corpusCase {
	t.Helper()
	var out []corpusCase
	for line := range bytes.Lines(data) {
		var c corpusCase
		if err := json.Unmarshal(line, &c); err != nil {
			t.Fatal(err)
		}
		out = append(out, c)
	}
	return out
}

const pathsPolicy = "default = \"allow\"\n[filesystem]\ntmp = \"none\"\n"

// judgePaths: what writes outside or to a sensitive file is never allowed, the
// rest is.
func judgePaths(t *testing.T, got map[string]answer, all []corpusCase) {
	t.Helper()
	decidable, alarms := 0, 0
	for _, c := range all {
		a, ok := got[c.ID]
		bad := c.Outside || c.Sensitive
		switch {
		case !ok || a.Error != "":
			t.Errorf("%s: no answer (%s)", c.ID, a.Error)
		case bad && a.Verdict == "allow":
			t.Errorf("bypass %s: %q after %q", c.ID, c.Command, c.Setup)
		case !bad && c.Undecidable && a.Verdict == "deny":
			t.Errorf("%s: denied: %q", c.ID, c.Command)
		case !bad && !c.Undecidable:
			decidable++
			if a.Verdict != "allow" {
				alarms++
				t.Logf("false alarm %s: %s: %q", c.ID, a.Reason.Text, c.Command)
			}
		}
	}
	if alarms*50 > decidable {
		t.Errorf("%d false alarms on %d decidable commands, want at most 2 %%", alarms, decidable)
	}
}

func TestCorpusOfPaths(t *testing.T) {
	data := corpus(t, "paths.jsonl")
	var plain []corpusCase
	for _, c := range cases(t, data) {
		if c.Setup == "" {
			plain = append(plain, c)
		}
	}
	judgePaths(t, runBatch(t, pathsPolicy, "/w", "/home/dev", data), plain)
}

// Links that exist before the command are followed on the file system at hand:
// the cases with a setup run it in a real directory.
func TestCorpusOfPathsBehindLinks(t *testing.T) {
	root := regexp.MustCompile(`(^|[^\w./~-])/(w|srv)\b`)
	n := 0
	for _, c := range cases(t, corpus(t, "paths.jsonl")) {
		if c.Setup == "" {
			continue
		}
		n++
		place := t.TempDir()
		for _, dir := range []string{"w/src", "w/docs", "w/.git/hooks", "srv/out", "home"} {
			if err := os.MkdirAll(filepath.Join(place, dir), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		for _, file := range []string{"w/notes.txt", "w/list.txt", "srv/target.txt", "srv/out/.keep"} {
			if err := os.WriteFile(filepath.Join(place, file), []byte("x\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		move := func(s string) string { return root.ReplaceAllString(s, "${1}"+place+"/$2") }
		setup := osexec.Command("bash", "-c", move(c.Setup))
		setup.Dir = filepath.Join(place, "w")
		if text, err := setup.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", c.ID, err, text)
		}
		line, err := json.Marshal(map[string]string{"id": c.ID, "command": move(c.Command), "cwd": move(c.Cwd)})
		if err != nil {
			t.Fatal(err)
		}
		judgePaths(t, runBatch(t, pathsPolicy, filepath.Join(place, "w"), filepath.Join(place, "home"), append(line, '\n')), []corpusCase{c})
	}
	if n < 15 {
		t.Errorf("%d cases with links, want at least 15", n)
	}
}

// Everyday commands, with questions for what is confined and without. Both rates
// are for docs; a rate of one half would mean that the checker is of no use.
func TestPromptRateOfEverydayCommands(t *testing.T) {
	data := corpus(t, "bash.jsonl")
	for _, confined := range []string{"ask", "allow"} {
		got := runBatch(t, "confined = \""+confined+"\"\n", "/w", "/home/dev", data)
		asked, all := 0, 0
		for _, c := range cases(t, data) {
			if c.Family != "everyday" || c.Positive {
				continue
			}
			all++
			if got[c.ID].Verdict != "allow" {
				asked++
			}
		}
		t.Logf("confined = %s: %d of %d everyday commands are asked about (%d %%)", confined, asked, all, asked*100/max(all, 1))
		if all < 50 || confined == "allow" && asked*10 > all {
			t.Errorf("confined = %s: %d of %d asked", confined, asked, all)
		}
	}
}

// Everything that a corpus line may be is answered without a crash, also cut in
// the middle.
func TestBatchOfCutLines(t *testing.T) {
	var lines []string
	for line := range strings.Lines(string(corpus(t, "bash.jsonl"))) {
		if len(line) > 300 {
			continue
		}
		lines = append(lines, strings.TrimSpace(line[:len(line)/2]))
	}
	got := answers(t, strings.Join(lines, "\n")+"\n")
	if len(got)-1 != len(lines) {
		t.Errorf("%d answers for %d lines", len(got)-1, len(lines))
	}
	for _, a := range got[:len(got)-1] {
		if !strings.Contains(a, `"verdict":"deny"`) {
			t.Errorf("half a line gave %.120s", a)
		}
	}
}
