package exec

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"sandboxd/test/require"
)

func TestCgroupPlaces(t *testing.T) {
	for _, tt := range []struct {
		name, own, mounts string
		want              []cgroupPlace
	}{
		{
			"v2 under systemd",
			"0::/user.slice/user-1000.slice/session-2.scope\n",
			"24 1 0:22 / /sys rw - sysfs sysfs rw\n" +
				"30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n",
			[]cgroupPlace{{V2: true, Mount: "/sys/fs/cgroup", Dir: "/sys/fs/cgroup/user.slice/user-1000.slice/session-2.scope"}},
		},
		{
			"v1 and an empty v2, some not mounted",
			"9:name=systemd:/\n4:memory:/a/b\n2:cpu,cpuacct:/\n1:pids:/\n0::/\n",
			"35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n" +
				"36 31 0:33 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n" +
				"41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
			[]cgroupPlace{
				{Controllers: []string{"memory"}, Mount: "/sys/fs/cgroup/memory", Dir: "/sys/fs/cgroup/memory/a/b"},
				{Controllers: []string{"cpu", "cpuacct"}, Mount: "/sys/fs/cgroup/cpu,cpuacct", Dir: "/sys/fs/cgroup/cpu,cpuacct"},
				{V2: true, Mount: "/sys/fs/cgroup/unified", Dir: "/sys/fs/cgroup/unified"},
			},
		},
		{
			"a container that sees the host's names",
			"1:pids:/docker/abc\n",
			"35 31 0:32 /docker/abc /sys/fs/cgroup/pids ro - cgroup cgroup rw,pids\n",
			[]cgroupPlace{{Controllers: []string{"pids"}, Mount: "/sys/fs/cgroup/pids", Dir: "/sys/fs/cgroup/pids"}},
		},
		{
			"another part of the tree is mounted",
			"1:pids:/docker/abcdef\n",
			"35 31 0:32 /docker/abc /sys/fs/cgroup/pids ro - cgroup cgroup rw,pids\n",
			[]cgroupPlace{{Controllers: []string{"pids"}, Problem: "own group /docker/abcdef is not in the mounted part /docker/abc"}},
		},
		{
			"mounted from outside the cgroup namespace, then again inside",
			"0::/\n",
			"35 31 0:32 /../.. /host/cgroup rw - cgroup2 cgroup2 rw\n" +
				"36 31 0:32 / /sys/fs/a\\040b rw - cgroup2 cgroup2 rw\n",
			[]cgroupPlace{{V2: true, Mount: "/sys/fs/a b", Dir: "/sys/fs/a b"}},
		},
		{"nothing mounted", "0::/\n", "24 1 0:22 / /sys rw - sysfs sysfs rw\n", nil},
		{
			"colons in a name", "0::/a:b\n", "30 24 0:26 / /c rw - cgroup2 cgroup2 rw\n",
			[]cgroupPlace{{V2: true, Mount: "/c", Dir: "/c/a:b"}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			own, mounts := filepath.Join(dir, "cgroup"), filepath.Join(dir, "mountinfo")
			for path, text := range map[string]string{own: tt.own, mounts: tt.mounts} {
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := cgroupPlaces(own, mounts)
			if err != nil || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got  %+v, %v\nwant %+v", got, err, tt.want)
			}
		})
	}
}

func TestCgroupRunStaysBelowAnAdministratorsLimit(t *testing.T) {
	for _, tt := range []struct {
		file, text string
		want       bool
	}{
		{"memory.max", "max\n", false},
		{"memory.max", "1073741824\n", true},
		{"memory.high", "1000\n", true},
		{"cpu.max", "max 100000\n", false},
		{"cpu.max", "50000 100000\n", true},
		{"pids.max", "10\n", false},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, tt.file), []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := boundsMemoryOrCPU(dir); got != tt.want {
			t.Errorf("%s = %q: %v, want %v", tt.file, tt.text, got, tt.want)
		}
	}
}

// In v2 a group with processes hands nothing on, so the search goes up. It is
// tried with hugetlb, which stays with the unified tree where the others are v1.
func TestCgroupSearchesUpwardForControllers(t *testing.T) {
	realCgroups(t)
	p := unifiedPlace(t)
	control := filepath.Join(p.Dir, "cgroup.subtree_control")
	before, err := os.ReadFile(control)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(control, []byte("+hugetlb"), 0); err != nil {
		require.Missing(t, require.Host, "hugetlb can not be handed on: ", err)
	}
	if !strings.Contains(string(before), "hugetlb") {
		defer os.WriteFile(control, []byte("-hugetlb"), 0)
	}
	leaf := filepath.Join(p.Dir, "leaf-of-test")
	if err := os.Mkdir(leaf, 0o755); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(leaf)
	below := p
	below.Dir = leaf
	for _, tt := range []struct {
		uses []string
		want cgroupParent
	}{
		{[]string{"pids", "hugetlb"}, cgroupParent{Path: p.Dir, V2: true, Controllers: []string{"hugetlb"}}},
		{[]string{"no such"}, cgroupParent{Path: leaf, V2: true}}, // nothing is gained by going up
	} {
		got, err := below.probe(tt.uses)
		if err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("search for %v from %s: %+v, %v; want %+v", tt.uses, leaf, got, err, tt.want)
		}
	}
}

func unifiedPlace(t *testing.T) cgroupPlace {
	t.Helper()
	places, err := cgroupPlaces("/proc/self/cgroup", "/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range places {
		if p.V2 && p.Problem == "" {
			return p
		}
	}
	require.Missing(t, require.Cgroup, "no v2 tree here")
	return cgroupPlace{}
}
