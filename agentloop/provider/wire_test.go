package provider_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"sandboxd/agentloop"
	"sandboxd/agentloop/provider"
)

var workingAnswer = spoken{
	Thinking: "The tests first, naïvely.", Signature: "c2lnbmVk", Text: "I run the tests. ✓ dönè",
	Calls: []spokenCall{callOf("call_a", "run_bash", `{"command":"go test ./... # \"q\" ü"}`), callOf("call_b", "read_file", `{"path":"a.go"}`)},
	Usage: agentloop.Usage{Input: 11, CacheRead: 7, CacheWrite: 5, Output: 3}, Stop: agentloop.StopTools,
}

func TestAnswerIsThatOfTheWire(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p wireProtocol) {
		s := newWireServer(t, events(p.Say(workingAnswer)...))
		var text, thinking strings.Builder
		var tools []string
		a, err := dial(t, p, s, quick).Stream(t.Context(), ask(), func(d agentloop.ModelDelta) {
			text.WriteString(d.Text)
			thinking.WriteString(d.Thinking)
			if d.Tool != "" {
				tools = append(tools, d.Tool)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if text.String() != workingAnswer.Text || thinking.String() != workingAnswer.Thinking || !reflect.DeepEqual(tools, []string{"run_bash", "read_file"}) {
			t.Errorf("pieces: text %q, thinking %q, tools %q", text.String(), thinking.String(), tools)
		}
		if a.Stop != agentloop.StopTools || a.Usage != workingAnswer.Usage || a.Message.Usage == nil || *a.Message.Usage != a.Usage || a.Message.Model != "served" || a.ID == "" {
			t.Errorf("answer %+v", a)
		}
		if a.Message.Text() != workingAnswer.Text {
			t.Errorf("text %q", a.Message.Text())
		}
		for i, u := range a.Message.Uses() {
			if want := workingAnswer.Calls[i]; u.CallID != want.ID || u.Tool != want.Name || u.Args != want.Args || u.Origin != agentloop.OriginModel {
				t.Errorf("use %+v, want %+v", u, want)
			}
		}
		if n := len(a.Message.Uses()); n != 2 {
			t.Errorf("%d uses", n)
		}
		if got := s.received()[0]; got.path != p.Path {
			t.Errorf("path %q, want %q", got.path, p.Path)
		}
	})
}

func TestManyCallsOfOneAnswerKeepTheirOrder(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p wireProtocol) {
		a := spoken{Stop: agentloop.StopTools}
		for i := range 200 {
			a.Calls = append(a.Calls, callOf(fmt.Sprintf("c%d", i), "read_file", fmt.Sprintf(`{"path":"f%d"}`, i)))
		}
		got, err := dial(t, p, newWireServer(t, events(p.Say(a)...)), quick).Stream(t.Context(), ask(), nil)
		if err != nil {
			t.Fatal(err)
		}
		uses := got.Message.Uses()
		if len(uses) != 200 {
			t.Fatalf("%d uses", len(uses))
		}
		for i, u := range uses {
			if u.Args != a.Calls[i].Args || u.CallID != a.Calls[i].ID {
				t.Fatalf("use %d is %+v", i, u)
			}
		}
	})
}

func TestMalformedArgumentsStayAsTheyAre(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p wireProtocol) {
		for _, args := range []string{`{"path": `, `[1,2]`, `"text"`, `{"a":1}{"b":2}`, "not json\x00\u2028", `{"a":"` + strings.Repeat("x", 200_000)} {
			s := newWireServer(t, events(p.Say(spoken{Calls: []spokenCall{callOf("c", "read_file", args)}, Stop: agentloop.StopTools})...))
			got, err := dial(t, p, s, quick).Stream(t.Context(), ask(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if u := got.Message.Uses(); len(u) != 1 || u[0].Args != args {
				t.Errorf("%.40q: uses %.200v", args, u)
			}
		}
	})
}

// lastRetry counts the retries that were told.
func retries(n *int) func(agentloop.ModelDelta) {
	return func(d agentloop.ModelDelta) {
		if d.Retry != nil {
			*n++
		}
	}
}

func TestErrorsAreToldByKind(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p wireProtocol) {
		good := events(p.Say(spoken{Text: "fine"})...)
		half := p.Say(workingAnswer)[:5]
		for _, tt := range []struct {
			name     string
			reply    reply
			kind     agentloop.ModelErrorKind
			attempts int
			text     string
		}{
			{"wrong key", status(401, p.Refusal("authentication_error", "invalid x-api-key")), agentloop.ModelBadKey, 1, "check the key in KEY"},
			{"no right", status(403, p.Refusal("permission_error", "not yours")), agentloop.ModelBadKey, 1, "not yours"},
			{"unknown model", status(404, p.Refusal("not_found_error", "model: m")), agentloop.ModelUnknown, 1, "model"},
			{"too long by words", status(400, p.Refusal("invalid_request_error", "prompt is too long: 200001 tokens")), agentloop.ModelTooLong, 1, "compact"},
			{"too long by code", status(400, p.Refusal("context_length_exceeded", "no")), agentloop.ModelTooLong, 1, "compact"},
			{"too large", status(413, p.Refusal("request_too_large", "no")), agentloop.ModelTooLong, 1, ""},
			{"bad request", status(400, p.Refusal("invalid_request_error", "messages.0: odd")), agentloop.ModelBadRequest, 1, "messages.0: odd"},
			{"rate limit", status(429, p.Refusal("rate_limit_error", "slow down")), agentloop.ModelRateLimited, 3, "slow down"},
			{"quota", status(429, p.Refusal("insufficient_quota", "pay")), agentloop.ModelRateLimited, 1, "pay"},
			{"overloaded", status(529, p.Refusal("overloaded_error", "busy")), agentloop.ModelOverloaded, 3, "busy"},
			{"server error without a body", status(503, ""), agentloop.ModelOverloaded, 3, "503"},
			{"server error that is a page", status(502, "<html>\x1b[31mBad\nGateway</html>"), agentloop.ModelOverloaded, 3, "[31mBad Gateway"},
			{"told not to come back", status(500, "", "X-Should-Retry", "false"), agentloop.ModelOverloaded, 1, ""},
			{"other content", func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				fmt.Fprint(w, "<html>login</html>")
			}, agentloop.ModelBadAnswer, 1, "text/html"},
			{"no stream", func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprint(w, p.Refusal("x", "streaming is off"))
			}, agentloop.ModelBadAnswer, 1, "streaming is off"},
			{"cut before the first piece", abort(events(half[0])), agentloop.ModelCut, 3, ""},
			{"ended before the first piece", events(half[0]), agentloop.ModelCut, 3, "in the middle"},
			{"cut after it", abort(events(half...)), agentloop.ModelCut, 1, ""},
			{"ended after it", events(half...), agentloop.ModelCut, 1, "in the middle"},
			{"no JSON", events(half[0], "event: message_delta\ndata: {oops\n\n"), agentloop.ModelBadAnswer, 1, "no JSON"},
			{"overload in the stream", events(half[0], p.Failing("overloaded_error", "full house")), agentloop.ModelOverloaded, 3, "full house"},
			{"overload after a piece", events(append(half, p.Failing("overloaded_error", "full house"))...), agentloop.ModelCut, 1, "full house"},
			{"connection refused", abort(nil), agentloop.ModelUnreachable, 3, ""},
		} {
			t.Run(tt.name, func(t *testing.T) {
				s := newWireServer(t, tt.reply)
				told := 0
				_, err := dial(t, p, s, quick).Stream(t.Context(), ask(), retries(&told))
				e, ok := errors.AsType[*agentloop.ModelError](err)
				if !ok {
					t.Fatalf("error %T %v", err, err)
				}
				if e.Kind != tt.kind || e.Attempts != tt.attempts || e.Provider != p.Name {
					t.Errorf("%+v, want kind %s after %d", e, tt.kind, tt.attempts)
				}
				if told != tt.attempts-1 || len(s.received()) != tt.attempts {
					t.Errorf("%d retries told, %d requests, want %d attempts", told, len(s.received()), tt.attempts)
				}
				if !strings.Contains(err.Error(), tt.text) || strings.ContainsAny(err.Error(), "\n\x1b") {
					t.Errorf("error %q, want %q in one line", err, tt.text)
				}
				if whole := fmt.Sprintf("%+v %#v", err, err); strings.Contains(whole, testKey) {
					t.Error("the key is in the error")
				}
			})
			if tt.attempts == 1 {
				continue
			}
			t.Run(tt.name+", then fine", func(t *testing.T) {
				a, err := dial(t, p, newWireServer(t, tt.reply, good), quick).Stream(t.Context(), ask(), nil)
				if err != nil || a.Message.Text() != "fine" {
					t.Errorf("answer %q, error %v", a.Message.Text(), err)
				}
			})
		}
	})
}

func TestRetryAfterIsObeyedWithinItsBound(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p wireProtocol) {
		good := events(p.Say(spoken{Text: "fine"})...)
		busy := p.Refusal("rate_limit_error", "slow down")
		for _, tt := range []struct {
			name, header, value string
			least, most         time.Duration
			fine                bool
		}{
			{"seconds", "Retry-After", "0.2", 200 * time.Millisecond, 3 * time.Second, true},
			{"milliseconds", "Retry-After-Ms", "150", 150 * time.Millisecond, 3 * time.Second, true},
			{"too long", "Retry-After", "3600", 0, 3 * time.Second, false},
			{"a date, too far", "Retry-After", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat), 0, 3 * time.Second, false},
			{"rubbish", "Retry-After", "-1e400", 0, 3 * time.Second, true},
		} {
			t.Run(tt.name, func(t *testing.T) {
				s := newWireServer(t, status(429, busy, tt.header, tt.value), good)
				start := time.Now()
				_, err := dial(t, p, s, quick).Stream(t.Context(), ask(), nil)
				if d := time.Since(start); (err == nil) != tt.fine || d < tt.least || d > tt.most {
					t.Errorf("after %v: %v", d, err)
				}
				if !tt.fine && !strings.Contains(err.Error(), "asks to wait") {
					t.Errorf("error %v", err)
				}
			})
		}
	})
}

func TestCancelEndsARequestAtOnce(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p wireProtocol) {
		half := p.Say(workingAnswer)[:5]
		for name, r := range map[string]reply{
			"no answer":    hang(nil),
			"in a stream":  hang(events(half...)),
			"in the waits": status(429, "", "Retry-After", "9"),
		} {
			t.Run(name, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var late bool
				time.AfterFunc(100*time.Millisecond, cancel)
				start := time.Now()
				_, err := dial(t, p, newWireServer(t, r), quick).Stream(ctx, ask(), func(agentloop.ModelDelta) { late = ctx.Err() != nil })
				if d := time.Since(start); !errors.Is(err, context.Canceled) || d > 350*time.Millisecond || late {
					t.Errorf("after %v: %v, late piece %v", d, err, late)
				}
			})
		}
	})
}

func TestSilentAndEndlessStreamsEnd(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p wireProtocol) {
		half := p.Say(workingAnswer)[:5]
		o := quick
		o.Silence = 200 * time.Millisecond
		start := time.Now()
		_, err := dial(t, p, newWireServer(t, hang(events(half...))), o).Stream(t.Context(), ask(), nil)
		if e, ok := errors.AsType[*agentloop.ModelError](err); !ok || e.Kind != agentloop.ModelSilent || e.Attempts != 1 || !strings.Contains(err.Error(), "silent") || time.Since(start) > 3*time.Second {
			t.Errorf("silent stream: %v after %v", err, time.Since(start))
		}
		_, err = dial(t, p, newWireServer(t, hang(nil)), o).Stream(t.Context(), ask(), nil)
		if e, ok := errors.AsType[*agentloop.ModelError](err); !ok || e.Kind != agentloop.ModelSilent || e.Attempts != 1 {
			t.Errorf("no answer: %v", err)
		}
		// A stream that has begun and has not said anything is not asked for again either.
		_, err = dial(t, p, newWireServer(t, hang(events())), o).Stream(t.Context(), ask(), nil)
		if e, ok := errors.AsType[*agentloop.ModelError](err); !ok || e.Kind != agentloop.ModelSilent || e.Attempts != 1 {
			t.Errorf("an empty stream: %v", err)
		}
		o.Longest = 300 * time.Millisecond
		drip := func(w http.ResponseWriter, r *http.Request) {
			events(half...)(w, r)
			for r.Context().Err() == nil {
				send(w, ": still there\n\n")
				time.Sleep(20 * time.Millisecond)
			}
		}
		start = time.Now()
		_, err = dial(t, p, newWireServer(t, drip), o).Stream(t.Context(), ask(), nil)
		if e, ok := errors.AsType[*agentloop.ModelError](err); !ok || e.Kind != agentloop.ModelCut || !strings.Contains(err.Error(), "too long") || time.Since(start) > 3*time.Second {
			t.Errorf("endless stream: %v after %v", err, time.Since(start))
		}
	})
}

func TestHugeAnswersAreBounded(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p wireProtocol) {
		filler := bytes.Repeat([]byte("x"), 1<<20)
		for name, r := range map[string]reply{
			"one endless line": func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				fmt.Fprint(w, "data: ")
				for range 200 {
					if _, err := w.Write(filler); err != nil {
						return
					}
				}
			},
			"endless comments": func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				for range 200 {
					if _, err := fmt.Fprintf(w, ": %s\n\n", filler[:60_000]); err != nil {
						return
					}
				}
				for range 200 {
					if _, err := fmt.Fprintf(w, ": %s\n\n", filler); err != nil {
						return
					}
				}
			},
			"a huge error": func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(400)
				for range 200 {
					if _, err := w.Write(filler); err != nil {
						return
					}
				}
			},
		} {
			t.Run(name, func(t *testing.T) {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				_, err := dial(t, p, newWireServer(t, r), quick).Stream(t.Context(), ask(), nil)
				runtime.ReadMemStats(&after)
				if _, ok := errors.AsType[*agentloop.ModelError](err); !ok || len(err.Error()) > 1000 {
					t.Errorf("error %.200v", err)
				}
				if grown := int64(after.HeapSys) - int64(before.HeapSys); grown > 400<<20 {
					t.Errorf("the heap grew by %d MiB", grown>>20)
				}
			})
		}
	})
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p wireProtocol) {
		other := newWireServer(t, events(p.Say(spoken{Text: "fine"})...))
		for _, code := range []int{301, 302, 303, 307, 308} {
			s := newWireServer(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL+"/elsewhere", code) })
			_, err := dial(t, p, s, quick).Stream(t.Context(), ask(), nil)
			if e, ok := errors.AsType[*agentloop.ModelError](err); !ok || e.Kind != agentloop.ModelBadAnswer || !strings.Contains(err.Error(), "not followed") {
				t.Errorf("%d: %v", code, err)
			}
		}
		if n := len(other.received()); n != 0 {
			t.Errorf("%d requests followed", n)
		}
	})
}

// What a server refuses of the optional parts of a request is left out from then on.
func TestRefusedPartsAreLeftOut(t *testing.T) {
	for _, tt := range []struct{ name, part, text, json string }{
		{provider.Anthropic, "thinking", "thinking.type: adaptive is not supported by this model", "thinking"},
		{provider.OpenAI, "stream_options", "Unknown parameter: stream_options", "stream_options"},
		{provider.OpenAI, "response_format", "response_format is unavailable", "response_format"},
		{provider.OpenAIResponses, "include", "Encrypted_content is not supported", "include"},
	} {
		t.Run(tt.name+" "+tt.part, func(t *testing.T) {
			for _, p := range protocols() {
				if p.Name != tt.name {
					continue
				}
				good := events(p.Say(spoken{Text: "fine"})...)
				s := newWireServer(t, status(400, p.Refusal("invalid_request_error", tt.text)), good)
				c := dial(t, p, s, quick)
				r := ask()
				r.Schema = []byte(`{"type":"object","properties":{}}`)
				for range 2 {
					if _, err := c.Stream(t.Context(), r, nil); err != nil {
						t.Fatal(err)
					}
				}
				got := s.received()
				if len(got) != 3 {
					t.Fatalf("%d requests", len(got))
				}
				for i, want := range []bool{true, false, false} {
					if _, there := got[i].body[tt.json]; there != want {
						t.Errorf("request %d: %s there: %v, want %v", i+1, tt.json, there, want)
					}
				}
			}
		})
	}
}

func TestAServerThatRefusesEverythingIsNotAskedForEver(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p wireProtocol) {
		all := "thinking output_config tool_choice max_completion_tokens stream_options reasoning_effort response_format prompt_cache_key include encrypted_content text.format max_output_tokens"
		s := newWireServer(t, status(400, p.Refusal("invalid_request_error", all)))
		_, err := dial(t, p, s, quick).Stream(t.Context(), ask(), nil)
		if e, ok := errors.AsType[*agentloop.ModelError](err); !ok || e.Kind != agentloop.ModelBadRequest || len(s.received()) > 12 {
			t.Errorf("%d requests: %v", len(s.received()), err)
		}
	})
}
