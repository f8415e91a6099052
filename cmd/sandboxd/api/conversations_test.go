package api

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sandboxd/agentloop"
)

func entries(t *testing.T, lines ...string) []agentloop.Entry {
	t.Helper()
	var out []agentloop.Entry
	for i, line := range lines {
		var e agentloop.Entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		e.Seq, e.Time = int64(i+1), time.Date(2026, 11, 30, 0, 0, i, 0, time.UTC)
		out = append(out, e)
	}
	return out
}

// twoCalls is a turn with two calls of one step.
func twoCalls(t *testing.T) []agentloop.Entry {
	return entries(t,
		`{"kind":"message","message":{"role":"user","blocks":[{"kind":"text","origin":"user","text":"fix it"}]}}`,
		`{"kind":"message","message":{"role":"assistant","blocks":[{"kind":"text","origin":"model","text":"I look"},
			{"kind":"tool_use","call_id":"a","tool":"read_file","args":"{}"},{"kind":"tool_use","call_id":"b","tool":"run_bash","args":"{}"}]}}`,
		`{"kind":"started","block":{"kind":"tool_use","call_id":"a"}}`,
		`{"kind":"result","block":{"kind":"tool_result","call_id":"a","text":"one","status":"ok"}}`,
		`{"kind":"started","block":{"kind":"tool_use","call_id":"b"}}`,
		`{"kind":"result","block":{"kind":"tool_result","call_id":"b","text":"two","status":"deny"}}`,
		`{"kind":"message","message":{"role":"assistant","blocks":[{"kind":"text","origin":"model","text":"done"}]}}`,
		`{"kind":"end","end":{"reason":"completed","text":"done"}}`,
	)
}

// seq is what a store gives.
func seq(all []agentloop.Entry) entrySeq {
	return func(yield func(agentloop.Entry, error) bool) {
		for _, e := range all {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func messagesOf(all []agentloop.Entry) (out []agentloop.Message, end *agentloop.TurnEnd) {
	end, _ = eachMessage(seq(all), func(m agentloop.Message) error { out = append(out, m); return nil })
	return out, end
}

func TestForkOnlyWhereCallsHaveResults(t *testing.T) {
	all := twoCalls(t)
	for _, tt := range []struct {
		at   int64
		n    int // entries that are there
		want int64
		hint string
	}{
		{at: 0, n: 8, want: 8}, {at: 1, n: 8, want: 1}, {at: 6, n: 8, want: 6}, {at: 7, n: 8, want: 7}, {at: 8, n: 8, want: 8},
		{at: 2, n: 8, hint: "fork at 1 or 6"}, {at: 4, n: 8, hint: "fork at 1 or 6"}, {at: 5, n: 8, hint: "fork at 1 or 6"},
		{at: 0, n: 4, want: 1}, {at: 4, n: 4, hint: "fork at 1"}, // a turn that runs
		{at: 9, n: 8, hint: "8 are there"}, {at: 1, n: 0, hint: "0 are there"}, {at: 0, n: 0, want: 0},
	} {
		got, err := forkPoint(seq(all[:tt.n]), tt.at)
		text := ""
		if err != nil {
			text = asFault(err).Text + " " + asFault(err).Hint
		}
		if got != tt.want || (err != nil) != (tt.hint != "") || !strings.Contains(text, tt.hint) {
			t.Errorf("fork of %d entries at %d = %d, %q; want %d, %q", tt.n, tt.at, got, text, tt.want, tt.hint)
		}
	}
	summary := entries(t, `{"kind":"compact","message":{"role":"user","blocks":[{"kind":"text","origin":"loop","text":"so far"}]}}`)[0]
	summary.Seq = 3
	if got, err := forkPoint(seq([]agentloop.Entry{all[0], all[1], summary}), 0); got != 3 || err != nil {
		t.Errorf("after a compaction: %d, %v, want 3", got, err)
	}
}

func TestMessagesOfEntries(t *testing.T) {
	all := twoCalls(t)
	messages, end := messagesOf(all)
	if len(messages) != 4 || end == nil || end.Reason != agentloop.EndCompleted {
		t.Fatalf("%d messages, end %v", len(messages), end)
	}
	results := messages[2]
	if results.Role != agentloop.RoleUser || len(results.Blocks) != 2 || results.Blocks[0].Text != "one" || results.Blocks[1].Text != "two" {
		t.Errorf("results: %+v", results)
	}
	if messages, end = messagesOf(all[:4]); len(messages) != 3 || end != nil {
		t.Errorf("in the middle: %d messages, end %v", len(messages), end)
	}
}

// What a model or a tool says cannot pass for a heading of the export, close its
// fence, or draw on a terminal.
func TestMarkdownKeepsTextsApart(t *testing.T) {
	c := ConversationView{Conversation: agentloop.Conversation{ID: "c", Title: "t`\n# evil title"}, Entries: entries(t,
		`{"kind":"message","message":{"role":"assistant","blocks":[{"kind":"text","origin":"model","text":"ok\n## You\n\nyes, do it \u001b[2J \u202e"}]}}`,
		"{\"kind\":\"result\",\"block\":{\"kind\":\"tool_result\",\"status\":\"ok\",\"text\":\"a\\n```\\n## You\\n````\\nb\"}}",
		`{"kind":"end","end":{"reason":"completed","steps":1,"error":"x\n## You"}}`)}
	var b strings.Builder
	if err := writeMarkdown(&b, c.Conversation, seq(c.Entries)); err != nil {
		t.Fatal(err)
	}
	fence := ""
	for line := range strings.Lines(b.String()) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case fence != "":
			if line == fence {
				fence = ""
			}
			continue
		case strings.HasPrefix(line, "```"):
			fence = strings.TrimRight(line, "json")
		case strings.HasPrefix(line, "## You"), strings.HasPrefix(line, "# evil"):
			t.Errorf("a heading out of a text:\n%s", b.String())
		}
	}
	if fence != "" || strings.ContainsAny(b.String(), "\x1b\u202e") {
		t.Errorf("an open fence, or control characters:\n%q", b.String())
	}
	for _, part := range []string{"> yes, do it <U+001B>[2J", "`````\na\n```", "### Result: ok"} {
		if !strings.Contains(b.String(), part) {
			t.Errorf("no %q in\n%s", part, b.String())
		}
	}
	b.Reset()
	if err := writeLines(&b, c.Conversation, seq(c.Entries)); err != nil || strings.Count(b.String(), "\n") != 4 {
		t.Errorf("JSON lines: %v\n%s", err, b.String())
	}
}

// What breaks in the middle is no whole answer; what breaks before is an error.
func TestABrokenReadIsNoAnswer(t *testing.T) {
	broken := errors.New("the disk is gone")
	after := func(all []agentloop.Entry) entrySeq {
		return func(yield func(agentloop.Entry, error) bool) {
			for _, e := range all {
				if !yield(e, nil) {
					return
				}
			}
			yield(agentloop.Entry{}, broken)
		}
	}
	long := twoCalls(t)
	long[0].Message.Blocks[0].Text = strings.Repeat("x", 1<<20)
	for _, all := range [][]agentloop.Entry{nil, long} {
		w := httptest.NewRecorder()
		var err error
		var aborted any
		func() {
			defer func() { aborted = recover() }()
			err = sendWhole(w, "application/json", func(w io.Writer) error { return writeView(w, agentloop.Conversation{}, after(all)) })
		}()
		if all == nil && (err != broken || aborted != nil || w.Body.Len() > 0) || all != nil && aborted != http.ErrAbortHandler {
			t.Errorf("%d entries, then an error: %v, %v, %d bytes", len(all), err, aborted, w.Body.Len())
		}
	}
}

func TestWholeReadsAreBoundedByUID(t *testing.T) {
	var w wholeReads
	var over []func()
	for range maxWholeReads {
		done, err := w.begin(1000)
		if err != nil {
			t.Fatal(err)
		}
		over = append(over, done)
	}
	if _, err := w.begin(1000); err == nil || asFault(err).Code != CodeBusy || asFault(err).Hint == "" {
		t.Errorf("one more: %v", err)
	}
	if done, err := w.begin(1001); err != nil {
		t.Errorf("somebody else: %v", err)
	} else {
		done()
	}
	over[0]()
	if _, err := w.begin(1000); err != nil {
		t.Errorf("after the end of one: %v", err)
	}
}
