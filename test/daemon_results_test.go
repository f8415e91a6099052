package test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"sandboxd/test/require"
)

// The whole of a large output is a file of the client's own, masked, named in the
// result, and removed by the client's sbx clean.
func TestLargeOutputsAreFilesOfTheClient(t *testing.T) {
	require.Root(t, "to play a daemon that serves others")
	d := startDaemon(t, 0, "--group", strconv.Itoa(daemonGID))
	one, two := d.as(1000), d.as(1001)
	const secret = "ghp_0123456789abcdefghijABCDEFGHIJ456789"
	r := one.execTo(d, []string{"--json"}, "sh", "-c", "seq 1 50000; echo "+secret+"; echo err >&2")
	var res struct {
		Stdout struct {
			Bytes, Dropped int64
			File           string
		}
		Stderr struct{ File string }
	}
	d.must(json.Unmarshal([]byte(r.Stdout), &res))
	file := res.Stdout.File
	if dir := filepath.Dir(file); r.Code != 0 || filepath.Base(dir) != "outputs" || !strings.HasPrefix(file, one.Home+"/") || res.Stdout.Dropped == 0 || res.Stderr.File != "" {
		t.Fatalf("%+v", r)
	}
	var st unix.Stat_t
	if err := unix.Lstat(file, &st); err != nil || st.Uid != 1000 || st.Mode != unix.S_IFREG|0o600 {
		t.Errorf("%s: uid %d, mode %o, %v", file, st.Uid, st.Mode, err)
	}
	text := d.content(file)
	if !strings.Contains(text, "\n49999\n50000\n[secret]\n") || strings.Contains(text, secret) {
		t.Errorf("%s holds %d bytes, the end is %q", file, len(text), text[max(0, len(text)-100):])
	}
	// Neither another user nor a later command of the same user reads it.
	if r := two.finish(two.command("cat", file)); r.Code == 0 {
		t.Errorf("uid 1001 reads it: %+v", r)
	}
	if r := one.execTo(d, []string{"--ro", one.Home}, "cat", file); r.Code == 0 || strings.Contains(r.Stdout, "49999") {
		t.Errorf("a command reads it: exit %d", r.Code)
	}
	if r := one.finish(one.command("cat", file)); r.Code != 0 || r.Stdout != text {
		t.Errorf("its owner: exit %d, %d bytes", r.Code, len(r.Stdout))
	}
	if r := one.sbxTo(d, "clean", "--all"); r.Code != 0 || exists(file) {
		t.Errorf("sbx clean: %+v, it is there: %v", r, exists(file))
	}
	// A user without a place for it is told, and gets the answer all the same.
	c := one.toDaemon(d, "exec", "--quiet", "--mode", "bypassPermissions", "--json", "--workspace", one.Work, "--", "seq", "50000")
	c.Env = append(c.Env, "XDG_STATE_HOME="+one.Work+"/state")
	d.must(os.MkdirAll(one.Work+"/state", 0o755))
	if r := one.finish(c); r.Code != 0 || !strings.Contains(r.Stdout, `"file_error":"no file for the whole result: the state directory `) {
		t.Errorf("a state directory in the workspace: %+v", r)
	}
}
