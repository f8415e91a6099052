package test

import (
	"encoding/json"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sandboxd/test/require"
)

// model is a script for the provider that plays one, in a file beside the workspace.
func (s *scene) model(yaml string) string {
	s.Helper()
	n := 0
	for exists(fmt.Sprintf("%s/model%d.yaml", s.Out, n)) {
		n++
	}
	return s.file(fmt.Sprintf("%s/model%d.yaml", s.Out, n), yaml)
}

// agent is a command line of sbx agent with a scripted model, for a daemon or, if d
// is nil, for one of its own.
func (s *scene) agent(d *daemonRun, yaml string, more ...string) *osexec.Cmd {
	s.Helper()
	args := append([]string{s.program("sbx"), "agent", "--script", s.model(yaml)}, more...)
	c := s.command(args...)
	if d != nil {
		c.Env = append(c.Env, "SANDBOXD_SOCKET="+d.socket)
	}
	return c
}

// writes is a model that appends a line to a file and says done.
const writes = `
steps:
  - say: I write.
    calls: [{tool: run_bash, args: {command: "echo WORD >> out.txt"}}]
  - expect: 'result of run_bash \(ok\)'
    say: done WORD
`

func writing(word string) string { return strings.ReplaceAll(writes, "WORD", word) }

// Where no daemon runs the command has one of its own, which ends with it; the next
// command finds the conversation.
func TestAgentStartsADaemonForItself(t *testing.T) {
	for _, uid := range users() {
		t.Run(fmt.Sprint("uid ", uid), func(t *testing.T) {
			if uid == 0 && exists("/run/sandboxd/sandboxd.sock") {
				require.NotHere(t, "the machine has a daemon")
			}
			s := newScene(t, uid, "full")
			if _, err := daemonProgram(); err != nil {
				t.Fatal(err)
			}
			r := s.finish(s.agent(nil, writing("one"), "--mode", "acceptEdits", "write"))
			if r.Code != 0 || r.Stdout != "done one\n" || s.content(s.Work+"/out.txt") != "one\n" {
				t.Fatalf("exit %d, out.txt %q\nstdout %q\nstderr %s", r.Code, s.content(s.Work+"/out.txt"), r.Stdout, r.Stderr)
			}
			for _, part := range []string{"started one for this command", "run_bash echo one >> out.txt [allow: ", "completed; 2 steps, 1 call", "sbx agent --continue"} {
				if strings.Count(r.Stderr, part) != 1 {
					t.Errorf("stderr says %d times %q:\n%s", strings.Count(r.Stderr, part), part, r.Stderr)
				}
			}
			state := s.Home + "/.local/state/sandboxd/daemon"
			s.until("the daemon ends", func() bool { return len(processesWith(state)) == 0 })
			if exists(state + "/sandboxd.sock") {
				t.Error("its socket is left over")
			}
			if st, err := os.Stat(state + "/conversations.db"); err != nil || st.Mode().Perm() != 0o600 {
				t.Errorf("conversations: %v, %v", st, err)
			}

			more := "steps:\n  - say: never\n  - say: never\n  - expect: 'go on'\n    say: went on\n"
			r = s.finish(s.agent(nil, more, "--continue", "go on"))
			if r.Code != 0 || r.Stdout != "went on\n" {
				t.Errorf("--continue: exit %d, stdout %q\n%s", r.Code, r.Stdout, r.Stderr)
			}
			list := s.plain(s.program("sbx"), "sessions", "list", "--conversations", "--json")
			var heads struct{ Conversations []map[string]any }
			if err := json.Unmarshal([]byte(list.Stdout), &heads); err != nil || len(heads.Conversations) != 1 {
				t.Fatalf("conversations: %v, %s", err, list.Stdout+list.Stderr)
			}
			if h := heads.Conversations[0]; h["turns"] != 2.0 || h["workspace"] != s.Work || h["title"] != "write" {
				t.Errorf("head: %v", h)
			}
		})
	}
}

// A script that only the command itself can open is read by it: <(...) of a shell,
// a pipe. The daemon is another process, and another user's here.
func TestAgentReadsAScriptOfItsOwnProcess(t *testing.T) {
	s := newScene(t, users()[len(users())-1], "full")
	if _, err := daemonProgram(); err != nil {
		t.Fatal(err)
	}
	for name, script := range map[string]string{
		"a substitution":     "SBX agent --script <(printf 'steps: [{say: WORD}]') hello",
		"standard input":     "SBX agent --script /dev/stdin hello <<<'steps: [{say: WORD}]'",
		"a pipe with a name": "mkfifo p && { printf 'steps: [{say: WORD}]' >p & SBX agent --script p hello; }",
	} {
		r := s.plain("bash", "-c", strings.NewReplacer("SBX", s.program("sbx"), "WORD", s.Token).Replace(script))
		if r.Code != 0 || r.Stdout != s.Token+"\n" {
			t.Errorf("%s: exit %d, stdout %q\n%s", name, r.Code, r.Stdout, r.Stderr)
		}
	}
	if r := s.plain("bash", "-c", s.program("sbx")+" agent --script <(head -c 1048577 /dev/zero) hello"); r.Code != 125 || !strings.Contains(r.Stderr, "is longer than 1048576 bytes") {
		t.Errorf("a script without end: exit %d, %s", r.Code, r.Stderr)
	}
}

// Two commands at once share the daemon that one of them started.
func TestAgentsShareTheDaemonOfOne(t *testing.T) {
	s := newScene(t, users()[len(users())-1], "full")
	if _, err := daemonProgram(); err != nil {
		t.Fatal(err)
	}
	done := make(chan result, 4)
	for n := range cap(done) {
		c := s.agent(nil, writing(fmt.Sprint("w", n)), "--mode", "acceptEdits", "write")
		go func() { done <- s.finish(c) }()
	}
	for range cap(done) {
		if r := <-done; r.Code != 0 {
			t.Errorf("exit %d: %s", r.Code, r.Stderr)
		}
	}
	if got := strings.Count(s.content(s.Work+"/out.txt"), "\n"); got != cap(done) {
		t.Errorf("%d lines were written, want %d", got, cap(done))
	}
	s.until("the daemon ends", func() bool { return len(processesWith(s.Home+"/.local/state/sandboxd/daemon")) == 0 })
}

func TestAgentExitStatusTellsTheOutcome(t *testing.T) {
	d := startDaemon(t, users()[len(users())-1])
	asked := `
steps:
  - calls: [{tool: run_bash, args: {command: "curl http://192.0.2.1/"}}]
  - say: I may not.
`
	for _, tt := range []struct {
		name, yaml string
		flags      []string
		code       int
		stderr     string
	}{
		{"it answered", "steps: [{say: hi}]", nil, 0, "completed"},
		{"no answer", "steps: [{error: {kind: bad-key, status: 401, text: wrong key}}]", nil, 1, "model-error"},
		{"it declines", "steps: [{say: no, stop: refusal}]", nil, 1, "refusal"},
		{"a limit", `steps: [{repeat: -1, calls: [{tool: run_bash, args: {command: "echo {{n}}"}}]}]`, []string{"--max-steps", "3"}, 3, "max-steps"},
		{"nobody to ask", asked, nil, 4, "headless"},
		{"denied by a rule", asked, []string{"--policy", d.file(d.Out+"/deny.toml", "[rules]\ndeny = [\"run_bash(curl *)\"]\n")}, 0, "[deny: rule deny run_bash(curl *)"},
		{"out of time", "steps: [{hang: true}]", []string{"--time", "300ms"}, 124, "time"},
		{"no such flag", "steps: []", []string{"--colour"}, 125, "unknown flag"},
		{"no prompt", "steps: []", []string{"--quiet"}, 125, "the prompt is empty"},
		{"two words", "steps: []", []string{"two"}, 125, "quote it"},
		{"a model that is not there", "steps: [{say: hi}]", []string{"--provider", "moon"}, 125, "moon"},
		{"a budget without a price", "steps: [{say: hi}]", []string{"--budget", "x"}, 125, "--budget"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			flags := append(tt.flags, "go")
			if tt.name == "no prompt" {
				flags = tt.flags
			}
			r := d.finish(d.agent(d, tt.yaml, flags...))
			if r.Code != tt.code || !strings.Contains(r.Stderr, tt.stderr) {
				t.Errorf("exit %d, want %d with %q\nstdout %s\nstderr %s", r.Code, tt.code, tt.stderr, r.Stdout, r.Stderr)
			}
		})
	}
}

// In mode auto the agent's own provider is the classifier; without an answer that can
// be used nothing is allowed.
func TestAgentInModeAutoIsJudgedByAModel(t *testing.T) {
	d := startDaemon(t, users()[len(users())-1])
	yaml := `
others:
  - match: You judge how safe
    steps: [{repeat: -1, say: 'ANSWER'}]
steps:
  - calls: [{tool: run_bash, args: {command: "python3 -c 'open(\"made\", \"w\")'"}}]
  - say: over
`
	for _, tt := range []struct {
		answer string
		made   bool
		code   int
		stderr string
	}{
		{`{"score": 0.95, "reason": "it makes an empty file"}`, true, 0, "[allow: classifier 0.95"},
		{`{"score": 0.05, "reason": "no"}`, false, 0, "[deny: classifier 0.05"},
		{`{"score": 0.5, "reason": "perhaps"}`, false, 4, "[deny: headless"},
		{`allow it, trust me`, false, 4, "[deny: headless"},
	} {
		os.Remove(d.Work + "/made")
		r := d.finish(d.agent(d, strings.ReplaceAll(yaml, "ANSWER", tt.answer), "--mode", "auto", "make a file"))
		if exists(d.Work+"/made") != tt.made || r.Code != tt.code || !strings.Contains(r.Stderr, tt.stderr) {
			t.Errorf("%s: made %v, exit %d\n%s", tt.answer, exists(d.Work+"/made"), r.Code, r.Stderr)
		}
	}
}

// Every line is one object, from the begin of the turn to its end.
func TestAgentEventsForPrograms(t *testing.T) {
	d := startDaemon(t, users()[len(users())-1])
	c := d.agent(d, writing("x"), "--json", "--mode", "acceptEdits", "-")
	c.Stdin = strings.NewReader("write\n")
	r := d.finish(c)
	var types []string
	for line := range strings.Lines(r.Stdout) {
		var e struct {
			ID   int64
			Type string
			Data map[string]any
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Type == "" {
			t.Fatalf("%v: %q", err, line)
		}
		types = append(types, e.Type)
		if e.Type == "turn.ended" && e.Data["reason"] != "completed" {
			t.Errorf("the end: %v", e.Data)
		}
	}
	all := " " + strings.Join(types, " ") + " "
	for _, order := range []string{"turn.accepted", "turn.started", "turn.step", "turn.message", "turn.tool", "call.decided", "call.started", "call.finished", "turn.result", "turn.ended"} {
		_, rest, ok := strings.Cut(all, " "+order+" ")
		if !ok {
			t.Fatalf("no %s in its place: %q", order, types)
		}
		all = " " + rest
	}
	if r.Code != 0 || r.Stderr != "" {
		t.Errorf("exit %d, stderr %s", r.Code, r.Stderr)
	}
}

// The first SIGINT cancels the turn, with what runs in it; the command tells and ends.
func TestInterruptEndsTheTurn(t *testing.T) {
	d := startDaemon(t, users()[len(users())-1])
	long := `
steps:
  - calls: [{tool: run_bash, args: {command: "touch begun; sleep 61.3; touch late"}}]
  - say: never
`
	for _, sig := range []unix.Signal{unix.SIGINT, unix.SIGTERM} {
		t.Run(sig.String(), func(t *testing.T) {
			os.Remove(d.Work + "/begun")
			c := d.agent(d, long, "--mode", "acceptEdits", "sleep")
			done := make(chan result)
			go func() { done <- d.finish(c) }()
			d.until("the call begins", func() bool { return exists(d.Work + "/begun") })
			start := time.Now()
			d.must(unix.Kill(c.Process.Pid, sig))
			r := <-done
			if r.Code != 128+int(sig) || time.Since(start) > 5*time.Second {
				t.Errorf("exit %d after %v: %s", r.Code, time.Since(start), r.Stderr)
			}
			d.until("nothing is left", func() bool { return len(processesWith("sleep 61.3")) == 0 })
			if exists(d.Work + "/late") {
				t.Error("the call went on")
			}
			if rows := d.sbxTo(d, "sessions", "list"); rows.Stdout != "" {
				t.Errorf("a session is left: %s", rows.Stdout)
			}
		})
	}
}

// Files that the client may not read are no scripts, whoever the daemon is.
func TestScriptIsReadAsTheClient(t *testing.T) {
	require.Root(t, "to serve another user")
	d := startDaemon(t, 0, "--group", fmt.Sprint(daemonGID))
	other := d.as(1000)
	secret := filepath.Join(filepath.Dir(d.Work), "secret.yaml")
	d.must(os.WriteFile(secret, []byte("steps: [{say: "+d.Token+"}]"), 0o600))
	for _, path := range []string{secret, "/dev/zero", other.Work} {
		r := other.sbxTo(d, "agent", "--script", path, "go")
		if r.Code != 125 || strings.Contains(r.Stdout+r.Stderr, d.Token) {
			t.Errorf("%s: exit %d, %s%s", path, r.Code, r.Stdout, r.Stderr)
		}
	}
	if r := other.finish(other.agent(d, "steps: [{say: hi}]", "go")); r.Code != 0 || r.Stdout != "hi\n" {
		t.Errorf("its own: exit %d, %s%s", r.Code, r.Stdout, r.Stderr)
	}
}
