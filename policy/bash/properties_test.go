package bash_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sandboxd/policy/bash"
)

// fragments are complete commands.
func fragments(t testing.TB) []string {
	var out []string
	for _, c := range readCases(t, "bash.jsonl") {
		s := c.Command
		if len(s) > 300 || strings.Contains(s, "<<") || strings.HasSuffix(strings.TrimSpace(s), "\\") {
			continue
		}
		a := bash.Analyze(s, bash.Options{})
		bad := false
		for _, u := range a.Unknown {
			bad = bad || u.Kind == bash.UnreadableParse
		}
		if !bad {
			out = append(out, s)
		}
	}
	return out
}

func rank(verdict string) int {
	switch verdict {
	case "deny":
		return 0
	case "ask":
		return 1
	}
	return 2
}

// TestAddingACommandNeverLoosens: a script with a further command behind it is
// judged at least as strictly, and so is one inside a compound command.
func TestAddingACommandNeverLoosens(t *testing.T) {
	list := fragments(t)
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.SampledFrom(list).Draw(t, "script")
		more := rapid.SampledFrom(list).Draw(t, "more")
		before, _ := judge(s)
		for _, sep := range []string{"\n", "\n\n", "\n: ; "} {
			joined := s + sep + more
			if after, why := judge(joined); rank(after) > rank(before) {
				t.Fatalf("%q is %s, but %q is %s (%s)", s, before, joined, after, why)
			}
		}
	})
}

func TestWrappingACommandNeverLoosens(t *testing.T) {
	list := fragments(t)
	wraps := []string{"( %\n)", "{ %\n}", "if true; then %\nfi", "if false; then %\nfi", "while x; do %\ndone", "true && { %\n}",
		"f() { %\n}; f", "f() { %\n}", "case x in x) %\n;; esac", "echo \"$( %\n)\"", "for i in 1; do %\ndone", "{ %\n} | cat", "cat <( %\n)", "{ %\n} &"}
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.SampledFrom(list).Draw(t, "script")
		w := rapid.SampledFrom(wraps).Draw(t, "wrap")
		before, _ := judge(s)
		joined := strings.Replace(w, "%", s, 1)
		if after, why := judge(joined); rank(after) > rank(before) {
			t.Fatalf("%q is %s, but %q is %s (%s)", s, before, joined, after, why)
		}
	})
}

// TestSameAnswerEachTime: nothing depends on the order of a map.
func TestSameAnswerEachTime(t *testing.T) {
	for _, c := range readCases(t, "bash.jsonl") {
		if len(c.Command) > 2000 {
			continue
		}
		first := bash.Analyze(c.Command, bash.Options{Cwd: "/w"})
		for range 3 {
			if again := bash.Analyze(c.Command, bash.Options{Cwd: "/w"}); !sameAnalysis(first, again) {
				t.Errorf("%s: two answers for %q", c.ID, c.Command)
				break
			}
		}
	}
}

func sameAnalysis(a, b bash.Analysis) bool {
	if len(a.Commands) != len(b.Commands) || len(a.Effects) != len(b.Effects) || len(a.Unknown) != len(b.Unknown) {
		return false
	}
	for i := range a.Commands {
		if strings.Join(a.Commands[i].Words(), "\x00") != strings.Join(b.Commands[i].Words(), "\x00") {
			return false
		}
	}
	for i := range a.Effects {
		if a.Effects[i] != b.Effects[i] {
			return false
		}
	}
	for i := range a.Unknown {
		if a.Unknown[i] != b.Unknown[i] {
			return false
		}
	}
	return true
}

// FuzzAnalyze: no panic, and a result that is consistent in itself.
func FuzzAnalyze(f *testing.F) {
	for _, c := range readCases(f, "bash.jsonl") {
		if len(c.Command) < 1000 {
			f.Add(c.Command)
		}
	}
	for _, c := range readCases(f, "paths.jsonl") {
		f.Add(c.Command)
	}
	f.Fuzz(func(t *testing.T, script string) {
		// An input that takes long is a fault too; the limit is generous.
		late := time.AfterFunc(20*time.Second, func() { panic("no answer in 20 s for " + strconv.Quote(script)) })
		a := bash.Analyze(script, bash.Options{Cwd: "/w", Home: "/home/dev"})
		late.Stop()
		for _, u := range a.Unknown {
			if u.Command < -1 || u.Command >= len(a.Commands) {
				t.Errorf("unknown of command %d of %d", u.Command, len(a.Commands))
			}
		}
		for _, e := range a.Effects {
			if e.Command < -1 || e.Command >= len(a.Commands) {
				t.Errorf("effect of command %d of %d", e.Command, len(a.Commands))
			}
		}
	})
}
