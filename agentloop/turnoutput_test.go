package agentloop

import (
	"context"
	"maps"
	"os"
	"strings"
	"testing"
	"time"
)

func TestOutputComesInWholeCharacters(t *testing.T) {
	var got []string
	o := &outputText{send: func(stream, text string) { got = append(got, stream[3:]+":"+text) }}
	for _, piece := range []string{"gr", "ü"[:1], "ü"[1:] + "n\nnext", " one\r", "50%"} {
		o.write("stdout", []byte(piece))
	}
	o.write("stderr", []byte("error\n"))
	o.end()
	want := "out:gr|out:ün\nnext|out: one\r|out:50%|err:error\n"
	if text := strings.Join(got, "|"); text != want {
		t.Errorf("%q", text)
	}
	got = nil
	o.write("stdout", []byte("a\nb"))
	o.write("stdout", []byte("ü"[:1]))
	o.end()
	if text := strings.Join(got, "|"); text != "out:a\nb|out:\xc3" {
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

// A secret that comes in two pieces, of a command or of the model, is masked for who
// reads along; a prompt without a line end is told while the command waits.
func TestSecretInPiecesOfATurnIsMasked(t *testing.T) {
	const secret = "hunter2hunter2"
	says := func(_ context.Context, _ ModelRequest, emit func(ModelDelta)) (ModelAnswer, error) {
		for _, piece := range []string{"it is hunter", "2hun", "ter2, ", "and sk-ant-", "api03-abcdefghijklmnop", "."} {
			emit(ModelDelta{Thinking: piece})
			emit(ModelDelta{Text: piece})
			time.Sleep(2 * pieceTime)
		}
		return ModelAnswer{Message: TextMessage(RoleAssistant, OriginModel, "x"), Stop: StopEnd, Usage: Usage{Input: 1}}, nil
	}
	l := newLoopWith(t, loopParts{world: func(w *world) { w.host.Environ = append(w.host.Environ, "API_TOKEN="+secret) }}, nil,
		asks("run_bash", map[string]any{"command": "printf hunter2hun; printf hunter2hun >&2; sleep 0.3; echo ter2; echo ter2 >&2; printf 'Go on? '; n=0; while [ -e go ] && [ $n -lt 2000 ]; do sleep 0.01; n=$((n+1)); done"}), says)
	mark := l.host.file("home/u/w/go", "", 0o644)
	prompted := false
	told := map[string]string{}
	sub := l.s.Events().Subscribe(0)
	defer sub.Close()
	for e := range l.a.Turn(t.Context(), "go on") {
		switch d := e.Data.(type) {
		case TurnOutput:
			told[d.Stream] += d.Text
			if _, err := os.Lstat(mark); err == nil && strings.Contains(told["stdout"], "Go on? ") {
				prompted = true
				_ = os.Remove(mark)
			}
		case TurnText:
			told[e.Type] += d.Text
		}
	}
	const said = "it is [secret], and [secret]."
	want := map[string]string{"stdout": "[secret]\nGo on? ", "stderr": "[secret]\n", EventTurnText: said, EventTurnThinking: said}
	if !prompted || !maps.Equal(told, want) {
		t.Errorf("prompted %v, told %q, want %q", prompted, told, want)
	}
	pieces := ""
	for len(sub.C) > 0 {
		e := <-sub.C
		if e.Type == EventTurnOutput || e.Type == EventTurnText || e.Type == EventTurnThinking {
			pieces += string(e.Data)
		}
	}
	if strings.Contains(pieces, "hunter2hun") || strings.Contains(pieces, "ter2\\n") || !strings.Contains(pieces, "Go on? ") {
		t.Errorf("events %s", pieces)
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
