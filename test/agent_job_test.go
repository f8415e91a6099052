package test

import (
	"cmp"
	"encoding/json"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// agentPolicy lets an agent program in its workspace without questions.
const agentPolicy = `confined = "allow"
mode = "acceptEdits"
[limits]
timeout = "115s"
`

// wires are the protocols that the model speaks, with what a client is told of
// its place.
var wires = []struct{ provider, path, keyVariable string }{
	{"anthropic", "", "ANTHROPIC_API_KEY"},
	{"openai", "/v1", "OPENAI_API_KEY"},
}

// agentOf prepares sbx agent with the model.
func (d *daemonRun) agentOf(m *modelServer, wire int, args ...string) *osexec.Cmd {
	d.Helper()
	w := wires[wire]
	c := d.toDaemon(d, append([]string{"agent", "--provider", w.provider, "--base-url", m.URL + w.path, "--model", "local-model"}, args...)...)
	c.Env = append(c.Env, w.keyVariable+"="+modelKey)
	return c
}

// modelKey must be seen by the model alone.
const modelKey = "sk-local-2f7c1e5ab09d4c63"

func TestAgentMakesAFailingTestPass(t *testing.T) {
	t.Parallel()
	modules := []brokenModule{
		{pkg: "ledger", fn: "Balance", file: "ledger.go", testFile: "ledger_test.go"},
		{pkg: "tally", fn: "CountUp", file: "votes.go", testFile: "total_test.go"},
	}
	var edited []string
	d := startDaemon(t, 1000)
	d.patience = 5 * time.Minute // the first run compiles what Go brings
	d.policy(agentPolicy)
	d.withGo()
	for i, w := range wires {
		t.Run(w.provider, func(t *testing.T) { edited = append(edited, d.makePass(t, i, modules[i])) })
	}
	if len(edited) == 2 && edited[0] == edited[1] {
		t.Errorf("both models edited %s: they did not look at what they received", edited[0])
	}
}

// makePass lets an agent work on a module, and returns the file that it edited.
func (d *daemonRun) makePass(t *testing.T, wire int, module brokenModule) (edited string) {
	t.Helper()
	files, err := filepath.Glob(d.Work + "/*.go")
	d.must(err)
	for _, f := range files {
		d.must(os.Remove(f))
	}
	writeBroken(d.scene, module)
	if r := d.plain("go", "vet", "./..."); r.Code != 0 {
		t.Fatalf("the module does not compile: %s", r.Stderr)
	}
	m := startModel(t, competent)
	r := d.finish(d.agentOf(m, wire, "--json", "--max-steps", "12", "make the failing test pass"))
	if r.Code != 0 {
		t.Fatalf("sbx agent: %d\n%s\n%s\n%s", r.Code, r.Stdout, r.Stderr, d.content(d.log))
	}
	if r := d.plain("go", "test", "./..."); r.Code != 0 {
		t.Errorf("the test still fails: %s%s", r.Stdout, r.Stderr)
	}
	requests := m.requests()
	if len(requests) < 5 {
		t.Fatalf("%d requests", len(requests))
	}
	last := requests[len(requests)-1]
	if last.Key != modelKey {
		t.Errorf("the model got the key %q", last.Key)
	}
	calls, _ := last.calls()
	var tools []string
	for _, c := range calls {
		tools = append(tools, c.Tool)
		if c.Tool == "file_edit" {
			edited = c.Args["file_path"].(string)
		}
	}
	if want := []string{"run_bash", "read_file", "grep_files", "read_file", "file_edit", "run_bash"}; !slices.Equal(tools, want) {
		t.Errorf("calls %v, want %v", tools, want)
	}
	d.sameChain(t, calls, r.Stdout)
	if r := d.sbxTo(d, "audit", "verify"); r.Code != 0 {
		t.Errorf("audit verify: %s%s", r.Stdout, r.Stderr)
	}
	d.everywhereBut("", modelKey)
	return edited
}

// withGo puts the Go of the test's own on the PATH of what the scene starts.
func (s *scene) withGo() {
	s.Helper()
	program, err := osexec.LookPath("go")
	s.must(err)
	program, err = filepath.EvalSymlinks(program)
	s.must(err)
	s.Env = append(s.Env, "PATH="+filepath.Dir(program)+":/usr/bin:/bin", "GOTOOLCHAIN=local", "GOFLAGS=-mod=mod")
}

// sameChain compares the calls of a model with the audit log of its session: each
// has the row of its decision and that of its end.
func (d *daemonRun) sameChain(t *testing.T, calls []modelCall, events string) {
	t.Helper()
	var session string
	for line := range strings.Lines(events) {
		var e struct {
			Type string `json:"type"`
			Data struct {
				Session string `json:"session_id"`
			} `json:"data"`
		}
		if json.Unmarshal([]byte(line), &e) != nil || e.Type == "" {
			t.Errorf("no event: %s", line)
		}
		session = cmp.Or(session, e.Data.Session)
	}
	if session == "" {
		t.Fatalf("no event names the session: %s", events)
	}
	ends := []string{"ok", "fail"}
	var decided, ended []string
	r := d.sbxTo(d, "audit", "--json", "--session", session, "--limit", "1000")
	for line := range strings.Lines(r.Stdout) {
		var row struct {
			Tool   string `json:"tool_name"`
			Call   string `json:"call_id"`
			Status string `json:"status"`
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatalf("audit: %v: %s", err, line)
		}
		switch {
		case row.Tool == "turn", row.Tool == "session":
		case row.Status == "allow":
			decided = append(decided, row.Tool)
		case slices.Contains(ends, row.Status):
			ended = append(ended, row.Tool)
		default:
			t.Errorf("a row %s of %s", row.Status, row.Tool)
		}
	}
	var made []string
	for _, c := range calls {
		made = append(made, c.Tool)
	}
	for _, list := range [][]string{made, decided, ended} {
		slices.Sort(list)
	}
	if !slices.Equal(decided, made) || !slices.Equal(ended, made) {
		t.Errorf("the model called %v, the audit has decisions of %v and ends of %v", made, decided, ended)
	}
}
