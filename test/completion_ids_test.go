package test

import (
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// Ids are completed from what the daemon lists, in a shell that sources the script;
// completing asks nothing, decides nothing and starts no daemon.
func TestIDsAreCompleted(t *testing.T) {
	d := startDaemon(t, os.Getuid())
	script := filepath.Join(d.Home, "sbx.bash")
	d.file(script, d.sbxTo(d, "completion", "bash").Stdout)
	complete := func(env []string, words ...string) []string {
		t.Helper()
		line := `source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _sbx; echo "${COMPREPLY[@]}"`
		c := osexec.CommandContext(t.Context(), "bash", append([]string{"-c", line, script, "sbx"}, words...)...)
		c.Dir, c.Env = d.Work, append(append(os.Environ(), d.Env...), env...)
		c.Env = append(c.Env, "PATH="+filepath.Dir(d.program("sbx"))+":/usr/bin:/bin")
		out, err := c.Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Fields(string(out))
	}
	socket := "SANDBOXD_SOCKET=" + d.socket
	session := strings.TrimSpace(d.sbxTo(d, "sessions", "new").Stdout)
	job := strings.TrimSpace(d.sbxTo(d, "exec", "--quiet", "--mode", "bypassPermissions", "--detach", "--", "sleep", "60").Stdout)
	if session == "" || job == "" {
		t.Fatalf("session %q, job %q", session, job)
	}
	for _, tt := range []struct {
		words []string
		want  string
	}{
		{[]string{"jobs", "kill", job[:5]}, job}, {[]string{"jobs", "logs", ""}, job},
		{[]string{"sessions", "close", session[:9]}, session}, {[]string{"sessions", "show", session[:9]}, session},
		{[]string{"exec", "--session", session}, session}, {[]string{"audit", "--verdict", "deny", "--session", session}, session},
	} {
		if got := complete([]string{socket}, tt.words...); !slices.Contains(got, tt.want) {
			t.Errorf("%q: %q, want %s", tt.words, got, tt.want)
		}
	}
	for _, words := range [][]string{{"jobs", "kill", "none"}, {"approve", ""}, {"agent", "--resume", ""}} {
		if got := complete([]string{socket}, words...); slices.Contains(got, job) || slices.Contains(got, session) {
			t.Errorf("%q: %q", words, got)
		}
	}
	before, _ := d.get("/api/audit?limit=100")
	start := time.Now()
	if got := complete([]string{"SANDBOXD_SOCKET=" + d.Home + "/none"}, "jobs", "kill", job[:5]); len(got) > 0 || time.Since(start) > 5*time.Second || exists(d.Home+"/none") {
		t.Errorf("without a daemon: %q after %v", got, time.Since(start))
	}
	if after, _ := d.get("/api/audit?limit=100"); after != before {
		t.Errorf("completion is in the audit log: %s", after)
	}
}
