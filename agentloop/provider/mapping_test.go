package provider_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"sandboxd/agentloop"
	"sandboxd/agentloop/provider"
)

func use(id, tool, args string) agentloop.Block {
	return agentloop.Block{Kind: agentloop.BlockToolUse, Origin: agentloop.OriginModel, CallID: id, Tool: tool, Args: args}
}

func result(id, text string) agentloop.Block {
	return agentloop.Block{Kind: agentloop.BlockToolResult, Origin: agentloop.OriginTool, CallID: id, Text: text, Status: agentloop.StatusOK}
}

func words(text string) agentloop.Block {
	return agentloop.Block{Kind: agentloop.BlockText, Origin: agentloop.OriginUser, Text: text}
}

func user(b ...agentloop.Block) agentloop.Message {
	return agentloop.Message{Role: agentloop.RoleUser, Blocks: b}
}

func assistant(b ...agentloop.Block) agentloop.Message {
	return agentloop.Message{Role: agentloop.RoleAssistant, Blocks: b}
}

// sent is what a server receives for a conversation.
func sent(t testing.TB, p wireProtocol, r agentloop.ModelRequest) wireRequest {
	t.Helper()
	s := &wireServer{replies: []reply{events(p.Say(spoken{Text: "fine"})...)}}
	return sentTo(t, p, s, r)
}

// turns reduces a request of any protocol to lines: who, kind, id, text.
func turns(p wireProtocol, body map[string]any) (out []string) {
	list := func(v any) []any { l, _ := v.([]any); return l }
	obj := func(v any) map[string]any { m, _ := v.(map[string]any); return m }
	text := func(v any) string { s, _ := v.(string); return s }
	line := func(parts ...string) { out = append(out, strings.Join(parts, "|")) }
	switch p.Name {
	case provider.Anthropic:
		for _, m := range list(body["messages"]) {
			role := text(obj(m)["role"])
			for _, c := range list(obj(m)["content"]) {
				c := obj(c)
				switch c["type"] {
				case "text":
					line(role, "text", "", text(c["text"]))
				case "tool_use":
					args, _ := json.Marshal(c["input"])
					line(role, "use", text(c["id"]), text(c["name"])+string(args))
				case "tool_result":
					line(role, "result", text(c["tool_use_id"]), text(obj(list(c["content"])[0])["text"]))
				default:
					line(role, text(c["type"]), "", text(c["signature"]))
				}
			}
		}
	case provider.OpenAI:
		for _, m := range list(body["messages"]) {
			m := obj(m)
			role := text(m["role"])
			if role == "tool" {
				line("user", "result", text(m["tool_call_id"]), text(m["content"]))
				continue
			}
			if c := text(m["content"]); c != "" && role != "system" {
				line(role, "text", "", c)
			}
			for _, c := range list(m["tool_calls"]) {
				f := obj(obj(c)["function"])
				line(role, "use", text(obj(c)["id"]), text(f["name"])+text(f["arguments"]))
			}
		}
	case provider.OpenAIResponses:
		for _, i := range list(body["input"]) {
			i := obj(i)
			switch i["type"] {
			case "function_call":
				line("assistant", "use", text(i["call_id"]), text(i["name"])+text(i["arguments"]))
			case "function_call_output":
				line("user", "result", text(i["call_id"]), text(i["output"]))
			case "reasoning":
				line("assistant", "thinking", "", text(i["encrypted_content"]))
			default:
				line(text(i["role"]), "text", "", text(i["content"]))
			}
		}
	}
	return out
}

func TestConversationsAreRepairedBeforeTheyAreSent(t *testing.T) {
	const missing = "There is no result: the call was interrupted, or its result was dropped from the conversation."
	for _, tt := range []struct {
		name     string
		messages []agentloop.Message
		want     []string
	}{
		{"whole", []agentloop.Message{user(words("go")), assistant(words("I look."), use("a", "t", `{"x":1}`), use("b", "t", `{}`)), user(result("a", "one"), result("b", "two")), assistant(words("Done.")), user(words("more"))},
			[]string{"user|text||go", "assistant|text||I look.", `assistant|use|a|t{"x":1}`, "assistant|use|b|t{}", "user|result|a|one", "user|result|b|two", "assistant|text||Done.", "user|text||more"}},
		{"results in another order, a reminder between", []agentloop.Message{user(words("go")), assistant(use("a", "t", "{}"), use("b", "t", "{}")), user(words("hurry")), user(result("b", "two")), user(result("a", "one"))},
			[]string{"user|text||go", "assistant|use|a|t{}", "assistant|use|b|t{}", "user|result|a|one", "user|result|b|two", "user|text||hurry"}},
		{"a use without a result", []agentloop.Message{user(words("go")), assistant(use("a", "t", "{}"), use("b", "t", "{}")), user(result("a", "one")), assistant(words("Done.")), user(words("more"))},
			[]string{"user|text||go", "assistant|use|a|t{}", "assistant|use|b|t{}", "user|result|a|one", "user|result|b|" + missing, "assistant|text||Done.", "user|text||more"}},
		{"cut after the uses", []agentloop.Message{user(words("go")), assistant(use("a", "t", "{}"))},
			[]string{"user|text||go", "assistant|use|a|t{}", "user|result|a|" + missing}},
		{"a result without a use", []agentloop.Message{user(result("a", "one"), words("go"))},
			[]string{"user|text||The result of an earlier call:\none", "user|text||go"}},
		{"a result twice", []agentloop.Message{user(words("go")), assistant(use("a", "t", "{}")), user(result("a", "one"), result("a", "again"))},
			[]string{"user|text||go", "assistant|use|a|t{}", "user|result|a|one", "user|text||The result of an earlier call:\nagain"}},
		{"an assistant begins and ends", []agentloop.Message{assistant(words("Hi.")), user(words("go")), assistant(words("Done."))},
			[]string{"user|text||(The conversation before this point was left out.)", "assistant|text||Hi.", "user|text||go", "assistant|text||Done.", "user|text||(Continue.)"}},
		{"nothing", nil, []string{"user|text||(Continue.)"}},
		{"empty texts", []agentloop.Message{user(words("go")), assistant(words(" \n")), user(words("")), user(words("on"))},
			[]string{"user|text||go", "user|text||on"}},
		{"odd arguments", []agentloop.Message{user(words("go")), assistant(use("a", "t", `{"x":`), use("b", "t", "[1]"), use("c", "t", "")), user(result("a", ""), result("b", "two"), result("c", "three"))},
			[]string{"user|text||go", `assistant|use|a|t{"malformed_arguments":"{\"x\":"}`, `assistant|use|b|t{"malformed_arguments":"[1]"}`, "assistant|use|c|t{}", "user|result|a|(no output)", "user|result|b|two", "user|result|c|three"}},
		{"odd names and ids", []agentloop.Message{user(words("go")), assistant(use("a b\n", "rm -rf /", "{}"), use("", "", "{}")), user(result("a b\n", "one"), result("", "two"))},
			[]string{"user|text||go", "assistant|use|call_X|rm_-rf__{}", "assistant|use|call_X|unnamed{}", "user|result|call_X|one", "user|result|call_X|two"}},
		{"an id twice in the conversation", []agentloop.Message{user(words("go")), assistant(use("a", "t", "{}")), user(result("a", "one")), assistant(use("a", "t", "{}")), user(result("a", "two"))},
			[]string{"user|text||go", "assistant|use|a|t{}", "user|result|a|one", "assistant|use|a-2|t{}", "user|result|a-2|two"}},
		{"bytes that are no text", []agentloop.Message{user(words("a\xffb"))}, []string{"user|text||a\uFFFDb"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			eachProtocol(t, func(t *testing.T, p wireProtocol) {
				r := ask()
				r.Messages = tt.messages
				got := turns(p, sent(t, p, r).body)
				made := regexp.MustCompile(`call_[0-9a-f]{16}`)
				for i := range got {
					got[i] = made.ReplaceAllString(got[i], "call_X")
				}
				want := tt.want
				if p.Name == provider.OpenAI { // one text for each message
					want = mergedTexts(want)
					got = mergedTexts(got)
				}
				if !reflect.DeepEqual(got, want) {
					t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
				}
			})
		})
	}
}

// mergedTexts joins texts of one side that follow each other.
func mergedTexts(in []string) (out []string) {
	for _, l := range in {
		if n := len(out); n > 0 && strings.Contains(l, "|text||") && strings.HasPrefix(out[n-1], l[:strings.Index(l, "|text||")+7]) {
			out[n-1] += "\n" + l[strings.Index(l, "|text||")+7:]
			continue
		}
		out = append(out, l)
	}
	return out
}

// judge says what an API would refuse in a request.
func judge(p wireProtocol, lines []string) error {
	name := regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}`)
	used := map[string]bool{}
	var open []string
	for i, l := range lines {
		f := strings.SplitN(l, "|", 4)
		if !utf8.ValidString(l) {
			return fmt.Errorf("line %d is no UTF-8", i)
		}
		switch f[1] {
		case "use":
			if len(open) > 0 && i > 0 && !strings.Contains(lines[i-1], "assistant|") {
				return fmt.Errorf("use %q while %q have no result", f[2], open)
			}
			if used[f[2]] || name.FindString(f[2]) != f[2] || f[2] == "" || !name.MatchString(f[3]) {
				return fmt.Errorf("use %q %.80q", f[2], f[3])
			}
			used[f[2]], open = true, append(open, f[2])
			if args := f[3][strings.Index(f[3], "{"):]; !json.Valid([]byte(args)) {
				return fmt.Errorf("arguments %.80q", args)
			}
		case "result":
			if len(open) == 0 || open[0] != f[2] || f[3] == "" {
				return fmt.Errorf("result %q where %q are open", f[2], open)
			}
			open = open[1:]
		case "text":
			if strings.TrimSpace(f[3]) == "" {
				return fmt.Errorf("line %d is empty", i)
			}
			if f[0] == "user" && len(open) > 0 {
				return fmt.Errorf("a text before the results of %q", open)
			}
		}
	}
	if len(lines) == 0 || !strings.HasPrefix(lines[0], "user|") || !strings.HasPrefix(lines[len(lines)-1], "user|") || len(open) > 0 {
		return fmt.Errorf("begins or ends wrongly, open %q", open)
	}
	return nil
}

// randomConversation makes one with all that can be wrong.
func randomConversation(r *rand.Rand) (out []agentloop.Message) {
	ids := []string{"a", "b", "c", "", "x y", strings.Repeat("z", 70), "\xff"}
	texts := []string{"", " ", "text", "\xfe", "<x>", strings.Repeat("w", 300), "{\"a\":1}", "{", "null", "[]"}
	pick := func(from []string) string { return from[r.IntN(len(from))] }
	for range r.IntN(8) {
		m := agentloop.Message{Role: agentloop.RoleUser}
		if r.IntN(2) == 0 {
			m.Role = agentloop.RoleAssistant
		}
		if r.IntN(20) == 0 {
			m.Role = "system"
		}
		for range r.IntN(5) {
			kinds := []agentloop.BlockKind{agentloop.BlockText, agentloop.BlockToolUse, agentloop.BlockToolResult, agentloop.BlockThinking, "odd"}
			b := agentloop.Block{Kind: kinds[r.IntN(len(kinds))], CallID: pick(ids), Tool: pick(ids), Args: pick(texts), Text: pick(texts)}
			if r.IntN(2) == 0 {
				b.Provider = provider.Names()[r.IntN(3)]
				b.Opaque = json.RawMessage(pick([]string{`{"model":"m","type":"thinking","thinking":"t","signature":"s"}`, `{"model":"m","item":{"id":"r","type":"reasoning","summary":[],"encrypted_content":"e"}}`, `{"model":"m","item":{}}`, `{`, `null`, `[]`, `{"model":"other","type":"thinking","signature":"s"}`}))
			}
			m.Blocks = append(m.Blocks, b)
		}
		out = append(out, m)
	}
	return out
}

func TestNoConversationIsSentBroken(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p wireProtocol) {
		s := newWireServer(t, events(p.Say(spoken{Text: "fine"})...))
		for seed := range 400 {
			r := ask()
			r.Messages = randomConversation(rand.New(rand.NewPCG(uint64(seed), 1)))
			before, _ := json.Marshal(r.Messages)
			got := sentTo(t, p, s, r)
			if after, _ := json.Marshal(r.Messages); string(after) != string(before) {
				t.Fatalf("seed %d: the messages of the caller were changed", seed)
			}
			if err := judge(p, turns(p, got.body)); err != nil {
				t.Fatalf("seed %d: %v\n%s\nfrom %+v", seed, err, strings.Join(turns(p, got.body), "\n"), r.Messages)
			}
		}
	})
}

// sentTo sends a request to a server and returns what it received.
func sentTo(t testing.TB, p wireProtocol, s *wireServer, r agentloop.ModelRequest) wireRequest {
	t.Helper()
	c, closeAll := inProcess(t, p, s)
	defer closeAll()
	if _, err := c.Stream(t.Context(), r, nil); err != nil {
		t.Fatal(err)
	}
	got := s.received()
	return got[len(got)-1]
}

func TestThoughtsGoBackToTheirOwnModelOnly(t *testing.T) {
	for _, p := range protocols() {
		if p.Name == provider.OpenAI {
			continue // the protocol takes none
		}
		t.Run(p.Name, func(t *testing.T) {
			s := newWireServer(t, events(p.Say(workingAnswer)...), events(p.Say(spoken{Text: "fine"})...))
			c := dial(t, p, s, quick)
			r := ask()
			a, err := c.Stream(t.Context(), r, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Messages = append(r.Messages, a.Message, user(result("call_a", "ok"), result("call_b", "package a")))
			// Through the store and back, as a conversation that is resumed.
			data, err := json.Marshal(r.Messages)
			if err != nil {
				t.Fatal(err)
			}
			r.Messages = nil
			if err := json.Unmarshal(data, &r.Messages); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Stream(t.Context(), r, nil); err != nil {
				t.Fatal(err)
			}
			got := turns(p, s.received()[1].body)
			want := []string{"user|text||hello", "assistant|thinking||c2lnbmVk", "assistant|text||" + workingAnswer.Text, `assistant|use|call_a|run_bash{"command":"go test ./... # \"q\" ü"}`,
				`assistant|use|call_b|read_file{"path":"a.go"}`, "user|result|call_a|ok", "user|result|call_b|package a"}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
			}
			for _, other := range protocols() {
				if other.Name == p.Name {
					continue
				}
				if all := sent(t, other, r).raw; strings.Contains(all, "c2lnbmVk") || strings.Contains(all, "naïvely") {
					t.Errorf("%s got the thoughts of %s", other.Name, p.Name)
				}
			}
		})
	}
}

func TestCachesAreMarked(t *testing.T) {
	p := protocols()[0]
	r := ask()
	r.System = []string{"Always the same.", "Today is Monday."}
	r.Messages = []agentloop.Message{user(words("one")), assistant(words("two")), user(words("three")), assistant(use("a", "t", "{}")), user(result("a", "four"))}
	raw := sent(t, p, r).raw
	if n := strings.Count(raw, `"cache_control"`); n != 4 {
		t.Errorf("%d marks, want 4 in %s", n, raw)
	}
	for _, marked := range []string{`{"text":"Always the same.","cache_control":{"type":"ephemeral"},"type":"text"}`, `"text":"three","cache_control"`} {
		if !strings.Contains(raw, marked) {
			t.Errorf("no %s in %s", marked, raw)
		}
	}
}

func TestToolsStayDeclaredWhenTheyMayNotBeUsed(t *testing.T) {
	for _, p := range protocols() {
		r := ask()
		r.NoTools, r.NoThinking = true, true
		body := sent(t, p, r).body
		if tools, _ := body["tools"].([]any); len(tools) != 1 {
			t.Errorf("%s: tools %v", p.Name, body["tools"])
		}
		choice, _ := json.Marshal(body["tool_choice"])
		if want := map[string]string{provider.Anthropic: `{"type":"none"}`}[p.Name]; string(choice) != want && (want != "" || string(choice) != `"none"`) {
			t.Errorf("%s: tool_choice %s", p.Name, choice)
		}
	}
}

func TestSchemasOfToolsAreObjects(t *testing.T) {
	for _, p := range protocols() {
		for _, schema := range []string{"", "null", "[]", "{", `{"type":"string"}`, `{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}`} {
			r := ask()
			r.Tools = []agentloop.ToolSchema{{Name: "t", Parameters: json.RawMessage(schema)}}
			raw := sent(t, p, r).raw
			if !strings.Contains(raw, `"type":"object"`) || !strings.Contains(raw, `"properties":{`) {
				t.Errorf("%s %q: %s", p.Name, schema, raw)
			}
			if strings.Contains(schema, "required") && !(strings.Contains(raw, `"required":["a"]`) && strings.Contains(raw, `"additionalProperties":false`)) {
				t.Errorf("%s lost a part of the schema: %s", p.Name, raw)
			}
		}
	}
}

func FuzzMapping(f *testing.F) {
	f.Add(uint64(1), "text", "{}")
	f.Fuzz(func(t *testing.T, seed uint64, text, args string) {
		messages := randomConversation(rand.New(rand.NewPCG(seed, 2)))
		messages = append(messages, assistant(use(text, args, args), words(text)), user(result(args, text), result(text, args), words(args)))
		for _, p := range protocols() {
			r := ask()
			r.Messages, r.System = messages, []string{text}
			if err := judge(p, turns(p, sent(t, p, r).body)); err != nil {
				t.Fatalf("%s: %v", p.Name, err)
			}
		}
	})
}
