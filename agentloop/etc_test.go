package agentloop

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sandboxd/exec"
	"sandboxd/policy"
	"sandboxd/test/require"
)

func TestEtcSecretTable(t *testing.T) {
	for _, rel := range []string{"shadow", "shadow-", "shadow.bak", "gshadow", "gshadow-", "passwd.org", "sudoers", "sudoers.d", "ssl/private", "ssh/ssh_host_ed25519_key",
		"letsencrypt", "openvpn", "wireguard", "kubernetes", "rancher", "docker", "NetworkManager/system-connections", "ppp", "cloud", "krb5.keytab", ".git"} {
		if _, secret := isEtcSecret(rel); !secret {
			t.Errorf("%s is not in the table of secrets", rel)
		}
	}
	for _, rel := range []string{"passwd", "passwd-", "group", "hosts", "resolv.conf", "gitconfig", "debian_version", "dpkg", "dpkg/dpkg.cfg.d", "ssl", "ssl/certs",
		"ssl/openssl.cnf", "ssh", "ssh/ssh_config", "ssh/ssh_host_ed25519_key.pub", "alternatives", "ld.so.cache", "nsswitch.conf", "pki", "apt", "npmrc", "pip.conf", "profile.d"} {
		if reason, secret := isEtcSecret(rel); secret {
			t.Errorf("%s is withheld (%s), but ordinary tools read it", rel, reason)
		}
	}
	for _, s := range etcSecrets {
		if s.Reason == "" {
			t.Errorf("%s has no reason", s.Pattern)
		}
		if _, err := filepath.Match(s.Pattern, "x"); err != nil {
			t.Errorf("%s: %v", s.Pattern, err)
		}
	}
}

// fakeEtc is an /etc with secrets by name, by mode, deep down and behind links.
func fakeEtc(h *fakeHost) string {
	h.file("etc/passwd", "x", 0o644)
	h.file("etc/shadow", "x", 0o644) // readable by mode, secret by name
	h.file("etc/odd", "x", 0o600)    // secret by mode
	h.file("etc/ssl/certs/ca.pem", "x", 0o644)
	h.file("etc/ssl/private/k.pem", "x", 0o644)
	h.file("etc/ssl/openssl.cnf", "x", 0o644)
	h.file("etc/app/deep/a.conf", "x", 0o644)
	h.file("etc/app/deep/b.conf", "x", 0o640)
	h.file("etc/app/c.conf", "x", 0o644)
	h.link("app/deep/b.conf", "etc/alias") // a link to a secret opens nothing
	h.file("run/resolved", "x", 0o644)
	h.file("run/token", "x", 0o600)
	h.link("../run/resolved", "etc/resolv.conf")
	h.link("../run/token", "etc/tok")
	return h.path("etc")
}

func TestScanEtcGrantsWhatEveryUserMayRead(t *testing.T) {
	h := newHost(t)
	etc := fakeEtc(h)
	p := scanEtc(etc, nil, true)
	rel := func(paths []string) []string {
		var out []string
		for _, path := range paths {
			r, _ := filepath.Rel(h.root, path)
			out = append(out, r)
		}
		slices.Sort(out)
		return out
	}
	if got, want := rel(p.Deny), []string{"etc/app/deep/b.conf", "etc/odd", "etc/shadow", "etc/ssl/private"}; !slices.Equal(got, want) {
		t.Errorf("denied %q, want %q", got, want)
	}
	if got, want := rel(p.Read), []string{"etc/app/c.conf", "etc/app/deep/a.conf", "etc/passwd", "etc/ssl/certs", "etc/ssl/openssl.cnf"}; !slices.Equal(got, want) {
		t.Errorf("readable one by one %q, want %q", got, want)
	}
	if got, want := rel(p.Outside), []string{"run/resolved"}; !slices.Equal(got, want) {
		t.Errorf("targets outside %q, want %q", got, want)
	}
}

func TestNoSecretOfEtcIsReadableInEitherForm(t *testing.T) {
	h := newHost(t)
	for _, mount := range []bool{true, false} {
		s, _ := h.build(policy.Grant{}, HostView{MountView: mount})
		for _, path := range []string{"/etc/shadow", "/etc/gshadow", "/etc/ssl/private", "/etc/sudoers", "/etc/security/opasswd"} {
			if _, err := os.Lstat(path); err == nil && access(s.View, path) != exec.Deny {
				t.Errorf("mount %v: %s is readable", mount, path)
			}
		}
		for _, path := range []string{"/etc/passwd", "/etc/hosts", "/etc/ssl/certs", "/etc/gitconfig", "/etc/debian_version", "/etc/dpkg", "/etc/ld.so.cache"} {
			if _, err := os.Lstat(path); err == nil && access(s.View, path) != exec.ReadOnly {
				t.Errorf("mount %v: %s is not readable", mount, path)
			}
		}
	}
}

// A grant of the user above the secrets does not open them; naming one does.
func TestWideGrantOfEtcKeepsItsSecrets(t *testing.T) {
	if _, err := os.Lstat("/etc/shadow"); err != nil {
		require.Missing(t, require.Host, "no /etc/shadow here")
	}
	h := newHost(t)
	for _, mount := range []bool{true, false} {
		s, _ := h.build(policy.Grant{Paths: []policy.PathGrant{cli("/etc", policy.GrantRead)}}, HostView{MountView: mount})
		if got := access(s.View, "/etc/shadow"); got != exec.Deny {
			t.Errorf("mount %v: --ro /etc gives access %v to shadow", mount, got)
		}
		if got := access(s.View, "/etc/passwd"); got != exec.ReadOnly {
			t.Errorf("mount %v: --ro /etc gives access %v to passwd", mount, got)
		}
		s, _ = h.build(policy.Grant{Paths: []policy.PathGrant{cli("/etc/shadow", policy.GrantRead)}}, HostView{MountView: mount})
		if got := access(s.View, "/etc/shadow"); got != exec.ReadOnly {
			t.Errorf("mount %v: naming shadow gives access %v", mount, got)
		}
	}
}

// etcPlan asks as a new start would.
func (h *fakeHost) etcPlan(dir, etc string, granted []string, owner bool) etcPlan {
	return planCache{dir: dir, uid: h.UID, r: newResolver(0)}.etc(etc, granted, owner)
}

// age lets a directory's stamps settle, so that a plan may be kept.
func age() { time.Sleep(2 * settle) }

func TestPlanIsKeptUntilADirectoryChanges(t *testing.T) {
	h := newHost(t)
	etc := fakeEtc(h)
	age()
	dir := h.dir("cache")
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	h.etcPlan(dir, etc, nil, true)
	files, _ := filepath.Glob(dir + "/plans/etc-*")
	if len(files) != 1 {
		t.Fatalf("plans kept: %q, want one", files)
	}
	// Seen from outside: the cached answer is used while nothing changes.
	text, _ := os.ReadFile(files[0])
	planted := strings.Replace(string(text), etc+"/passwd", etc+"/PASSWD", 1)
	if err := os.WriteFile(files[0], []byte(planted), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := h.etcPlan(dir, etc, nil, true); !slices.Contains(got.Read, etc+"/PASSWD") {
		t.Error("an unchanged tree was scanned again")
	}
	h.file("etc/app/new.secret", "x", 0o600)
	got := h.etcPlan(dir, etc, nil, true)
	if !slices.Contains(got.Deny, etc+"/app/new.secret") {
		t.Errorf("a new unreadable file in a directory of the first level is not denied: %q", got.Deny)
	}
	h.file("etc/top", "x", 0o600)
	if got := h.etcPlan(dir, etc, nil, false); !slices.Contains(got.Deny, etc+"/top") {
		t.Errorf("a new unreadable file at the top is not denied: %q", got.Deny)
	}
}

func TestPlanOfSomeoneElseIsIgnored(t *testing.T) {
	h := newHost(t)
	etc := fakeEtc(h)
	dir := h.dir("cache")
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	plant := func(t *testing.T, spoil func(file string)) {
		age()
		h.etcPlan(dir, etc, nil, true)
		files, _ := filepath.Glob(dir + "/plans/etc-*")
		if len(files) != 1 {
			t.Fatalf("plans kept: %q", files)
		}
		text, _ := os.ReadFile(files[0])
		evil := strings.ReplaceAll(string(text), "deny\x00"+etc+"/shadow", "read\x00"+etc+"/shadow")
		if err := os.WriteFile(files[0], []byte(evil), 0o600); err != nil {
			t.Fatal(err)
		}
		spoil(files[0])
		if got := h.etcPlan(dir, etc, nil, true); slices.Contains(got.Read, etc+"/shadow") {
			t.Error("a plan that another user could have written was believed")
		}
		os.Remove(files[0])
	}
	t.Run("readable by others", func(t *testing.T) { plant(t, func(f string) { os.Chmod(f, 0o622) }) })
	t.Run("a link", func(t *testing.T) {
		plant(t, func(f string) { os.Rename(f, h.path("elsewhere")); os.Symlink(h.path("elsewhere"), f) })
	})
	t.Run("of another uid", func(t *testing.T) {
		needRoot(t)
		plant(t, func(f string) { os.Chown(f, 1000, 1000) })
	})
	t.Run("cut short", func(t *testing.T) { plant(t, func(f string) { cut(t, f) }) })
	t.Run("too old", func(t *testing.T) {
		age()
		h.etcPlan(dir, etc, nil, true)
		files, _ := filepath.Glob(dir + "/plans/etc-????????????*")
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				continue
			}
			_, key, _ := strings.Cut(strings.SplitN(string(text), recordEnd, 2)[0], "plan\x00")
			if _, ok := parsePlan(newResolver(0), string(text), key, time.Now()); !ok {
				t.Fatal("the fresh plan does not parse")
			}
			if _, ok := parsePlan(newResolver(0), string(text), key, time.Now().Add(planAge+time.Minute)); ok {
				t.Error("an old plan was believed")
			}
		}
	})
}

func cut(t *testing.T, file string) {
	var st unix.Stat_t
	if err := unix.Stat(file, &st); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, st.Size-5); err != nil {
		t.Fatal(err)
	}
}

func FuzzParsePlan(f *testing.F) {
	f.Add("1\x000\x00plan\x00k\x00\nend\x00\n", "k")
	f.Add("1\x009999999999\x00plan\x00k\x00\nwatch\x00/etc\x00-\x00\nread\x00/a\x00\x00\nend\x00\n", "k")
	f.Fuzz(func(t *testing.T, text, key string) {
		p, ok := parsePlan(newResolver(0), text, key, time.Unix(0, 0))
		if ok && !strings.HasSuffix(text, "end"+recordEnd) {
			t.Errorf("a plan without an end was believed: %v", p)
		}
	})
}
