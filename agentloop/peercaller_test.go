package agentloop

import (
	"os"
	"path/filepath"
	"testing"

	"sandboxd/test/require"
)

// What a client names is made and resolved with its rights, not the daemon's.
func TestClientCallerHasTheClientsRights(t *testing.T) {
	require.Root(t, "to play a daemon that serves others")
	closed := t.TempDir() // of root, 0700 after the next line
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc", closed+"/link"); err != nil {
		t.Fatal(err)
	}
	c, warnings, err := ClientCaller(1000, 1000, nil, closed+"/link", []string{"HOME=" + closed, "XDG_STATE_HOME=" + closed + "/state"})
	if err != nil {
		t.Fatal(err)
	}
	if c.Cwd != closed+"/link" {
		t.Errorf("Cwd = %q: a link was followed that uid 1000 cannot read", c.Cwd)
	}
	left, err := os.ReadDir(closed)
	if err != nil || len(left) != 1 {
		t.Errorf("%s holds %v (%v), want only the link: something was made with root's rights", closed, left, err)
	}
	if c.StateDir != "" && filepath.Dir(c.StateDir) == closed || len(warnings) == 0 {
		t.Errorf("StateDir = %q, warnings %q, want another place and a warning", c.StateDir, warnings)
	}
	open := t.TempDir()
	if err := os.Chmod(filepath.Dir(open), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(open, 1000, 1000); err != nil {
		t.Fatal(err)
	}
	if c, warnings, err = ClientCaller(1000, 1000, nil, open, []string{"HOME=" + open}); err != nil || len(warnings) > 0 {
		t.Fatalf("honest use: %v %q", err, warnings)
	}
	if want := open + "/.local/state/sandboxd"; c.StateDir != want {
		t.Errorf("StateDir = %q, want %q", c.StateDir, want)
	}
	if _, _, err := ClientCaller(1000, 1000, nil, "relative", nil); err == nil {
		t.Error("a relative directory is accepted")
	}
}
