package agentloop

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestCurrentCallerUsesXDGThenHome(t *testing.T) {
	h := newHost(t)
	c, warnings := CurrentCaller([]string{"HOME=" + h.Home, "XDG_CACHE_HOME=" + h.path("c"), "XDG_STATE_HOME=relative"})
	if len(warnings) > 0 || c.CacheDir != h.path("c/sandboxd") || c.StateDir != h.path("home/u/.local/state/sandboxd") || c.ConfigDir != h.path("home/u/.config/sandboxd") {
		t.Errorf("cache %s, state %s, config %s, warnings %q", c.CacheDir, c.StateDir, c.ConfigDir, warnings)
	}
	for _, dir := range []string{c.CacheDir, c.StateDir} {
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", dir, info, err)
		}
	}
	if _, err := os.Lstat(c.ConfigDir); !os.IsNotExist(err) {
		t.Errorf("the policy directory was made: %v", err)
	}
}

func TestCurrentCallerFallsBackToAPrivateDirectory(t *testing.T) {
	h := newHost(t)
	h.file("file", "", 0o644)
	h.dir("open/sandboxd")
	if err := os.Chmod(h.path("open/sandboxd"), 0o777); err != nil {
		t.Fatal(err)
	}
	for _, environ := range [][]string{
		{"HOME=" + h.path("missing/home")},                        // not ours to make
		{"HOME=" + h.path("file")},                                // not a directory
		{"HOME=" + h.Home, "XDG_CACHE_HOME=" + h.path("open")},    // anyone can write it
		{"HOME=" + h.Home, "XDG_CACHE_HOME=" + h.path("file")},    // below a file
		{"HOME=" + h.Home, "XDG_CACHE_HOME=/proc/self/sandboxd/"}, // not writable for root either
	} {
		c, warnings := CurrentCaller(environ)
		if want := "/tmp/sandboxd-" + itoa(os.Getuid()) + "/cache"; c.CacheDir != want || len(warnings) == 0 {
			t.Errorf("%q: cache %s, warnings %q; want %s and a warning", environ, c.CacheDir, warnings, want)
		}
	}
}

// A place of ours in the workspace refuses the workspace: nothing is made in it
// before. System directories are never filled.
func TestCurrentCallerMakesNothingInTheWorkspace(t *testing.T) {
	h := newHost(t)
	h.file("repo/.git/HEAD", "ref: refs/heads/main\n", 0o644)
	h.dir("repo/sub")
	h.dir("outside")
	h.link(h.path("repo/sub"), "link")
	h.link(h.path("outside"), "repo/out")
	const system = "/usr/sandboxd-test-place"
	for _, tt := range []struct {
		cwd, place, want string
		made, refused    bool
	}{
		{"repo", h.path("repo/state"), h.path("repo/state/sandboxd"), false, true},
		{"repo/sub", h.path("link/x"), h.path("repo/sub/x/sandboxd"), false, true},
		{"outside", h.path("repo/out/x"), h.path("outside/x/sandboxd"), false, true},
		{"repo/sub", h.path("repo/a/b"), h.path("repo/a/b/sandboxd"), false, false}, // the workspace is repo/sub alone
		{"repo", h.path("repo/out/x"), h.path("repo/out/x/sandboxd"), true, false},
		{"repo", system, "/tmp/sandboxd-" + itoa(os.Getuid()) + "/cache", true, false},
	} {
		t.Chdir(h.path(tt.cwd))
		c, _ := CurrentCaller([]string{"HOME=" + h.Home, "XDG_CACHE_HOME=" + tt.place})
		if made := readNode(c.CacheDir).err == nil; c.CacheDir != tt.want || made != tt.made {
			t.Errorf("in %s: the cache is %s, made: %v; want %s, %v", tt.cwd, c.CacheDir, made, tt.want, tt.made)
		}
		if _, err := os.Lstat(tt.place); (!tt.made || tt.place == system) && !os.IsNotExist(err) {
			t.Errorf("%s was made: %v", tt.place, err)
		}
		_, _, err := DetectWorkspace(c.Cwd, "", c)
		if (err != nil) != tt.refused {
			t.Errorf("in %s with the cache %s: the workspace is refused: %v", tt.cwd, tt.place, err)
		}
		os.RemoveAll(h.path("outside/x"))
	}
}

func TestMissingHomeIsNotMade(t *testing.T) {
	h := newHost(t)
	CurrentCaller([]string{"HOME=" + h.path("missing")})
	if _, err := os.Lstat(h.path("missing")); !os.IsNotExist(err) {
		t.Errorf("the home was made: %v", err)
	}
}

func TestOwnDirMustBeOurs(t *testing.T) {
	h := newHost(t)
	h.dir("mine")
	h.dir("writable")
	h.file("file", "", 0o600)
	h.link(h.path("mine"), "link")
	if err := os.Chmod(h.path("writable"), 0o770); err != nil {
		t.Fatal(err)
	}
	if err := makeOwnDir(h.path("mine"), h.UID); err != nil {
		t.Errorf("our own directory: %v", err)
	}
	for _, rel := range []string{"writable", "file", "link"} {
		if err := makeOwnDir(h.path(rel), h.UID); err == nil {
			t.Errorf("%s was accepted as a private directory", rel)
		}
	}
	if err := makeOwnDir(h.path("mine"), h.UID+1); err == nil {
		t.Error("a directory of another user was accepted")
	}
}

func TestAccountsAndGroups(t *testing.T) {
	h := newHost(t)
	passwd := h.file("passwd", "root:x:0:0::/root:/bin/sh\nbroken:x:7\n+nis\nu:x:1000:1000:U,,,:/home/u:/bin/zsh\nodd:x:1001:notanumber::/:/bin/sh\n", 0o644)
	group := h.file("group", "u:x:1000:\nwheel:x:10:root,u\naudio:x:29:uu\nbad:x\nu2:x:1000:u\n", 0o644)
	if a, ok := accountIn(passwd, 1000); !ok || a != (account{name: "u", uid: 1000, gid: 1000, home: "/home/u", shell: "/bin/zsh"}) {
		t.Errorf("account of 1000: %+v, %v", a, ok)
	}
	for _, uid := range []int{7, 1001, 4242} {
		if a, ok := accountIn(passwd, uid); ok {
			t.Errorf("account of %d: %+v", uid, a)
		}
	}
	if got := groupsIn(group, "u", 1000); !slices.Equal(got, []int{1000, 10}) {
		t.Errorf("groups of u: %v", got)
	}
	if got := groupsIn(filepath.Join(h.root, "none"), "u", 5); !slices.Equal(got, []int{5}) {
		t.Errorf("groups without a file: %v", got)
	}
}

func TestNetworkAndSockets(t *testing.T) {
	h := newHost(t)
	h.file("sock", "", 0o600)
	h.Environ = append(h.Environ, "SSH_AUTH_SOCK="+h.path("sock"))
	for _, tt := range []struct {
		network, unix []string
		says          string
	}{
		{network: []string{"none"}}, {network: []string{"full"}}, {unix: []string{"@x"}}, {unix: []string{"ssh-agent"}}, {unix: []string{h.path("sock")}},
		{network: []string{"h.example.org:443"}, says: "not available yet"}, {network: []string{"full", "h:1"}, says: "not available yet"},
		{unix: []string{"no-such"}, says: "no such service"}, {unix: []string{"/gone"}, says: "no such file"},
	} {
		g := grantOf(tt.network, tt.unix)
		s, _, err := Build(g, h.Caller, HostView{MountView: true}, []string{"true"})
		if tt.says != "" {
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%v %v: %v, want %q", tt.network, tt.unix, err, tt.says)
			}
			continue
		}
		if err != nil {
			t.Errorf("%v %v: %v", tt.network, tt.unix, err)
			continue
		}
		if got, want := s.Network == 1, slices.Contains(tt.network, "full"); got != want {
			t.Errorf("%v: network %v", tt.network, s.Network)
		}
		if s.UnixSockets != (len(tt.unix) > 0) || s.AbstractSockets != slices.Contains(tt.unix, "@x") {
			t.Errorf("%v: sockets %v, abstract %v", tt.unix, s.UnixSockets, s.AbstractSockets)
		}
		if slices.Contains(tt.unix, "ssh-agent") && envOf(s, "SSH_AUTH_SOCK") != h.path("sock") {
			t.Error("ssh-agent does not bring its variable")
		}
	}
}
