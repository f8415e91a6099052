package test

import (
	"encoding/json"
	"fmt"
	"os"
	osexec "os/exec"
	"strings"
	"testing"
)

// stepsOfTurn is how many calls a measured turn makes, each in a step of its own.
const stepsOfTurn = 10

// BenchmarkSteps prints what a step of a turn costs through the daemon and its
// socket, with a model that answers at once, beside the same work started plainly.
// A turn has ten calls, one in each step: its begin and its end are in the figure.
// Run it with -benchtime 1x.
func BenchmarkSteps(b *testing.B) {
	for b.Loop() {
		g, err := newDaemonGround()
		if err != nil {
			b.Fatal(err)
		}
		err = g.steps(15)
		g.end()
		if err != nil {
			b.Fatal(err)
		}
	}
}

// steps measures n turns of each kind.
func (g *daemonGround) steps(n int) error {
	// Nothing new comes of the same call again, which usually ends a turn.
	config := g.dir + "/home/.config/sandboxd"
	if err := os.MkdirAll(config, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(config+"/policy.toml", []byte("[agent.limits]\nrepeats = 1000\nstale = 1000\n"), 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(g.work+"/edited.txt", []byte("X\n"), 0o644); err != nil {
		return err
	}
	text := strings.Repeat("func line() {} // of an ordinary file\n", 400)
	if err := os.WriteFile(g.work+"/code.go", []byte(text), 0o644); err != nil {
		return err
	}
	plain := func(argv ...string) func() error {
		return func() error {
			for range stepsOfTurn {
				c := osexec.Command(argv[0], argv[1:]...)
				c.Dir = g.work
				if err := c.Run(); err != nil {
					return err
				}
			}
			return nil
		}
	}
	todo, errTodo := g.turns(n, `{tool: todo_write, args: {todos: [{content: 'item {{n}}', status: pending}]}}`)
	bash, errBash := g.turns(n, `{tool: run_bash, args: {command: 'cat code.go'}}`)
	read, errRead := g.turns(n, `{tool: read_file, args: {file_path: code.go}}`)
	edit, errEdit := g.turns(n, `{tool: file_edit, args: {file_path: edited.txt, old_string: X, new_string: Xy}}`)
	for _, err := range []error{errTodo, errBash, errRead, errEdit} {
		if err != nil {
			return err
		}
	}
	return inTurns(fmt.Sprintf("%d steps of a turn", stepsOfTurn), n,
		[]string{"plain cat", "plain bash -c cat", "todo_write (no process)", "run_bash cat", "read_file", "file_edit"},
		plain("/bin/cat", "code.go"), plain("/bin/bash", "-c", "cat code.go"), todo, bash, read, edit)
}

// turns makes n sessions, and returns what runs a turn in the next of them. Each step
// of a turn makes one call.
func (g *daemonGround) turns(n int, call string) (func() error, error) {
	name := fmt.Sprintf("%s/model-%d.yaml", g.dir, len(call))
	first := ""
	if strings.Contains(call, "file_edit") { // only what was read may be changed
		first = "  - {calls: [{tool: read_file, args: {file_path: edited.txt}}]}\n"
	}
	script := fmt.Sprintf("steps:\n%s  - {repeat: %d, calls: [%s]}\n  - {say: done}\n", first, stepsOfTurn, call)
	if err := os.WriteFile(name, []byte(script), 0o600); err != nil {
		return nil, err
	}
	body, err := json.Marshal(map[string]any{"cwd": g.work, "env": []string{"PATH=/usr/bin:/bin", "HOME=" + g.dir + "/home"}, "mode": "acceptEdits",
		"agent": map[string]any{"provider": "scripted", "script": name, "max_steps": stepsOfTurn + 5}})
	if err != nil {
		return nil, err
	}
	var sessions []string
	for range n {
		made, err := unixRequest(g.socket, "POST", "/api/chat/sessions", string(body))
		if err != nil {
			return nil, err
		}
		var session struct{ ID string }
		if err := json.Unmarshal([]byte(made), &session); err != nil {
			return nil, err
		}
		sessions = append(sessions, session.ID)
	}
	return func() error {
		session := sessions[0]
		sessions = sessions[1:]
		answer, err := unixRequest(g.socket, "POST", "/api/chat/sessions/"+session+"/messages", `{"text":"go","stream":true}`)
		if err == nil && (!strings.Contains(answer, `"reason":"completed"`) || strings.Count(answer, `"status":"ok"`) < stepsOfTurn) {
			err = fmt.Errorf("a turn of %s: %s", call, answer[max(0, len(answer)-3000):])
		}
		return err
	}, nil
}
