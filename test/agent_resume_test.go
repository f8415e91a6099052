package test

import (
	"os"
	"path/filepath"
	"testing"
)

// SessionStart hooks are told whether a conversation begins or goes on, also in a
// session that a restart of the daemon brought back, where they are told once, before
// anything else happens in it.
func TestHooksAreToldOfAResumedSession(t *testing.T) {
	d := startDaemon(t, os.Getuid())
	d.policy(agentPolicy + `[[hooks.SessionStart]]
command = '''grep -o '"source":"[a-z]*"' >> starts; echo "the branch is main"'''
write = true
[[hooks.SessionStart]]
matcher = "resume"
command = "echo welcome back"
`)
	starts := func(want string) {
		t.Helper()
		got := ""
		if exists(d.Work + "/starts") {
			got = d.content(d.Work + "/starts")
			d.must(os.Remove(d.Work + "/starts"))
		}
		if got != want {
			t.Errorf("told %q, want %q", got, want)
		}
	}
	const begun, resumed = "\"source\":\"startup\"\n", "\"source\":\"resume\"\n"
	script := "steps: [{expect: 'branch is main', say: one}, {expect: 'welcome back', say: two}, {say: three}]"
	if r := d.finish(d.agent(d, script, "begin")); r.Code != 0 || r.Stdout != "one\n" {
		t.Errorf("%+v", r)
	}
	starts(begun)
	if r := d.finish(d.agent(d, script, "--continue", "go on")); r.Code != 0 || r.Stdout != "two\n" {
		t.Errorf("--continue: %+v", r)
	}
	starts(resumed)

	session := d.chat(script, nil)
	starts(begun)
	other := d.newSession(nil)
	starts(begun)
	d.object("POST", session+"/messages", `{"text":"begin"}`, 202)
	d.said(session)
	d.kill()
	d.start()
	d.object("GET", session, "", 200)
	starts("")
	agent := `{"text":"go on","agent":{"provider":"scripted","script":"` + d.model(script) + `"}}`
	for _, want := range []string{"two", "three"} {
		d.object("POST", session+"/messages", agent, 202)
		if end := d.said(session)["end"].(map[string]any); end["text"] != want {
			t.Errorf("after the restart: %v", end)
		}
	}
	starts(resumed)
	for range 2 {
		d.object("POST", "/api/exec", `{"argv":["true"],"cwd":"`+d.Work+`","session_id":"`+filepath.Base(other)+`"}`, 200)
	}
	starts(resumed)
}
