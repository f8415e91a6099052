package exec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sandboxd/test/require"
)

// realCgroups probes this host, as root on a machine that has groups.
func realCgroups(t *testing.T) cgroupHost {
	t.Helper()
	h, err := probeCgroup()
	if err != nil {
		t.Fatal(err)
	}
	if h.Kind == cgroupNone {
		require.Missing(t, require.Cgroup, h.Evidence)
	}
	return h
}

func needController(t *testing.T, h cgroupHost, name string) {
	t.Helper()
	if _, err := (&cgroup{dirs: h.Parents}).with(name); err != nil {
		require.Missing(t, require.Cgroup, err)
	}
}

func newCgroup(t *testing.T, h cgroupHost, l Limits) *cgroup {
	t.Helper()
	c, _, gaps, err := h.create("t"+strings.ReplaceAll(fmt.Sprint(time.Now().UnixNano()), "-", ""), l)
	if err != nil || len(gaps) > 0 {
		t.Fatalf("create: gaps %+v, %v", gaps, err)
	}
	t.Cleanup(func() {
		if err := errors.Join(c.kill(), c.remove()); err != nil {
			t.Error(err)
		}
		for _, d := range c.dirs {
			if _, err := os.Stat(d.Path); err == nil {
				t.Errorf("%s is still there", d.Path)
			}
		}
	})
	return c
}

// inside is a shell that joins c and then runs script, as the runner's child
// does: it writes "0" into each descriptor from 3 on.
func inside(c *cgroup, script string) *exec.Cmd {
	var join strings.Builder
	files := c.joinFDs()
	for i := range files {
		fmt.Fprintf(&join, "echo 0 >&%d && exec %d>&- && ", 3+i, 3+i)
	}
	cmd := exec.Command("sh", "-c", join.String()+"{ "+script+"\n}")
	cmd.ExtraFiles = files
	return cmd
}

func runInside(t *testing.T, c *cgroup, script string) (string, error) {
	t.Helper()
	cmd := inside(c, script)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

func TestCgroupTaskLimitStopsForks(t *testing.T) {
	h := realCgroups(t)
	needController(t, h, "pids")
	const limit = 10
	c := newCgroup(t, h, Limits{Tasks: limit})
	out, err := runInside(t, c, `i=0; while [ $i -lt 50 ]; do sleep 30 >/dev/null 2>&1 & i=$((i+1)); done`)
	if err == nil || !strings.Contains(strings.ToLower(out), "fork") {
		t.Errorf("50 forks under a limit of %d: %v, %q; want a failing fork", limit, err, out)
	}
	_, peak, _, events, _ := c.stats()
	if peak != limit && peak != 0 || events < 1 {
		t.Errorf("peak %d, events %d; want %d and some", peak, events, limit)
	}
	if err := exec.Command("true").Run(); err != nil {
		t.Errorf("a process outside: %v", err)
	}
	// The neighbour: as many tasks as are allowed.
	n := newCgroup(t, h, Limits{Tasks: limit})
	if out, err := runInside(t, n, `i=1; while [ $i -lt 10 ]; do sleep 0.1 & i=$((i+1)); done; wait`); err != nil {
		t.Errorf("%d tasks under a limit of %d: %v, %s", limit, limit, err, out)
	}
	if _, peak, _, events, _ := n.stats(); peak != limit && peak != 0 || events != 0 {
		t.Errorf("neighbour: peak %d, events %d; want %d and none", peak, events, limit)
	}
}

func TestCgroupMemoryLimitEndsAHog(t *testing.T) {
	h := realCgroups(t)
	needController(t, h, "memory")
	const limit = 32 << 20
	// tail keeps all of a line in memory.
	hog := func(bytes int) string {
		return fmt.Sprintf("head -c %d /dev/zero | tail -n 1 >/dev/null; exit $?", bytes)
	}
	c := newCgroup(t, h, Limits{Memory: limit})
	_, err := runInside(t, c, hog(8*limit))
	exit, ok := errors.AsType[*exec.ExitError](err)
	// v1 kills the task; v2's oom.group the shell along with it.
	killed := ok && (exit.ExitCode() == 137 || exit.Sys().(syscall.WaitStatus).Signal() == unix.SIGKILL)
	if !killed {
		t.Errorf("a hog of %d under a limit of %d: %v; want killed", 8*limit, limit, err)
	}
	peak, _, kills, _, _ := c.stats()
	if peak < limit/2 || peak > limit || kills < 1 {
		t.Errorf("peak %d, kills %d; want about %d and some", peak, kills, limit)
	}

	n := newCgroup(t, h, Limits{Memory: limit})
	if out, err := runInside(t, n, hog(limit/4)); err != nil {
		t.Errorf("a neighbour inside the limit: %v, %s", err, out)
	}
	if peak, _, kills, _, _ := n.stats(); peak < limit/4 || kills != 0 {
		t.Errorf("neighbour: peak %d, kills %d; want %d and none", peak, kills, limit/4)
	}
}

func TestCgroupCountsCPUOfTheWholeTree(t *testing.T) {
	h := realCgroups(t)
	c := newCgroup(t, h, Limits{CPU: time.Second})
	// Two generations; the parents do not wait, so no rusage would have it.
	burn := `(sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done' & )`
	if out, err := runInside(t, c, burn); err != nil {
		t.Fatal(err, out)
	}
	waitFor(t, "the tree to end", func() bool {
		for _, d := range c.dirs {
			if pids, err := d.pids(); err != nil || len(pids) > 0 {
				return false
			}
		}
		return true
	})
	if _, _, _, _, cpu := c.stats(); cpu < 10*time.Millisecond || cpu > time.Minute {
		t.Errorf("cpu = %v, want some tenths of a second", cpu)
	}
}

func mustStart(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited 10 s for %s", what)
		}
	}
}

func TestCgroupPartsAndGaps(t *testing.T) {
	h := realCgroups(t)
	for _, tt := range []struct {
		name   string
		limits Limits
		drop   string // controller that is not there
		parts  []string
		gaps   []string
	}{
		{"defaults", Limits{}, "", []string{"tasks"}, nil},
		{"nothing", Limits{Tasks: Unlimited, Memory: Unlimited, CPU: Unlimited}, "", nil, nil},
		{"all", Limits{Tasks: 5, Memory: 1 << 26, CPU: time.Second}, "", []string{"tasks", "memory", "cpu"}, nil},
		{"no pids", Limits{Memory: 1 << 26}, "pids", []string{"memory"}, []string{"tasks"}},
		{"no memory", Limits{Memory: 1 << 26}, "memory", []string{"tasks"}, []string{"memory"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			host := cgroupHost{}
			for _, p := range h.Parents {
				if len(p.Controllers) != 1 || p.Controllers[0] != tt.drop {
					host.Parents = append(host.Parents, p)
				}
			}
			c, parts, gaps, err := host.create("parts", tt.limits)
			if err != nil {
				t.Fatal(err)
			}
			defer c.remove()
			var gotParts, gotGaps []string
			for _, p := range parts {
				gotParts = append(gotParts, p.Part)
			}
			for _, g := range gaps {
				gotGaps = append(gotGaps, g.Part)
			}
			if !reflect.DeepEqual(gotParts, tt.parts) || !reflect.DeepEqual(gotGaps, tt.gaps) {
				t.Errorf("parts %v, gaps %v; want %v, %v", parts, gaps, tt.parts, tt.gaps)
			}
		})
	}
}

func TestCgroupHostIsKeptAsJSON(t *testing.T) {
	h := realCgroups(t)
	b, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	var got cgroupHost
	if err := json.Unmarshal(b, &got); err != nil || !reflect.DeepEqual(got, h) {
		t.Errorf("%s gives %+v, %v", b, got, err)
	}
}
