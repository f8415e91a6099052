package agentloop

import (
	"os"
	"strings"
	"testing"
	"time"
)

func TestOutputLinesAreWhole(t *testing.T) {
	var got []string
	o := &outputLines{send: func(stream, text string) { got = append(got, stream[3:]+":"+text) }}
	for _, piece := range []string{"gr", "ü"[:1], "ü"[1:] + "n\nnext", " one\r", "50%"} {
		o.write("stdout", []byte(piece))
	}
	o.write("stderr", []byte("error\n"))
	o.write("stdout", []byte(strings.Repeat("x", maxOutputLine)))
	o.end()
	want := "out:grün\n|out:next one\r|err:error\n|out:50%" + strings.Repeat("x", maxOutputLine)
	if text := strings.Join(got, "|"); text != want {
		t.Errorf("%q", text)
	}
	got = nil
	o.write("stdout", []byte("a\nb"))
	o.end()
	if text := strings.Join(got, "|"); text != "out:a\n|out:b" {
		t.Errorf("%q", text)
	}
}

// TestOutputIsToldWhileACommandRuns, masked, and the result has it all.
func TestOutputIsToldWhileACommandRuns(t *testing.T) {
	const secret = "hunter2hunter2"
	l := newLoopWith(t, loopParts{world: func(w *world) { w.host.Environ = append(w.host.Environ, "API_TOKEN="+secret) }}, nil,
		asks("run_bash", map[string]any{"command": "echo first hunter2hunter2; n=0; while [ -e go ] && [ $n -lt 2000 ]; do sleep 0.01; n=$((n+1)); done; echo last"}), words("done"))
	mark := l.host.file("home/u/w/go", "", 0o644)
	var seen strings.Builder
	live := false
	start := time.Now()
	for e := range l.a.Turn(t.Context(), "go on") {
		if out, ok := e.Data.(TurnOutput); ok {
			seen.WriteString(out.Text)
			if _, err := os.Lstat(mark); err == nil && strings.Contains(out.Text, "first") {
				live = true
				_ = os.Remove(mark)
			}
		}
	}
	text := seen.String()
	if !live || time.Since(start) > 15*time.Second || !strings.HasSuffix(text, "last\n") || strings.Contains(text, secret) {
		t.Errorf("live %v, seen %q", live, text)
	}
	if res := l.results(); len(res) != 1 || !strings.Contains(res[0].Text, "last") {
		t.Errorf("%+v", res)
	}
}

func TestNewConversationHasReadNothing(t *testing.T) {
	l := newLoop(t, nil, nil)
	l.s.Files().Seen("/a", FileStamp{Size: 1})
	if _, err := NewAgent(t.Context(), l.a.o); err != nil {
		t.Fatal(err)
	}
	if _, there := l.s.Files().Stamp("/a"); there {
		t.Error("another conversation remembers what this one has read")
	}
}

func TestFileStateIsBounded(t *testing.T) {
	var f FileState
	for i := range maxFileStamps + 10 {
		f.Seen(strings.Repeat("x", i%7)+string(rune('a'+i%26))+NewID("f"), FileStamp{})
	}
	f.Seen("/last", FileStamp{Size: 3})
	f.Seen("/last", FileStamp{Size: 4})
	if s, ok := f.Stamp("/last"); !ok || s.Size != 4 || len(f.stamp) != maxFileStamps || len(f.order) != maxFileStamps {
		t.Errorf("%v %v, %d stamps, %d in order", s, ok, len(f.stamp), len(f.order))
	}
}
