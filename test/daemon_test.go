package test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// daemonGID is the group that may connect to root's daemon in these tests.
const daemonGID = 54321

// daemonRun is a sandboxd that a test started.
type daemonRun struct {
	*scene
	socket, state, log string
	uid                int // whose daemon it is
	cmd                *osexec.Cmd
	flags              []string
	before             []string // a program that starts it, with its words
}

// startDaemon starts sandboxd as uid and waits until it serves. It is killed with
// the test.
func startDaemon(t *testing.T, uid int, flags ...string) *daemonRun {
	t.Helper()
	d := newDaemon(t, uid, flags...)
	d.start()
	return d
}

// newDaemon sets the stage for startDaemon.
func newDaemon(t *testing.T, uid int, flags ...string) *daemonRun {
	t.Helper()
	s := newScene(t, uid, "full")
	if _, err := daemonProgram(); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(s.Work)
	d := &daemonRun{scene: s, socket: dir + "/run/s.sock", state: dir + "/state", log: dir + "/daemon.log", uid: uid, flags: flags}
	d.must(os.Mkdir(dir+"/run", 0o755))
	d.own(dir + "/run")
	d.must(os.Mkdir(d.state, 0o700))
	d.own(d.state)
	return d
}

// start starts the daemon, also again.
func (d *daemonRun) start() {
	d.Helper()
	out, err := os.OpenFile(d.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	d.must(err)
	defer out.Close()
	args := slices.Concat(d.before, []string{d.program("sandboxd"), "--socket", d.socket, "--state", d.state}, d.flags)
	d.cmd = d.scene.command(args...)
	d.cmd.Stdout, d.cmd.Stderr = out, out
	d.must(d.cmd.Start())
	cmd := d.cmd
	d.Cleanup(func() {
		unix.Kill(cmd.Process.Pid, unix.SIGKILL)
		cmd.Wait()
	})
	d.await()
}

// await waits until the daemon answers.
func (d *daemonRun) await() {
	d.Helper()
	for range 1000 {
		if _, code := d.get("/api/health"); code != 0 { // also a refusal is an answer
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	d.Fatalf("the daemon does not serve: %s", d.content(d.log))
}

// kill is kill -9.
func (d *daemonRun) kill() {
	d.Helper()
	d.must(unix.Kill(d.cmd.Process.Pid, unix.SIGKILL))
	d.cmd.Wait()
}

// http is a client that connects as whoever runs the test.
func (d *daemonRun) http() *http.Client {
	return &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", d.socket) }}}
}

func (d *daemonRun) get(path string) (string, int) { return d.request("GET", path, "") }

// request sends one request; 0 means that there was no answer.
func (d *daemonRun) request(method, path, body string) (string, int) {
	d.Helper()
	r, err := http.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
	d.must(err)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := d.http().Do(r)
	if err != nil {
		return err.Error(), 0
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err.Error(), 0
	}
	return string(text), answer.StatusCode
}

// as returns the scene of another user beside the daemon, with a workspace of its
// own.
func (d *daemonRun) as(uid int) *scene {
	d.Helper()
	s := newScene(d.T, uid, "full")
	s.caller = func(c *osexec.Cmd) {
		if c.SysProcAttr.Credential != nil {
			c.SysProcAttr.Credential.Groups = []uint32{daemonGID}
		}
	}
	return s
}

// sbxTo runs a command of sbx against the daemon.
func (s *scene) sbxTo(d *daemonRun, args ...string) result {
	s.Helper()
	return s.finish(s.toDaemon(d, args...))
}

func (s *scene) toDaemon(d *daemonRun, args ...string) *osexec.Cmd {
	s.Helper()
	c := s.command(append([]string{s.program("sbx")}, args...)...)
	c.Env = append(c.Env, "SANDBOXD_SOCKET="+d.socket)
	return c
}

// exec runs argv through the daemon as somebody who decided already.
func (s *scene) execTo(d *daemonRun, flags []string, argv ...string) result {
	s.Helper()
	args := append([]string{"exec", "--quiet", "--mode", "bypassPermissions"}, flags...)
	return s.sbxTo(d, append(append(args, "--"), argv...)...)
}

// execBody is a request for /api/exec.
func (s *scene) execBody(more map[string]any, argv ...string) string {
	s.Helper()
	body := map[string]any{"argv": argv, "cwd": s.Work, "env": []string{"PATH=/usr/bin:/bin", "HOME=" + s.Home}, "mode": "bypassPermissions"}
	for k, v := range more {
		body[k] = v
	}
	if body["session_id"] != nil { // it has its own
		delete(body, "env")
		delete(body, "mode")
	}
	text, err := json.Marshal(body)
	s.must(err)
	return string(text)
}

func TestEveryRouteAnswers(t *testing.T) {
	for _, uid := range users() {
		t.Run(fmt.Sprint("daemon of uid ", uid), func(t *testing.T) {
			d := startDaemon(t, uid)
			if os.Getuid() == 0 && uid != 0 {
				// Who runs the test is root: another user's daemon does not serve it, and
				// says so.
				if text, code := d.get("/api/health"); code != 403 || !strings.Contains(text, "this daemon serves uid") {
					t.Errorf("root at the daemon of uid %d: %d %s", uid, code, text)
				}
				d.asUser(t)
				return
			}
			d.everyRoute()
		})
	}
}

// asUser asks the main routes with sbx, as the user whose daemon it is.
func (d *daemonRun) asUser(t *testing.T) {
	d.file(d.Work+"/note", d.Token)
	if r := d.execTo(d, nil, "cat", "note"); r.Code != 0 || r.Stdout != d.Token {
		t.Errorf("exec: %+v", r)
	}
	if r := d.sbxTo(d, "sessions", "list"); r.Code != 0 || !strings.Contains(r.Stdout, d.Work) {
		t.Errorf("sessions: %+v", r)
	}
	if r := d.sbxTo(d, "audit", "--json"); r.Code != 0 || strings.Count(r.Stdout, "\n") != 2 {
		t.Errorf("audit: %+v", r)
	}
	if r := d.sbxTo(d, "audit", "verify"); r.Code != 0 || !strings.HasPrefix(r.Stdout, "ok: 2 rows") {
		t.Errorf("audit verify: %+v", r)
	}
	if r := d.sbxTo(d, "daemon", "stop"); r.Code != 0 || exists(d.socket) {
		t.Errorf("daemon stop: %+v, the socket is there: %v", r, exists(d.socket))
	}
}

// everyRoute asks each route of the document, with what it takes, and without.
func (d *daemonRun) everyRoute() {
	d.Helper()
	asked := map[string]bool{}
	ask := func(route, path, body string, want int, part string) string {
		d.Helper()
		asked[route] = true
		method, _, _ := strings.Cut(route, " ")
		text, code := d.request(method, path, body)
		if code != want || !strings.Contains(text, part) {
			d.Errorf("%s %s: %d %s, want %d with %q", method, path, code, text, want, part)
		}
		return text
	}
	field := func(text, name string) string {
		d.Helper()
		var o map[string]any
		d.must(json.Unmarshal([]byte(text), &o))
		s, _ := o[name].(string)
		return s
	}
	ask("GET /api/health", "/api/health", "", 200, `"status":"ok"`)
	ask("GET /metrics", "/metrics", "", 200, "# TYPE sandboxd_running gauge")
	ran := ask("POST /api/exec", "/api/exec", d.execBody(nil, "echo", d.Token), 200, d.Token)
	ask("POST /api/exec", "/api/exec", `{"argv":["x"],"cwd":"/","surprise":1}`, 400, "bad_request")
	ask("POST /api/exec", "/api/exec", `{"argv":["x"],"script":"x","cwd":"/"}`, 400, "one of argv, script and tool")
	ask("POST /api/check", "/api/check", d.execBody(map[string]any{"mode": "default"}, "rm", "-rf", "/"), 200, `"verdict":"ask"`)

	for _, mode := range []string{"default", "acceptEdits", "bypassPermissions", "dontAsk", "plan"} {
		ask("POST /api/check", "/api/check", d.execBody(map[string]any{"mode": mode}, "ls"), 200, `"mode":"`+mode+`"`)
	}

	job := field(ask("POST /api/exec", "/api/exec", d.execBody(map[string]any{"detach": true}, "sh", "-c", "echo "+d.Token+"; sleep 60"), 202, `"state":"running"`), "id")
	ask("GET /api/jobs", "/api/jobs", "", 200, job)
	ask("GET /api/jobs/{id}", "/api/jobs/"+job, "", 200, `"uid":`)
	ask("GET /api/jobs/{id}", "/api/jobs/none", "", 404, "no such job")
	d.until("the job writes", func() bool {
		text, _ := d.get("/api/jobs/" + job)
		return !strings.Contains(text, `"log_bytes":0`)
	})
	ask("DELETE /api/jobs/{id}", "/api/jobs/"+job, "", 409, "running")
	ask("GET /api/jobs/{id}/attach", "/api/jobs/"+job+"/attach", "", 400, "needs a stream")
	ask("POST /api/jobs/{id}/kill", "/api/jobs/"+job+"/kill", `{"signal":99}`, 400, "no signal")
	ask("POST /api/jobs/{id}/kill", "/api/jobs/"+job+"/kill", `{}`, 200, `"state":"ended"`)
	ask("GET /api/jobs/{id}/logs", "/api/jobs/"+job+"/logs", "", 200, d.Token)
	ask("DELETE /api/jobs/{id}", "/api/jobs/"+job, "", 200, job)
	ask("GET /api/jobs/{id}", "/api/jobs/"+job, "", 404, "no such job")

	session := field(ask("POST /api/chat/sessions", "/api/chat/sessions", `{"cwd":"`+d.Work+`","env":["HOME=`+d.Home+`"]}`, 201, `"mode":"default"`), "id")
	base := "/api/chat/sessions"
	ask("GET /api/chat/sessions", base, "", 200, session)
	ask("GET /api/chat/sessions/{id}", base+"/"+session, "", 200, d.Work)
	ask("GET /api/chat/sessions/{id}", base+"/none", "", 404, "no such session")
	rules := "POST /api/chat/sessions/{id}/permissions/rules"
	ask(rules, base+"/"+session+"/permissions/rules", `{"op":"add","kind":"deny","rule":"run_bash(ls *)"}`, 200, "run_bash(ls *)")
	ask(rules, base+"/"+session+"/permissions/rules", `{"op":"add","kind":"deny","rule":"run_bash("}`, 400, "bad_request")
	ask("GET "+rules[5:], base+"/"+session+"/permissions/rules", "", 200, `"source":"session"`)
	in := map[string]any{"session_id": session, "mode": ""}
	ask("POST /api/exec", "/api/exec", d.execBody(in, "ls", "/"), 200, `"outcome":"denied"`)
	ask(rules, base+"/"+session+"/permissions/rules", `{"op":"remove","kind":"deny","rule":"run_bash(ls *)"}`, 200, `"changed":true`)
	ask("POST /api/exec", "/api/exec", d.execBody(in, "ls"), 200, `"outcome":"exited"`)
	ask("PUT /api/chat/sessions/{id}/permissions/mode", base+"/"+session+"/permissions/mode", `{"mode":"plan"}`, 200, `"mode":"plan"`)
	ask("PUT /api/chat/sessions/{id}/permissions/mode", base+"/"+session+"/permissions/mode", `{"mode":"moon"}`, 400, "unknown mode")
	ask("POST /api/chat/sessions/{id}/messages", base+"/"+session+"/messages", `{"text":" "}`, 400, "the text is empty")
	ask("POST /api/chat/sessions/{id}/messages", base+"/"+session+"/messages", `{"text":"hi"}`, 422, `"code":"model"`)
	ask("GET /api/chat/sessions/{id}/messages", base+"/"+session+"/messages", "", 200, `"messages":[]`)
	ask("POST /api/chat/sessions/{id}/compact", base+"/"+session+"/compact", `{}`, 422, `"code":"model"`)
	for range 2 { // it may be repeated
		ask("POST /api/chat/cancel", "/api/chat/cancel", `{"session_id":"`+session+`"}`, 200, `"cancelled":true`)
	}
	asked["GET /api/chat/sessions/{id}/events"] = true
	d.events(base + "/" + session + "/events")
	ask("DELETE /api/chat/sessions/{id}", base+"/"+session, "", 200, session)
	ask("DELETE /api/chat/sessions/{id}", base+"/"+session, "", 404, "no such session")

	talks := "/api/chat/conversations"
	ask("GET "+talks, talks, "", 200, `{"conversations":[]}`)
	ask("GET "+talks, talks+"?colour=red", "", 400, "unknown parameter")
	ask("GET "+talks+"/{id}", talks+"/none", "", 404, "no such conversation")
	ask("GET "+talks+"/{id}/export", talks+"/none/export?format=pdf", "", 400, "unknown format")
	ask("POST "+talks+"/{id}/fork", talks+"/none/fork", `{"at":3}`, 404, "no such conversation")
	ask("DELETE "+talks+"/{id}", talks+"/none", "", 404, "no such conversation")
	ask("POST /api/chat/sessions", base, `{"cwd":"`+d.Work+`","resume":"none"}`, 404, "no such conversation")
	ask("POST /api/chat/sessions", base, `{"cwd":"`+d.Work+`","fork":"a","resume":"b"}`, 400, "exclude each other")

	ask("GET /api/approvals", "/api/approvals", "", 200, `{"questions":[]}`)
	ask("GET /api/approvals/{id}", "/api/approvals/none", "", 404, "no such question")
	ask("POST /api/approvals/{id}", "/api/approvals/none", `{"answer":"allow"}`, 404, "no such question")
	ask("POST /api/approvals/{id}", "/api/approvals/none", `{"answer":"perhaps"}`, 400, "unknown answer")
	asked["GET /api/approvals/watch"] = true // TestQuestionsAreAnsweredFromAnywhere
	ask("GET /api/audit", "/api/audit?call="+field(ran, "call_id"), "", 200, `"status":"ok"`)
	ask("GET /api/audit", "/api/audit?colour=red", "", 400, "unknown parameter")
	ask("GET /api/audit/export", "/api/audit/export?call="+field(ran, "call_id"), "", 200, `"status":"ok"`)
	ask("GET /api/audit/export", "/api/audit/export?limit=5", "", 400, "unknown parameter")
	ask("GET /api/audit/verify", "/api/audit/verify", "", 200, `"ok":true`)
	ask("POST /api/daemon/reload", "/api/daemon/reload", `{}`, 200, `"ok":true`)
	var doc struct {
		Paths map[string]map[string]any `json:"paths"`
	}
	d.must(json.Unmarshal([]byte(ask("GET /api/openapi.json", "/api/openapi.json", "", 200, `"openapi"`)), &doc))
	ask("POST /api/daemon/stop", "/api/daemon/stop", `{}`, 200, `"ok":true`)
	for path, methods := range doc.Paths {
		for method := range methods {
			if route := strings.ToUpper(method) + " " + path; !asked[route] {
				d.Errorf("%s is not asked here", route)
			}
		}
	}
	d.ends()
}

// events reads the first events of a session, and then goes on after one.
func (d *daemonRun) events(path string) {
	d.Helper()
	read := func(after string) string {
		d.Helper()
		ctx, cancel := context.WithTimeout(d.Context(), 10*time.Second)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, "GET", "http://localhost"+path, nil)
		d.must(err)
		r.Header.Set("Last-Event-ID", after)
		answer, err := d.http().Do(r)
		d.must(err)
		defer answer.Body.Close()
		text := make([]byte, 0, 1<<16)
		for !strings.Contains(string(text), "cancel.inserted") {
			n, err := answer.Body.Read(text[len(text):cap(text)])
			text = text[:len(text)+n]
			if err != nil {
				d.Fatalf("%s after %s ended: %v\n%s", path, after, err, text)
			}
		}
		return string(text)
	}
	if all := read("0"); !strings.Contains(all, "id: 1\n") || !strings.Contains(all, "event: session.rules\n") {
		d.Errorf("events from the start: %s", all)
	}
	if rest := read("2"); strings.Contains(rest, "id: 2\n") || !strings.Contains(rest, "id: 3\n") {
		d.Errorf("events after 2: %s", rest)
	}
}

// ends waits for the end of a daemon that was told to stop.
func (d *daemonRun) ends() {
	d.Helper()
	done := make(chan error, 1)
	go func() { done <- d.cmd.Wait() }()
	select {
	case err := <-done:
		if err != nil {
			d.Errorf("the daemon ended with %v: %s", err, d.content(d.log))
		}
	case <-time.After(30 * time.Second):
		d.Errorf("the daemon does not end: %s", d.content(d.log))
	}
	if exists(d.socket) {
		d.Error("the socket is left over")
	}
}

func TestDaemonStartsOnceAndReplacesADeadOne(t *testing.T) {
	d := startDaemon(t, os.Getuid())
	second := d.finish(d.scene.command(d.program("sandboxd"), "--socket", d.socket, "--state", d.state))
	if second.Code != 3 || !strings.Contains(second.Stderr, fmt.Sprintf("another daemon is running (pid %d)", d.cmd.Process.Pid)) {
		t.Errorf("a second daemon: %+v", second)
	}
	d.kill()
	if !exists(d.socket) {
		t.Fatal("a killed daemon removed its socket: this test proves nothing")
	}
	d.start()
	var st unix.Stat_t
	d.must(unix.Stat(d.socket, &st))
	if st.Mode&0o777 != 0o600 {
		t.Errorf("the socket has mode %04o, want 0600", st.Mode&0o777)
	}
	d.must(d.cmd.Process.Signal(unix.SIGTERM))
	d.ends()
	// Something that is no socket is never replaced.
	d.must(os.WriteFile(d.socket, []byte("precious"), 0o644))
	other := d.finish(d.scene.command(d.program("sandboxd"), "--socket", d.socket, "--state", d.state))
	if other.Code == 0 || d.content(d.socket) != "precious" {
		t.Errorf("a file at the socket's place: %+v, it holds %q", other, d.content(d.socket))
	}
}

// Systemd passes the socket as descriptor 3 and waits for READY=1.
func TestSocketActivationAndNotification(t *testing.T) {
	s := newScene(t, os.Getuid(), "full")
	program, err := daemonProgram()
	s.must(err)
	dir := filepath.Dir(s.Work)
	l, err := net.Listen("unix", dir+"/systemd.sock")
	s.must(err)
	defer l.Close()
	file, err := l.(*net.UnixListener).File()
	s.must(err)
	notify, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: dir + "/notify", Net: "unixgram"})
	s.must(err)
	defer notify.Close()
	s.must(os.Mkdir(dir+"/state", 0o700))
	// The shell knows the pid that LISTEN_PID must name.
	c := s.command("sh", "-c", `LISTEN_PID=$$ exec "$0" --state "$1"`, program, dir+"/state")
	c.Env = append(c.Env, "LISTEN_FDS=1", "NOTIFY_SOCKET="+dir+"/notify", "XDG_RUNTIME_DIR="+dir)
	c.ExtraFiles = []*os.File{file}
	var log bytes.Buffer
	c.Stderr = &log
	s.must(c.Start())
	file.Close()
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	told := func(want string) {
		t.Helper()
		buf := make([]byte, 256)
		s.must(notify.SetReadDeadline(time.Now().Add(20 * time.Second)))
		n, err := notify.Read(buf)
		if err != nil || !strings.Contains(string(buf[:n]), want) {
			t.Fatalf("notified %q, %v, want %q; %s", buf[:n], err, want, log.String())
		}
	}
	told("READY=1")
	d := &daemonRun{scene: s, socket: dir + "/systemd.sock"}
	if text, code := d.get("/api/health"); code != 200 {
		t.Errorf("over the passed socket: %d %s", code, text)
	}
	s.must(c.Process.Signal(unix.SIGHUP))
	told("RELOADING=1")
	told("READY=1")
	s.must(c.Process.Signal(unix.SIGTERM))
	told("STOPPING=1")
	s.must(c.Wait())
	if !exists(dir + "/systemd.sock") {
		t.Error("the socket of systemd was removed")
	}
}

// A stop lets what runs finish, and takes nothing new.
func TestStopLetsCallsFinish(t *testing.T) {
	d := startDaemon(t, os.Getuid(), "--stop-timeout", "20s")
	d.must(unix.Mkfifo(d.Work+"/go", 0o666))
	running := make(chan result, 1)
	c := d.toDaemon(d, "exec", "--quiet", "--mode", "bypassPermissions", "--", "sh", "-c", "echo up >up; read x <go; echo "+d.Token)
	go func() { running <- d.finish(c) }()
	d.until("the command runs", func() bool { return exists(d.Work + "/up") })
	d.must(d.cmd.Process.Signal(unix.SIGTERM))
	d.until("nothing new is taken", func() bool { _, code := d.get("/api/health"); return code == 0 })
	d.must(os.WriteFile(d.Work+"/go", []byte("x\n"), 0))
	if r := <-running; r.Code != 0 || strings.TrimSpace(r.Stdout) != d.Token {
		t.Errorf("the call that ran: %+v", r)
	}
	d.ends()
}

// At the end of the time for stopping, what still runs is ended, and told.
func TestStopEndsWhatDoesNotFinish(t *testing.T) {
	d := startDaemon(t, os.Getuid(), "--stop-timeout", "500ms")
	c := d.toDaemon(d, "exec", "--quiet", "--mode", "bypassPermissions", "--", "sh", "-c", "echo up >up; sleep 333.125")
	running := make(chan result, 1)
	go func() { running <- d.finish(c) }()
	d.until("the command runs", func() bool { return exists(d.Work + "/up") })
	d.must(d.cmd.Process.Signal(unix.SIGTERM))
	d.ends()
	if r := <-running; r.Code == 0 {
		t.Errorf("the call that was ended: %+v", r)
	}
	if p := processesWith("333.125"); len(p) > 0 {
		t.Errorf("processes are left: %v", p)
	}
}

// until waits for a condition.
func (s *scene) until(what string, holds func() bool) {
	s.Helper()
	for range 2000 {
		if holds() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	s.Fatalf("it does not come that %s", what)
}

// processesWith lists the processes whose command line holds word.
func processesWith(word string) []string {
	var list []string
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err == nil && bytes.Contains(text, []byte(word)) && filepath.Dir(name) != fmt.Sprintf("/proc/%d", os.Getpid()) {
			list = append(list, filepath.Dir(name)+" "+strings.ReplaceAll(string(text), "\x00", " "))
		}
	}
	return list
}

// A changed policy holds for the next call; a broken one leaves the old in force.
func TestPolicyChangesHoldAtOnce(t *testing.T) {
	d := startDaemon(t, os.Getuid())
	file := d.Home + "/.config/sandboxd/policy.toml"
	d.file(file, "[rules]\nallow = [\"run_bash(true *)\"]\n")
	d.must(os.Chmod(file, 0o600))
	body := d.execBody(map[string]any{"mode": ""}, "true", "x")
	outcome := func() string {
		t.Helper()
		text, _ := d.request("POST", "/api/exec", body)
		var r struct {
			Outcome  string
			Warnings []string
		}
		d.must(json.Unmarshal([]byte(text), &r))
		return r.Outcome + strings.Join(r.Warnings, "")
	}
	if got := outcome(); got != "exited" {
		t.Fatalf("allowed by a rule: %s", got)
	}
	d.must(os.WriteFile(file, []byte("[rules]\ndeny = [\"run_bash(true *)\"]\n"), 0o600))
	if got := outcome(); got != "denied" {
		t.Errorf("after the rule became a deny rule: %s", got)
	}
	d.must(os.WriteFile(file, []byte("[rules\n"), 0o600))
	for range 2 {
		if got := outcome(); !strings.HasPrefix(got, "denied") || !strings.Contains(got, file+":1: ") {
			t.Errorf("after the file was broken: %s, want the old policy, and to be told why", got)
		}
	}
	if text, code := d.request("POST", "/api/daemon/reload", "{}"); code != 403 || !strings.Contains(text, "policy.toml") {
		t.Errorf("reload of a broken policy: %d %s, want an error that names the file", code, text)
	}
	if !strings.Contains(d.content(d.log), "policy refused, the old one stays in force") {
		t.Error("the log does not tell of the broken policy")
	}
}

// TCP is for holders of the token.
func TestTCPNeedsTheToken(t *testing.T) {
	d := startDaemon(t, os.Getuid(), "--listen", "127.0.0.1:0")
	_, rest, _ := strings.Cut(d.content(d.log), "address=")
	address, _, _ := strings.Cut(rest, " ")
	token := strings.TrimSpace(d.content(d.state + "/token"))
	var st unix.Stat_t
	d.must(unix.Stat(d.state+"/token", &st))
	if st.Mode&0o777 != 0o600 || len(token) < 26 {
		t.Errorf("the token has %d characters and mode %04o", len(token), st.Mode&0o777)
	}
	for _, tt := range []struct {
		name, header, host string
		want               int
	}{
		{"none", "", "", 401},
		{"wrong", "Bearer " + strings.Repeat("A", len(token)), "", 401},
		{"cut", "Bearer " + token[:len(token)-1], "", 401},
		{"another scheme", "Basic " + token, "", 401},
		{"right", "Bearer " + token, "", 200},
		{"right, for a name that was made to resolve here", "Bearer " + token, "rebound.example", 403},
	} {
		r, err := http.NewRequest("GET", "http://"+address+"/api/health", nil)
		d.must(err)
		if tt.header != "" {
			r.Header.Set("Authorization", tt.header)
		}
		if tt.host != "" {
			r.Host = tt.host
		}
		answer, err := http.DefaultClient.Do(r)
		d.must(err)
		answer.Body.Close()
		if answer.StatusCode != tt.want {
			t.Errorf("token %s: %d, want %d", tt.name, answer.StatusCode, tt.want)
		}
	}
	for _, bad := range []string{"0.0.0.0:0", "192.0.2.1:7", "localhost:0"} {
		r := d.finish(d.scene.command(d.program("sandboxd"), "--socket", d.socket+"2", "--state", d.state, "--listen", bad))
		if r.Code != 125 {
			t.Errorf("--listen %s: %+v", bad, r)
		}
	}
}

// sbx daemon start, status and stop.
func TestDaemonCommands(t *testing.T) {
	for _, uid := range users() {
		s := newScene(t, uid, "full")
		if _, err := daemonProgram(); err != nil {
			t.Fatal(err)
		}
		dir := filepath.Dir(s.Work)
		s.Env = []string{"XDG_RUNTIME_DIR=" + s.mkdir(dir+"/runtime"), "XDG_STATE_HOME=" + s.mkdir(dir+"/state")}
		socket := dir + "/runtime/own/s.sock"
		s.mkdir(filepath.Dir(socket))
		s.must(os.Chmod(filepath.Dir(socket), 0o700))
		sbx := func(want int, part string, args ...string) {
			t.Helper()
			r := s.finish(s.command(append([]string{s.program("sbx"), "daemon"}, args...)...))
			if r.Code != want || !strings.Contains(r.Stdout+r.Stderr, part) {
				t.Errorf("uid %d: sbx daemon %v: %+v, want %d with %q", uid, args, r, want, part)
			}
		}
		sbx(3, "no daemon at", "status", "--socket", socket)
		sbx(125, "no daemon at", "stop", "--socket", socket)
		start := []string{"start", "--socket", socket, "--", "--state", dir + "/state/d"}
		s.mkdir(dir + "/state/d")
		s.must(os.Chmod(dir+"/state/d", 0o700))
		sbx(0, "started: pid", start...)
		sbx(0, "running already", start...)
		sbx(0, "ok: pid", "status", "--socket", socket)
		sbx(0, "", "reload", "--socket", socket)
		sbx(0, "stopped", "stop", "--socket", socket)
		sbx(3, "no daemon at", "status", "--socket", socket)
		sbx(125, "it ended at once", "start", "--socket", socket, "--", "--moon")
	}
}
