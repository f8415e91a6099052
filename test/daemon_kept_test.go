package test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// A secret that one call tells of by its flag is a secret in all that the session
// leaves: its other calls and their outputs, its jobs, its questions and answers, its
// rules and their reasons, its directories and flags, and its end. Whatever is kept
// without it is kept, and what would loosen the policy without it is not.
func TestSecretOfASessionIsNowhereOnDisk(t *testing.T) {
	d := startDaemon(t, os.Getuid(), "--log-level", "debug")
	const byFlag, byForm, byName = "segelboot-9931", "ghp_0123456789abcdefghijABCDEFGHIJ456789", "quarzlampe77x"
	secrets := []string{byFlag, byForm, byName}
	env := []string{"PATH=/usr/bin:/bin", "HOME=" + d.Home, "DEPLOY_TOKEN=" + byName, "PLAIN=" + byForm, "ALSO=x" + byName}
	session := d.newSession(map[string]any{"env": env, "mode": "acceptEdits", "grant": map[string]any{"env_set": []string{"MORE=" + byForm}}})
	send := func(method, path string, body map[string]any, want int) string {
		t.Helper()
		text, err := json.Marshal(body)
		d.must(err)
		answer, code := d.request(method, path, string(text))
		if code != want {
			t.Errorf("%s %s %s: %d %s", method, path, text, code, answer)
		}
		return answer
	}
	rule := func(kind, pattern, reason string, want int) string {
		return send("POST", "/api/chat/sessions/"+session+"/permissions/rules", map[string]any{"op": "add", "kind": kind, "rule": pattern, "reason": reason}, want)
	}
	call := func(body map[string]any) string {
		body["session_id"], body["cwd"] = session, d.Work
		return send("POST", "/api/exec", body, 200)
	}
	rule("allow", "run_bash(echo *)", "", 200)
	rule("allow", "run_bash(ls *)", "the token: "+byForm, 200)
	if list := rule("allow", "run_bash(true "+byForm+")", "", 200); !strings.Contains(list, `"unkept":true`) {
		t.Errorf("nothing says that the rule is not kept: %s", list)
	}
	for _, kind := range []string{"deny", "ask"} {
		if answer := rule(kind, "run_bash(rm "+byName+")", "", 400); !strings.Contains(answer, "holds a secret") {
			t.Errorf("%s: %s", kind, answer)
		}
	}
	bash := func(script string) map[string]any {
		return map[string]any{"tool": "run_bash", "args": map[string]any{"command": script}}
	}
	call(bash("echo --password " + byFlag + "; echo it is " + byFlag + " and " + byForm))
	call(bash("echo " + byFlag + " again; ls /nowhere/" + byFlag))
	call(bash("printf '%s-%s\\n' segelboot 9931; cat none" + byFlag))
	call(map[string]any{"argv": []string{"/nowhere/" + byFlag, byName}})
	if out := call(map[string]any{"argv": []string{"true", byForm}}); !strings.Contains(out, `"outcome":"exited"`) {
		t.Errorf("the rule that is not kept is not in force: %s", out)
	}
	var job struct{ ID string }
	d.must(json.Unmarshal([]byte(send("POST", "/api/exec", map[string]any{"session_id": session, "cwd": d.Work, "detach": true, "argv": []string{"echo", byFlag, byForm, byName}}, 202)), &job))
	d.until("the job has ended", func() bool { text, _ := d.get("/api/jobs/" + job.ID); return strings.Contains(text, `"ended"`) })
	if record, _ := d.get("/api/jobs/" + job.ID); strings.Contains(record, byFlag) || !strings.Contains(record, `"exit_code":0`) {
		t.Errorf("the record of the job: %s", record)
	}
	// A question, answered by "always" with a rule that holds it, and one that waits.
	ids := d.questions()
	d.until("the watcher is there", func() bool { text, _ := d.get("/api/health"); return strings.Contains(text, `"connections":2`) })
	asked := make(chan string, 2)
	ask := func(script string) {
		body, _ := json.Marshal(map[string]any{"session_id": session, "cwd": d.Work, "tool": "run_bash", "args": map[string]any{"command": script, "note": byFlag}})
		go func() { text, _ := d.request("POST", "/api/exec", string(body)); asked <- text }()
	}
	ask("curl http://" + byFlag + ".example/" + byForm)
	if id, ok := <-ids; ok {
		send("POST", "/api/approvals/"+id, map[string]any{"answer": "always", "scope": "session"}, 200)
	}
	<-asked
	ask("rm -rf /srv/" + byFlag + "/" + byName)
	<-ids
	d.everywhereBut(job.ID, secrets...)
	d.kill()
	d.start()
	d.everywhereBut(job.ID, secrets...)
	kept, _ := d.get("/api/chat/sessions/" + session + "/permissions/rules")
	if !strings.Contains(kept, "run_bash(ls *)") || strings.Contains(kept, "run_bash(true ") {
		t.Errorf("after a restart: %s", kept)
	}
	send("DELETE", "/api/chat/sessions/"+session, nil, 200)
	d.everywhereBut(job.ID, secrets...)
	if r := d.sbxTo(d, "audit", "verify"); r.Code != 0 {
		t.Errorf("%+v", r)
	}
	if rows := d.sbxTo(d, "audit", "--json", "--session", session).Stdout; !strings.Contains(rows, "it is [secret] and [secret]") || strings.Count(rows, "\n") < 10 {
		t.Errorf("the rows: %s", rows)
	}
}
