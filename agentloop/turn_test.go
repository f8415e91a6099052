package agentloop

import (
	"strings"
	"testing"
)

func TestTurnWorksUntilTheModelAnswers(t *testing.T) {
	l := newLoop(t, nil, nil,
		asks("run_bash", map[string]any{"command": "echo one; exit 3"}, "read_file", map[string]any{"file_path": "a.txt"}),
		words("done"))
	l.host.file("home/u/w/a.txt", "two\n", 0o644)
	end, events := l.run("do it")
	if end.Reason != EndCompleted || end.Text != "done" || end.Steps != 2 || end.Calls != 2 || end.Error != "" {
		t.Fatalf("end %+v", end)
	}
	res := l.results()
	if !strings.Contains(res[0].Text, "one\n") || !strings.Contains(res[0].Text, "exit status 3") || res[0].Status != StatusFail || res[1].Text != "two" || res[1].Status != StatusOK {
		t.Errorf("results %+v", res)
	}
	const want = "started step message usage tool tool output result output result step text message usage ended"
	if got := eventKinds(events); got != want {
		t.Errorf("events %s, want %s", got, want)
	}
	if r := l.model.asked(); len(r) != 2 || !strings.Contains(r[1].Messages[2].Blocks[0].Text, "one\n") || r[1].Messages[2].Blocks[0].Text == res[0].Text {
		t.Error("the second request does not hold the framed result")
	}
}
