package exec

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"sandboxd/test/require"
)

func TestHostIsProbedOnceAndNeverBelievedBlindly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	first := LoadHost(dir)
	if first.LandlockABI == 0 {
		require.Missing(t, require.Landlock, "none here")
	}
	path := filepath.Join(dir, "host-"+hostKey())
	mark := first
	mark.LandlockErrata = 4242 // only a cached answer has it
	plant := func(mode os.FileMode) {
		os.Remove(path)
		if err := os.WriteFile(path, mark.encode(), mode); err != nil {
			t.Fatal(err)
		}
	}
	plant(0o600)
	if got := LoadHost(dir); got.LandlockErrata != 4242 || got.landlock.ABI != first.LandlockABI {
		t.Errorf("a good answer was not used: %+v", got)
	}
	for name, spoil := range map[string]func(){
		"readable by others": func() { plant(0o644) },
		"writable by others": func() { plant(0o602); os.Chmod(path, 0o602) },
		"a link":             func() { plant(0o600); os.Rename(path, path+".x"); os.Symlink(path+".x", path) },
		"cut short":          func() { plant(0o600); os.Truncate(path, 40) },
		"empty":              func() { plant(0o600); os.Truncate(path, 0) },
	} {
		spoil()
		if got := LoadHost(dir); got.LandlockErrata == 4242 {
			t.Errorf("%s: believed", name)
		}
		os.Remove(path)
	}
}

func TestHostSweepKeepsTheNewest(t *testing.T) {
	dir := t.TempDir()
	for i := range keptHosts + 10 {
		name := filepath.Join(dir, fmt.Sprintf("host-%03d.json", i))
		os.WriteFile(name, nil, 0o600)
		at := time.Now().Add(time.Duration(i) * time.Minute)
		os.Chtimes(name, at, at)
	}
	sweepHosts(dir, "host-000.json")
	left, _ := filepath.Glob(filepath.Join(dir, "host-*"))
	if len(left) != keptHosts || filepath.Base(left[0]) != "host-000.json" || filepath.Base(left[1]) != "host-011.json" {
		t.Errorf("%d left, from %v", len(left), left[:2])
	}
}
