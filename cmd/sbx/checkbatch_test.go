package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"sandboxd/policy"
)

// batchEngine decides as the corpus wants it: one forbidden program, all else
// allowed by default.
func batchEngine(tb testing.TB, extra ...string) *policy.Engine {
	tb.Helper()
	rules := []policy.Rule{{Kind: policy.DenyRule, Pattern: "run_bash(canary *)"}, {Kind: policy.DenyRule, Pattern: "run_bash(canary)"}}
	for _, e := range extra {
		rules = append(rules, policy.Rule{Kind: policy.DenyRule, Pattern: e})
	}
	eng, err := policy.NewEngine(policy.Config{Rules: rules, Default: policy.Allow, Workspace: "/w", Home: "/home/dev", PrivateTmp: true, Confinement: policy.FullyConfined})
	if err != nil {
		tb.Fatal(err)
	}
	return eng
}

func answers(t *testing.T, input string) []string {
	t.Helper()
	var out bytes.Buffer
	w := bufio.NewWriter(&out)
	if err := answerLines(t.Context(), batchEngine(t), "/w", bufio.NewReaderSize(strings.NewReader(input), 16), w); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return strings.SplitAfter(out.String(), "\n")
}

// One answer for each line, in order, also for what cannot be read; other fields
// are ignored.
func TestBatchAnswersEveryLine(t *testing.T) {
	for _, tt := range []struct{ name, line, want string }{
		{"denied", `{"id":"a","command":"canary x"}`, `{"id":"a","verdict":"deny",`},
		{"allowed", `{"id":"a","command":"make"}`, `{"id":"a","verdict":"allow",`},
		{"other fields", `{"family":["x"],"id":7,"note":null,"command":"make","positive":true}`, `{"id":7,"verdict":"allow",`},
		{"large number as id", `{"id":12345678901234567890,"command":"make"}`, `{"id":12345678901234567890,"verdict":"allow",`},
		{"no id", `{"command":"make"}`, `{"id":null,"verdict":"allow",`},
		{"object as id", `{"id":{"x":1},"command":"make"}`, `{"id":{"x":1},"verdict":"allow",`},
		{"not JSON", `make`, `{"id":null,"verdict":"deny","error":"not a JSON object"}`},
		{"empty line", ``, `{"id":null,"verdict":"deny","error":"not a JSON object"}`},
		{"array", `["make"]`, `{"id":null,"verdict":"deny","error":"not a JSON object"}`},
		{"null", `null`, `{"id":null,"verdict":"deny","error":`},
		{"no command", `{"id":1}`, `{"id":1,"verdict":"deny","error":"no command and no tool"}`},
		{"command is a number", `{"id":1,"command":3}`, `{"id":1,"verdict":"deny","error":"command is not a string"}`},
		{"command twice", `{"id":1,"command":"make","command":"canary"}`, `{"id":1,"verdict":"deny","error":`},
		{"other case is another field", `{"id":1,"command":"make","COMMAND":"canary"}`, `{"id":1,"verdict":"allow",`},
		{"text behind the object", `{"id":1,"command":"make"} {}`, `{"id":null,"verdict":"deny","error":`},
		{"tool", `{"id":1,"tool":"run_bash","args":{"command":"canary"}}`, `{"id":1,"verdict":"deny","reason":{"type":"rule"`},
		{"deep", `{"id":1,"command":"make","x":` + strings.Repeat("[", 3000) + strings.Repeat("]", 3000) + `}`, `{"id":1,"verdict":"allow",`},
		{"deep arguments", `{"id":1,"tool":"x","args":{"x":` + strings.Repeat("[", 3000) + strings.Repeat("]", 3000) + `}}`, `{"id":1,"verdict":"deny","error":`},
		{"deeper than any reader goes", strings.Repeat("[", 20000), `{"id":null,"verdict":"deny","error":`},
		{"escaped name twice", `{"id":1,"command":"make","\u0063ommand":"canary"}`, `{"id":1,"verdict":"deny","error":`},
		{"braces in strings", `{"x":"}\"{","id":1,"command":"make"}`, `{"id":1,"verdict":"allow",`},
		{"blanks", ` { "id" : 1 , "command" : "make" } `, `{"id":1,"verdict":"allow",`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := answers(t, "{\"id\":0,\"command\":\"make\"}\n"+tt.line+"\n{\"id\":2,\"command\":\"canary\"}")
			if len(got) != 4 || got[3] != "" {
				t.Fatalf("%d answers for 3 lines: %q", len(got)-1, got)
			}
			if !strings.HasPrefix(got[1], tt.want) {
				t.Errorf("%s\n got %.200s\nwant %s...", tt.line, got[1], tt.want)
			}
			if !json.Valid([]byte(got[1])) {
				t.Errorf("not JSON: %s", got[1])
			}
			if !strings.HasPrefix(got[2], `{"id":2,"verdict":"deny",`) {
				t.Errorf("the line after it: %.100s", got[2])
			}
		})
	}
}

func TestBatchLineThatIsTooLong(t *testing.T) {
	got := answers(t, `{"command":"`+strings.Repeat("x", maxBatchLine)+"\"}\n{\"id\":2,\"command\":\"make\"}\n")
	if len(got) != 3 || !strings.Contains(got[0], "line longer than") || !strings.HasPrefix(got[1], `{"id":2,"verdict":"allow"`) {
		t.Errorf("%d answers: %.120q", len(got)-1, got)
	}
}

func TestBatchCwdOfALine(t *testing.T) {
	got := answers(t, `{"id":1,"command":"touch x","cwd":"/srv"}`+"\n"+`{"id":2,"command":"touch x","cwd":"src"}`+"\n")
	if !strings.HasPrefix(got[0], `{"id":1,"verdict":"ask"`) || !strings.HasPrefix(got[1], `{"id":2,"verdict":"allow"`) {
		t.Errorf("a write outside and one inside: %.100q", got)
	}
	if !strings.Contains(got[1], `"writes":["/w/src/x"]`) {
		t.Errorf("writes: %s", got[1])
	}
}

// FuzzObjectFields: the members are those that encoding/json reads.
func FuzzObjectFields(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":1}`, `{"a":[{"b":"}"}],"c":"\\\""}`, ` {"a" : -1e5 ,"b":{} } `, `{"a":1,"a":2}`, `{"\u0061":null}`, `{"é":true}`, `{"a":"ÿ"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		got, err := objectFields(line)
		var want map[string]json.RawMessage
		wantErr := json.Unmarshal(line, &want)
		if err != nil {
			return // also for a name that stands twice
		}
		if wantErr != nil || want == nil {
			t.Fatalf("%q: read as %q, encoding/json: %v", line, got, wantErr)
		}
		for name, value := range want {
			if utf8.ValidString(string(line)) && !bytes.Equal(got[name], value) {
				t.Fatalf("%q: %q is %q, want %q", line, name, got[name], value)
			}
		}
		if len(got) < len(want) {
			t.Fatalf("%q: %d members, want %d", line, len(got), len(want))
		}
	})
}

// corpus reads a corpus of package bash.
func corpus(tb testing.TB, name string) []byte {
	tb.Helper()
	data, err := os.ReadFile(filepath.Join("../../policy/bash/testdata", name))
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

// BenchmarkBatch reads the corpus as sbx check --batch does; the budget is 5,000
// commands a second on one core.
func BenchmarkBatch(b *testing.B) {
	data := corpus(b, "bash.jsonl")
	eng := batchEngine(b)
	lines := bytes.Count(data, []byte("\n"))
	started := processorTime(b)
	for b.Loop() {
		var out bytes.Buffer
		if err := answerLines(b.Context(), eng, "/w", bufio.NewReader(bytes.NewReader(data)), bufio.NewWriter(&out)); err != nil {
			b.Fatal(err)
		}
	}
	total := float64(lines) * float64(b.N)
	b.ReportMetric(total/b.Elapsed().Seconds(), "commands/s")
	b.ReportMetric(total/(processorTime(b)-started).Seconds(), "commands/cpu-s") // also right on a busy machine
}

// processorTime is what this process used so far.
func processorTime(tb testing.TB) time.Duration {
	tb.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
