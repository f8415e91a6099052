package exec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"sandboxd/test/require"
)

const (
	cgroupChildVar = "SANDBOXD_TEST_CGROUP_CHILD"
	ordinaryUser   = 1000
)

// cgroupReport is what TestCgroupChild, run as another user, found.
type cgroupReport struct {
	Host           cgroupHost
	Forks          string // output of too many forks under a limit of 5
	PeakTasks      int
	Events         int
	Create, Remove string // errors
	Inside         []string
}

// TestCgroupChild is the body of the tests below in a process of its own.
func TestCgroupChild(t *testing.T) {
	if os.Getenv(cgroupChildVar) == "" {
		require.Asked(t, "runs as a child of the tests below")
	}
	var r cgroupReport
	h, err := probeCgroup()
	r.Host = h
	if err != nil {
		r.Create = err.Error()
	} else if c, _, _, err := h.create("child", Limits{Tasks: 5}); err != nil {
		r.Create = err.Error()
	} else {
		for _, d := range c.dirs {
			r.Inside = append(r.Inside, d.Path)
		}
		out, _ := inside(c, `i=0; while [ $i -lt 20 ]; do sleep 9 >/dev/null 2>&1 & i=$((i+1)); done`).CombinedOutput()
		r.Forks = string(out)
		_, r.PeakTasks, _, r.Events, _ = c.stats()
		if err := errors.Join(c.kill(), c.remove()); err != nil {
			r.Remove = err.Error()
		}
	}
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("\nREPORT %s\n", b)
}

// asOrdinaryUser runs TestCgroupChild as uid 1000, moved into the given groups.
func asOrdinaryUser(t *testing.T, groups []string) cgroupReport {
	t.Helper()
	require.Root(t, "to become another user")
	self, err := os.Open("/proc/self/exe") // go test builds where only root can go
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	files := []*os.File{self}
	var join strings.Builder
	for i, g := range groups {
		f, err := os.OpenFile(filepath.Join(g, "cgroup.procs"), os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files = append(files, f)
		fmt.Fprintf(&join, "echo 0 >&%d && ", 4+i)
	}
	cmd := exec.Command("sh", "-c", join.String()+"exec /proc/self/fd/3 -test.run='^TestCgroupChild$' -test.v")
	cmd.ExtraFiles, cmd.Dir = files, "/"
	cmd.Env = []string{cgroupChildVar + "=1", "SANDBOXD_TEST_PRIVATE=1", "PATH=/usr/bin:/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinaryUser, Gid: ordinaryUser}}
	out, err := cmd.CombinedOutput()
	_, after, ok := bytes.Cut(out, []byte("\nREPORT "))
	line, _, _ := bytes.Cut(after, []byte("\n"))
	var r cgroupReport
	if err != nil || !ok || json.Unmarshal(line, &r) != nil {
		t.Fatalf("child: %v\n%s", err, out)
	}
	return r
}

func TestCgroupOrdinaryUserHasNoneAndTheReason(t *testing.T) {
	realCgroups(t)
	r := asOrdinaryUser(t, nil)
	if r.Host.Kind != cgroupNone || len(r.Host.Parents) > 0 || r.Create == "" {
		t.Errorf("host %+v, create %q; want none", r.Host, r.Create)
	}
	if !slices.ContainsFunc(r.Host.Evidence, func(s string) bool { return strings.Contains(s, "permission denied") }) {
		t.Errorf("evidence %q does not say why", r.Host.Evidence)
	}
}

func TestCgroupOrdinaryUserUsesADelegatedTree(t *testing.T) {
	h := realCgroups(t)
	needController(t, h, "pids")
	var groups []string
	for _, p := range h.Parents {
		dir := filepath.Join(p.Path, fmt.Sprintf("delegated-%d", os.Getpid()))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := (&cgroup{dirs: []cgroupParent{{Path: dir}}}).remove(); err != nil {
				t.Error(err)
			}
		})
		if err := errors.Join(os.Chown(dir, ordinaryUser, ordinaryUser),
			os.Chown(filepath.Join(dir, "cgroup.procs"), ordinaryUser, ordinaryUser)); err != nil {
			t.Fatal(err)
		}
		groups = append(groups, dir)
	}
	r := asOrdinaryUser(t, groups)
	if r.Host.Kind != h.Kind || r.Create != "" || r.Remove != "" {
		t.Fatalf("kind %s, evidence %q, create %q, remove %q; want kind %s", r.Host.Kind, r.Host.Evidence, r.Create, r.Remove, h.Kind)
	}
	if !strings.Contains(strings.ToLower(r.Forks), "fork") || r.Events < 1 || r.PeakTasks != 5 && r.PeakTasks != 0 {
		t.Errorf("20 forks under a limit of 5: %q, peak %d, events %d", r.Forks, r.PeakTasks, r.Events)
	}
	for i, dir := range r.Inside {
		if !strings.HasPrefix(dir, groups[i]+"/") {
			t.Errorf("group %s is not in the delegated %s", dir, groups[i])
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s is still there", dir)
		}
	}
}
