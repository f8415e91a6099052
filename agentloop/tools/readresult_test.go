package tools

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"sandboxd/agentloop"
	"sandboxd/policy"
)

// TestResultIsReadToItsEnd is row 146.
func TestResultIsReadToItsEnd(t *testing.T) {
	w := newWorld(t, nil)
	res := w.call("run_bash", policy.Args{"command": "seq 1 5000"})
	id := regexp.MustCompile(`result-[a-z2-7]{26}`).FindString(res.Output)
	if id == "" {
		t.Fatalf("no file: %s", res.Output)
	}
	next := regexp.MustCompile(`\n\[bytes \d+ to \d+ of \d+(?:; read on at offset (\d+)|: this is the end)\]$`)
	var whole strings.Builder
	for at, calls := 0.0, 0; ; calls++ {
		res := w.call("read_result", policy.Args{"id": id, "offset": at})
		m := next.FindStringSubmatch(res.Output)
		if res.Status != agentloop.StatusOK || m == nil || calls > 30 || len(res.Output) > 4000 {
			t.Fatalf("at %v: %+v", at, res)
		}
		whole.WriteString(strings.TrimSuffix(res.Output, m[0]))
		if m[1] == "" {
			break
		}
		if _, err := fmt.Sscan(m[1], &at); err != nil {
			t.Fatal(err)
		}
	}
	var want strings.Builder
	for i := range 5000 {
		fmt.Fprintln(&want, i+1)
	}
	if whole.String() != want.String() {
		t.Errorf("%d bytes, want %d", whole.Len(), want.Len())
	}
	if res := w.call("read_result", policy.Args{"id": id, "offset": 1e9}); !strings.HasPrefix(res.Output, "[nothing: the result ends at byte ") {
		t.Errorf("past the end: %+v", res)
	}
}

func TestResultsAreNamedByIDAlone(t *testing.T) {
	w := newWorld(t, nil)
	w.file("secret", "hidden\n")
	for _, args := range []policy.Args{
		{"id": w.path("secret")}, {"id": "../../../w/secret"}, {"id": ""}, {"id": 7.0}, {}, {"id": "result-aaaaaaaaaaaaaaaaaaaaaaaaaa"},
		{"id": "result-aaaaaaaaaaaaaaaaaaaaaaaaaa", "offset": -1.0}, {"id": "result-aaaaaaaaaaaaaaaaaaaaaaaaaa/../../x"},
	} {
		if res := w.call("read_result", args); res.Status != agentloop.StatusFail || strings.Contains(res.Output+res.Error, "hidden") {
			t.Errorf("%v: %+v", args, res)
		}
	}
}
