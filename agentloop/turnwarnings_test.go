package agentloop

import (
	"strings"
	"testing"
)

// What is wrong with the host is told once in a session, to the model with the first
// result and to people apart from it; and a result says what went wrong with its call.
func TestWarningsOfRunsAreToldOnce(t *testing.T) {
	l := newLoopWith(t, loopParts{world: func(w *world) {
		w.host.file("home/u/tool", "#!/bin/sh\n", 0o755)
		w.host.Environ[0] = "PATH=/usr/bin:/bin:" + w.host.Home
	}}, nil, asks("run_bash", `{"command":"echo a; exit 3"}`, "run_bash", `{"command":"echo b; exit 4"}`), words("x"), asks("run_bash", `{"command":"echo c"}`), words("y"))
	const warning = "is on PATH but"
	first, events := l.run("go")
	if first.Reason != EndCompleted {
		t.Fatalf("%+v", first)
	}
	var notices, errs []string
	for _, e := range events {
		switch d := e.Data.(type) {
		case TurnNotice:
			notices = append(notices, d.Text)
		case TurnResultBlock:
			errs = append(errs, d.Error)
		}
	}
	if len(notices) != 1 || !strings.Contains(notices[0], warning) {
		t.Errorf("notices %q", notices)
	}
	if strings.Join(errs, ", ") != "exit status 3, exit status 4" {
		t.Errorf("errors %q", errs)
	}
	if r := l.results(); len(r) != 2 || !strings.Contains(r[0].Text, warning) || strings.Contains(r[1].Text, warning) {
		t.Errorf("results %+v", r)
	}
	_, events = l.run("again")
	for _, e := range events {
		if d, ok := e.Data.(TurnNotice); ok {
			t.Errorf("told again: %s", d.Text)
		}
	}
	if r := l.results(); len(r) != 1 || strings.TrimSpace(r[0].Text) != "c" {
		t.Errorf("result %+v", r)
	}
}
