package settings

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sandboxd/test/require"
)

// A policy file that somebody else could have written is refused, not left out:
// it may hold a deny.
func TestPolicyFileOfOthersIsRefused(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(p place, file string) error
		want   string
	}{
		{"others may write", func(_ place, f string) error { return os.Chmod(f, 0o646) }, "others may write it"},
		{"a group may write", func(_ place, f string) error {
			if err := os.Chown(f, -1, 4242); err != nil {
				return err
			}
			return os.Chmod(f, 0o664)
		}, "group 4242 may write it"},
		{"other owner", func(_ place, f string) error { return os.Chown(f, 4242, -1) }, "belongs to uid 4242"},
		{"a pipe", func(_ place, f string) error { os.Remove(f); return unix.Mkfifo(f, 0o600) }, "not a regular file"},
		{"a directory", func(_ place, f string) error { os.Remove(f); return os.Mkdir(f, 0o700) }, "not a regular file"},
		{"directory of others", func(_ place, f string) error { return os.Chmod(filepath.Dir(f), 0o777) }, "others may write its directory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if strings.Contains(tt.want, "4242") {
				require.Root(t, "only root can give a file away")
			}
			p := newPlace(t)
			p.project("[rules]\ndeny = [\"run_bash(rm *)\"]\n")
			if _, err := Load(p.options()); err != nil {
				t.Fatalf("before: %v", err)
			}
			if err := tt.change(p, filepath.Join(p.work, ProjectFile)); err != nil {
				t.Fatal(err)
			}
			o := p.options()
			o.Owners = []int{os.Geteuid(), 0}
			if _, err := Load(o); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
		})
	}
}

func TestOwnGroupMayWrite(t *testing.T) {
	// umask 002 with a group of one's own, the default of many systems.
	p := newPlace(t)
	p.project("mode = \"plan\"\n")
	if err := os.Chmod(filepath.Join(p.work, ProjectFile), 0o664); err != nil {
		t.Fatal(err)
	}
	if os.Getegid() != os.Geteuid() {
		require.NotHere(t, "this user has no group of the same number")
	}
	if _, err := Load(p.options()); err != nil {
		t.Error(err)
	}
}

func TestLinksAreFollowedForTheUserOnly(t *testing.T) {
	p := newPlace(t)
	target := p.write(filepath.Join(p.home, "dotfiles/policy.toml"), "mode = \"plan\"\n")
	config := filepath.Join(p.home, ".config/sandboxd/policy.toml")
	if err := os.MkdirAll(filepath.Dir(config), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, config); err != nil {
		t.Fatal(err)
	}
	if e := p.load(p.options()); e.Mode.V != "plan" {
		t.Errorf("linked user file: mode %s, want plan", e.Mode.V)
	}
	if err := os.Symlink(target, filepath.Join(p.work, ProjectFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(p.options()); err == nil || !strings.Contains(err.Error(), "symbolic link") {
		t.Errorf("linked project file: %v, want an error", err)
	}
}

func TestTrustStoreIsPrivateAndBoundToContent(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	owners := []int{os.Geteuid(), 0}
	store, err := OpenTrust(dir, owners)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "sandboxd.toml")
	if store.Trusts(file, []byte("a")) {
		t.Error("an empty store trusts a file")
	}
	if err := store.Add(file, []byte("a"), time.Now()); err != nil {
		t.Fatal(err)
	}
	again, err := OpenTrust(dir, owners)
	if err != nil {
		t.Fatal(err)
	}
	if !again.Trusts(file, []byte("a")) || again.Trusts(file, []byte("b")) || again.Trusts(file+"x", []byte("a")) {
		t.Error("trust is not bound to path and content")
	}
	st, err := os.Stat(filepath.Join(dir, "trust.json"))
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", st.Mode(), err)
	}
	if err := store.Add(file, []byte("b"), time.Now()); err != nil {
		t.Fatal(err)
	}
	if store.Trusts(file, []byte("a")) || !store.Trusts(file, []byte("b")) {
		t.Error("the earlier content is still trusted")
	}
	if n, err := store.Revoke(filepath.Dir(file)); n != 1 || err != nil || store.Trusts(file, []byte("b")) {
		t.Errorf("Revoke = %d, %v; still trusted: %v", n, err, store.Trusts(file, []byte("b")))
	}
	if err := store.Add(file, []byte("b"), time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "trust.json"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenTrust(dir, owners); err == nil {
		t.Error("a store that others may write is believed")
	}
}

func TestFindWorkspace(t *testing.T) {
	root := t.TempDir()
	deep := filepath.Join(root, "repo/a/b")
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	if got := FindWorkspace(deep); got != deep {
		t.Errorf("no checkout: %s, want %s", got, deep)
	}
	p := place{t: t}
	p.write(filepath.Join(root, "repo/a", ProjectFile), "")
	if got := FindWorkspace(deep); got != filepath.Join(root, "repo/a") {
		t.Errorf("project file above: %s", got)
	}
	p.write(filepath.Join(root, "repo/.git"), "gitdir: x\n")
	if got := FindWorkspace(deep); got != filepath.Join(root, "repo") {
		t.Errorf("linked worktree: %s", got)
	}
}
