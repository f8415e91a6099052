package test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sandboxd/test/require"
)

// object is an answer of the daemon.
func (d *daemonRun) object(method, path, body string, want int) map[string]any {
	d.Helper()
	text, code := d.request(method, path, body)
	if code != want {
		d.Fatalf("%s %s: %d %s, want %d", method, path, code, text, want)
	}
	var o map[string]any
	d.must(json.Unmarshal([]byte(text), &o))
	return o
}

// chat makes a session with a scripted model and returns its path.
func (d *daemonRun) chat(yaml string, more map[string]any) string {
	d.Helper()
	body := map[string]any{"cwd": d.Work, "env": []string{"HOME=" + d.Home, "PATH=/usr/bin:/bin"}, "mode": "acceptEdits",
		"agent": map[string]any{"provider": "scripted", "script": d.model(yaml)}}
	for k, v := range more {
		body[k] = v
	}
	text, err := json.Marshal(body)
	d.must(err)
	return "/api/chat/sessions/" + d.object("POST", "/api/chat/sessions", string(text), 201)["id"].(string)
}

// said waits for the end of the turn and returns the messages object.
func (d *daemonRun) said(session string) map[string]any {
	d.Helper()
	var o map[string]any
	d.until("the turn ends", func() bool {
		o = d.object("GET", session+"/messages", "", 200)
		return o["running"] == false
	})
	return o
}

func TestOneTurnAtATime(t *testing.T) {
	d := startDaemon(t, os.Getuid())
	session := d.chat(`
steps:
  - calls: [{tool: run_bash, args: {command: "touch begun; sleep 61.5"}}]
  - say: never
`, nil)
	first := d.object("POST", session+"/messages", `{"text":"go"}`, 202)
	d.until("the call begins", func() bool { return exists(d.Work + "/begun") })
	for path, body := range map[string]string{"/messages": `{"text":"too"}`, "/compact": `{}`} {
		if text, code := d.request("POST", session+path, body); code != 409 || !strings.Contains(text, "a turn is running") {
			t.Errorf("%s in a turn: %d %s", path, code, text)
		}
	}
	id := first["conversation_id"].(string)
	if text, code := d.request("DELETE", "/api/chat/conversations/"+id, ""); code != 409 {
		t.Errorf("deleting it in a turn: %d %s", code, text)
	}
	again, _ := json.Marshal(map[string]any{"cwd": d.Work, "env": []string{"HOME=" + d.Home}, "resume": id, "agent": map[string]any{"provider": "scripted", "script": d.model("steps: [{say: x}]")}})
	if text, code := d.request("POST", "/api/chat/sessions", string(again)); code != 409 {
		t.Errorf("resuming it in a turn: %d %s", code, text)
	}
	d.object("POST", "/api/chat/cancel", `{"session_id":"`+filepath.Base(session)+`"}`, 200)
	o := d.said(session)
	if end := o["end"].(map[string]any); end["reason"] != "cancelled" || o["conversation_id"] != id {
		t.Errorf("the end: %v", o)
	}
	list := d.object("GET", "/api/chat/sessions", "", 200)["sessions"].([]any)
	if len(list) != 1 {
		t.Errorf("the session that could not resume is left: %v", list)
	}
	d.object("DELETE", "/api/chat/conversations/"+id, "", 200)
	d.object("GET", "/api/chat/conversations/"+id, "", 404)
}

// After kill -9 in the middle of a call the conversation goes on; the call is told as
// interrupted and is not run again.
func TestAgentGoesOnAfterAKill(t *testing.T) {
	d := startDaemon(t, os.Getuid())
	yaml := `
steps:
  - calls: [{tool: run_bash, args: {command: "echo ran >> runs; sleep 61.6"}}]
  - {expect: interrupted, say: I was cut off}
`
	session := d.chat(yaml, nil)
	first := d.object("POST", session+"/messages", `{"text":"go"}`, 202)
	d.until("the call begins", func() bool { return exists(d.Work + "/runs") })
	d.kill()
	d.until("the command is gone", func() bool { return len(processesWith("sleep 61.6")) == 0 })
	d.start()
	o := d.object("GET", session+"/messages", "", 200)
	if o["running"] != false || o["conversation_id"] != first["conversation_id"] || o["end"] != nil || len(o["messages"].([]any)) != 2 {
		t.Errorf("after the restart: %v", o)
	}
	agent, _ := json.Marshal(map[string]any{"text": "go on", "agent": map[string]any{"provider": "scripted", "script": d.model(yaml)}})
	if now := d.object("POST", session+"/messages", string(agent), 202); now["conversation_id"] != first["conversation_id"] {
		t.Errorf("another conversation: %v", now)
	}
	if end := d.said(session)["end"].(map[string]any); end["text"] != "I was cut off" {
		t.Errorf("the end: %v", end)
	}
	if runs := d.content(d.Work + "/runs"); runs != "ran\n" {
		t.Errorf("the call ran again: %q", runs)
	}
}

// With stream the answer to a message is the turn, from its begin to its end.
func TestTurnAsTheAnswerToAMessage(t *testing.T) {
	d := startDaemon(t, os.Getuid())
	session := d.chat(writing("streamed"), nil)
	r, err := http.NewRequest("POST", "http://localhost"+session+"/messages", strings.NewReader(`{"text":"write","stream":true}`))
	d.must(err)
	r.Header.Set("Content-Type", "application/json")
	answer, err := d.http().Do(r)
	d.must(err)
	defer answer.Body.Close()
	var kinds []string
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		if kind, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			kinds = append(kinds, kind)
		}
	}
	if len(kinds) == 0 || kinds[0] != "turn.accepted" || kinds[len(kinds)-1] != "turn.ended" || answer.StatusCode != 200 {
		t.Errorf("%d: %q", answer.StatusCode, kinds)
	}
	if d.content(d.Work+"/out.txt") != "streamed\n" {
		t.Error("it did nothing")
	}
}

func TestForkAndExportAConversation(t *testing.T) {
	d := startDaemon(t, os.Getuid())
	session := d.chat(writing("first"), nil)
	d.object("POST", session+"/messages", `{"text":"write"}`, 202)
	id := d.said(session)["conversation_id"].(string)
	talk := "/api/chat/conversations/" + id
	entries := d.object("GET", talk, "", 200)["entries"].([]any)
	at := 0
	for i, e := range entries {
		if e.(map[string]any)["kind"] == "started" {
			at = i + 1
		}
	}
	if text, code := d.request("POST", talk+"/fork", fmt.Sprintf(`{"at":%d}`, at)); code != 409 || !strings.Contains(text, "fork at") {
		t.Errorf("fork in the middle of a call: %d %s", code, text)
	}
	fork := d.object("POST", talk+"/fork", `{"at":1}`, 201)
	view := d.object("GET", "/api/chat/conversations/"+fork["id"].(string), "", 200)
	if n := len(view["entries"].([]any)); n != 1 || fork["parent"] != id || fork["parent_last"] != 1.0 {
		t.Errorf("the fork has %d entries: %v", n, fork)
	}
	// A session goes on with a fork of all of it, and the first one does not notice.
	other := d.chat("steps: [{say: x}, {say: x}, {say: forked}]", map[string]any{"fork": id})
	d.object("POST", other+"/messages", `{"text":"more"}`, 202)
	if o := d.said(other); o["conversation_id"] == id || o["end"].(map[string]any)["text"] != "forked" {
		t.Errorf("the fork: %v", o)
	}
	if now := d.object("GET", talk, "", 200)["entries"].([]any); len(now) != len(entries) {
		t.Errorf("the first has %d entries, had %d", len(now), len(entries))
	}
	for format, want := range map[string]string{"jsonl": `{"conversation":{"id":"` + id, "markdown": "# write\n"} {
		if text, code := d.get(talk + "/export?format=" + format); code != 200 || !strings.HasPrefix(text, want) || !strings.Contains(text, "echo first") {
			t.Errorf("export %s: %d %s", format, code, text)
		}
	}
	if text, code := d.request("POST", "/api/chat/sessions", `{"cwd":"`+d.Home+`","grant":{"workspace":"`+d.mkdir(d.Home+"/else")+`"},"env":["HOME=`+d.Home+`"],"resume":"`+id+`","agent":{"provider":"scripted","script":"`+d.model("steps: [{say: x}]")+`"}}`); code != 409 || !strings.Contains(text, "the session works in") {
		t.Errorf("resuming it in another workspace: %d %s", code, text)
	}
}

// Another user finds no conversation of others; an admin reads it, and does not
// speak in it.
func TestConversationsOfOthers(t *testing.T) {
	require.Root(t, "to be several users")
	const admin = 54322
	d := startDaemon(t, 0, "--group", fmt.Sprint(daemonGID), "--admin-group", fmt.Sprint(admin))
	owner := d.as(1000)
	r := owner.finish(owner.agent(d, "steps: [{say: "+owner.Token+"}]", "say it"))
	if r.Code != 0 {
		t.Fatal(r)
	}
	heads := d.object("GET", "/api/chat/conversations", "", 200)["conversations"].([]any)
	id := heads[0].(map[string]any)["id"].(string)
	other := d.as(1001)
	for _, args := range [][]string{{"show", id}, {"export", id}, {"fork", id}, {"rm", id}} {
		if r := other.sbxTo(d, append([]string{"sessions"}, args...)...); r.Code == 0 || strings.Contains(r.Stdout+r.Stderr, owner.Token) || !strings.Contains(r.Stderr, "no such conversation") {
			t.Errorf("another user, %q: %+v", args, r)
		}
	}
	if r := other.sbxTo(d, "sessions", "list", "--conversations"); strings.Contains(r.Stdout, id) {
		t.Errorf("another user's list: %s", r.Stdout)
	}
	for _, how := range []string{"--resume", "--fork"} {
		if r := other.finish(other.agent(d, "steps: [{say: x}]", how, id, "go on")); r.Code != 125 || !strings.Contains(r.Stderr, "no such conversation") {
			t.Errorf("another user, %s: %+v", how, r)
		}
	}
	if r := owner.sbxTo(d, "sessions", "show", id); r.Code != 0 || !strings.Contains(r.Stdout, owner.Token) {
		t.Errorf("the owner: %+v", r)
	}
	if r := owner.sbxTo(d, "sessions", "rm", id); r.Code != 0 {
		t.Errorf("the owner removes it: %+v", r)
	}
	if text, err := os.ReadFile(d.state + "/conversations.db"); err != nil || bytes.Contains(text, []byte(owner.Token)) {
		t.Errorf("it is still in the file (%v)", err)
	}
}

// chatServer is a server that speaks chat completions. It asks for one call, and then
// repeats the key that it was sent.
type chatServer struct {
	*httptest.Server
	mu   sync.Mutex
	keys []string
	n    int
}

func newChatServer(t *testing.T, script string) *chatServer {
	s := &chatServer{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.keys = append(s.keys, r.Header.Get("Authorization"))
		s.n++
		w.Header().Set("Content-Type", "text/event-stream")
		say := func(delta, finish string) {
			fmt.Fprintf(w, `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":%s,"finish_reason":%s}]}`+"\n\n", delta, finish)
		}
		if s.n == 1 {
			args, _ := json.Marshal(map[string]string{"command": script})
			text, _ := json.Marshal(string(args))
			say(`{"role":"assistant","tool_calls":[{"index":0,"id":"t1","type":"function","function":{"name":"run_bash","arguments":`+string(text)+`}}]}`, "null")
			say(`{}`, `"tool_calls"`)
		} else {
			text, _ := json.Marshal("the key is " + strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
			say(`{"role":"assistant","content":`+string(text)+`}`, "null")
			say(`{}`, `"stop"`)
		}
		fmt.Fprint(w, `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":2,"total_tokens":12}}`+"\n\ndata: [DONE]\n\n")
	}))
	t.Cleanup(s.Close)
	return s
}

// The key of the model API is sent to the provider, and is nowhere else: not in a run,
// an event, the state or the log. After kill -9 the client sends it again.
func TestKeyIsInMemoryAlone(t *testing.T) {
	d := startDaemon(t, os.Getuid())
	const key = "key-of-a-model-0123456789"
	server := newChatServer(t, "printenv; tr '\\0' '\\n' </proc/self/environ; echo WITNESS")
	body, _ := json.Marshal(map[string]any{"cwd": d.Work, "env": []string{"HOME=" + d.Home, "PATH=/usr/bin:/bin", "OPENAI_API_KEY=" + key}, "mode": "bypassPermissions",
		"grant": map[string]any{"env_pass": []string{"OPENAI_API_KEY"}},
		"agent": map[string]any{"provider": "openai", "base_url": server.URL, "model": "m"}})
	session := "/api/chat/sessions/" + d.object("POST", "/api/chat/sessions", string(body), 201)["id"].(string)
	d.object("POST", session+"/messages", `{"text":"what is the key?"}`, 202)
	o := d.said(session)
	if end := o["end"].(map[string]any); end["reason"] != "completed" || !strings.Contains(fmt.Sprint(end["text"]), "the key is ") {
		t.Fatalf("the end: %v", o)
	}
	server.mu.Lock()
	if len(server.keys) != 2 || server.keys[0] != "Bearer "+key {
		t.Errorf("the provider got %q", server.keys)
	}
	server.mu.Unlock()
	shown, _ := d.get(session + "/messages")
	audit, _ := d.get("/api/audit")
	state, _ := d.get(session)
	for where, text := range map[string]string{"messages": shown, "audit": audit, "the session": state, "the log": d.content(d.log), "events": d.firstEvents(session)} {
		if strings.Contains(text, key) {
			t.Errorf("the key is in %s: %s", where, text)
		}
	}
	if !strings.Contains(shown, "WITNESS") {
		t.Errorf("the run told nothing: %s", shown)
	}
	d.kill()
	d.must(filepath.WalkDir(d.state, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		if strings.Contains(d.content(path), key) {
			t.Errorf("the key is in %s", path)
		}
		return nil
	}))

	d.start()
	if text, code := d.request("POST", session+"/messages", `{"text":"and now?"}`); code != 422 || !strings.Contains(text, `"code":"model"`) {
		t.Errorf("without the key after a restart: %d %s", code, text)
	}
	again, _ := json.Marshal(map[string]any{"text": "and now?", "agent": map[string]any{"provider": "openai", "base_url": server.URL, "model": "m", "keys": map[string]string{"OPENAI_API_KEY": key}}})
	if now := d.object("POST", session+"/messages", string(again), 202); now["conversation_id"] != o["conversation_id"] {
		t.Errorf("it goes on in %v, not in %v", now["conversation_id"], o["conversation_id"])
	}
	if end := d.said(session)["end"].(map[string]any); end["reason"] != "completed" {
		t.Errorf("after a restart: %v", end)
	}
}

// firstEvents reads what is kept of the events of a session.
func (d *daemonRun) firstEvents(session string) string {
	d.Helper()
	c := d.http()
	c.Timeout = 2 * time.Second
	answer, err := c.Get("http://localhost" + session + "/events")
	d.must(err)
	defer answer.Body.Close()
	var all bytes.Buffer
	_, _ = all.ReadFrom(answer.Body) // ends by the time limit
	if !strings.Contains(all.String(), "turn.ended") {
		d.Errorf("events without an end: %s", all.String())
	}
	return all.String()
}

// A name of no tool is refused, with the one that was meant; names of other clients
// are understood.
func TestToolsThatAreNamedExist(t *testing.T) {
	d := startDaemon(t, os.Getuid())
	script := d.model("steps: [{say: x}]")
	for name, want := range map[string]struct {
		code int
		text string
	}{"run_bsh": {400, "did you mean run_bash?"}, "": {400, "without a name"}, "mcp__none__tool": {400, "no tool"}, "Bash": {201, ""}, "read_file": {201, ""}} {
		body, _ := json.Marshal(map[string]any{"cwd": d.Work, "env": []string{"HOME=" + d.Home}, "agent": map[string]any{"provider": "scripted", "script": script, "tools": []string{name}}})
		if text, code := d.request("POST", "/api/chat/sessions", string(body)); code != want.code || !strings.Contains(text, want.text) {
			t.Errorf("tool %q: %d %s, want %d %s", name, code, text, want.code, want.text)
		}
	}
}
