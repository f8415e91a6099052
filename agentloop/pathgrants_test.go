package agentloop

import (
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"sandboxd/exec"
	"sandboxd/policy"
)

func TestPathGrants(t *testing.T) {
	const rw, ro, deny, protect = policy.GrantWrite, policy.GrantRead, policy.GrantDeny, policy.GrantProtect
	h := newHost(t)
	h.dir("data/a/b/c")
	h.dir("data/[odd]*")
	h.file("data/f", "", 0o644)
	h.dir("home/u/w/deploy")
	h.dir("home/u/lib")
	h.link("data/a", "alias")
	d := h.path("data")
	for _, tt := range []struct {
		name   string
		grants []policy.PathGrant
		want   map[string]exec.Access
	}{
		{"a tree pattern means the directory", []policy.PathGrant{cli(d+"/a/**", rw)}, map[string]exec.Access{d + "/a/x": exec.ReadWrite, d + "/f": exec.Deny}},
		{"a name with pattern characters is a name if it exists", []policy.PathGrant{cli(d+"/[odd]*", ro)}, map[string]exec.Access{d + "/[odd]*": exec.ReadOnly}},
		{"relative to the workspace", []policy.PathGrant{cli("deploy", protect)}, map[string]exec.Access{h.Cwd + "/deploy": exec.Protect, h.Cwd + "/x": exec.ReadWrite}},
		{"home", []policy.PathGrant{cli("~/lib", ro)}, map[string]exec.Access{h.path("home/u/lib"): exec.ReadOnly}},
		{"the longest path wins", []policy.PathGrant{cli(d+"/a/b/c", rw), cli(d+"/a/b", deny), cli(d+"/a", ro)},
			map[string]exec.Access{d + "/a": exec.ReadOnly, d + "/a/b": exec.Deny, d + "/a/b/c": exec.ReadWrite}},
		{"rw over ro, since it includes it", []policy.PathGrant{cli(d+"/a", rw), cli(d+"/a", ro)}, map[string]exec.Access{d + "/a": exec.ReadWrite}},
		{"but not over the ro of a stronger source", []policy.PathGrant{from(policy.SourceUser, d+"/a", rw), from(policy.SourceCLI, d+"/a", ro)},
			map[string]exec.Access{d + "/a": exec.ReadOnly}},
		{"in any order", []policy.PathGrant{cli(d+"/a", deny), cli(d+"/a", rw)}, map[string]exec.Access{d + "/a": exec.Deny}},
		{"explicit over default", []policy.PathGrant{cli("/opt", rw)}, map[string]exec.Access{"/opt": exec.ReadWrite}},
		{"through a link, by its target", []policy.PathGrant{cli(h.path("alias/b"), ro)}, map[string]exec.Access{d + "/a/b": exec.ReadOnly, d + "/a": exec.Deny}},
		{"a weaker source does not open a stronger deny", []policy.PathGrant{from(policy.SourceManaged, d+"/a", deny), from(policy.SourceUser, d+"/a/b", rw)},
			map[string]exec.Access{d + "/a/b": exec.Deny}},
		{"nor write below a stronger ro", []policy.PathGrant{from(policy.SourceUser, d+"/a/b", rw), from(policy.SourceCLI, d+"/a", ro)},
			map[string]exec.Access{d + "/a/b": exec.ReadOnly}},
		{"a stronger source opens a weaker deny", []policy.PathGrant{from(policy.SourceUser, d+"/a", deny), from(policy.SourceCLI, d+"/a/b", rw)},
			map[string]exec.Access{d + "/a": exec.Deny, d + "/a/b": exec.ReadWrite}},
		{"the stronger source's own longer entry counts", []policy.PathGrant{from(policy.SourceManaged, d+"/a", deny), from(policy.SourceManaged, d+"/a/b", rw), from(policy.SourceUser, d+"/a/b/c", rw)},
			map[string]exec.Access{d + "/a/b/c": exec.ReadWrite}},
		{"a missing deny hides nothing and breaks nothing", []policy.PathGrant{cli(".env", deny)}, map[string]exec.Access{h.Cwd: exec.ReadWrite}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, order := range [][]policy.PathGrant{tt.grants, reversed(tt.grants)} {
				s, _ := h.build(policy.Grant{Paths: order}, HostView{MountView: true})
				for path, want := range tt.want {
					if got := access(s.View, path); got != want {
						t.Errorf("%v: %s has access %v, want %v", order, path, got, want)
					}
				}
			}
		})
	}
}

func reversed(g []policy.PathGrant) []policy.PathGrant {
	r := slices.Clone(g)
	slices.Reverse(r)
	return r
}

func TestPathGrantErrorsSayWhereAndHow(t *testing.T) {
	h := newHost(t)
	h.dir("home/u/.cache/sandboxd/homes")
	h.dir("home/u/.config/sandboxd")
	for _, tt := range []struct {
		name  string
		grant policy.PathGrant
		says  string
	}{
		{"pattern", from(policy.SourceUser, "src/*.go", policy.GrantRead), "not patterns"},
		{"pattern within", cli("**/x", policy.GrantWrite), "not patterns"},
		{"missing rw", from(policy.SourceProject, "out", policy.GrantWrite), "policy.toml:7"},
		{"missing ro", cli("/gone", policy.GrantRead), "no such file"},
		{"missing protect", cli("gone", policy.GrantProtect), "no such file"},
		{"empty", cli("", policy.GrantRead), "not a path"},
		{"NUL", cli("a\x00b", policy.GrantRead), "not a path"},
		{"our cache", cli("~/.cache/sandboxd/homes", policy.GrantWrite), "never writable"},
		{"the kernel's knobs", cli("/proc/sys/kernel", policy.GrantWrite), "never writable"},
		{"other processes", cli("/proc", policy.GrantWrite), "never writable"},
		{"devices of the kernel", cli("/sys", policy.GrantWrite), "never writable"},
		{"our policy", cli("~/.config/sandboxd", policy.GrantWrite), "never writable"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := Build(policy.Grant{Paths: []policy.PathGrant{tt.grant}}, h.Caller, HostView{MountView: true}, []string{"true"})
			ge, ok := errors.AsType[*GrantError](err)
			if !ok || !strings.Contains(err.Error(), tt.says) {
				t.Fatalf("error %v, want one that says %q", err, tt.says)
			}
			if ge.Hint == "" && !strings.Contains(tt.says, "not a path") {
				t.Error("no hint")
			}
		})
	}
}

// A command may leave a link in its workspace; the next run must not be granted
// what it leads to.
func TestPlantedLinkWidensNoGrant(t *testing.T) {
	h := newHost(t)
	h.file("home/u/.ssh/id_rsa", "s", 0o600)
	h.dir("home/u/w/real")
	h.dir("home/u/shared")
	h.link(h.path("home/u/.ssh"), "home/u/w/out")
	h.link("real", "home/u/w/fine")
	h.link(h.path("home/u/.ssh"), "home/u/shared/out")
	for _, grants := range [][]policy.PathGrant{
		{cli("out", policy.GrantWrite)},
		{cli("out/id_rsa", policy.GrantRead)},
		{cli("~/shared", policy.GrantWrite), cli("~/shared/out", policy.GrantRead)},
	} {
		if _, _, err := Build(policy.Grant{Paths: grants}, h.Caller, HostView{MountView: true}, []string{"true"}); err == nil {
			t.Errorf("%v was granted through a link in a writable directory", grants)
		}
	}
	s, _ := h.build(policy.Grant{Paths: []policy.PathGrant{cli("fine", policy.GrantRead)}}, HostView{MountView: true})
	if got := access(s.View, h.Cwd+"/real"); got != exec.ReadOnly {
		t.Errorf("a link that stays inside gives access %v to its target", got)
	}
}

// A readable tree with a hole is held without mounts too (S041).
func TestDenyInsideReadableTreeWithoutMounts(t *testing.T) {
	h := newHost(t)
	h.file("tree/share/keyrings/k", "s", 0o600)
	h.file("tree/share/apps/a", "", 0o644)
	h.file("tree/bin/b", "", 0o644)
	h.link("share/keyrings", "tree/back")
	s, _ := h.build(policy.Grant{Paths: []policy.PathGrant{cli(h.path("tree"), policy.GrantRead), cli(h.path("tree/share/keyrings"), policy.GrantDeny)}}, HostView{})
	for path, want := range map[string]exec.Access{"tree/share/keyrings/k": exec.Deny, "tree/share/apps/a": exec.ReadOnly, "tree/bin/b": exec.ReadOnly} {
		if got := access(s.View, h.path(path)); got != want {
			t.Errorf("%s has access %v, want %v", path, got, want)
		}
	}
	for _, e := range s.View.Entries {
		if e.Access == exec.Deny {
			t.Errorf("entry %v still needs a mechanism that takes rights back", e)
		}
		if real, err := newResolver(0).realDir(e.Path); err && within(h.path("tree/share/keyrings"), real) && within(real, h.path("tree")) {
			t.Errorf("entry %v leads to the denied directory", e)
		}
	}
	// In a writable tree it cannot be rewritten: the entry stays, and is marked
	// as the user's.
	h.dir("home/u/w/sub")
	s, _ = h.build(policy.Grant{Paths: []policy.PathGrant{cli("sub", policy.GrantDeny)}}, HostView{})
	if e, ok := entryAt(s.View, h.Cwd+"/sub"); !ok || e.Access != exec.Deny || !e.Demanded {
		t.Errorf("entry %v, %v; want a demanded deny for the Runner to judge", e, ok)
	}
}

func TestWideGrantKeepsSecretsOfTheHome(t *testing.T) {
	h := newHost(t)
	h.file("home/u/.ssh/id_rsa", "s", 0o600)
	h.file("home/u/.cargo/credentials.toml", "s", 0o600)
	h.file("home/u/.cargo/config.toml", "", 0o644)
	for _, mount := range []bool{true, false} {
		s, _ := h.build(policy.Grant{Paths: []policy.PathGrant{cli("~", policy.GrantRead)}}, HostView{MountView: mount})
		for path, want := range map[string]exec.Access{".ssh/id_rsa": exec.Deny, ".cargo/credentials.toml": exec.Deny, ".cargo/config.toml": exec.ReadOnly, "w/x": exec.ReadWrite} {
			if got := access(s.View, h.path("home/u/"+path)); got != want {
				t.Errorf("mount %v: %s has access %v, want %v", mount, path, got, want)
			}
		}
		s, _ = h.build(policy.Grant{Paths: []policy.PathGrant{cli("~", policy.GrantRead), cli("~/.ssh", policy.GrantRead)}}, HostView{MountView: mount})
		if got := access(s.View, h.path("home/u/.ssh/id_rsa")); got != exec.ReadOnly {
			t.Errorf("mount %v: naming ~/.ssh gives access %v", mount, got)
		}
	}
}

func TestReadOnlyModeWritesNothing(t *testing.T) {
	h := newHost(t)
	h.dir("data")
	s, r := h.build(policy.Grant{ReadOnlyWorkspace: true, PrivateTmp: true, Paths: []policy.PathGrant{cli(h.path("data"), policy.GrantWrite)}}, HostView{MountView: true})
	for _, e := range s.View.Entries {
		if e.Access == exec.ReadWrite && e.Path != r.Home && e.Path != "/tmp" {
			t.Errorf("entry %v is writable in a read-only mode", e)
		}
	}
}

func TestProtectedNamesByTier(t *testing.T) {
	h := newHost(t)
	git(t, h.Cwd, "init", "-q")
	h.file("home/u/w/.git/hooks/pre-commit", "", 0o755)
	protected := []ProtectedPath{{h.Cwd + "/.git/hooks", LevelKernel}, {h.Cwd + "/.git/config", LevelKernel}, {h.Cwd + "/.envrc", LevelCheck}}
	s, r := h.build(policy.Grant{}, HostView{MountView: true, Protected: protected})
	if e, ok := entryAt(s.View, h.Cwd+"/.git"); !ok || e.Access != exec.ReadWrite {
		t.Errorf(".git is not an entry of its own: %v", e)
	}
	if access(s.View, h.Cwd+"/.git/hooks/x") != exec.Protect || access(s.View, h.Cwd+"/.git/config") != exec.Protect || access(s.View, h.Cwd+"/.git/index") != exec.ReadWrite {
		t.Error("hooks and config are not protected inside a writable .git")
	}
	if !slices.Equal(r.Protected, protected) {
		t.Errorf("levels %v, want %v", r.Protected, protected)
	}
	s, r = h.build(policy.Grant{Paths: []policy.PathGrant{cli(".git/config", policy.GrantUnprotect)}}, HostView{MountView: true, Protected: protected})
	if access(s.View, h.Cwd+"/.git/config") != exec.ReadWrite || r.Protected[1].Level != LevelCheck || access(s.View, h.Cwd+"/.git/hooks/x") != exec.Protect {
		t.Errorf("--unprotect .git/config: levels %v", r.Protected)
	}
	s, r = h.build(policy.Grant{}, HostView{Protected: protected})
	if access(s.View, h.Cwd+"/.git/hooks/x") != exec.ReadWrite || r.Protected[0].Level != LevelCheck || len(r.Gaps) == 0 {
		t.Errorf("without mounts: levels %v, gaps %v", r.Protected, r.Gaps)
	}
}

func TestNamedWideWorkspaceKeepsOurStateOut(t *testing.T) {
	h := newHost(t)
	h.dir("home/u/.config/sandboxd")
	h.dir("home/u/.local/state/sandboxd")
	h.file("home/u/.ssh/id_rsa", "s", 0o600)
	s, r := h.build(policy.Grant{Workspace: h.Home}, HostView{MountView: true})
	for _, dir := range []string{h.ConfigDir, h.StateDir, h.CacheDir, h.path("home/u/.ssh/id_rsa")} {
		if got := access(s.View, dir+"/x"); got != exec.Deny {
			t.Errorf("%s has access %v in a workspace above it", dir, got)
		}
	}
	if r.Home == h.Home || access(s.View, r.Home) != exec.ReadWrite {
		t.Errorf("HOME is %s with access %v, want a private writable directory", r.Home, access(s.View, r.Home))
	}
}

// Whatever is written, in any order, the result is the same, and an entry of
// the user is never wider than the strictest at its path.
func TestOrderOfGrantsDoesNotMatter(t *testing.T) {
	h := newHost(t)
	paths := []string{"a", "a/b", "a/b/c", "d", "d/e"}
	for _, p := range paths {
		h.dir("home/u/w/" + p)
	}
	kinds := []policy.PathAccess{policy.GrantDeny, policy.GrantProtect, policy.GrantRead, policy.GrantWrite}
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		var grants []policy.PathGrant
		for range 1 + rnd.IntN(6) {
			grants = append(grants, from(policy.SourceKind(rnd.IntN(4)), paths[rnd.IntN(len(paths))], kinds[rnd.IntN(len(kinds))]))
		}
		first, _ := h.build(policy.Grant{Paths: grants}, HostView{MountView: true})
		rnd.Shuffle(len(grants), func(i, j int) { grants[i], grants[j] = grants[j], grants[i] })
		second, _ := h.build(policy.Grant{Paths: grants}, HostView{MountView: true})
		for _, p := range paths {
			one, two := access(first.View, h.Cwd+"/"+p), access(second.View, h.Cwd+"/"+p)
			if one != two {
				t.Fatalf("%v: %s has access %v, in another order %v", grants, p, one, two)
			}
			for _, g := range grants {
				if g.Path == p && g.Access == policy.GrantDeny && one != exec.Deny {
					t.Fatalf("%v: %s is denied by someone and has access %v", grants, p, one)
				}
			}
		}
	}
}

func TestBuildLeavesNothingInTheUsersTrees(t *testing.T) {
	h := newHost(t)
	git(t, h.Cwd, "init", "-q")
	h.dir("home/u/.pyenv/bin")
	h.Environ = []string{"PATH=" + h.path("home/u/.pyenv/bin") + ":/usr/bin", "HOME=" + h.Home}
	before := listing(t, h.root)
	for _, mount := range []bool{true, false} {
		h.build(policy.Grant{PrivateTmp: true}, HostView{MountView: mount})
	}
	var made []string
	for _, path := range listing(t, h.root) {
		if !slices.Contains(before, path) && !strings.HasPrefix(path, "home/u/.cache") {
			made = append(made, path)
		}
	}
	if len(made) > 0 {
		t.Errorf("Build made %q", made)
	}
}

func listing(t *testing.T, dir string) []string {
	t.Helper()
	var paths []string
	root := os.DirFS(dir)
	var walk func(string)
	walk = func(p string) {
		f, err := root.Open(p)
		if err != nil {
			return
		}
		defer f.Close()
		if d, ok := f.(interface {
			ReadDir(int) ([]os.DirEntry, error)
		}); ok {
			entries, _ := d.ReadDir(-1)
			for _, e := range entries {
				name := strings.TrimPrefix(p+"/"+e.Name(), "./")
				paths = append(paths, name)
				if e.IsDir() {
					walk(name)
				}
			}
		}
	}
	walk(".")
	return paths
}
