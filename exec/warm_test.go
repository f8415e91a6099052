package exec

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sandboxd/exec/child"
	"sandboxd/test/require"
)

// Runs on keepers that waited do as runs on fresh ones: they report the same and see
// what was made meanwhile.
func TestWarmRunsAreAsColdOnes(t *testing.T) {
	each(t, func(t *testing.T, s Spec, work string) {
		cold, warm := NewRunner(host), NewRunner(host)
		warm.Warm = 2
		defer warm.Close()
		want, err := cold.Run(t.Context(), sh(s, "exit 3"))
		if err != nil {
			t.Fatal(err)
		}
		for i := range 6 {
			waiting := waitForKeepers(warm, i > 0)
			if i > 0 && waiting == nil {
				t.Fatalf("run %d: no keeper waits", i)
			}
			name := filepath.Join(work, strconv.Itoa(i))
			if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := warm.Run(t.Context(), sh(s, "test -e "+name+" && (sleep 60.4 &) && exit 3"))
			if err != nil || got.ExitCode != 3 {
				t.Fatalf("run %d: %v, exit code %d", i, err, got.ExitCode)
			}
			if jsonOf(t, got.Enforced) != jsonOf(t, want.Enforced) {
				t.Errorf("run %d: enforced %s\nwant %s", i, jsonOf(t, got.Enforced), jsonOf(t, want.Enforced))
			}
			if waiting != nil && waiting == waitForKeepers(warm, true) {
				t.Errorf("run %d left the keeper alone that waited", i)
			}
		}
	})
}

// What was mounted while a keeper waited is in the view of its run.
func TestWarmRunSeesLaterMounts(t *testing.T) {
	require.Root(t, "mounting")
	if !host.MountView {
		require.Missing(t, require.UserNS, "no mount view")
	}
	work := t.TempDir()
	s := spec(TierFull, work)
	r := NewRunner(host)
	r.Warm = 1
	defer r.Close()
	if _, err := r.Run(t.Context(), sh(s, "true")); err != nil {
		t.Fatal(err)
	}
	if waitForKeepers(r, true) == nil {
		t.Fatal("no keeper waits")
	}
	mounted := filepath.Join(work, "mounted")
	if err := os.Mkdir(mounted, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", mounted, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(mounted, unix.MNT_DETACH)
	if err := os.WriteFile(filepath.Join(mounted, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if res, err := r.Run(t.Context(), sh(s, "test -e mounted/file")); err != nil || res.ExitCode != 0 {
		t.Errorf("%v, exit code %d: the mount is not in view", err, res.ExitCode)
	}
}

// waitForKeepers waits until one is ready, and returns the one that the next run
// takes.
func waitForKeepers(r *Runner, want bool) *child.Process {
	for end := time.Now().Add(5 * time.Second); want && time.Now().Before(end); time.Sleep(time.Millisecond) {
		r.warm.mu.Lock()
		var next *child.Process
		for _, list := range r.warm.ready {
			if len(list) > 0 {
				next = list[len(list)-1]
			}
		}
		r.warm.mu.Unlock()
		if next != nil {
			return next
		}
	}
	return nil
}

// A keeper that was killed while it waited costs the next run nothing.
func TestKilledWarmKeeperIsReplaced(t *testing.T) {
	each(t, func(t *testing.T, s Spec, work string) {
		r := NewRunner(host)
		r.Warm = 1
		defer r.Close()
		for i := range 3 {
			res, err := r.Run(t.Context(), sh(s, "exit 4"))
			if err != nil || res.ExitCode != 4 {
				t.Fatalf("run %d: %v, exit code %d", i, err, res.ExitCode)
			}
			waitForKeepers(r, true)
			r.warm.mu.Lock()
			for _, list := range r.warm.ready {
				for _, p := range list {
					if err := p.Kill(); err != nil {
						t.Error(err)
					}
				}
			}
			r.warm.mu.Unlock()
			time.Sleep(20 * time.Millisecond) // for the kill to be over
		}
	})
}

// A nursery that was killed is replaced, and no run notices.
func TestKilledNurseryIsReplaced(t *testing.T) {
	each(t, func(t *testing.T, s Spec, work string) {
		r := NewRunner(host)
		r.Warm = 1
		defer r.Close()
		for i := range 3 {
			res, err := r.Run(t.Context(), sh(s, "exit 4"))
			if err != nil || res.ExitCode != 4 {
				t.Fatalf("run %d: %v, exit code %d", i, err, res.ExitCode)
			}
			r.warm.makers.Wait()
			n := r.warm.source()
			if n == nil {
				t.Fatalf("run %d: no nursery", i)
			}
			if err := n.Kill(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(20 * time.Millisecond) // for the kill to be over
		}
	})
}

// No more than Warm wait, and none is left after Close.
func TestWarmKeepersAreBounded(t *testing.T) {
	each(t, func(t *testing.T, s Spec, work string) {
		r := NewRunner(host)
		r.Warm = 2
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if _, err := r.Run(t.Context(), sh(s, "true")); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		r.warm.makers.Wait()
		for ns, list := range r.warm.ready {
			if len(list) > 2 {
				t.Errorf("namespaces %x: %d keepers wait", ns, len(list))
			}
		}
		r.Close()
		r.warm.take(0, 1)
		r.warm.makers.Wait()
		if len(r.warm.ready) > 0 {
			t.Errorf("after Close: %v", r.warm.ready)
		}
	})
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
