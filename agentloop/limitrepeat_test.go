package agentloop

import (
	"fmt"
	"strings"
	"testing"

	"sandboxd/policy"
)

func TestRepeatedCallsAreNotRun(t *testing.T) {
	for _, tt := range []struct {
		calls string // one letter for each call; capitals are not run
	}{
		{"aaAAA"}, {"ababaB"}, {"ababaBA"}, {"abcabcabC"}, {"abcdabcdabcD"},
		{"aabbaabb"}, {"abcdeabcdeabcde"}, // five in turn: left to the other limits
		{"aabaabaa"}, {"aaAb"},
		{"xababaBxa"}, {"aabcaa"},
	} {
		l, _ := testLimits(AgentLimits{}, nil)
		got := ""
		for _, c := range strings.ToLower(tt.calls) {
			letter := string(c)
			if refusal := l.use("read_file", policy.Args{"file_path": letter}); refusal != "" {
				letter = strings.ToUpper(letter)
				if !strings.HasPrefix(refusal, "not run: ") || !strings.Contains(refusal, "3 times in a row") {
					t.Errorf("%q", refusal)
				}
			}
			got += letter
		}
		if got != tt.calls {
			t.Errorf("calls %s, want %s", got, tt.calls)
		}
	}
}

// What is remembered of calls does not grow with their arguments.
func TestLongCallsAreRememberedShort(t *testing.T) {
	r := repeatDetector{times: 3}
	long := func(last string) string { return strings.Repeat("x", 1<<20) + last }
	for i, key := range []string{long("a"), long("b"), long("a"), long("a")} {
		if r.see(key) != 0 {
			t.Errorf("call %d is taken for a repetition", i)
		}
	}
	if r.see(long("a")) != 1 {
		t.Error("three of the same are none")
	}
	for _, key := range r.last {
		if len(key) > 100 {
			t.Errorf("%d bytes of a call are kept", len(key))
		}
	}
}

func TestRepetitionsEndTheTurn(t *testing.T) {
	l, _ := testLimits(AgentLimits{MaxSteps: -1}, nil)
	ran := 0
	for step := 1; step <= 20; step++ {
		got := l.before(step, 0)
		if got.Last {
			if got.End != EndRepeated || ran != 2 || step != 6 {
				t.Errorf("step %d after %d runs: %+v", step, ran, got)
			}
			return
		}
		if l.use("list_dir", nil) == "" {
			ran++
		}
	}
	t.Errorf("it never ends; %d calls ran", ran)
}

// TestAnotherCallForgivesARepetition: who changes course goes on.
func TestAnotherCallForgivesARepetition(t *testing.T) {
	l, _ := testLimits(AgentLimits{MaxSteps: -1}, nil)
	for i := range 30 {
		for range 4 {
			l.use("list_dir", nil)
		}
		l.use("read_file", policy.Args{"file_path": fmt.Sprint(i)})
		if got := l.before(1, 0); got.End != "" {
			t.Fatalf("round %d: %+v", i, got)
		}
	}
}

func TestCallsAreComparedByMeaning(t *testing.T) {
	decode := func(text string) policy.Args {
		args, err := policy.DecodeArgs([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return args
	}
	type call struct{ tool, args string }
	for _, tt := range []struct {
		a, b call
		same bool
	}{
		{call{"read_file", `{"file_path":"a","limit":1}`}, call{"read_file", "{ \"limit\" : 1.0,\n\"file_path\":\"a\" }"}, true},
		{call{"read_file", `{"limit":100}`}, call{"read_file", `{"limit":1e2}`}, true},
		{call{"read_file", `{"limit":0}`}, call{"read_file", `{"limit":-0}`}, true},
		{call{"x", `{"a":{"b":[1,{"c":2,"d":3}]}}`}, call{"x", `{"a":{"b":[1.0,{"d":3,"c":2}]}}`}, true},
		{call{"read_file", `{"file_path":"\u0061"}`}, call{"read_file", `{"file_path":"a"}`}, true},
		{call{"Bash", `{"command":"ls"}`}, call{"run_bash", `{"command":"ls"}`}, true},
		{call{"run_bash", `{"command":"ls","description":"once"}`}, call{"run_bash", `{"command":"ls","description":"again"}`}, true},
		{call{"run_bash", `{"command":"ls"}`}, call{"run_bash", `{"command":"ls "}`}, false},
		{call{"mcp__a__b", `{"description":"x"}`}, call{"mcp__a__b", `{"description":"y"}`}, false},
		{call{"x", `{"a":[1,2]}`}, call{"x", `{"a":[2,1]}`}, false},
		{call{"x", `{"a":"1"}`}, call{"x", `{"a":1}`}, false},
		{call{"x", `{"a":null}`}, call{"x", `{}`}, false},
		{call{"x", `{}`}, call{"y", `{}`}, false},
	} {
		if got := canonicalCall(tt.a.tool, decode(tt.a.args)) == canonicalCall(tt.b.tool, decode(tt.b.args)); got != tt.same {
			t.Errorf("%v and %v: same is %v", tt.a, tt.b, got)
		}
	}
	l, _ := testLimits(AgentLimits{}, nil)
	for i, want := range []bool{false, false, true} {
		if got := l.useText("read_file", `{"file_path":`); (got != "") != want {
			t.Errorf("malformed call %d: %q", i, got)
		}
	}
}

// TestRepeatsOfASubAgentAreItsOwn is row 128.
func TestRepeatsOfASubAgentAreItsOwn(t *testing.T) {
	lead, _ := testLimits(AgentLimits{}, nil)
	child := lead.child(AgentLimits{}, nil)
	for range 5 {
		child.use("list_dir", nil)
	}
	for i := range 2 {
		if got := lead.use("list_dir", nil); got != "" {
			t.Errorf("call %d of the lead: %q", i, got)
		}
	}
	if got := lead.before(1, 0); got.End != "" {
		t.Errorf("%+v", got)
	}
}
