package agentloop

import (
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sandboxd/exec"
	"sandboxd/policy"
	"sandboxd/test/require"
)

// fakeHost is a home, a workspace in it and our own directories, all in a
// temporary directory; the system directories are the real ones.
type fakeHost struct {
	t    testing.TB
	root string
	Caller
}

func newHost(t testing.TB) *fakeHost {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h := &fakeHost{t: t, root: root}
	home := root + "/home/u"
	h.Caller = Caller{
		Cwd: home + "/w", Environ: []string{"PATH=/usr/bin:/bin", "HOME=" + home}, UID: os.Getuid(), GID: os.Getgid(),
		Home: home, ConfigDir: home + "/.config/sandboxd", StateDir: home + "/.local/state/sandboxd", CacheDir: home + "/.cache/sandboxd",
	}
	h.dir("home/u/w")
	return h
}

func (h *fakeHost) path(rel string) string { return h.root + "/" + rel }

func (h *fakeHost) dir(rel string) string {
	h.t.Helper()
	if err := os.MkdirAll(h.path(rel), 0o755); err != nil {
		h.t.Fatal(err)
	}
	return h.path(rel)
}

func (h *fakeHost) file(rel, content string, mode os.FileMode) string {
	h.t.Helper()
	h.dir(filepath.Dir(rel))
	if err := os.WriteFile(h.path(rel), []byte(content), mode); err != nil {
		h.t.Fatal(err)
	}
	if err := os.Chmod(h.path(rel), mode); err != nil {
		h.t.Fatal(err)
	}
	return h.path(rel)
}

func (h *fakeHost) link(target, rel string) string {
	h.t.Helper()
	h.dir(filepath.Dir(rel))
	if err := os.Symlink(target, h.path(rel)); err != nil {
		h.t.Fatal(err)
	}
	return h.path(rel)
}

// build builds for /bin/true and fails the test on an error.
func (h *fakeHost) build(g policy.Grant, v HostView) (exec.Spec, Report) {
	h.t.Helper()
	s, r, err := Build(g, h.Caller, v, []string{"/bin/true"})
	if err != nil {
		h.t.Fatalf("Build: %v", err)
	}
	h.t.Cleanup(func() {
		if err := r.Cleanup(); err != nil {
			h.t.Errorf("Cleanup: %v", err)
		}
	})
	return s, r
}

// access is what the view says about a path: the longest entry, then the
// stricter one. This is exec's contract, written a second time.
func access(v exec.View, path string) exec.Access {
	best, length := exec.Deny, -1
	for _, e := range v.Entries {
		if !within(path, e.Path) || e.Source != "" && e.Source != e.Path {
			continue
		}
		if len(e.Path) > length || len(e.Path) == length && e.Access < best {
			best, length = e.Access, len(e.Path)
		}
	}
	return best
}

func entryAt(v exec.View, path string) (exec.Entry, bool) {
	i := slices.IndexFunc(v.Entries, func(e exec.Entry) bool { return e.Path == path })
	if i < 0 {
		return exec.Entry{}, false
	}
	return v.Entries[i], true
}

func envOf(s exec.Spec, name string) string { return lookupEnv(s.Env, name) }

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := osexec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org", "GIT_CONFIG_NOSYSTEM=1"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// needRoot skips tests that need other users.
func needRoot(t *testing.T) {
	t.Helper()
	require.Root(t, "to make files of other users")
}

func cli(path string, a policy.PathAccess) policy.PathGrant {
	return policy.PathGrant{Path: path, Access: a, Source: policy.Source{Kind: policy.SourceCLI}}
}

func from(kind policy.SourceKind, path string, a policy.PathAccess) policy.PathGrant {
	return policy.PathGrant{Path: path, Access: a, Source: policy.Source{Kind: kind, File: "policy.toml", Line: 7}}
}

func grantOf(network, unix []string) policy.Grant { return policy.Grant{Network: network, Unix: unix} }
