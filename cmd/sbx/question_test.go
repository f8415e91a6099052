package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"sandboxd/agentloop"
)

// A question shows the change of a file in lines, and nothing of it draws.
func TestChangeInAQuestionIsShownAndDrawsNothing(t *testing.T) {
	args, err := json.Marshal(map[string]any{"content": "first\nsecond " + hostile, hostile: hostile, "n": 3})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	q := agentloop.PendingQuestion{Tool: "file_write", Shown: "file_write a", Diff: "--- a\n+++ b\n@@ -1 +1 @@\n-x\n+\ty " + hostile + "\n", NoDiff: hostile, Args: args}
	writeQuestion(&out, q)
	writeArgs(&out, q.Args)
	if i := strings.IndexFunc(out.String(), isDrawn); i >= 0 {
		t.Errorf("%q reaches the terminal in %q", out.String()[i], out.String())
	}
	for _, want := range []string{"\n  -x\n", "content    first\n", "           second ", "n          3\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// What went wrong with a call is shown, whatever is noted beside it.
func TestFailedCallShowsItsError(t *testing.T) {
	var out, errs bytes.Buffer
	v := newTurnView(&out, &errs, true, false)
	v.show(event(t, agentloop.EventTurnResult, agentloop.TurnResultBlock{CallID: "c", Tool: "file_edit", Status: agentloop.StatusFail,
		Text: "[error: sum.go has changed]\n[note: /x is on PATH]", Error: "sum.go has changed"}))
	if got := errs.String(); got != "sbx:   file_edit: fail sum.go has changed\n" {
		t.Errorf("shown %q", got)
	}
}
