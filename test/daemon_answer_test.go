package test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sandboxd/test/require"
)

// policy writes the policy of the daemon's user.
func (d *daemonRun) policy(text string) {
	d.Helper()
	d.must(os.Chmod(d.file(d.Home+"/.config/sandboxd/policy.toml", text), 0o600))
}

// PermissionRequest hooks of the user's policy answer beside people: the first answer
// counts, a hook without one leaves the question to the others.
func TestPermissionRequestHooksAnswerBesidePeople(t *testing.T) {
	d := startDaemon(t, os.Getuid())
	d.policy(`[[hooks.PermissionRequest]]
command = '''case "$(cat)" in
*yes-file*) echo '{"decision": {"behavior": "allow"}}' ;;
*no-file*) echo '{"decision": {"behavior": "deny", "message": "never that"}}' ;;
*slow-file*) sleep 20; echo '{"decision": {"behavior": "deny"}}' ;;
*broken-file*) echo rubbish ;;
esac'''
timeout = "30s"
`)
	exec := func(name string) result {
		t.Helper()
		return d.sbxTo(d, "exec", "--quiet", "--no-ask", "--", "touch", name)
	}
	for _, tt := range []struct {
		name, part string
		code       int
	}{
		{"yes-file", "", 0},
		{"no-file", "never that", 126},
		{"other-file", "nobody to ask", 126},
		{"broken-file", "nobody to ask", 126},
	} {
		if r := exec(tt.name); r.Code != tt.code || !strings.Contains(r.Stderr, tt.part) || exists(d.Work+"/"+tt.name) != (tt.code == 0) {
			t.Errorf("%s: %+v, want exit %d with %q", tt.name, r, tt.code, tt.part)
		}
	}
	// A person is faster than a slow hook, which is ended, and its deny changes nothing.
	ids := d.questions()
	done := make(chan result, 1)
	go func() { done <- d.finish(d.toDaemon(d, "exec", "--quiet", "--no-ask", "--", "touch", "slow-file")) }()
	if r := d.sbxTo(d, "approve", <-ids); r.Code != 0 {
		t.Errorf("approve beside a slow hook: %+v", r)
	}
	if r := <-done; r.Code != 0 || !exists(d.Work+"/slow-file") {
		t.Errorf("the call that a person allowed: %+v", r)
	}
	if left := processesWith("sleep\x0020\x00"); len(left) > 0 {
		t.Errorf("the hook that lost runs on: %q", left)
	}
	// A hook is faster than people: their question is settled.
	if r := exec("yes-file"); r.Code != 0 {
		t.Errorf("a hook beside a person: %+v", r)
	}
	d.until("no question is left", func() bool { text, _ := d.get("/api/approvals"); return text == "{\"questions\":[]}\n" })
	if rows, _ := d.get("/api/audit?verdict=allow&status=allow"); strings.Count(rows, `"by":"hook`) != 2 {
		t.Errorf("the log does not name the hook as the one who allowed: %s", rows)
	}
}

// A webhook is a PermissionRequest hook with a network: it hands the question to a
// service and prints its answer. A project's policy cannot have one.
func TestWebhookAnswers(t *testing.T) {
	d := startDaemon(t, os.Getuid())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	d.must(err)
	var asked atomic.Int32
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		text := make([]byte, 1<<16)
		n, _ := r.Body.Read(text)
		verdict := "deny"
		if strings.Contains(string(text[:n]), `"hook_event_name":"PermissionRequest"`) && strings.Contains(string(text[:n]), "good-file") {
			verdict = "allow"
		}
		w.Header().Set("Connection", "close")
		fmt.Fprintf(w, `{"decision": {"behavior": %q}}`, verdict)
	})}
	go server.Serve(l)
	defer server.Close()
	port := l.Addr().(*net.TCPAddr).Port
	command := fmt.Sprintf(`body=$(cat); exec bash -c 'exec 3<>/dev/tcp/127.0.0.1/%d || exit 1
printf "POST / HTTP/1.0\r\nContent-Length: %%d\r\n\r\n%%s" "${#0}" "$0" >&3; sed "1,/^.\$/d" <&3' "$body"`, port)
	entry := "[[hooks.PermissionRequest]]\ncommand = '''" + command + "'''\n"
	d.policy(entry + "network = [\"full\"]\n")
	for name, code := range map[string]int{"good-file": 0, "bad-file": 126} {
		before := asked.Load()
		if r := d.sbxTo(d, "exec", "--quiet", "--no-ask", "--", "touch", name); r.Code != code || exists(d.Work+"/"+name) != (code == 0) || asked.Load() != before+1 {
			t.Errorf("%s: %+v, want exit %d, asked %d times", name, r, code, asked.Load()-before)
		}
	}
	// Without the network in its entry it reaches nobody, and allows nothing.
	d.policy(entry)
	before := asked.Load()
	d.must(os.Remove(d.Work + "/good-file"))
	if r := d.sbxTo(d, "exec", "--quiet", "--no-ask", "--", "touch", "good-file"); r.Code != 126 || asked.Load() != before || exists(d.Work+"/good-file") {
		t.Errorf("a hook without the network: %+v, asked %d times", r, asked.Load()-before)
	}
	d.must(os.Remove(d.Home + "/.config/sandboxd/policy.toml"))
	d.must(os.Chmod(d.file(d.Work+"/sandboxd.toml", entry+"network = [\"full\"]\n"), 0o600))
	d.sbxTo(d, "trust")
	if r := d.sbxTo(d, "exec", "--quiet", "--no-ask", "--", "touch", "good-file"); r.Code == 0 || asked.Load() != before {
		t.Errorf("a project's webhook: %+v, asked %d times", r, asked.Load()-before)
	}
}

// State and socket of the daemon are in no run's view, whatever is granted above them,
// and cannot be granted themselves.
func TestPlacesOfTheDaemonAreInNoView(t *testing.T) {
	d := startDaemon(t, os.Getuid())
	runtime := d.mkdir(filepath.Dir(d.Work) + "/xdg")
	d.file(runtime+"/sandboxd/note", d.Token)
	d.file(runtime+"/neighbour", "mine")
	run := func(flags []string, script string) result {
		t.Helper()
		c := d.toDaemon(d, append(append([]string{"exec", "--quiet", "--mode", "bypassPermissions"}, flags...), "--", "sh", "-c", script)...)
		c.Env = append(c.Env, "XDG_RUNTIME_DIR="+runtime)
		return d.finish(c)
	}
	for _, flag := range []string{"--ro", "--rw"} {
		r := run([]string{flag, filepath.Dir(d.state), flag, runtime}, "cat "+runtime+"/neighbour; ls -A "+d.state+" "+runtime+"/sandboxd; cat "+runtime+"/sandboxd/note")
		if strings.Contains(r.Stdout, d.Token) || strings.Contains(r.Stdout, "audit.db") || strings.Contains(r.Stdout, "note") {
			t.Errorf("%s above the daemon's places shows them: %+v", flag, r)
		}
		if !strings.HasPrefix(r.Stdout, "mine") {
			t.Errorf("%s: what lies beside them is not there: %+v", flag, r)
		}
		for _, place := range []string{d.state, d.state + "/jobs", runtime + "/sandboxd"} {
			if r := run([]string{flag, place}, "ls -A "+place); r.Code != 125 || !strings.Contains(r.Stderr, "never granted") {
				t.Errorf("%s %s: %+v, want a refusal", flag, place, r)
			}
		}
	}
}

// The socket of a daemon is granted by none of its names, to no run: not by its path, a
// link, a second name, a bind mount, a path through /proc or a directory above it. One of
// another service is.
func TestSocketOfTheDaemonIsNeverGranted(t *testing.T) {
	d := startDaemon(t, os.Getuid())
	beside := filepath.Dir(d.Work) + "/beside"
	d.mkdir(beside)
	d.must(os.Symlink(d.socket, beside+"/link"))
	d.must(os.Link(d.socket, beside+"/second"))
	d.file(beside+"/bound", "")
	names := []string{d.socket, filepath.Dir(d.socket), filepath.Dir(d.Work), beside + "/link", beside + "/second",
		fmt.Sprintf("/proc/%d/root%s", os.Getpid(), d.socket), fmt.Sprintf("/proc/%d/cwd/../../../../../../../../../..%s", os.Getpid(), d.socket)}
	if unix.Mount(d.socket, beside+"/bound", "", unix.MS_BIND, "") == nil {
		defer unix.Unmount(beside+"/bound", unix.MNT_DETACH)
		names = append(names, beside+"/bound")
	}
	l, err := net.Listen("unix", beside+"/other.sock")
	d.must(err)
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Read(make([]byte, 4096))
			io.WriteString(c, "HTTP/1.0 200 OK\r\n\r\nhonest")
			c.Close()
		}
	}()
	ask := func(verb, flag, path string) result {
		t.Helper()
		args := []string{verb, "--quiet", flag, path}
		if verb == "exec" {
			args = append(args, "--mode", "bypassPermissions")
		}
		return d.sbxTo(d, append(args, "--", "curl", "-sS", "-m", "5", "--unix-socket", path, "http://localhost/api/health")...)
	}
	for _, verb := range []string{"run", "exec"} {
		for _, name := range names {
			if r := ask(verb, "--unix", name); r.Code != 125 || !strings.Contains(r.Stderr, "never granted") && !strings.Contains(r.Stderr, "never writable") || !strings.Contains(r.Stderr, "sbx: hint: ") {
				t.Errorf("%s --unix %s: %+v", verb, name, r)
			}
		}
		for _, name := range []string{beside + "/second", d.socket} {
			if r := ask(verb, "--rw", name); r.Code != 125 || !strings.Contains(r.Stderr, "never granted") {
				t.Errorf("%s --rw %s: %+v", verb, name, r)
			}
		}
		if r := ask(verb, "--unix", beside+"/other.sock"); r.Code != 0 || r.Stdout != "honest" {
			t.Errorf("%s: another service: %+v", verb, r)
		}
	}
	// Nor is it there below a directory that is granted; with a second name it is refused.
	d.must(os.Remove(beside + "/second"))
	if r := d.execTo(d, []string{"--rw", filepath.Dir(d.socket)}, "curl", "-s", "-m", "5", "--unix-socket", d.socket, "http://localhost/api/health"); r.Code != 7 || r.Stdout != "" {
		t.Errorf("below a granted directory: %+v, want that nothing can be connected to", r)
	}
}

// An anchor of the daemon's log is compared by verify; one that does not fit is found.
func TestAnchorsOfTheJournal(t *testing.T) {
	d := startDaemon(t, os.Getuid())
	d.execTo(d, nil, "true")
	if r := d.sbxTo(d, "daemon", "stop"); r.Code != 0 {
		t.Fatalf("%+v", r)
	}
	d.cmd.Wait()
	anchors := regexp.MustCompile(`audit anchor" .*anchor=(\d+:[0-9a-f]{64})`).FindAllStringSubmatch(d.content(d.log), -1)
	if len(anchors) == 0 {
		t.Fatalf("no anchor in the log: %s", d.content(d.log))
	}
	anchor := anchors[len(anchors)-1][1]
	d.start()
	if r := d.sbxTo(d, "audit", "verify", "--anchor", anchor); r.Code != 0 || !strings.HasPrefix(r.Stdout, "ok: 2 rows") {
		t.Errorf("verify with %s: %+v", anchor, r)
	}
	wrong := anchor[:len(anchor)-1] + map[bool]string{true: "1", false: "0"}[anchor[len(anchor)-1] == '0']
	for name, text := range map[string]string{"another hash": wrong, "a row that is gone": "77" + anchor[1:]} {
		if r := d.sbxTo(d, "audit", "verify", "--anchor", anchor, "--anchor", text); r.Code != 1 || !strings.HasPrefix(r.Stdout, "NOT OK: 1 problem") {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if r := d.sbxTo(d, "audit", "verify", "--anchor", "2:abc"); r.Code == 0 || !strings.Contains(r.Stderr, "SEQ:HASH") {
		t.Errorf("no anchor: %+v", r)
	}
}

// With --append-only nobody rewrites the anchors before the attribute is taken away.
func TestAnchorsAreAppendOnly(t *testing.T) {
	require.Root(t, "chattr +a needs it")
	d := startDaemon(t, 0, "--append-only")
	path := d.state + "/audit.db.anchors"
	t.Cleanup(func() {
		if f, err := os.Open(path); err == nil {
			unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, 0)
			f.Close()
		}
	})
	// Tried by the test itself: a daemon that does not do it must not pass for a file
	// system that cannot.
	probe, err := os.Create(d.state + "/probe")
	d.must(err)
	err = unix.IoctlSetPointerInt(int(probe.Fd()), unix.FS_IOC_SETFLAGS, 0x20) // FS_APPEND_FL
	if err == nil {
		d.must(unix.IoctlSetPointerInt(int(probe.Fd()), unix.FS_IOC_SETFLAGS, 0))
	}
	d.must(probe.Close())
	d.must(os.Remove(d.state + "/probe"))
	if err != nil {
		require.NotHere(t, "this file system has no append-only files: ", err)
	}
	if text, _ := d.get("/api/audit/verify"); !strings.Contains(text, `"append_only":true`) {
		t.Errorf("the daemon does not say that its anchors are append-only: %s", text)
	}
	if err := os.WriteFile(path, nil, 0o600); err == nil {
		t.Error("the anchors were rewritten")
	}
	if err := os.Remove(path); err == nil {
		t.Error("the anchors were removed")
	}
	if r := d.execTo(d, nil, "true"); r.Code != 0 {
		t.Errorf("a call: %+v", r)
	}
	r := d.sbxTo(d, "daemon", "stop")
	d.cmd.Wait() // the last anchor is written when it ends
	if r.Code != 0 || strings.Count(d.content(path), "\n") < 2 {
		t.Errorf("%+v, anchors %s", r, d.content(path))
	}
}
