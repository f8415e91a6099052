package test

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// What sbx run does with a command, sbx exec does through the daemon.
func TestExecIsLikeRun(t *testing.T) {
	d := startDaemon(t, os.Getuid())
	noise := make([]byte, 3<<20)
	rand.Read(noise)
	d.must(os.WriteFile(d.Work+"/noise", noise, 0o644))
	for _, tt := range []struct {
		name  string
		flags []string
		argv  []string
		stdin []byte
	}{
		{"exit status", nil, []string{"sh", "-c", "exit 7"}, nil},
		{"signal", nil, []string{"sh", "-c", "kill -9 $$"}, nil},
		{"not found", nil, []string{"no-such-program-here"}, nil},
		{"not executable", nil, []string{"./noise"}, nil},
		{"time out", []string{"--timeout", "300ms"}, []string{"sh", "-c", "echo before; sleep 77.5"}, nil},
		{"both streams", nil, []string{"sh", "-c", "echo out; echo err >&2"}, nil},
		{"binary output", nil, []string{"cat", "noise"}, nil},
		{"binary input", nil, []string{"cat"}, noise},
		{"input that is not read", nil, []string{"true"}, noise},
		{"input that is read in part", nil, []string{"head", "-c", "1000"}, noise},
		{"no input", nil, []string{"cat"}, nil},
		{"words that are not UTF-8", nil, []string{"printf", "%s", "a\xff\xfe\xed\xa0\x80z"}, nil},
		{"variables that are not UTF-8", []string{"--env", "ODD=\xffx"}, []string{"printenv", "ODD"}, nil},
		{"output that is cut", []string{"--output-limit", "1KiB"}, []string{"cat", "noise"}, nil},
		{"a path that is denied", []string{"--deny", "noise"}, []string{"cat", "noise"}, nil},
		{"no network", nil, []string{"bash", "-c", "echo >/dev/tcp/192.0.2.1/1"}, nil},
		{"base tier", []string{"--tier", "base"}, []string{"sh", "-c", "echo $$ >/dev/null; exit 3"}, nil},
		{"an option of the command", nil, []string{"ls", "--no-such-option"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			run := func(command string, more ...string) result {
				args := append(append([]string{command, "--quiet"}, more...), tt.flags...)
				c := d.toDaemon(d, append(append(args, "--"), tt.argv...)...)
				c.Stdin = bytes.NewReader(tt.stdin)
				return d.finish(c)
			}
			want, got := run("run"), run("exec", "--mode", "bypassPermissions")
			// Each hint names its own command.
			got.Stderr = strings.ReplaceAll(got.Stderr, "; sbx exec --dry-run", "; sbx run --dry-run")
			if got.Code != want.Code || got.Stdout != want.Stdout || got.Stderr != want.Stderr {
				t.Errorf("exec: exit %d, %d bytes out, %q\nrun:  exit %d, %d bytes out, %q", got.Code, len(got.Stdout), clip(got.Stderr),
					want.Code, len(want.Stdout), clip(want.Stderr))
			}
		})
	}
}

func clip(s string) string { return s[:min(len(s), 600)] }

// Who reads the output decides: one that leaves ends the command, one that is slow
// slows it down, and nothing is lost.
func TestReadersOfExec(t *testing.T) {
	d := startDaemon(t, os.Getuid())
	c := d.toDaemon(d, "exec", "--quiet", "--mode", "bypassPermissions", "--", "sh", "-c", "yes 271828.5; echo not reached >after")
	r, w, err := os.Pipe()
	d.must(err)
	c.Stdout = w
	d.must(c.Start())
	w.Close()
	_, err = io.ReadFull(r, make([]byte, 100000))
	d.must(err)
	r.Close()
	d.must(ignoreStatus(c.Wait()))
	d.until("the command is gone", func() bool { return len(processesWith("271828.5")) == 0 })

	// A reader who takes nothing for a while holds the command up, within the windows
	// and the pipes, and then gets everything.
	c = d.toDaemon(d, "exec", "--quiet", "--mode", "bypassPermissions", "--", "sh", "-c", "head -c 5000000 /dev/zero; echo done >finished")
	r, w, err = os.Pipe()
	d.must(err)
	c.Stdout = w
	d.must(c.Start())
	w.Close()
	time.Sleep(300 * time.Millisecond)
	if exists(d.Work + "/finished") {
		t.Error("a command wrote 5 MB that nobody had read")
	}
	n, err := io.Copy(io.Discard, r)
	if err != nil || n != 5000000 {
		t.Errorf("%d bytes arrived, %v, want 5000000", n, err)
	}
	d.must(c.Wait())
}

func ignoreStatus(err error) error {
	if err != nil && !strings.HasPrefix(err.Error(), "exit status") && !strings.HasPrefix(err.Error(), "signal:") {
		return err
	}
	return nil
}

// A client that is gone, however it went, takes its command with it; a job stays.
func TestClientThatIsGone(t *testing.T) {
	d := startDaemon(t, os.Getuid())
	for i, sig := range []unix.Signal{unix.SIGKILL, unix.SIGINT, unix.SIGTERM} {
		word := fmt.Sprintf("31415.%d", i+1)
		c := d.toDaemon(d, "exec", "--quiet", "--mode", "bypassPermissions", "--", "sh", "-c", "echo up >up; sleep "+word+" & setsid sleep "+word+" & wait")
		d.must(c.Start())
		d.until("the command runs", func() bool { return exists(d.Work+"/up") && len(processesWith("sleep\x00"+word)) >= 2 })
		d.must(unix.Kill(c.Process.Pid, sig))
		d.must(ignoreStatus(c.Wait()))
		d.until("nothing is left after "+sig.String(), func() bool { return len(processesWith("sleep\x00"+word)) == 0 })
		d.must(os.Remove(d.Work + "/up"))
	}
	started := d.execTo(d, []string{"--detach"}, "sh", "-c", "trap 'echo got; exit 4' USR1; echo up; while :; do sleep 0.05; done")
	id := strings.TrimSpace(started.Stdout)
	a := d.toDaemon(d, "jobs", "attach", id)
	out, err := a.StdoutPipe()
	d.must(err)
	d.must(a.Start())
	_, err = io.ReadFull(out, make([]byte, 3))
	d.must(err)
	d.must(a.Process.Kill())
	a.Wait()
	if r := d.sbxTo(d, "jobs", "list"); !strings.Contains(r.Stdout, "running") {
		t.Errorf("a job ended with who had joined it: %+v", r)
	}
	if r := d.sbxTo(d, "jobs", "kill", "--signal", "USR1", id); r.Code != 0 {
		t.Errorf("kill: %+v", r)
	}
	if r := d.sbxTo(d, "jobs", "attach", "--quiet", id); r.Code != 4 || r.Stdout != "up\ngot\n" {
		t.Errorf("attach: %+v, want the whole output and status 4", r)
	}
}

// A terminal of the command's own, through the daemon: size, keys, resize, Ctrl-C.
func TestExecWithATerminal(t *testing.T) {
	d := startDaemon(t, os.Getuid())
	c := d.toDaemon(d, "exec", "--quiet", "--mode", "bypassPermissions", "--tty", "--", "sh", "-c",
		`stty size; read x; echo "got $x"; trap 'stty size' WINCH; trap 'echo int; exit 9' INT; echo ready; while :; do sleep 0.05; done`)
	c.SysProcAttr = &unix.SysProcAttr{Setsid: true, Setctty: true}
	term, err := pty.StartWithSize(c, &pty.Winsize{Rows: 31, Cols: 97})
	d.must(err)
	defer term.Close()
	defer time.AfterFunc(time.Minute, func() { c.Process.Kill() }).Stop()
	seen := &bytes.Buffer{}
	await := func(part string) {
		t.Helper()
		buf := make([]byte, 4096)
		for !strings.Contains(seen.String(), part) {
			n, err := term.Read(buf)
			seen.Write(buf[:n])
			if err != nil {
				t.Fatalf("waiting for %q: %v, seen %q", part, err, seen)
			}
		}
	}
	await("31 97")
	term.WriteString("hello\n")
	await("ready")
	d.must(pty.Setsize(term, &pty.Winsize{Rows: 20, Cols: 60})) // the kernel tells sbx
	await("20 60")
	term.Write([]byte{3})
	await("int")
	c.Wait()
	if code := c.ProcessState.ExitCode(); code != 9 {
		t.Errorf("exit %d, want 9; seen %q", code, seen)
	}
}

// --json and --status-fd give the object of sbx run, with what the daemon adds.
func TestExecResult(t *testing.T) {
	d := startDaemon(t, os.Getuid())
	r := d.sbxTo(d, "exec", "--json", "--mode", "bypassPermissions", "--", "sh", "-c", "echo hi; exit 3")
	full := d.report(r)
	if full.Report.ExitCode != 3 || full.Stdout != "hi\n" || r.Code != 3 || full.Report.Outcome != "exited" {
		t.Errorf("--json: %+v", full)
	}
	for _, field := range []string{`"call_id":"`, `"session_id":"`, `"status":"fail"`, `"decision":{`} {
		if !strings.Contains(r.Stdout, field) && !strings.Contains(fmt.Sprint(r), field) {
			t.Errorf("--json has no %s", field)
		}
	}
	denied := d.sbxTo(d, "exec", "--mode", "dontAsk", "--", "rm", "-rf", "x")
	if denied.Code != 126 || !strings.Contains(denied.Stderr, "sbx: denied: rm -rf x") {
		t.Errorf("a refusal: %+v", denied)
	}
}
