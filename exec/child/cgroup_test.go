package child

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sandboxd/test/require"
)

// unified is where a v2 hierarchy can be mounted: alone, or beside v1.
func unified(t *testing.T) string {
	for _, dir := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		if _, err := os.Stat(filepath.Join(dir, "cgroup.controllers")); err == nil {
			group := filepath.Join(dir, "sandboxd-child-test")
			if err := os.Mkdir(group, 0o755); err != nil && !os.IsExist(err) {
				require.Missing(t, require.Cgroup, "no group can be made: ", err)
			}
			t.Cleanup(func() { os.Remove(group) })
			return group
		}
	}
	require.Missing(t, require.Cgroup, "no v2 hierarchy")
	return ""
}

// The command is in its group from its first instruction, and the group is empty
// afterwards; the keeper stays outside.
func TestCommandIsBornInItsControlGroup(t *testing.T) {
	group := unified(t)
	procs, err := os.OpenFile(filepath.Join(group, "cgroup.procs"), os.O_WRONLY, 0)
	if err != nil {
		require.Missing(t, require.Cgroup, "the group cannot be joined: ", err)
	}
	defer procs.Close()
	dir, err := os.Open(group)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	for name, withDir := range map[string]bool{"by clone": true, "by writing": false} {
		got, _, err := shell(t, "grep ^0:: /proc/$$/cgroup; cat /proc/$PPID/cgroup | grep ^0::", 0, base, func(c *Command) {
			c.CGroups = []int{int(procs.Fd())}
			if withDir {
				c.CGroupDir = int(dir.Fd())
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(got.output), "\n")
		if len(lines) != 2 || !strings.HasSuffix(lines[0], "/sandboxd-child-test") || strings.HasSuffix(lines[1], "/sandboxd-child-test") {
			t.Errorf("%s: command and keeper are in %q", name, lines)
		}
	}
}
