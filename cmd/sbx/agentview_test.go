package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"sandboxd/agentloop"
	"sandboxd/cmd/sandboxd/api"
	"sandboxd/policy"
)

// hostile holds what a terminal obeys (clear the screen, set the title, C1, overwrite
// the line) and what turns text around.
const hostile = "\x1b[2J\x1b]0;title\x07\u009b31m\rsbx: allow\u202e\x7f\x00\u200b"

func event(t testing.TB, kind string, data any) agentloop.Event {
	t.Helper()
	text, err := json.Marshal(data)
	if err != nil {
		t.Fatal(err)
	}
	return agentloop.Event{Type: kind, Data: text}
}

// hostileTurn puts hostile text into every field of every event of a turn.
func hostileTurn(t testing.TB, text string) []agentloop.Event {
	args, _ := json.Marshal(map[string]string{"command": text})
	verdict := &policy.Decision{Verdict: policy.Deny, Reason: policy.SafetyReason{Check: text, Text: text}} // every result has one
	return []agentloop.Event{
		event(t, agentloop.EventTurnStep, agentloop.TurnStep{Step: 1, Max: 8}),
		event(t, agentloop.EventTurnText, agentloop.TurnText{Text: "said " + text}),
		event(t, agentloop.EventTurnThinking, agentloop.TurnText{Text: text}),
		event(t, agentloop.EventTurnMessage, agentloop.TextMessage(agentloop.RoleAssistant, agentloop.OriginModel, "said "+text+"and more"+text)),
		event(t, agentloop.EventTurnTool, agentloop.TurnTool{CallID: "c", Audit: "a", Tool: text, Args: args}),
		event(t, agentloop.EventCallDecided, map[string]any{"call_id": "a", "tool": text, "agent_name": text, "verdict": text,
			"reason": map[string]any{"type": text, "pattern": text, "text": text, "name": text}}),
		event(t, agentloop.EventTurnOutput, agentloop.TurnOutput{CallID: "c", Text: text + "\n" + text}),
		event(t, agentloop.EventTurnResult, agentloop.TurnResultBlock{CallID: "c", Audit: "a", Tool: text, Status: agentloop.Status(text), Text: text, Verdict: verdict}),
		event(t, agentloop.EventTurnResult, agentloop.TurnResultBlock{CallID: "d", Tool: text, Status: agentloop.StatusOK, Diff: "--- a\n+" + text + "\n@@ " + text, Verdict: verdict}),
		event(t, agentloop.EventTurnRetry, agentloop.TurnRetry{Attempt: 1, Wait: time.Second, Error: text}),
		event(t, agentloop.EventTurnNotice, agentloop.TurnNotice{Kind: text, Text: text}),
		event(t, agentloop.EventTurnCompact, agentloop.TurnCompaction{Kind: text}),
		event(t, agentloop.EventSubagentStarted, agentloop.SubagentStarted{Agent: text, Description: text, Mode: text, Wanted: text}),
		event(t, agentloop.EventSubagentEnded, agentloop.SubagentEnded{Agent: text, End: agentloop.TurnEnd{Reason: agentloop.EndReason(text)}}),
		event(t, agentloop.EventTaskStarted, agentloop.TaskState{ID: text, Command: text, Error: text}),
		event(t, agentloop.EventTurnTodos, agentloop.TodoState{Todos: []agentloop.Todo{{Content: text, Status: text}}}),
		event(t, agentloop.EventTurnCompact, agentloop.TurnCompaction{Kind: text, Error: text}),
	}
}

// isDrawn reports what must not reach a terminal.
func isDrawn(r rune) bool {
	return r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 || r == '\u202e' || r == '\u200b'
}

func TestNothingOfAModelDrawsOnTheTerminal(t *testing.T) {
	for _, colours := range []paint{false, true} {
		for _, live := range []bool{false, true} {
			var out, errs bytes.Buffer
			v := newTurnView(&out, &errs, live, colours)
			for _, e := range hostileTurn(t, hostile) {
				v.show(e)
			}
			v.ended(agentloop.TurnEnd{Reason: agentloop.EndReason(hostile), Text: hostile, Error: hostile})
			seen := out.String() + errs.String()
			for _, own := range []string{dim, bold, red, green, cyan, "0"} { // our colours may
				seen = strings.ReplaceAll(seen, "\x1b["+own+"m", "")
			}
			if i := strings.IndexFunc(seen, isDrawn); i >= 0 {
				t.Errorf("colours %v, live %v: %q reaches the terminal in %q", colours, live, seen[i], seen)
			}
			if !strings.Contains(seen, "allow") || live && !strings.Contains(out.String(), "and more") {
				t.Errorf("colours %v, live %v: texts are gone: %q", colours, live, seen)
			}
			// No line of a model looks like ours: what it says goes to another stream,
			// and what we tell of it begins with sbx.
			for line := range strings.Lines(errs.String()) {
				if !strings.HasPrefix(line, "sbx: ") && !strings.HasPrefix(line, "  ") {
					t.Errorf("a line that is not ours: %q", line)
				}
			}
		}
	}
}

func FuzzTurnView(f *testing.F) {
	f.Add(hostile)
	f.Add("a\nb\tc\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		var out, errs bytes.Buffer
		v := newTurnView(&out, &errs, true, false)
		for _, e := range hostileTurn(t, text) {
			v.show(e)
		}
		if i := strings.IndexFunc(out.String()+errs.String(), isDrawn); i >= 0 {
			t.Errorf("%q gives %q", text, out.String()+errs.String())
		}
	})
}

// Pieces that were lost on the way come with the whole message; nothing is told twice.
func TestTextIsCompleteAndToldOnce(t *testing.T) {
	for _, tt := range []struct {
		name   string
		pieces []string
		whole  string
		want   string
	}{
		{"all came", []string{"one ", "two"}, "one two", "one two\n"},
		{"the last is lost", []string{"one "}, "one two", "one two\n"},
		{"none came", nil, "one two\n", "one two\n"},
		{"the middle is lost", []string{"one ", "three"}, "one two three", "one three\none two three\n"},
	} {
		var out, errs bytes.Buffer
		v := newTurnView(&out, &errs, true, false)
		v.show(event(t, agentloop.EventTurnStep, agentloop.TurnStep{Step: 1}))
		for _, p := range tt.pieces {
			v.show(event(t, agentloop.EventTurnText, agentloop.TurnText{Text: p}))
		}
		v.show(event(t, agentloop.EventTurnMessage, agentloop.TextMessage(agentloop.RoleAssistant, agentloop.OriginModel, tt.whole)))
		if out.String() != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, out.String(), tt.want)
		}
	}
	var out, errs bytes.Buffer
	v := newTurnView(&out, &errs, false, false)
	v.show(event(t, agentloop.EventTurnText, agentloop.TurnText{Text: "on the way"}))
	v.ended(agentloop.TurnEnd{Reason: agentloop.EndCompleted, Text: "the answer"})
	if out.String() != "the answer\n" {
		t.Errorf("into a pipe: %q, want the answer alone", out.String())
	}
}

func TestOneLineForACall(t *testing.T) {
	var out, errs bytes.Buffer
	v := newTurnView(&out, &errs, true, false)
	for _, e := range []agentloop.Event{
		event(t, agentloop.EventTurnTool, agentloop.TurnTool{CallID: "c", Audit: "a", Tool: "run_bash", Args: json.RawMessage(`{"command":"go test ./...\necho"}`)}),
		event(t, agentloop.EventCallDecided, map[string]any{"call_id": "a", "tool": "run_bash", "verdict": "allow", "reason": map[string]any{"type": "rule", "kind": "allow", "pattern": "run_bash(go test *)"}}),
		event(t, agentloop.EventTurnOutput, agentloop.TurnOutput{CallID: "c", Text: "FA"}),
		event(t, agentloop.EventTurnOutput, agentloop.TurnOutput{CallID: "c", Text: "IL\n" + strings.Repeat("x\n", 100)}),
		event(t, agentloop.EventTurnResult, agentloop.TurnResultBlock{CallID: "c", Audit: "a", Tool: "run_bash", Status: agentloop.StatusFail, Text: "out\n[exited 1]\n",
			Verdict: &policy.Decision{Verdict: policy.Allow, Reason: policy.DefaultReason{Text: "tested"}}}),
		event(t, agentloop.EventCallDecided, map[string]any{"call_id": "b", "tool": "run_bash", "agent_name": "lead/worker", "verdict": "deny",
			"args": map[string]any{"command": "rm -rf /"}, "reason": map[string]any{"type": "headless", "text": "nobody"}}),
	} {
		v.show(e)
	}
	want := "sbx: run_bash go test ./... ... [allow: rule allow run_bash(go test *)]\nsbx:   | FAIL\n" +
		strings.Repeat("sbx:   | x\n", shownOutputLines-1) + "sbx:   | ... more output\nsbx:   run_bash: fail [exited 1]\n" +
		"sbx: lead/worker: run_bash rm -rf / [deny: headless: nobody]\n"
	if errs.String() != want || out.Len() > 0 {
		t.Errorf("got:\n%s\nwant:\n%s", errs.String(), want)
	}
	if !v.leftUnanswered() {
		t.Error("the last call was refused since nobody was there, and it is not known")
	}
	v.begin()
	if v.leftUnanswered() {
		t.Error("it is held against the next turn too")
	}
}

func TestWhatComesDuringAQuestionComesAfterIt(t *testing.T) {
	var out, errs bytes.Buffer
	v := newTurnView(&out, &errs, true, false)
	v.hold()
	v.show(event(t, agentloop.EventTurnText, agentloop.TurnText{Text: "meanwhile"}))
	if out.Len() > 0 {
		t.Errorf("written over the question: %q", out.String())
	}
	v.release()
	if out.String() != "meanwhile" {
		t.Errorf("after it: %q", out.String())
	}
}

func TestAgentExitCodes(t *testing.T) {
	for reason, want := range map[agentloop.EndReason]int{
		agentloop.EndCompleted: 0, agentloop.EndModel: 1, agentloop.EndRefusal: 1, agentloop.EndMaxSteps: 3, agentloop.EndRepeated: 3,
		agentloop.EndDiminishing: 3, agentloop.EndTokens: 3, agentloop.EndCost: 3, agentloop.EndTime: 124, agentloop.EndDenials: 4,
		agentloop.EndHook: 4, agentloop.EndCancelled: 130, agentloop.EndStore: 125, agentloop.EndClosed: 125, "unheard of": 125,
	} {
		if got := agentExit(reason, false); got != want {
			t.Errorf("%s: exit %d, want %d", reason, got, want)
		}
	}
	if got := agentExit(agentloop.EndCompleted, true); got != 4 {
		t.Errorf("completed after a call that nobody allowed: exit %d, want 4", got)
	}
}

func TestContinueTakesAValueOnlyWithASign(t *testing.T) {
	for in, want := range map[string]string{
		"agent --continue go on":     "agent --continue=last go on",
		"agent -c x":                 "agent --continue=last x",
		"agent --continue=ID x":      "agent --continue=ID x",
		"agent --json -- --continue": "agent --json -- --continue",
		"exec --continue x":          "exec --continue x",
	} {
		if got := strings.Join(withContinue(strings.Fields(in)), " "); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

// What is not known never allows.
func TestAnswersAtTheTerminal(t *testing.T) {
	plain, always := agentloop.PendingQuestion{}, agentloop.PendingQuestion{AlwaysRule: "run_bash(ls)"}
	words := agentloop.PendingQuestion{Kind: agentloop.QuestionText}
	for _, tt := range []struct {
		q     agentloop.PendingQuestion
		word  string
		want  api.AnswerRequest
		known bool
	}{
		{plain, "y", api.AnswerRequest{Answer: "allow"}, true},
		{plain, "", api.AnswerRequest{Answer: "deny"}, true},
		{plain, "n", api.AnswerRequest{Answer: "deny"}, true},
		{plain, "a", api.AnswerRequest{}, false},
		{plain, "yess", api.AnswerRequest{}, false},
		{always, "a", api.AnswerRequest{Answer: "always", Scope: "session"}, true},
		{always, "p", api.AnswerRequest{Answer: "always", Scope: "project"}, true},
		{always, "u", api.AnswerRequest{Answer: "always", Scope: "user"}, true},
		{words, "y", api.AnswerRequest{Answer: "text", Text: "y"}, true},
		{words, "!", api.AnswerRequest{Answer: "deny"}, true},
	} {
		got, known := agentAnswer(tt.q, tt.word)
		if known != tt.known || known && got != tt.want || !known && (got.Answer == "allow" || got.Answer == "always") {
			t.Errorf("%q: %+v, %v; want %+v, %v", tt.word, got, known, tt.want, tt.known)
		}
	}
}

func TestCutLineIsAtACharacter(t *testing.T) {
	for n := 4; n < 30; n++ {
		if got := cutLine("héllo wörld, ünïcode", n); !utf8.ValidString(got) || utf8.RuneCountInString(got) > n {
			t.Errorf("cutLine(%d) = %q", n, got)
		}
	}
}

func TestKeysDoNotReachTheDaemonsEnvironment(t *testing.T) {
	got := withoutKeys([]string{"A=1", "ANTHROPIC_API_KEY=k", "OPENAI_API_KEY=k", "ANTHROPIC_AUTH_TOKEN=k", "OPENAI_BASE_URL=u"})
	if want := []string{"A=1", "OPENAI_BASE_URL=u"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
