package agentloop

import (
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"sandboxd/exec"
	"sandboxd/policy"
)

func itoa(n int) string { return strconv.Itoa(n) }

func TestTempIsPrivateAndRemoved(t *testing.T) {
	h := newHost(t)
	s, _ := h.build(policy.Grant{PrivateTmp: true}, HostView{MountView: true})
	if e, ok := entryAt(s.View, "/tmp"); !ok || e.Kind != exec.Tmpfs || e.Bytes <= 0 || envOf(s, "TMPDIR") != "/tmp" {
		t.Errorf("/tmp is %+v with TMPDIR=%s", e, envOf(s, "TMPDIR"))
	}
	if got := access(s.View, h.Cwd+"/x"); got != exec.ReadWrite {
		t.Errorf("a workspace below /tmp has access %v under the private /tmp", got)
	}
	one, r1, err := Build(policy.Grant{PrivateTmp: true}, h.Caller, HostView{}, []string{"/bin/true"})
	if err != nil {
		t.Fatal(err)
	}
	two, _ := h.build(policy.Grant{PrivateTmp: true}, HostView{})
	dir := envOf(one, "TMPDIR")
	if dir == envOf(two, "TMPDIR") || !within(dir, h.CacheDir+"/tmp") || access(one.View, dir) != exec.ReadWrite {
		t.Fatalf("TMPDIR=%s and %s", dir, envOf(two, "TMPDIR"))
	}
	if err := os.MkdirAll(dir+"/a/b", 0o755); err != nil {
		t.Fatal(err)
	}
	os.Chmod(dir+"/a", 0)
	os.Symlink(h.Cwd, dir+"/link")
	for range 2 {
		if err := r1.Cleanup(); err != nil {
			t.Errorf("Cleanup: %v", err)
		}
	}
	if _, err := os.Lstat(dir); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", dir, err)
	}
	if _, err := os.Lstat(h.Cwd); err != nil {
		t.Errorf("the workspace behind a link is gone: %v", err)
	}
	if _, err := os.Lstat(envOf(two, "TMPDIR")); err != nil {
		t.Errorf("the other run's directory is gone: %v", err)
	}
	none, r := h.build(policy.Grant{}, HostView{})
	if envOf(none, "TMPDIR") != "" || r.Temp != "" {
		t.Errorf("without a private temporary directory TMPDIR=%q", envOf(none, "TMPDIR"))
	}
}

// A directory whose run was killed goes with the next start; a live one stays.
func TestTempOfAKilledRunIsSwept(t *testing.T) {
	if dir := os.Getenv("AGENTLOOP_TEST_HOLD"); dir != "" {
		c := Caller{Cwd: dir + "/home/u/w", UID: os.Getuid(), GID: os.Getgid(), Home: dir + "/home/u", CacheDir: dir + "/home/u/.cache/sandboxd"}
		s, _, err := Build(policy.Grant{PrivateTmp: true}, c, HostView{}, []string{"/bin/true"})
		if err != nil {
			t.Fatal(err)
		}
		os.Stdout.WriteString("DIR " + envOf(s, "TMPDIR") + "\n")
		os.Stdin.Read(make([]byte, 1))
		return
	}
	h := newHost(t)
	cmd := osexec.Command(os.Args[0], "-test.run=^TestTempOfAKilledRunIsSwept$")
	cmd.Env = append(os.Environ(), "AGENTLOOP_TEST_HOLD="+h.root)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4096)
	n, _ := out.Read(buf)
	line, _, _ := strings.Cut(string(buf[:n]), "\n")
	dir, ok := strings.CutPrefix(line, "DIR ")
	if !ok {
		t.Fatalf("the holder says %q", buf[:n])
	}
	h.build(policy.Grant{PrivateTmp: true}, HostView{})
	if _, err := os.Lstat(dir); err != nil {
		t.Fatalf("the directory of a live run was swept: %v", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	h.build(policy.Grant{PrivateTmp: true}, HostView{})
	if _, err := os.Lstat(dir); !os.IsNotExist(err) {
		left, _ := filepath.Glob(h.CacheDir + "/tmp/*")
		t.Errorf("the directory of a killed run is still there: %v (%q)", err, left)
	}
}

func TestFailedBuildLeavesNoTemp(t *testing.T) {
	h := newHost(t)
	if _, _, err := Build(policy.Grant{PrivateTmp: true}, h.Caller, HostView{}, []string{"no-such-program"}); err == nil {
		t.Fatal("no error")
	}
	if left, _ := filepath.Glob(h.CacheDir + "/tmp/*"); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}
