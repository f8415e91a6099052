package test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Secrets in variables, arguments, scripts, outputs and questions are nowhere on the
// daemon's disk nor in its log, and the model of a tool call does not get them. What
// the owner's command prints comes to the owner as it is, in the log of a job too.
func TestSecretsAreNowhereOnDisk(t *testing.T) {
	d := startDaemon(t, os.Getuid(), "--log-level", "debug")
	const byName, byForm, byFlag, printed = "quarzlampe77x", "ghp_0123456789abcdefghijABCDEFGHIJ456789", "segelboot-9931", "sk-kiefernholz4711kiefernholz"
	with := func(more map[string]any) string {
		body := map[string]any{"env": []string{"PATH=/usr/bin:/bin", "HOME=" + d.Home, "DEPLOY_TOKEN=" + byName}}
		for k, v := range more {
			body[k] = v
		}
		return d.execBody(body)
	}
	tool := func(script string) map[string]any {
		return map[string]any{"argv": nil, "tool": "run_bash", "args": map[string]any{"command": script}}
	}
	// A call of a model: the answer is masked too, wherever one looks.
	text, code := d.request("POST", "/api/exec", with(tool("echo "+byForm+" "+byName+"; printf 'sk-%s\\n' kiefernholz4711kiefernholz; echo "+printed+" >&2")))
	for _, secret := range []string{byName, byForm, printed} {
		if answer, _, _ := strings.Cut(text, `"argv"`); code != 200 || !strings.Contains(text, "[secret]") || strings.Contains(answer, secret) || strings.Contains(outputOf(text), secret) {
			t.Errorf("the answer to a tool call holds %s: %d %s", secret, code, text)
		}
	}
	// A command of a person: its own output, unmasked.
	own := d.toDaemon(d, "exec", "--quiet", "--mode", "bypassPermissions", "--", "echo", byForm, "--password", byFlag)
	own.Env = append(own.Env, "DEPLOY_TOKEN="+byName)
	if r := d.finish(own); r.Code != 0 || !strings.Contains(r.Stdout, byForm) {
		t.Errorf("a person's own output: %+v", r)
	}
	// A job: its log is the owner's and holds what it printed; its record does not.
	job := strings.TrimSpace(d.execTo(d, []string{"--detach"}, "sh", "-c", "echo "+printed+"; exit 3", "x", "--password", byFlag).Stdout)
	d.until("the job has ended", func() bool { text, _ := d.get("/api/jobs/" + job); return strings.Contains(text, `"ended"`) })
	if logged, _ := d.get("/api/jobs/" + job + "/logs"); !strings.Contains(logged, printed) {
		t.Errorf("the log of the job lacks what it printed: %q", logged)
	}
	if record, _ := d.get("/api/jobs/" + job); strings.Contains(record, printed) || strings.Contains(record, byFlag) || !strings.Contains(record, `"exit_code":3`) {
		t.Errorf("the record of the job: %s", record)
	}
	// A question that waits, one that is denied, a refused call, a failing program.
	watch := d.toDaemon(d, "approvals", "--watch", "--json")
	d.must(watch.Start())
	defer func() { watch.Process.Kill(); watch.Wait() }()
	asking := d.toDaemon(d, "exec", "--quiet", "--no-ask", "--", "rm", "-rf", byForm, "--password", byFlag)
	d.until("the watcher is there", func() bool {
		text, _ := d.get("/api/health")
		return strings.Contains(text, `"connections":2`) // it and this one
	})
	d.must(asking.Start())
	d.until("a question waits", func() bool { text, _ := d.get("/api/approvals"); return strings.Contains(text, "rm") })
	d.execTo(d, []string{"--mode", "dontAsk"}, "rm", byForm, printed)
	d.request("POST", "/api/exec", with(map[string]any{"argv": []string{"/nowhere/" + byForm, "--token=" + byFlag}}))
	d.everywhereBut(job, byName, byForm, byFlag, printed)
	d.kill()
	asking.Wait()
	d.start()
	d.everywhereBut(job, byName, byForm, byFlag, printed)
	if r := d.sbxTo(d, "audit", "verify"); r.Code != 0 {
		t.Errorf("%+v", r)
	}
}

// outputOf is the masked part of an answer: what a model sees, and the streams.
func outputOf(text string) string {
	_, rest, _ := strings.Cut(text, `"output":`)
	return rest[:min(len(rest), 400)]
}

// everywhereBut looks for secrets in each file of the daemon's state and in its log;
// the log of one job is its owner's.
func (d *daemonRun) everywhereBut(job string, secrets ...string) {
	d.Helper()
	files := 0
	d.must(filepath.WalkDir(d.state, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || filepath.Base(path) == job+".log" {
			return err
		}
		files++
		d.without(path, secrets)
		return nil
	}))
	d.without(d.log, secrets)
	if files < 4 {
		d.Errorf("%d files in the state, want at least the database, its WAL, the anchors and the job", files)
	}
}

func (d *daemonRun) without(path string, secrets []string) {
	d.Helper()
	text := d.content(path)
	for _, s := range secrets {
		if at := strings.Index(text, s); at >= 0 {
			d.Errorf("%s holds the secret %s: ...%q...", path, s, text[max(0, at-80):min(len(text), at+60)])
		}
	}
}
