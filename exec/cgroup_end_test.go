package exec

import (
	"fmt"

	"golang.org/x/sys/unix"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"sandboxd/test/require"
)

func TestCgroupKillEndsTheWholeTree(t *testing.T) {
	h := realCgroups(t)
	kinds := map[string]cgroupHost{string(h.Kind): h}
	if v1 := onlyV1(h); len(v1.Parents) > 0 && h.Kind == cgroupHybrid {
		kinds["v1 alone"] = v1
	}
	for name, h := range kinds {
		t.Run(name, func(t *testing.T) {
			c := newCgroup(t, h, Limits{})
			neighbour := newCgroup(t, h, Limits{})
			other := inside(neighbour, "sleep 300")
			mustStart(t, other)
			cmd := inside(c, `trap '' TERM HUP INT; setsid sleep 301 & (setsid sh -c 'sleep 302 & kill -STOP $$' &) ; while :; do sleep 0.01 & done`)
			mustStart(t, cmd)
			waitFor(t, "a tree", func() bool {
				pids, _ := c.dirs[0].pids()
				return len(pids) > 5
			})
			if err := c.kill(); err != nil {
				t.Fatal(err)
			}
			for _, d := range c.dirs {
				if pids, err := d.pids(); err != nil || len(pids) > 0 {
					t.Errorf("%s: tasks %v, %v", d.Path, pids, err)
				}
			}
			if pids, err := neighbour.dirs[0].pids(); err != nil || len(pids) == 0 {
				t.Errorf("the neighbour has tasks %v, %v", pids, err)
			}
		})
	}
}

func onlyV1(h cgroupHost) cgroupHost {
	v1 := cgroupHost{Kind: cgroupV1}
	for _, p := range h.Parents {
		if !p.V2 {
			v1.Parents = append(v1.Parents, p)
		}
	}
	return v1
}

// A pid that is in a list but no longer in the group must not be hit.
func TestCgroupKillsMembersOnly(t *testing.T) {
	cmd := exec.Command("sleep", "0.2")
	mustStart(t, cmd)
	killMember(cmd.Process.Pid, "sandboxd-1-2-3-x")
	if err := cmd.Wait(); err != nil {
		t.Errorf("a process outside the group: %v", err)
	}
}

func TestCgroupCreateLeavesNothingWhenItFails(t *testing.T) {
	h := realCgroups(t)
	broken := cgroupHost{Parents: append(h.Parents[:len(h.Parents):len(h.Parents)], cgroupParent{Path: "/proc/no such"})}
	if c, _, _, err := broken.create("fails", Limits{}); err == nil {
		c.remove()
		t.Fatal("no error")
	}
	name, err := cgroupName("fails")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range h.Parents {
		if _, err := os.Stat(filepath.Join(p.Path, name)); err == nil {
			t.Errorf("%s/%s is there", p.Path, name)
		}
	}
	for _, id := range []string{"", "a/b", "..", "a-b", "x\n"} {
		if c, _, _, err := h.create(id, Limits{}); err == nil {
			c.remove()
			t.Errorf("id %q is taken", id)
		}
	}
}

func TestCgroupSweepTakesTheDeadOnly(t *testing.T) {
	h := realCgroups(t)
	live := newCgroup(t, h, Limits{})
	start, err := startTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	dead := exec.Command("true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	ns := pidNamespace()
	group := func(namespace uint64, pid int, start uint64, id string) *cgroup {
		c := &cgroup{name: fmt.Sprintf("sandboxd-%d-%d-%d-%s", namespace, pid, start, id)}
		for _, p := range h.Parents {
			p.Path = filepath.Join(p.Path, c.name)
			if err := os.Mkdir(p.Path, 0o755); err != nil {
				t.Fatal(err)
			}
			f, err := os.OpenFile(filepath.Join(p.Path, "cgroup.procs"), os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			c.dirs, c.procs = append(c.dirs, p), append(c.procs, f)
		}
		t.Cleanup(func() { c.kill(); c.remove() })
		return c
	}
	there := func(c *cgroup) bool {
		for _, d := range c.dirs {
			if _, err := os.Stat(d.Path); err == nil {
				return true
			}
		}
		return false
	}
	ended := group(ns, dead.Process.Pid, start, "ended")
	partial := group(ns, dead.Process.Pid, start, "partial")
	partial.dirs = partial.dirs[len(partial.dirs)-1:] // as a run with few limits
	for _, p := range h.Parents[:len(h.Parents)-1] {
		if err := os.Remove(filepath.Join(p.Path, partial.name)); err != nil {
			t.Fatal(err)
		}
	}
	reused := group(ns, os.Getpid(), start-1, "reused")
	busy := group(ns, dead.Process.Pid, start+1, "busy")
	foreign := group(ns+1, dead.Process.Pid, start, "foreign")
	old := group(ns+1, dead.Process.Pid, start, "old")
	oldBusy := group(ns+1, dead.Process.Pid, start, "oldbusy")
	// Before it looks old: another sbx on this machine may sweep at any moment.
	runs := inside(oldBusy, "sleep 300")
	mustStart(t, runs)
	waitFor(t, "a task", func() bool { p, _ := oldBusy.dirs[len(oldBusy.dirs)-1].pids(); return len(p) > 0 })
	for _, c := range []*cgroup{old, oldBusy} {
		for _, d := range c.dirs {
			if err := os.Chtimes(d.Path, time.Time{}, time.Now().Add(-2*foreignAge)); err != nil {
				t.Fatal(err)
			}
		}
	}
	left := inside(busy, "sleep 20")
	mustStart(t, left)
	waitFor(t, "a task", func() bool { p, _ := busy.dirs[0].pids(); return len(p) > 0 })

	h.sweep()
	for _, tt := range []struct {
		name string
		c    *cgroup
		want bool
	}{
		{"of a live owner", live, true},
		{"of a dead owner", ended, false},
		{"of a dead owner, in one hierarchy", partial, false},
		{"of an owner whose pid was taken over", reused, false},
		{"of a dead owner, with tasks", busy, false},
		{"of another pid namespace, young", foreign, true},
		{"of another pid namespace, old and empty", old, false},
		{"of another pid namespace, old, with tasks", oldBusy, true},
	} {
		if got := there(tt.c); got != tt.want {
			t.Errorf("group %s: there %v, want %v", tt.name, got, tt.want)
		}
	}
	if err := left.Wait(); err == nil {
		t.Error("the task of the dead run was not ended")
	}
	if err := unix.Kill(runs.Process.Pid, 0); err != nil {
		t.Errorf("the task of the other pid namespace: %v", err)
	}
}

func TestCgroupProbeLeavesNothing(t *testing.T) {
	h := realCgroups(t)
	start, _ := startTime(os.Getpid())
	old := filepath.Join(h.Parents[len(h.Parents)-1].Path, fmt.Sprintf("sandboxd-%d-%d-%d-probe7", pidNamespace(), os.Getpid(), start-1))
	if err := os.Mkdir(old, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := probeCgroup(); err != nil {
		t.Error(err)
	}
	for _, p := range h.Parents {
		left, err := filepath.Glob(filepath.Join(p.Path, "sandboxd-*-probe*"))
		if err != nil || len(left) > 0 {
			t.Errorf("left: %q, %v", left, err)
		}
	}
}

func BenchmarkCgroupCreateRemove(b *testing.B) {
	h, err := probeCgroup()
	if err != nil || h.Kind == cgroupNone {
		require.Missing(b, require.Cgroup, err, h.Evidence)
	}
	for b.Loop() {
		c, _, _, err := h.create("bench", Limits{Memory: 1 << 30})
		if err != nil {
			b.Fatal(err)
		}
		if err := c.remove(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCgroupSweep(b *testing.B) {
	h, err := probeCgroup()
	if err != nil || h.Kind == cgroupNone {
		require.Missing(b, require.Cgroup, err, h.Evidence)
	}
	for b.Loop() {
		h.sweep()
	}
}
