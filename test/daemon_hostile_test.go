package test

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"sandboxd/test/require"
)

// Root's daemon serves several users: each runs as itself, reaches what it could
// reach anyhow, and sees its own.
func TestUsersOfOneDaemon(t *testing.T) {
	require.Root(t, "to play a daemon that serves others")
	d := startDaemon(t, 0, "--group", strconv.Itoa(daemonGID))
	one, two := d.as(1000), d.as(1001)
	secret := d.file(d.Home+"/secret", d.Token) // root's
	d.must(os.Chmod(d.Home, 0o700))

	// Honest use.
	two.file(two.Work+"/mine", "content")
	r := two.execTo(d, nil, "sh", "-c", "id -u; id -g; cat mine; echo new >made; umask")
	if r.Code != 0 || !strings.HasPrefix(r.Stdout, "1001\n1001\ncontent") {
		t.Errorf("uid 1001: %+v", r)
	}
	var st unix.Stat_t
	if err := unix.Stat(two.Work+"/made", &st); err != nil || st.Uid != 1001 {
		t.Errorf("the file that uid 1001 made: uid %d, %v", st.Uid, err)
	}

	// What uid 1000 names is opened with its rights.
	link := one.Work + "/link"
	one.link(d.Home, link)
	policy := d.file(d.Home+"/policy.toml", "mode = \"plan\"\n")
	for _, tt := range []struct {
		name  string
		flags []string
		argv  []string
	}{
		{"root's home for writing", []string{"--rw", d.Home}, []string{"cat", secret}},
		{"a link to it", []string{"--ro", link}, []string{"cat", secret}},
		{"root's home as the workspace", []string{"--workspace", d.Home}, []string{"cat", secret}},
		{"a link as the workspace", []string{"--workspace", link}, []string{"cat", secret}},
		{"a policy it cannot read", []string{"--policy", policy}, []string{"true"}},
		{"a profile it cannot read", []string{"--profile", policy}, []string{"true"}},
		{"root", []string{"--user", "0"}, []string{"cat", secret}},
		{"the other user", []string{"--user", "1001"}, []string{"true"}},
		{"the other's workspace", []string{"--rw", two.Work}, []string{"sh", "-c", "echo x >" + two.Work + "/planted"}},
		{"the state of the daemon", []string{"--rw", d.state}, []string{"ls", d.state}},
	} {
		r := one.execTo(d, tt.flags, tt.argv...)
		if r.Code == 0 || strings.Contains(r.Stdout+r.Stderr, d.Token) {
			t.Errorf("uid 1000 asks for %s: %+v", tt.name, r)
		}
		if tt.flags[0] == "--user" && !strings.Contains(r.Stderr, "only root may run a command as another user") {
			t.Errorf("uid 1000 asks for %s: %+v, want to be told that only root may", tt.name, r)
		}
	}
	if exists(two.Work + "/planted") {
		t.Error("uid 1000 wrote into the workspace of uid 1001")
	}
	// State and homes that a client names are made with its rights too.
	c := one.toDaemon(d, "exec", "--quiet", "--mode", "bypassPermissions", "--json", "--", "seq", "100000")
	c.Env = append(c.Env, "XDG_STATE_HOME="+d.Home+"/planted", "XDG_CACHE_HOME="+d.Home+"/planted2")
	one.finish(c)
	if exists(d.Home+"/planted") || exists(d.Home+"/planted2") {
		t.Error("a directory was made with root's rights where uid 1000 may not write")
	}

	// An output that uid 1000 cannot write: its own shell refuses it, and a command
	// that names it is refused by the kernel.
	target := d.Home + "/out"
	for _, script := range []string{"echo x >" + target, "cp /etc/hostname " + target, "dd of=" + target + " if=/dev/null"} {
		if r := one.execTo(d, []string{"--json"}, "sh", "-c", script); r.Code == 0 || exists(target) {
			t.Errorf("uid 1000: %s: %+v, there: %v", script, r, exists(target))
		}
	}

	// What a run left that would run is moved aside, and is the user's own.
	two.file(two.Work+"/plant.sh", "git init -q sub && echo "+two.Token+" >sub/.git/hooks/pre-commit && chmod +x sub/.git/hooks/pre-commit\n")
	hook := two.report(two.execTo(d, []string{"--json"}, "sh", "plant.sh"))
	if found := hook.Report.Detected; len(found) != 1 || exists(two.Work+"/sub/.git/hooks/pre-commit") || two.plain("cat", found[0].Kept).Stdout != two.Token+"\n" {
		t.Errorf("a hook that uid 1001 left: %+v", hook)
	}

	// Each sees its own.
	job := strings.TrimSpace(one.execTo(d, []string{"--detach"}, "sh", "-c", "echo "+one.Token+"; sleep 60").Stdout)
	session := strings.TrimSpace(one.sbxTo(d, "sessions", "new").Stdout)
	for _, args := range [][]string{
		{"jobs", "logs", job}, {"jobs", "attach", job}, {"jobs", "kill", job}, {"jobs", "rm", job}, {"sessions", "show", session},
		{"sessions", "close", session}, {"sessions", "mode", session, "plan"}, {"sessions", "allow", session, "run_bash(*)"},
		{"exec", "--session", session, "--", "true"}, {"audit", "verify"}, {"daemon", "stop"}, {"daemon", "reload"},
	} {
		if r := two.sbxTo(d, args...); r.Code == 0 {
			t.Errorf("uid 1001: sbx %v: %+v", args, r)
		}
	}
	for _, args := range [][]string{{"jobs", "list"}, {"sessions", "list"}, {"audit", "--limit", "1000"}} {
		if r := two.sbxTo(d, args...); strings.Contains(r.Stdout, job) || strings.Contains(r.Stdout, session) || strings.Contains(r.Stdout, "uid 1000") || r.Code != 0 {
			t.Errorf("uid 1001 sees of uid 1000: sbx %v: %+v", args, r)
		}
		if r := one.sbxTo(d, args...); !strings.Contains(r.Stdout, "uid 1000") && args[0] != "jobs" {
			t.Errorf("uid 1000 does not see its own: sbx %v: %+v", args, r)
		}
	}
	if err := unix.Stat(d.state+"/jobs/"+job+".log", &st); err != nil || st.Uid != 1000 || st.Mode&0o777 != 0o600 {
		t.Errorf("the log of the job: uid %d, mode %04o, %v", st.Uid, st.Mode&0o777, err)
	}
	if r := one.sbxTo(d, "jobs", "kill", job); r.Code != 0 {
		t.Errorf("uid 1000 ends its job: %+v", r)
	}
	// Who is not in the group does not get in.
	out := d.as(1000)
	out.caller = nil
	if r := out.sbxTo(d, "daemon", "status"); r.Code != 3 || !strings.Contains(r.Stderr, "permission denied") {
		t.Errorf("without the group: %+v", r)
	}
}

// A confined command that is given the socket still gets nowhere, in either tier,
// however it forks; the same words work outside.
func TestConfinedCommandsCannotUseTheDaemon(t *testing.T) {
	d := startDaemon(t, os.Getuid())
	sbx := d.program("sbx")
	attacks := map[string]string{
		"plainly":           sbx + " exec --mode bypassPermissions -- touch " + d.Work + "/escaped",
		"from an orphan":    "(setsid sh -c 'sleep 0.2; " + sbx + " exec --mode bypassPermissions -- touch " + d.Work + "/escaped' &) ; sleep 1.2",
		"as an answer":      sbx + " approve question-x",
		"as a session":      sbx + " sessions new --mode bypassPermissions",
		"to stop it":        sbx + " daemon stop",
		"by another client": "curl -s -m 5 --unix-socket $SANDBOXD_SOCKET http://localhost/api/daemon/stop -d '{}' -H 'Content-Type: application/json'",
		"trust":             sbx + " trust --yes .",
	}
	for _, tier := range tiers() {
		for name, attack := range attacks {
			// sbx that is told where the daemon is would not grant it.
			r := d.finish(d.command(sbx, "run", "--quiet", "--tier", tier, "--unix", d.socket, "--ro", filepath.Dir(sbx), "--env", "SANDBOXD_SOCKET="+d.socket,
				"--deny", "escaped", "--best-effort", "--", "sh", "-c", attack))
			if exists(d.Work + "/escaped") {
				t.Fatalf("tier %s, %s: a confined command used the daemon: %+v", tier, name, r)
			}
			if _, code := d.get("/api/health"); code != 200 {
				t.Fatalf("tier %s, %s: the daemon is gone", tier, name)
			}
		}
	}
	if text, _ := d.get("/api/chat/sessions"); text != `{"sessions":[]}`+"\n" {
		t.Errorf("sessions were made from inside: %s", text)
	}
	if got := strings.Count(d.content(d.log), "reason=inside_run"); got < 2*5 {
		t.Errorf("%d attempts reached the daemon and were refused, want at least 10: the test does not try", got)
	}
	if r := d.execTo(d, nil, "touch", d.Work+"/honest"); r.Code != 0 || !exists(d.Work+"/honest") {
		t.Errorf("outside the same words do not work: %+v", r)
	}
}

// raw sends bytes over a connection of its own and returns the answer until the far
// side closes.
func (d *daemonRun) raw(text string, wait time.Duration) string {
	d.Helper()
	c, err := net.Dial("unix", d.socket)
	d.must(err)
	defer c.Close()
	c.SetDeadline(time.Now().Add(wait))
	go io.WriteString(c, text)
	answer, _ := io.ReadAll(c)
	return string(answer)
}

// Requests that no honest client sends.
func TestHostileRequests(t *testing.T) {
	d := startDaemon(t, os.Getuid())
	head := "POST /api/exec HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
	for _, tt := range []struct{ name, text, want string }{
		{"no HTTP", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "400"},
		{"a huge header", "GET /api/health HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("a", 1<<20) + "\r\n\r\n", "431"},
		{"very many headers", "GET /api/health HTTP/1.1\r\nHost: localhost\r\n" + strings.Repeat("X: a\r\n", 100000) + "\r\n", "431"},
		{"a huge body", head + "Content-Length: 900000000\r\n\r\n" + strings.Repeat(" ", 5<<20), "413"},
		{"an endless body", head + "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("10000\r\n"+strings.Repeat(" ", 1<<16)+"\r\n", 100), "413"},
		{"two lengths", head + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", "400"},
		{"no host", "GET /api/health HTTP/1.1\r\n\r\n", "400"},
		{"a foreign host", "GET /api/health HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n", "403"},
		{"a page's origin", "GET /api/health HTTP/1.1\r\nHost: localhost\r\nOrigin: null\r\n\r\n", "403"},
		{"a page's fetch", "GET /api/health HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: same-origin\r\n\r\n", "403"},
		{"a page's question before", "OPTIONS /api/exec HTTP/1.1\r\nHost: localhost\r\nOrigin: http://x\r\nAccess-Control-Request-Method: POST\r\n\r\n", "403"},
		{"a page's form", "POST /api/exec HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}", "415"},
		{"deep nesting", head + "Connection: close\r\nContent-Length: 200000\r\n\r\n" + strings.Repeat("[", 200000), "400"},
		{"a path that climbs", "GET /api/../api/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", "404"},
		{"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "403"},
	} {
		answer := d.raw(tt.text, 20*time.Second)
		if line, _, _ := strings.Cut(answer, "\r\n"); !strings.HasPrefix(line, "HTTP/1.1 "+tt.want) {
			t.Errorf("%s: %q, want %s", tt.name, clip(answer), tt.want)
		}
	}
	if text, code := d.get("/api/health"); code != 200 {
		t.Errorf("after all that: %d %s", code, text)
	}
	if text, _ := d.get("/api/audit"); text != `{"rows":[]}`+"\n" {
		t.Errorf("something was decided: %s", text)
	}
}

// Connections that send nothing, or slowly, are closed; those of one user are
// bounded, and another is served meanwhile.
func TestIdleConnections(t *testing.T) {
	n := 10000
	require.Root(t, "to play two users")
	d := startDaemon(t, 0, "--group", strconv.Itoa(daemonGID))
	before := d.memory()
	held, made := d.flood(1000, n)
	if made != n {
		t.Fatalf("only %d connections were made", made)
	}
	start := time.Now()
	if text, code := d.get("/api/health"); code != 200 || time.Since(start) > 5*time.Second {
		t.Errorf("another user is served after %v: %d %s", time.Since(start), code, text)
	}
	grown := d.memory() - before
	t.Logf("%d connections: %d KiB more", n, grown>>10)
	if grown > 64<<20 {
		t.Errorf("the daemon grew by %d KiB, docs/api.md says 64 MiB at most", grown>>10)
	}
	for _, fd := range held {
		unix.Close(fd)
	}
	two := d.as(1000)
	if r := two.execTo(d, nil, "echo", "served"); r.Code != 0 {
		t.Errorf("afterwards the same user: %+v", r)
	}
}

// flood opens n connections as uid and begins a request on each. It returns those
// that it could keep open.
func (d *daemonRun) flood(uid, n int) (held []int, made int) {
	d.Helper()
	var limit unix.Rlimit
	d.must(unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	limit.Cur = limit.Max
	d.must(unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread with another uid ends here
		gid := uint32(daemonGID)
		unix.RawSyscall(unix.SYS_SETGROUPS, 1, uintptr(unsafe.Pointer(&gid)), 0)
		unix.RawSyscall(unix.SYS_SETRESGID, uintptr(uid), uintptr(uid), uintptr(uid))
		unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid))
		for range n {
			fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return
			}
			if unix.Connect(fd, &unix.SockaddrUnix{Name: d.socket}) == nil {
				unix.SendmsgN(fd, []byte("GET /api/health HTT"), nil, nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
				made++
			}
			if held = append(held, fd); len(held) > int(limit.Max)-256 {
				unix.Close(held[0])
				held = held[1:]
			}
		}
	}()
	<-done
	return held, made
}

// memory is the resident size of the daemon in bytes.
func (d *daemonRun) memory() int64 {
	d.Helper()
	fields := strings.Fields(d.content(fmt.Sprintf("/proc/%d/statm", d.cmd.Process.Pid)))
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	d.must(err)
	return pages * int64(os.Getpagesize())
}

// A connection over which no request comes is closed in its time.
func TestHalfOpenConnectionIsClosed(t *testing.T) {
	d := startDaemon(t, os.Getuid())
	start := time.Now()
	answer := d.raw("GET /api/health HTTP/1.1\r\nHost: local", 40*time.Second)
	if took := time.Since(start); took < 5*time.Second || took > 20*time.Second {
		t.Errorf("closed after %v with %q, want about 10 s", took, answer)
	}
}

// TestAdminGroupDoesNotAct: members see and answer for all, and run nothing in a
// session of another user, as whom it would run.
func TestAdminGroupDoesNotAct(t *testing.T) {
	require.Root(t, "to play a daemon that serves others")
	d := startDaemon(t, 0, "--group", strconv.Itoa(daemonGID), "--admin-group", strconv.Itoa(daemonGID))
	admin := d.as(1000)
	session := strings.TrimSpace(d.sbxTo(d, "sessions", "new", "--workspace", d.Work).Stdout)
	if r := admin.sbxTo(d, "sessions", "list"); !strings.Contains(r.Stdout, session) {
		t.Fatalf("the admin group does not see root's session %q: %+v", session, r)
	}
	for _, args := range [][]string{
		{"exec", "--session", session, "--", "touch", "acted"},
		{"exec", "--detach", "--session", session, "--", "touch", "acted"},
		{"sessions", "allow", session, "run_bash(touch *)"},
		{"sessions", "mode", session, "acceptEdits"},
	} {
		if r := admin.sbxTo(d, args...); r.Code == 0 || !strings.Contains(r.Stderr, "uid 0") {
			t.Errorf("%q: %+v", args, r)
		}
	}
	if _, err := os.Lstat(d.Work + "/acted"); err == nil {
		t.Error("a command ran as root")
	}
	if r := d.sbxTo(d, "sessions", "rules", session); strings.Contains(r.Stdout, "touch") {
		t.Errorf("a rule was added: %s", r.Stdout)
	}
	// Its own session works, and so does root's for root.
	own := strings.TrimSpace(admin.sbxTo(d, "sessions", "new", "--workspace", admin.Work).Stdout)
	if r := admin.sbxTo(d, "exec", "--session", own, "--", "id", "-u"); r.Stdout != "1000\n" {
		t.Errorf("in its own session: %+v", r)
	}
	if r := d.sbxTo(d, "exec", "--session", session, "--", "id", "-u"); r.Stdout != "0\n" {
		t.Errorf("root in its own session: %+v", r)
	}
}
