package agentloop

import (
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sandboxd/exec"
	"sandboxd/policy"
)

func TestHomeIsPrivateAndMountedAtItsName(t *testing.T) {
	h := newHost(t)
	h.file("home/u/.ssh/id_rsa", "s", 0o600)
	s, r := h.build(policy.Grant{}, HostView{MountView: true})
	e, ok := entryAt(s.View, h.Home)
	if !ok || e.Access != exec.ReadWrite || !within(e.Source, h.CacheDir+"/homes") {
		t.Fatalf("entry of the home: %+v", e)
	}
	if envOf(s, "HOME") != h.Home || r.HomeSource != e.Source {
		t.Errorf("HOME=%s, source %s", envOf(s, "HOME"), r.HomeSource)
	}
	if info, err := os.Stat(e.Source); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("private home: %v, %v", info.Mode(), err)
	}
	s, _ = h.build(policy.Grant{}, HostView{})
	if home := envOf(s, "HOME"); home != e.Source || access(s.View, home) != exec.ReadWrite {
		t.Errorf("without mounts HOME=%s with access %v, want %s", home, access(s.View, home), e.Source)
	}
	if got := access(s.View, h.path("home/u/.ssh/id_rsa")); got != exec.Deny {
		t.Errorf("the real home has access %v", got)
	}
}

func TestHomesOfTwoWorkspacesDiffer(t *testing.T) {
	h := newHost(t)
	_, one := h.build(policy.Grant{}, HostView{})
	h.Cwd = h.dir("home/u/w2")
	_, two := h.build(policy.Grant{}, HostView{})
	if one.HomeSource == two.HomeSource {
		t.Errorf("both workspaces share %s", one.HomeSource)
	}
	text, err := os.ReadFile(two.HomeSource + ".workspace")
	if err != nil || string(text) != h.Cwd+"\n" {
		t.Errorf("note beside the home: %q, %v", text, err)
	}
}

func TestGrantsBelowTheHomeKeepTheirNames(t *testing.T) {
	h := newHost(t)
	h.file("home/u/lib/x", "hello", 0o644)
	h.file("home/u/.toolrc", "rc", 0o644)
	h.file("home/u/.ssh/id_rsa", "s", 0o600)
	h.link("lib", "home/u/alias")
	g := policy.Grant{Paths: []policy.PathGrant{cli("~/alias", policy.GrantRead), cli("~/.toolrc", policy.GrantRead), cli("~/.ssh", policy.GrantDeny)}}
	for range 2 { // the second start finds what the first one made
		s, r := h.build(g, HostView{MountView: true})
		for _, rel := range []string{"lib", ".toolrc", ".ssh", "w"} {
			info, err := os.Lstat(r.HomeSource + "/" + rel)
			if err != nil || info.IsDir() != (rel != ".toolrc") {
				t.Errorf("mount point %s: %v, %v", rel, info, err)
			}
		}
		if target, err := os.Readlink(r.HomeSource + "/alias"); err != nil || target != "lib" {
			t.Errorf("the name of a link: %q, %v", target, err)
		}
		if e, ok := entryAt(s.View, h.path("home/u/.ssh")); !ok || e.Access != exec.Deny {
			t.Errorf("a denied path in the home has entry %v", e)
		}
	}
	// Without mounts the same names lead to the real places.
	_, r := h.build(g, HostView{})
	for rel, want := range map[string]string{"lib": "lib", "alias": "lib", ".toolrc": ".toolrc", ".ssh": ".ssh", "w": "w"} {
		got, err := filepath.EvalSymlinks(r.HomeSource + "/" + rel)
		if err != nil || got != h.path("home/u/"+want) {
			t.Errorf("%s in the private home leads to %q, %v", rel, got, err)
		}
	}
	// And back again.
	_, r = h.build(g, HostView{MountView: true})
	if info, err := os.Lstat(r.HomeSource + "/lib"); err != nil || !info.IsDir() {
		t.Errorf("after a run without mounts lib is %v, %v; want a mount point", info, err)
	}
}

// An earlier command owned the private home: links it left must not make us
// write outside of it.
func TestPlantedLinksInThePrivateHomeLeadNowhere(t *testing.T) {
	h := newHost(t)
	h.file("home/u/.gitconfig", "[user]\n\tname = A\n", 0o644)
	h.file("home/u/lib/sub/x", "", 0o644)
	_, r := h.build(policy.Grant{}, HostView{MountView: true})
	victim := h.dir("victim")
	h.file("victim/config", "old", 0o644)
	for _, rel := range []string{".config", "lib"} {
		if err := os.RemoveAll(r.HomeSource + "/" + rel); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(victim, r.HomeSource+"/"+rel); err != nil {
			t.Fatal(err)
		}
	}
	h.build(policy.Grant{Paths: []policy.PathGrant{cli("~/lib/sub", policy.GrantRead)}}, HostView{MountView: true})
	entries, err := os.ReadDir(victim)
	if err != nil || len(entries) != 1 {
		t.Errorf("the victim's directory now holds %v, %v", entries, err)
	}
	if err := os.RemoveAll(r.HomeSource + "/.config"); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(r.HomeSource+"/.config/git", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(victim+"/config", r.HomeSource+"/.config/git/config"); err != nil {
		t.Fatal(err)
	}
	h.build(policy.Grant{}, HostView{MountView: true})
	if text, _ := os.ReadFile(victim + "/config"); string(text) != "old" {
		t.Errorf("the victim's file now holds %q", text)
	}
}

func TestHomeOfOddCallers(t *testing.T) {
	for _, tt := range []struct {
		name string
		home func(h *fakeHost) string
		at   func(h *fakeHost, s exec.Spec) bool
	}{
		{"missing", func(*fakeHost) string { return "" }, privatePlace},
		{"root directory", func(*fakeHost) string { return "/" }, privatePlace},
		{"the workspace", func(h *fakeHost) string { return h.path("home/u/w") }, privatePlace},
		{"a system directory", func(*fakeHost) string { return "/usr/sbin" }, privatePlace},
		{"not existing", func(*fakeHost) string { return "/nonexistent" }, func(_ *fakeHost, s exec.Spec) bool { return envOf(s, "HOME") == "/nonexistent" }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHost(t)
			h.Home = tt.home(h)
			g := policy.Grant{}
			if tt.name == "the workspace" {
				g.Workspace = h.Cwd
			}
			s, _ := h.build(g, HostView{MountView: true})
			if !tt.at(h, s) {
				t.Errorf("HOME=%s", envOf(s, "HOME"))
			}
			if got := access(s.View, h.Cwd+"/x"); got != exec.ReadWrite {
				t.Errorf("the workspace has access %v", got)
			}
		})
	}
}

func privatePlace(h *fakeHost, s exec.Spec) bool {
	home := envOf(s, "HOME")
	return within(home, h.CacheDir+"/homes") && access(s.View, home) == exec.ReadWrite
}

func TestNoPrivateDirectoryIsReported(t *testing.T) {
	h := newHost(t)
	h.CacheDir = ""
	s, r := h.build(policy.Grant{PrivateTmp: true}, HostView{MountView: true})
	if e, ok := entryAt(s.View, h.Home); !ok || e.Kind != exec.Tmpfs || len(r.Gaps) == 0 {
		t.Errorf("home %+v, gaps %v; want a memory file system that is reported", e, r.Gaps)
	}
	s, r = h.build(policy.Grant{PrivateTmp: true}, HostView{})
	if envOf(s, "HOME") != "" || envOf(s, "TMPDIR") != "" || len(r.Gaps) < 2 {
		t.Errorf("HOME=%q TMPDIR=%q, gaps %v; want neither, and both reported", envOf(s, "HOME"), envOf(s, "TMPDIR"), r.Gaps)
	}
}

func TestGitIdentityTravelsAsGlobalSettings(t *testing.T) {
	h := newHost(t)
	h.file("home/u/.config/git/config", "[user]\n\tname = Early\n\temail = early@example.org\n", 0o644)
	h.file("home/u/.gitconfig", "[USER]\n  Name = \"A \\\"B\\\" C\" ; comment\n[credential]\n\thelper = store --file ~/.ssh/x\n[alias]\n\tx = !evil\n[user \"sub\"]\n\temail = wrong@example.org\n", 0o644)
	git(t, h.Cwd, "init", "-q")
	_, r := h.build(policy.Grant{}, HostView{MountView: true})
	ask := func(key string) string {
		cmd := osexec.Command("git", "config", key)
		cmd.Dir = h.Cwd
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + r.HomeSource, "GIT_CONFIG_NOSYSTEM=1"}
		out, _ := cmd.Output()
		return strings.TrimSuffix(string(out), "\n")
	}
	if got, want := ask("user.name"), `A "B" C`; got != want {
		t.Errorf("git says user.name is %q, want %q", got, want)
	}
	if got := ask("user.email"); got != "early@example.org" {
		t.Errorf("git says user.email is %q", got)
	}
	if ask("credential.helper") != "" || ask("alias.x") != "" {
		t.Error("helpers or aliases travelled along")
	}
	// The repository's own identity counts before the caller's.
	git(t, h.Cwd, "config", "user.name", "Local")
	if got := ask("user.name"); got != "Local" {
		t.Errorf("git says user.name is %q, want the repository's own", got)
	}
}

// git is the second judge of our reading of its files.
func TestGitConfigValuesAgreeWithGit(t *testing.T) {
	h := newHost(t)
	for i, text := range []string{
		"[user]\nname=Plain\n", "[user]\n\tname = two words  \n", "[user]\n\tname = \"  kept  \"\n", "[user] name = inline\n",
		"[user]\n\tname = a # comment\n", "[user]\n\tname = \"a # b\"\n", "[user]\n\tname = one \\\n two\n", "[user]\n\tname = tab\\tx\n",
		"[User]\nNAME = Case\n", "[user]\nname = first\n[core]\nx=1\n[user]\nname = last\n", "# [user]\n; name = x\n[user]\nname = \"q\\\\uote\"\n",
		"[user \"x\"]\nname = no\n", "[user]\nname = a;b\n", "[user]\nname = \"half\" and half\n",
	} {
		file := h.file("config", text, 0o644)
		cmd := osexec.Command("git", "config", "--file", file, "user.name")
		out, _ := cmd.Output()
		want := strings.TrimSuffix(string(out), "\n")
		if got := gitConfigValues(text, "user.name")["user.name"]; got != want {
			t.Errorf("case %d %q: %q, git says %q", i, text, got, want)
		}
	}
}

func FuzzGitConfigValues(f *testing.F) {
	f.Add("[user]\nname = x\n")
	f.Add("[user]\nname = \"\\")
	f.Fuzz(func(t *testing.T, text string) {
		name := gitConfigValues(text, "user.name")["user.name"]
		written := gitIdentity{name: name}.file(nil)
		if strings.Contains(name, "\x00") || strings.Contains(name, "\r") {
			return
		}
		if got := gitConfigValues(written, "user.name")["user.name"]; got != name {
			t.Errorf("%q became %q through %q", name, got, written)
		}
	})
}

func TestRootInAnothersWorkspaceRunsAsTheOwner(t *testing.T) {
	needRoot(t)
	h := newHost(t)
	for _, uid := range []int{1000, 4242} { // with and without a passwd entry
		if err := os.Chown(h.Cwd, uid, uid); err != nil {
			t.Fatal(err)
		}
		s, r := h.build(policy.Grant{PrivateTmp: true}, HostView{})
		if s.User == nil || s.User.UID != uid || s.User.GID != uid || r.UserNote == "" {
			t.Fatalf("user %+v, note %q; want uid %d", s.User, r.UserNote, uid)
		}
		// Judged by the kernel: that user can use both directories, others cannot.
		for _, dir := range []string{r.HomeSource, envOf(s, "TMPDIR")} {
			if err := asUser(uid, "sh", "-c", "cd "+dir+" && touch x && rm x"); err != nil {
				t.Errorf("uid %d cannot use %s: %v", uid, dir, err)
			}
			if err := asUser(1001, "ls", dir); err == nil {
				t.Errorf("uid 1001 can list %s", dir)
			}
		}
		if err := asUser(uid, "cat", r.HomeSource+"/.config/git/config"); err != nil {
			t.Errorf("uid %d cannot read its git settings: %v", uid, err)
		}
		dropSharedHome(t, r)
	}
	s, r := h.build(policy.Grant{User: "caller"}, HostView{})
	if s.User != nil || r.UserNote != "" {
		t.Errorf("user caller: %+v, %q", s.User, r.UserNote)
	}
	s, r = h.build(policy.Grant{User: "1000:50"}, HostView{})
	defer dropSharedHome(t, r)
	if s.User == nil || s.User.UID != 1000 || s.User.GID != 50 {
		t.Errorf("user 1000:50: %+v", s.User)
	}
	for _, bad := range []string{"root", "-1", "1:", "4294967295", "1:4294967295", "0x10"} {
		if _, _, err := Build(policy.Grant{User: bad}, h.Caller, HostView{}, []string{"true"}); err == nil {
			t.Errorf("user %q was accepted", bad)
		}
	}
	h.UID, h.GID = 1001, 1001
	if _, err := chooseIdentity("1000", h.Caller, node{}); err == nil {
		t.Error("an ordinary user may become another")
	}
}

// dropSharedHome removes the home of a test that ran as another user: these lie
// beside those of real runs.
func dropSharedHome(t *testing.T, r Report) {
	t.Helper()
	if filepath.Dir(r.HomeSource) != sharedBase+"/homes" {
		return
	}
	if err := os.RemoveAll(r.HomeSource); err != nil {
		t.Error(err)
	}
	if err := os.Remove(r.HomeSource + ".workspace"); err != nil {
		t.Error(err)
	}
}

func asUser(uid int, name string, args ...string) error {
	return osexec.Command("setpriv", append([]string{"--reuid", itoa(uid), "--regid", itoa(uid), "--clear-groups", name}, args...)...).Run()
}
