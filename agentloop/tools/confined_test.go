package tools

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"sandboxd/agentloop"
	"sandboxd/exec"
	"sandboxd/policy"
	"sandboxd/test/require"
)

// TestApprovedFileOutsideIsWrittenInPlace: one file is granted, not its directory,
// so nothing can take its place.
func TestApprovedFileOutsideIsWrittenInPlace(t *testing.T) {
	outside := t.TempDir() + "/notes.txt"
	if err := os.WriteFile(outside, []byte("one\ntwo two\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	beside := filepath.Dir(outside) + "/beside.txt"
	w := newWorld(t, func(p *agentloop.PolicyInForce) {
		p.Config.Default = policy.Ask
		p.Config.Askers = append(p.Config.Askers, yes{})
	})
	w.read(outside)
	if out := w.ok("file_edit", policy.Args{"file_path": outside, "old_string": "two two", "new_string": "2"}); !strings.Contains(out, "written in place") {
		t.Error(out)
	}
	if b, err := os.ReadFile(outside); err != nil || string(b) != "one\n2\n" {
		t.Errorf("%q, %v", b, err)
	}
	w.ok("file_write", policy.Args{"file_path": beside, "content": "made\n"})
	if entries, err := os.ReadDir(filepath.Dir(outside)); err != nil || len(entries) != 2 {
		t.Errorf("%v, %v", entries, err)
	}
}

// TestPathOutsideIsToldHowToGrant: what is decided and not granted is told as that,
// not as missing.
func TestPathOutsideIsToldHowToGrant(t *testing.T) {
	w := newWorld(t, nil)
	for _, path := range []string{"/proc/1/environ", "/var/lib/there/is/none"} { // nobody learns which one is there
		w.refused("is not in the sandbox of this session", "read_file", policy.Args{"file_path": path})
	}
	w.refused("no such file", "read_file", policy.Args{"file_path": "missing.txt"})
}

// TestFileToolsInTheBaseTier work without namespaces, and are held there.
func TestFileToolsInTheBaseTier(t *testing.T) {
	w := newWorld(t, nil)
	base := func(tool string, args policy.Args) agentloop.ToolResult {
		return w.d.Dispatch(t.Context(), w.s, agentloop.ToolCall{Call: policy.Call{Tool: tool, Args: args}, Tier: exec.TierBase})
	}
	if res := base("read_file", policy.Args{"file_path": "a.txt"}); res.Output != "1\tone\n2\ttwo\n3\tthree\n" {
		t.Fatalf("%s %q", res.Error, res.Output)
	}
	for _, call := range []struct {
		tool string
		args policy.Args
	}{
		{"file_edit", policy.Args{"file_path": "a.txt", "old_string": "two", "new_string": "2"}},
		{"file_write", policy.Args{"file_path": "d/new.txt", "content": "x\n"}},
		{"grep_files", policy.Args{"pattern": "2"}},
		{"glob_files", policy.Args{"pattern": "**/*.txt"}},
		{"list_dir", policy.Args{}},
	} {
		res := base(call.tool, call.args)
		if res.Status != agentloop.StatusOK || strings.Contains(res.Output, "in place") {
			t.Errorf("%s: %s %s %q", call.tool, res.Status, res.Error, res.Output)
		}
		if res.Exec != nil && res.Exec.Enforced.Tier != "base" {
			t.Errorf("%s ran in tier %s", call.tool, res.Exec.Enforced.Tier)
		}
	}
	if res := base("read_file", policy.Args{"file_path": "/etc/shadow"}); res.Status == agentloop.StatusOK {
		t.Errorf("%q", res.Output)
	}
	w.noLitter()
}

// TestHelperThatIsNotInViewFailsClosed and says so.
func TestHelperThatIsNotInViewFailsClosed(t *testing.T) {
	w := newWorld(t, nil)
	for name, program := range map[string]string{"missing": "/usr/bin/no-such-sandboxd", "no helper": "/bin/echo", "fails": "/bin/false"} {
		tool := readTool{helper{program: program}}
		host := exec.LoadHost(w.caller.CacheDir)
		d, err := agentloop.NewDispatcher(agentloop.DispatcherOptions{Runner: exec.NewRunner(host), Host: host, Tools: []agentloop.Tool{tool}})
		if err != nil {
			t.Fatal(err)
		}
		res := d.Dispatch(t.Context(), w.s, agentloop.ToolCall{Call: policy.Call{Tool: "read_file", Args: policy.Args{"file_path": "a.txt"}}})
		if res.Status == agentloop.StatusOK || !strings.Contains(res.Error, "file helper") && !strings.Contains(res.Error, "is of another version") {
			t.Errorf("%s: %s %q", name, res.Status, res.Error)
		}
	}
	// A policy that denies the program's own place still lets the helper start: it
	// is that one file, and ours.
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	v := newWorld(t, func(p *agentloop.PolicyInForce) {
		p.Grant.Paths = append(p.Grant.Paths, policy.PathGrant{Path: filepath.Dir(exe), Access: policy.GrantDeny, Source: policy.Source{Kind: policy.SourceUser}})
	})
	v.read("a.txt")
}

// TestFileToolsRunAsTheUser: a daemon of root works for another user.
func TestFileToolsRunAsTheUser(t *testing.T) {
	require.Root(t, "only root serves other users")
	const uid = 1000
	w := newWorld(t, nil)
	root := filepath.Dir(filepath.Dir(filepath.Dir(w.ws)))
	for dir := root; dir != "/tmp" && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for dir := filepath.Dir(exe); dir != "/tmp" && dir != "/"; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil && info.Mode()&0o005 != 0o005 {
			_ = os.Chmod(dir, info.Mode()|0o055) // the test binary's, which go test made
		}
	}
	err = filepath.WalkDir(root+"/home", func(p string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(p, uid, uid)
	})
	if err != nil {
		t.Fatal(err)
	}
	w.caller.UID, w.caller.GID, w.caller.Groups = uid, uid, []int{uid}
	w.s = w.session()
	w.read("a.txt")
	w.ok("file_edit", policy.Args{"file_path": "a.txt", "old_string": "two", "new_string": "2"})
	w.ok("file_write", policy.Args{"file_path": "d/new.txt", "content": "x\n"})
	for _, name := range []string{"a.txt", "d", "d/new.txt"} {
		var st unix.Stat_t
		if err := unix.Stat(w.path(name), &st); err != nil || st.Uid != uid || st.Gid != uid {
			t.Errorf("%s: %v, %d:%d", name, err, st.Uid, st.Gid)
		}
	}
	// A file of root that others may read is not the user's to change.
	if err := os.WriteFile(w.path("roots.txt"), []byte("x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	w.read("roots.txt")
	w.refused("permission denied", "file_edit", policy.Args{"file_path": "roots.txt", "old_string": "x", "new_string": "y"})
	// A file of another owner that the user may write keeps its owner.
	if err := os.Chmod(w.path("roots.txt"), 0o666); err != nil {
		t.Fatal(err)
	}
	if out := w.ok("file_edit", policy.Args{"file_path": "roots.txt", "old_string": "x", "new_string": "y"}); !strings.Contains(out, "written in place") {
		t.Error(out)
	}
	var st unix.Stat_t
	if err := unix.Stat(w.path("roots.txt"), &st); err != nil || st.Uid != 0 || w.content("roots.txt") != "y\n" {
		t.Errorf("%v, owner %d, %q", err, st.Uid, w.content("roots.txt"))
	}
	w.noLitter()
}

// yes answers every question.
type yes struct{}

func (yes) Ask(context.Context, policy.Question) (policy.Answer, error) {
	return policy.Answer{Verdict: policy.Allow, By: "test"}, nil
}
