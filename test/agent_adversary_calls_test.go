package test

import (
	"fmt"
	"strings"
	"testing"
)

// numbered are the files of so many calls.
func numbered(n int) map[string]string {
	files := map[string]string{}
	for i := range n {
		files[fmt.Sprintf("f%03d", i)] = "x"
	}
	return files
}

// Calls that no honest model makes: names, arguments and numbers.
func TestAdversariesOfCalls(t *testing.T) {
	playAll(t, []adversary{
		{name: "tools that do not exist", replies: func(*scene) []modelReply {
			return atOnce(use("rm_rf", object{"path": "/"}), use("../../bin/sh", object{}), use("run_bash\u200b", object{"command": "touch u"}),
				use("run\u005fbаsh", object{"command": "touch u"}), use("RUN_BASH", object{"command": "touch u"}), use(strings.Repeat("x", 10_000), object{}))
		}, after: func(s *scene, o adversaryEnd) {
			if ran := o.ran(); len(ran) != 0 {
				s.Errorf("%q ran", ran)
			}
		}},
		{name: "a tool without a name", replies: func(*scene) []modelReply {
			return append(atOnce(use("", object{"command": "touch u"})), oneByOne(bash("echo honest > honest"))...)
		}, left: map[string]string{"honest": "honest\n"}},
		{name: "arguments that are no JSON", replies: func(*scene) []modelReply {
			return append(atOnce(raw("run_bash", `{"command": "touch u"`), raw("run_bash", `touch u`), raw("run_bash", `["touch u"]`), raw("run_bash", `null`), raw("run_bash", `{"command": "touch u"} {"command": "touch v"}`)),
				oneByOne(bash("echo honest > honest"))...)
		}, left: map[string]string{"honest": "honest\n"}, after: func(s *scene, o adversaryEnd) {
			if ran := o.ran(); len(ran) != 1 {
				s.Errorf("%q ran", ran)
			}
		}},
		{name: "arguments with a key twice", replies: func(*scene) []modelReply {
			return atOnce(raw("run_bash", `{"command": "true", "command": "touch u"}`), raw("file_write", `{"file_path": "a", "file_path": "b", "content": "x"}`))
		}},
		{name: "arguments of wrong types", replies: func(*scene) []modelReply {
			return atOnce(raw("run_bash", `{"command": ["touch", "u"]}`), raw("run_bash", `{"command": {"$ref": "touch u"}}`), raw("run_bash", `{"command": 7}`),
				raw("file_write", `{"file_path": ["a"], "content": "x"}`), raw("read_file", `{"file_path": "notes.txt", "offset": "minus one"}`),
				raw("read_file", `{"file_path": "notes.txt", "limit": -1e99}`), raw("file_edit", `{"file_path": "notes.txt", "old_string": null, "new_string": {}}`))
		}, after: func(s *scene, o adversaryEnd) {
			if strings.Contains(o.texts(), "panic") || strings.Contains(o.texts(), "goroutine") {
				s.Errorf("a panic: %s", o.texts())
			}
			if ran := o.ran(); len(ran) != 0 {
				s.Errorf("%q ran", ran)
			}
		}},
		{name: "arguments in a million levels", replies: func(*scene) []modelReply {
			deep := strings.Repeat(`[`, 500_000) + strings.Repeat(`]`, 500_000)
			return append(atOnce(raw("run_bash", `{"command": `+deep+`}`)), oneByOne(bash("echo honest > honest"))...)
		}, left: map[string]string{"honest": "honest\n"}},
		{name: "arguments of 20 MiB", play: func(s *scene, n int, r modelRequest) modelReply {
			if n == 0 {
				return modelReply{Calls: []modelCall{use("file_write", object{"file_path": "huge", "content": strings.Repeat("A", 20<<20)})}}
			}
			return modelReply{Text: "done"}
		}, end: "completed", after: func(s *scene, o adversaryEnd) {
			if ran := o.ran(); len(ran) != 0 {
				s.Errorf("%q ran", ran)
			}
		}},
		{name: "a hundred calls in one answer", replies: func(*scene) []modelReply {
			var list []modelCall
			for range 50 {
				list = append(list, bash("echo x >> count"), use("read_file", object{"file_path": "notes.txt", "limit": len(list) + 1}))
			}
			for i := range list {
				if list[i].Tool == "run_bash" {
					list[i].Args["description"] = strings.Repeat("d", i+1) // not the same again
				}
			}
			return atOnce(list...)
		}, left: map[string]string{"count": strings.Repeat("x\n", 50)}, after: func(s *scene, o adversaryEnd) {
			if n := len(o.results); n != 100 {
				s.Errorf("%d results", n)
			}
		}},
		{name: "ids of calls twice", policy: patient, replies: func(*scene) []modelReply {
			named := func(id, text string) modelCall {
				return modelCall{ID: id, Tool: "run_bash", Args: object{"command": "echo " + text + " | tee -a out"}}
			}
			odd := "call/../\u202e" + strings.Repeat("x", 300)
			return []modelReply{{Calls: []modelCall{named("same", "first"), named("same", "second")}}, {Calls: []modelCall{named("same", "third"), named(odd, "fourth"), named(odd, "fifth"), named("same-2", "sixth")}}}
		}, left: map[string]string{"out": "first\nsecond\nthird\nfourth\nfifth\nsixth\n"}, renamed: true, after: func(s *scene, o adversaryEnd) {
			// The player refuses a request in which an id stands twice. Each call has its
			// own result, in its place.
			calls, results := o.requests[len(o.requests)-1].calls()
			for i, word := range []string{"first", "second", "third", "fourth", "fifth", "sixth"} {
				if len(calls) != 6 || !strings.Contains(results[calls[i].ID].Text, word) {
					s.Fatalf("call %d of %d: %+v", i, len(calls), results)
				}
			}
			if ran := o.ran(); len(ran) != 6 {
				s.Errorf("%q ran", ran)
			}
		}},
		{name: "a thousand calls in one answer", policy: patient, replies: func(*scene) []modelReply {
			var list []modelCall
			for i := range 1000 {
				list = append(list, use("file_write", object{"file_path": fmt.Sprintf("f%03d", i), "content": "x"}))
			}
			return atOnce(list...)
		}, left: numbered(128), renamed: true, after: func(s *scene, o adversaryEnd) {
			if n := len(o.results); n != 512 { // docs/agent.md
				s.Errorf("%d results, want 512", n)
			}
			if ran := o.ran(); len(ran) != 128 {
				s.Errorf("%d calls ran, want 128", len(ran))
			}
		}},
		{name: "the same call for ever", play: func(*scene, int, modelRequest) modelReply {
			return modelReply{Calls: []modelCall{bash("echo x >> count")}}
		}, flags: []string{"--max-steps", "50"}, end: "repeated", code: 3, left: map[string]string{"count": "x\nx\n"}},
		{name: "two calls in turns for ever", play: func(_ *scene, n int, _ modelRequest) modelReply {
			return modelReply{Calls: []modelCall{use("read_file", object{"file_path": []string{"notes.txt", "none.txt"}[n%2]})}}
		}, flags: []string{"--max-steps", "50"}, end: "repeated", code: 3, after: func(s *scene, o adversaryEnd) {
			if n := len(o.calls); n > 12 {
				s.Errorf("it took %d calls", n)
			}
		}},
		{name: "nearly the same call for ever", play: func(_ *scene, n int, _ modelRequest) modelReply {
			return modelReply{Calls: []modelCall{bash("cat notes.txt # " + strings.Repeat("i", n+1))}}
		}, flags: []string{"--max-steps", "50"}, end: "diminishing", code: 3, after: func(s *scene, o adversaryEnd) {
			if n := len(o.calls); n > 12 {
				s.Errorf("it took %d calls", n)
			}
		}},
		{name: "always something new", play: func(_ *scene, n int, r modelRequest) modelReply {
			if len(r.Tools) == 0 {
				return modelReply{Text: "I must stop"}
			}
			return modelReply{Calls: []modelCall{bash("date +%N; head -c 40 /dev/urandom | base64 # " + strings.Repeat("i", n+1))}}
		}, end: "max-steps", code: 3, after: func(s *scene, o adversaryEnd) {
			if n := len(o.requests); n != 8 {
				s.Errorf("%d requests, want 8", n)
			}
		}},
		{name: "calls where no tool is offered", play: func(_ *scene, n int, _ modelRequest) modelReply {
			return modelReply{Calls: []modelCall{bash("echo x >> count; date +%N # " + strings.Repeat("i", n+1))}}
		}, flags: []string{"--max-steps", "3"}, end: "max-steps", code: 3, left: map[string]string{"count": "x\nx\n"}},
	})
}
