package exec

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"
)

// One Runner of a daemon starts many runs: its descriptors, its goroutines and
// its children stay as many as they were, and so do mounts and control groups.
func TestManyRunsOfOneRunnerGrowNothing(t *testing.T) {
	runs := 150
	if n, err := strconv.Atoi(os.Getenv("SANDBOXD_TEST_RUNS")); err == nil {
		runs = n
	}
	each(t, func(t *testing.T, s Spec, work string) {
		r := NewRunner(host)
		r.CacheDir = t.TempDir()
		outside := t.TempDir()
		once := func() {
			res, err := r.Run(t.Context(), sh(s, "echo out; echo x >"+outside+"/new; echo x >file"))
			if err != nil || res.ExitCode != 0 || string(res.Stdout.Text) != "out\n" {
				t.Fatalf("%+v %v", res, err)
			}
			if _, err := os.Stat(outside + "/new"); err == nil {
				t.Fatal("it wrote outside")
			}
		}
		for range 3 { // fills pools and caches
			once()
		}
		before := inventory(t, r)
		for range runs {
			once()
		}
		var after map[string]int
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			grown := false
			after = inventory(t, r)
			for what, n := range after {
				grown = grown || n > before[what]
			}
			if !grown || time.Now().After(end) {
				break
			}
		}
		for what, n := range after {
			if n > before[what] {
				t.Errorf("%s: %d after %d runs, %d before", what, n, runs, before[what])
			}
		}
	})
}

// inventory counts what a run could leave behind.
func inventory(t *testing.T, r *Runner) map[string]int {
	t.Helper()
	count := func(pattern string) int {
		list, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	groups := 0
	for _, p := range r.host.Cgroups.Parents {
		groups += count(p.Path + "/" + cgroupPrefix + strconv.FormatUint(uint64(pidNamespace()), 10) + "-*")
	}
	return map[string]int{
		"descriptors": count("/proc/self/fd/*"), "goroutines": runtime.NumGoroutine(),
		"processes": count("/proc/[0-9]*"), "mounts": bytes.Count(mounts, []byte{'\n'}),
		"control groups": groups, "cached files": count(r.CacheDir + "/*"),
	}
}
