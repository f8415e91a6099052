package provider_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"sandboxd/agentloop"
	"sandboxd/agentloop/provider"
)

func script(t *testing.T, text string) *provider.Scripted {
	t.Helper()
	s, err := provider.ParseScript([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return provider.NewScripted(s)
}

// talk is a conversation with a provider as a loop leads it.
type talk struct {
	t        *testing.T
	p        agentloop.Provider
	messages []agentloop.Message
	request  agentloop.ModelRequest
}

func (k *talk) user(text string) *talk {
	k.messages = append(k.messages, agentloop.TextMessage(agentloop.RoleUser, agentloop.OriginUser, text))
	return k
}

// answer asks for one, and keeps it.
func (k *talk) answer() agentloop.ModelAnswer {
	k.t.Helper()
	a, err := k.try()
	if err != nil {
		k.t.Fatal(err)
	}
	return a
}

func (k *talk) try() (agentloop.ModelAnswer, error) {
	r := k.request
	r.Messages = slices.Clone(k.messages)
	a, err := k.p.Stream(k.t.Context(), r, nil)
	if err == nil {
		k.messages = append(k.messages, a.Message)
	}
	return a, err
}

// results answers all calls of the last message.
func (k *talk) results(texts ...string) *talk {
	uses := k.messages[len(k.messages)-1].Uses()
	m := agentloop.Message{Role: agentloop.RoleUser}
	for i, u := range uses {
		m.Blocks = append(m.Blocks, agentloop.Block{Kind: agentloop.BlockToolResult, Origin: agentloop.OriginTool, CallID: u.CallID, Status: agentloop.StatusOK, Text: texts[i]})
	}
	k.messages = append(k.messages, m)
	return k
}

const fixing = `
steps:
  - expect: make the (\w+) pass
    thinking: The test first.
    say: I run the {{1}}.
    calls: [{tool: run_bash, args: {command: go test ./..., env: ["{{1}}"]}}]
  - when:
      - match: '(?m)^ok\s'
        say: The test passes after {{n}} answers.
      - match: '(?P<file>\w+)_test\.go:(?P<line>\d+)'
        say: line {{line}}, {{ unknown }}
        calls: [{tool: read_file, args: {path: '{{file}}.go'}}]
        stay: true
`

func TestScriptChoosesFromWhatItReceives(t *testing.T) {
	k := &talk{t: t, p: script(t, fixing)}
	a := k.user("make the test pass").answer()
	if got := a.Message.Text(); got != "I run the test." || a.Stop != agentloop.StopTools {
		t.Errorf("text %q, stop %q", got, a.Stop)
	}
	if u := a.Message.Uses(); len(u) != 1 || u[0].Tool != "run_bash" || u[0].Args != `{"command":"go test ./...","env":["test"]}` {
		t.Errorf("uses %+v", u)
	}
	first := a.Message.Uses()[0].CallID
	a = k.results("sum_test.go:17: want 3").answer()
	if u := a.Message.Uses(); len(u) != 1 || u[0].Args != `{"path":"sum.go"}` || u[0].CallID == first {
		t.Errorf("uses %+v", u)
	}
	if got := a.Message.Text(); got != "line 17, {{ unknown }}" {
		t.Errorf("text %q", got)
	}
	a = k.results("ok  \texample\t0.1s").answer()
	if got := a.Message.Text(); got != "The test passes after 3 answers." || a.Stop != agentloop.StopEnd {
		t.Errorf("text %q, stop %q", got, a.Stop)
	}
	if _, err := k.user("and now?").try(); err == nil || !strings.Contains(err.Error(), "the script ends after 2 steps") || !strings.Contains(err.Error(), "and now?") {
		t.Errorf("error %v", err)
	}
}

func TestScriptGoesOnInAnotherProcess(t *testing.T) {
	k := &talk{t: t, p: script(t, fixing)}
	k.user("make the test pass").answer()
	k.results("sum_test.go:17: want 3").answer()
	k.p = script(t, fixing)
	if got := k.results("ok  \texample").answer().Message.Text(); got != "The test passes after 3 answers." {
		t.Errorf("text %q", got)
	}
}

func TestScriptRefusesWhatItDidNotExpect(t *testing.T) {
	for _, tt := range []struct{ name, script, want string }{
		{"expect", "steps: [{expect: 'give me \\d+', say: a}]", `expected /give me \d+/; received: hello`},
		{"reject", "steps: [{reject: hel+o, say: a}]", "did not expect /hel+o/"},
		{"system", "steps: [{expect_system: careful, say: a}]", "expected /careful/ in the system prompt; received: be kind"},
		{"tools", "steps: [{expect_tools: [run_bash, web_fetch], say: a}]", "expected the tool web_fetch"},
		{"no tools", "steps: [{expect_no_tools: true, say: a}]", "expected a request without tools"},
		{"no branch", "steps: [{when: [{match: a, say: a}, {match: b, say: b}]}]", "no branch matches"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := &talk{t: t, p: script(t, tt.script)}
			k.request = agentloop.ModelRequest{System: []string{"be kind"}, Tools: []agentloop.ToolSchema{{Name: "run_bash"}}}
			_, err := k.user("hello").try()
			failed, ok := errors.AsType[*agentloop.ModelError](err)
			if !ok || failed.Kind != agentloop.ModelBadAnswer || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

func TestScriptIsCheckedWhenItIsRead(t *testing.T) {
	for _, tt := range []struct{ name, script, want string }{
		{"unknown key", "steps:\n  - sya: a\n", "line 2"},
		{"bad pattern", "steps: [{expect: '(', say: a}]", "steps[1].expect"},
		{"bad pattern of a branch", "steps: [{when: [{match: '[', say: a}]}]", "steps[1].when[1].match"},
		{"nothing", "model: a", "no steps"},
		{"answer beside when", "steps: [{say: a, when: [{say: b}]}]", "beside when"},
		{"anchor", "steps:\n  - &a {say: a}\n  - *a\n", "anchors"},
		{"two kinds of arguments", "steps: [{calls: [{tool: a, args: {}, raw: ''}]}]", "args and raw"},
		{"unknown kind", "steps: [{error: {kind: boom}}]", "want one of"},
		{"unknown stop", "steps: [{say: a, stop: never}]", "want one of"},
		{"other without a pattern", "others: [{steps: [{say: a}]}]", "match is missing"},
		{"too many calls", "steps: [{calls: [{tool: a, times: 6000}, {tool: b, times: 6000}]}]", "at most"},
		{"too many brackets", "steps: " + strings.Repeat("[", 60_000), "nested too deep"},
		{"too many lists", strings.Repeat("- ", 32_000), "nested too deep"},
		{"too large", "steps: [{say: " + strings.Repeat("a", 70_000) + "}]", "at most"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			start := time.Now()
			defer func() {
				if d := time.Since(start); d > time.Second {
					t.Errorf("took %v", d)
				}
			}()
			if _, err := provider.ParseScript([]byte(tt.script)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

func TestScriptPlaysOthersEachFromTheBeginning(t *testing.T) {
	p := script(t, `
steps: [{say: lead 1}, {say: lead 2}]
others:
  - match: count (\w+)
    steps: [{say: first}, {say: second}]
  - match: You judge
    steps: [{say: judged, repeat: -1}]
`)
	say := func(k *talk, prompt, want string) {
		t.Helper()
		if got := k.user(prompt).answer().Message.Text(); got != want {
			t.Errorf("%q: %q, want %q", prompt, got, want)
		}
	}
	lead, files, dirs := &talk{t: t, p: p}, &talk{t: t, p: p}, &talk{t: t, p: p}
	judge := &talk{t: t, p: p, request: agentloop.ModelRequest{System: []string{"You judge calls."}}}
	say(lead, "go", "lead 1")
	say(files, "count files", "first")
	say(dirs, "count dirs", "first")
	say(judge, "x", "judged")
	say(files, "more", "second")
	say(lead, "go on", "lead 2")
	say(judge, "y", "judged")
	say(dirs, "more", "second")
}

func TestScriptPlaysOddAnswers(t *testing.T) {
	k := &talk{t: t, p: script(t, `
steps:
  - {say: ab, say_times: 3, repeat: 2, usage: {input: 7, output: 5, cache_read: 3, cache_write: 2}, stop: length}
  - {calls: [{tool: read_file, raw: '{"path": ', id: same}, {tool: read_file, args: {path: 'f{{i}}'}, times: 100}]}
  - {say: half of, error: {kind: cut, status: 200, text: gone}}
  - {say: end, retries: 2}
`)}
	for range 2 {
		a := k.user("a").answer()
		if a.Message.Text() != "ababab" || a.Stop != agentloop.StopLength || a.Usage != (agentloop.Usage{Input: 7, Output: 5, CacheRead: 3, CacheWrite: 2}) {
			t.Errorf("answer %+v", a)
		}
	}
	uses := k.user("b").answer().Message.Uses()
	if len(uses) != 101 || uses[0].Args != `{"path": ` || uses[0].CallID != "same" || uses[100].Args != `{"path":"f100"}` {
		t.Errorf("%d uses, first %+v, last %+v", len(uses), uses[0], uses[len(uses)-1])
	}
	var pieces []agentloop.ModelDelta
	emit := func(d agentloop.ModelDelta) { pieces = append(pieces, d) }
	_, err := k.p.Stream(t.Context(), agentloop.ModelRequest{}, emit)
	failed, ok := errors.AsType[*agentloop.ModelError](err)
	if !ok || failed.Kind != agentloop.ModelCut || failed.Status != 200 || len(pieces) != 1 || pieces[0].Text != "half of" {
		t.Errorf("error %v after %+v", err, pieces)
	}
	pieces = nil
	if _, err := k.p.Stream(t.Context(), agentloop.ModelRequest{}, emit); err != nil {
		t.Fatal(err)
	}
	if len(pieces) != 3 || pieces[0].Retry == nil || pieces[1].Retry == nil || pieces[2].Text != "end" {
		t.Errorf("pieces %+v", pieces)
	}
}

func TestScriptEndsWithItsContext(t *testing.T) {
	for name, text := range map[string]string{
		"hang":  "steps: [{hang: true}]",
		"delay": "steps: [{say: a, delay: 1h}]",
		"pace":  "steps: [{say: one two three four five six seven eight nine ten, pace: 1h}]",
		"retry": "steps: [{say: a, retries: 1, pace: 1h}]",
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(20*time.Millisecond, cancel)
			start := time.Now()
			if _, err := script(t, text).Stream(ctx, agentloop.ModelRequest{}, nil); !errors.Is(err, context.Canceled) {
				t.Errorf("error %v", err)
			}
			if d := time.Since(start); d > 250*time.Millisecond {
				t.Errorf("after %v", d)
			}
		})
	}
}

func TestScriptsOfTheDocumentationAreRead(t *testing.T) {
	doc, err := os.ReadFile("../../docs/agent-scripts.md")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, part := range strings.Split(string(doc), "```yaml\n")[1:] {
		text, _, _ := strings.Cut(part, "```")
		if _, err := provider.ParseScript([]byte(text)); err != nil {
			t.Errorf("%v in\n%s", err, text)
		}
		n++
	}
	if n < 2 {
		t.Errorf("%d scripts found", n)
	}
}

func FuzzParseScript(f *testing.F) {
	f.Add([]byte(fixing))
	f.Add([]byte("steps: [{say: '{{n}}', repeat: -1, calls: [{tool: a, args: {b: [1, {c: '{{i}}'}]}}]}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := provider.ParseScript(data)
		if err != nil {
			return
		}
		p := provider.NewScripted(s)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		messages := []agentloop.Message{agentloop.TextMessage(agentloop.RoleUser, agentloop.OriginUser, string(data))}
		for range 3 {
			a, err := p.Stream(ctx, agentloop.ModelRequest{Messages: messages}, nil)
			if err != nil {
				return
			}
			messages = append(messages, a.Message)
		}
	})
}
