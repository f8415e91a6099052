package api

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"sandboxd/policy"
)

// bodies are the requests that are written in JSON, one of each kind.
func bodies() []func() any {
	return []func() any{
		func() any { return new(ExecRequest) }, func() any { return new(SessionRequest) }, func() any { return new(MessageRequest) },
		func() any { return new(AnswerRequest) }, func() any { return new(StreamAnswer) }, func() any { return new(CancelRequest) },
		func() any { return new(RuleChange) }, func() any { return new(ModeRequest) }, func() any { return new(CompactRequest) },
		func() any { return new(ForkRequest) }, func() any { return new(RunLogRequest) },
	}
}

// Whatever is taken from a client's body is the same after it was written and read
// again, and what is refused or taken makes nothing panic.
func FuzzRequestBody(f *testing.F) {
	for i := range bodies() {
		for _, text := range []string{
			`{}`, `null`, `{"text":"hi","stream":true,"agent":{"provider":"scripted","script":{"base64":"/w=="},"budget_usd":0.5,"keys":{"A":"b"}}}`,
			`{"cwd":"/","env":["A=b",{"base64":"QT3/"}],"mode":"plan","grant":{"paths":[{"path":"/x","access":"ro"}],"limits":{"timeout_ms":-1}}}`,
			`{"answer":"always","scope":"user"}`, `{"id":"q","answer":"text","text":"x"}`, `{"op":"add","kind":"deny","rule":"run_bash(rm *)"}`,
			`{"append":{"seq":1,"time":"2026-01-02T03:04:05Z","reason":{"type":"x"}}}`,
		} {
			f.Add(uint8(i), []byte(text))
		}
	}
	f.Fuzz(func(t *testing.T, kind uint8, body []byte) {
		list := bodies()
		make := list[int(kind)%len(list)]
		first := make()
		if decodeStrict(body, first) != nil {
			return
		}
		text, err := json.Marshal(first)
		if err != nil {
			t.Fatalf("%s was taken, and cannot be written: %v", body, err)
		}
		again := make()
		if err := decodeStrict(text, again); err != nil {
			t.Fatalf("%s was taken, %s is refused: %v", body, text, err)
		}
		// Compared as text: an empty list and none are the same to a handler.
		if twice, _ := json.Marshal(again); !bytes.Equal(text, twice) {
			t.Fatalf("%s\nis written as\n%s\nand then as\n%s", body, text, twice)
		}
		if a, ok := first.(*AnswerRequest); ok {
			got, err := a.answer("fuzz")
			allows := slices.Contains([]string{"allow", "always", "text"}, a.Answer)
			if err == nil && (got.Verdict == policy.Allow) != allows || err != nil && got.Verdict == policy.Allow && !allows {
				t.Fatalf("%+v answers %+v, %v", a, got, err)
			}
		}
	})
}

// A request for a call that is taken asks for one command and for what its client may ask
// for; one in a session is never wider than the session.
func FuzzExecRequest(f *testing.F) {
	for _, text := range []string{
		`{"argv":["true"],"cwd":"/"}`, `{"argv":["true"],"cwd":"/","attended":true,"grant":{"user":"0:0"}}`, `{"script":"ls","cwd":"/x","tier":"base"}`,
		`{"tool":"read_file","args":{"path":"/etc/passwd"},"cwd":"/","session_id":"s"}`, `{"argv":[{"base64":"AA=="}],"cwd":"/"}`,
		`{"argv":["x"],"cwd":"/","session_id":"s","grant":{"paths":[{"path":"a","access":"deny"}],"network":["none"],"limits":{"memory_bytes":1}}}`,
		`{"argv":["x"],"cwd":"/","session_id":"s","grant":{"paths":[{"path":"/","access":"rw"}]}}`,
		`{"argv":["x"],"cwd":"/","session_id":"s","grant":{"network":["full"]}}`,
		`{"argv":["x"],"cwd":"/","terminal":{"rows":1,"columns":65535},"detach":true}`, `{"argv":["x"],"cwd":"/","grant":{"workspace":{"base64":"Lw=="}}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var q ExecRequest
		if decodeStrict(body, &q) != nil || q.check() != nil {
			return
		}
		kinds := 0
		for _, given := range []bool{len(q.Argv) > 0, q.Script != "", q.Tool != ""} {
			if given {
				kinds++
			}
		}
		for _, text := range slices.Concat(q.Argv, q.Env, []Text{q.Cwd, q.Script, q.Grant.Workspace}) {
			if bytes.IndexByte([]byte(text), 0) >= 0 {
				t.Fatalf("%s holds a null byte", body)
			}
		}
		if kinds != 1 || q.Cwd[0] != '/' || q.Attended && len(q.Argv) == 0 {
			t.Fatalf("taken: %s", body)
		}
		if g, err := q.Grant.grant(1000); err == nil && (g.User != "" && g.User != "caller" || g.Workspace != "" && g.Workspace[0] != '/') {
			t.Fatalf("granted: %s: %+v", body, g)
		}
		call, err := q.toolCall()
		if err != nil {
			return
		}
		if call.Tool == "" || !reflect.DeepEqual(call.Argv, Strings(q.Argv)) || call.Cwd != string(q.Cwd) {
			t.Fatalf("%s becomes %+v", body, call)
		}
		if q.Session == "" {
			return
		}
		for _, p := range call.Paths {
			if p.Access != policy.GrantDeny && p.Access != policy.GrantProtect {
				t.Fatalf("wider than its session: %s: %+v", body, call)
			}
		}
		if len(call.Paths) != len(q.Grant.Paths) || call.NoNetwork != (len(q.Grant.Network) > 0) || slices.Contains(q.Grant.Network, "full") || len(q.Env) > 0 || q.Mode != "" {
			t.Fatalf("dropped or wider: %s: %+v", body, call)
		}
	})
}

// Bytes pass the wire unchanged, and what is read as a text is written as that text.
func FuzzText(f *testing.F) {
	for _, raw := range []string{"", "a", "\xff\x00", "\"", "é\u2028", `{"base64":"/w=="}`, `"\ud800"`, `{"base64":null}`, `["a"]`} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		text, err := json.Marshal(Text(raw))
		var back Text
		if err != nil || json.Unmarshal(text, &back) != nil || string(back) != string(raw) {
			t.Fatalf("%q goes as %s and comes as %q (%v)", raw, text, back, err)
		}
		var read, again Text
		if json.Unmarshal(raw, &read) != nil {
			return
		}
		text, err = json.Marshal(read)
		if err != nil || json.Unmarshal(text, &again) != nil || again != read {
			t.Fatalf("%s is read as %q and then as %q", raw, read, again)
		}
	})
}
