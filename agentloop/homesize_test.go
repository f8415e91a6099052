package agentloop

import (
	"os"
	"strings"
	"testing"
	"time"
)

func TestHomeAboveItsCapIsTold(t *testing.T) {
	dir := t.TempDir() + "/home"
	if err := os.MkdirAll(dir+"/.cache/a", 0o755); err != nil {
		t.Fatal(err)
	}
	fill := func(name string, mib int) {
		t.Helper()
		if err := os.WriteFile(dir+"/.cache/a/"+name, make([]byte, mib<<20), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	outside := t.TempDir()
	if err := os.WriteFile(outside+"/big", make([]byte, 8<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, dir+"/link"); err != nil {
		t.Fatal(err)
	}
	watch := func() homeWatch { w := watchHome(dir); w.cap = 4 << 20; return w }
	filled := func() homeWatch { w := watch(); w.free += 2 * homeGrowth; return w } // as if the disk had filled

	fill("one", 3)
	if got := watch().over(); got != "" {
		t.Errorf("3 MiB of 4, and a link to more: %q", got)
	}
	fill("two", 3)
	if got := watch().over(); got != "" {
		t.Errorf("measured a moment ago, and the disk did not fill: %q", got)
	}
	if got := filled().over(); !strings.Contains(got, "holds 6 MiB, above its cap of 4 MiB") || !strings.Contains(got, dir) {
		t.Errorf("6 MiB of 4: %q", got)
	}
	old := time.Now().Add(-2 * homeAge)
	if err := os.Chtimes(dir+".measured", old, old); err != nil {
		t.Fatal(err)
	}
	if got := watch().over(); !strings.Contains(got, "holds 6 MiB") {
		t.Errorf("measured two days ago: %q", got)
	}
	if got := (homeWatch{cap: 1}).over(); got != "" {
		t.Errorf("no home on disk: %q", got)
	}
	if _, all := sizeOfTree(dir, time.Now().Add(-time.Second)); !all {
		t.Error("a home of five entries reaches no bound")
	}
	for i := range 300 {
		fill(itoa(i), 0)
	}
	if bytes, all := sizeOfTree(dir, time.Now().Add(-time.Second)); all || bytes == 0 {
		t.Errorf("past its time: %d bytes, all %v", bytes, all)
	}
}
