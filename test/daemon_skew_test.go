package test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"sandboxd/test/require"
)

// A client of another version is refused and told so, and nothing runs; one that says
// nothing, as curl, and one of this version are served.
func TestClientOfAnotherVersionIsRefused(t *testing.T) {
	d := startDaemon(t, os.Getuid())
	for version, want := range map[string]int{"": 200, "1": 200, "2": 426, "0": 426, "one": 426} {
		for path, body := range map[string]string{"/api/health": "", "/api/exec": d.execBody(nil, "touch", "made-"+version)} {
			method := "GET"
			if body != "" {
				method = "POST"
			}
			r, err := http.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
			d.must(err)
			r.Header.Set("Content-Type", "application/json")
			if version != "" {
				r.Header.Set("Sandboxd-Api", version)
			}
			answer, err := d.http().Do(r)
			d.must(err)
			answer.Body.Close()
			if refused := answer.StatusCode != 200; refused != (want != 200) || answer.Header.Get("Sandboxd-Api") != "1" {
				t.Errorf("version %q at %s: %s, says version %q", version, path, answer.Status, answer.Header.Get("Sandboxd-Api"))
			}
		}
		if exists(d.Work+"/made-"+version) != (want == 200) {
			t.Errorf("version %q: it ran: %v", version, exists(d.Work+"/made-"+version))
		}
	}
}

// On a full disk nothing runs unrecorded, the error names the disk, and when there is
// space again the daemon goes on by itself.
func TestFullDiskOfTheDaemon(t *testing.T) {
	require.Root(t, "to mount a small file system")
	d := startDaemon(t, 0)
	d.must(d.cmd.Process.Signal(unix.SIGTERM))
	d.cmd.Wait()
	d.must(unix.Mount("none", d.state, "tmpfs", 0, "size=2m,mode=700"))
	t.Cleanup(func() { unix.Unmount(d.state, unix.MNT_DETACH) })
	d.start()
	defer d.kill() // before the file system goes
	run := func(name string) (string, bool) {
		text, _ := d.request("POST", "/api/exec", d.execBody(nil, "touch", name))
		return text, exists(d.Work + "/" + name)
	}
	if text, ran := run("before"); !ran {
		t.Fatalf("with space: %s", text)
	}
	full := d.state + "/full"
	f, err := os.Create(full)
	d.must(err)
	for block := make([]byte, 4096); err == nil; {
		_, err = f.Write(block)
	}
	f.Close()
	refused := false
	for i := range 200 { // what is left in the files of the database is used first
		name := fmt.Sprint("full-", i)
		text, ran := run(name)
		if refused = !ran; refused {
			if !strings.Contains(text, "nothing was run") && !strings.Contains(text, "not_recorded") && !strings.Contains(text, "nothing runs unrecorded") {
				t.Errorf("refused with %s", text)
			}
			break
		}
	}
	if !refused {
		t.Error("200 calls ran on a full disk")
	}
	if text, code := d.get("/api/health"); code != 200 {
		t.Errorf("health on a full disk: %d %s", code, text)
	}
	d.must(os.Remove(full))
	d.until("the daemon goes on", func() bool { _, ran := run("after"); return ran })
	if r := d.sbxTo(d, "audit", "verify"); r.Code != 0 {
		t.Errorf("%+v", r)
	}
}

// A daemon that is told so runs calls on a full disk, in a new session too, and each
// result says that it is in no log; a policy that refuses outranks that. With space
// again rows are written.
func TestFullDiskWhereCallsGoOn(t *testing.T) {
	require.Root(t, "to mount a small file system")
	d := startDaemon(t, 0, "--on-audit-failure", "run")
	d.must(d.cmd.Process.Signal(unix.SIGTERM))
	d.cmd.Wait()
	d.must(unix.Mount("none", d.state, "tmpfs", 0, "size=2m,mode=700"))
	t.Cleanup(func() { unix.Unmount(d.state, unix.MNT_DETACH) })
	d.start()
	defer d.kill()
	refuse := d.file(d.Home+"/refuse.toml", "[audit]\non_failure = \"refuse\"\n")
	d.must(os.Chmod(refuse, 0o600))
	full := d.state + "/full"
	f, err := os.Create(full)
	d.must(err)
	for block := make([]byte, 4096); err == nil; {
		_, err = f.Write(block)
	}
	f.Close()
	d.until("a call is in no log", func() bool {
		text, _ := d.request("POST", "/api/exec", d.execBody(nil, "true"))
		return strings.Contains(text, "not recorded: ")
	})
	for i := range 3 {
		name := fmt.Sprint("full-", i)
		// Each in a session of its own.
		text, _ := d.request("POST", "/api/exec", d.execBody(map[string]any{"env": []string{"PATH=/usr/bin:/bin", "HOME=" + d.Home, fmt.Sprint("N=", i)}}, "touch", name))
		if !exists(d.Work+"/"+name) || !strings.Contains(text, `"outcome":"exited","exit_code":0`) || !strings.Contains(text, "not recorded: ") || !strings.Contains(text, "disk is full") && !strings.Contains(text, "no space left") {
			t.Errorf("on a full disk: %s", text)
		}
		text, _ = d.request("POST", "/api/exec", d.execBody(map[string]any{"policy": []string{refuse}}, "touch", "refused-"+name))
		if exists(d.Work + "/refused-" + name) {
			t.Errorf("although a policy refuses: %s", text)
		}
	}
	d.must(os.Remove(full))
	d.until("rows are written", func() bool {
		text, _ := d.request("POST", "/api/exec", d.execBody(nil, "touch", "after"))
		return !strings.Contains(text, "not recorded")
	})
	if r := d.sbxTo(d, "audit", "--text", "after"); r.Code != 0 || !strings.Contains(r.Stdout, "touch after") {
		t.Errorf("%+v", r)
	}
	if r := d.sbxTo(d, "audit", "verify"); r.Code != 0 {
		t.Errorf("%+v", r)
	}
}
