package files

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"sandboxd/test/require"
)

// TestKillAtAnyPointTearsNoFile kills helpers that replace a file at each system
// call that could change something: whoever looks sees the whole old content or the
// whole new one.
func TestKillAtAnyPointTearsNoFile(t *testing.T) {
	strace, err := osexec.LookPath("strace")
	if err != nil {
		require.Missing(t, require.Program, "strace")
	}
	dir := t.TempDir()
	name := filepath.Join(dir, "f.txt")
	contents := [2]string{strings.Repeat("old line of the file\n", 8000), strings.Repeat("new, shorter\n", 8000)}
	before, after := 0, 0
	for _, call := range []string{"openat", "write", "pwrite64", "ftruncate", "fsync", "fchmod", "linkat", "renameat", "unlinkat", "flock"} {
		for _, now := range []int{0, 1} { // shorter, and longer
			for nth := 1; nth <= 60; nth++ {
				if err := os.WriteFile(name, []byte(contents[now]), 0o644); err != nil {
					t.Fatal(err)
				}
				next := contents[1-now]
				killed := killedAt(t, strace, call, nth, name, contents[now], next)
				switch got := readAll(t, name); got {
				case next:
					after++
				case contents[now]:
					before++
					if !killed {
						t.Fatalf("%s %d: not killed, and nothing was changed", call, nth)
					}
				default:
					t.Fatalf("killed at %s %d: torn, %d bytes that are neither of the contents", call, nth, len(got))
				}
				wholeOrGone(t, dir, name, contents)
				if !killed {
					break // the helper makes fewer of these calls
				}
			}
		}
	}
	t.Logf("%d times the old content, %d times the new one", before, after)
	if before == 0 || after == 0 {
		t.Error("the kills fell on one side only")
	}
}

// killedAt runs a helper that gets SIGKILL at its nth call of a name.
func killedAt(t *testing.T, strace, call string, nth int, name, old, next string) bool {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(name, &st); err != nil {
		t.Fatal(err)
	}
	q, err := json.Marshal(Request{Version: ProtocolVersion, Path: name, Write: &WriteRequest{Content: &next, Seen: stampOf(&st, []byte(old))}})
	if err != nil {
		t.Fatal(err)
	}
	c := osexec.Command(strace, "-f", "-qq", "-o", "/dev/null", "-e", "trace="+call, "-e", fmt.Sprintf("inject=%s:signal=SIGKILL:when=%d", call, nth), os.Args[0], Arg)
	c.Stdin = bytes.NewReader(q)
	out, err := c.CombinedOutput()
	if err == nil && !strings.Contains(string(out), `"stamp"`) {
		t.Fatalf("%s %d: %s", call, nth, out)
	}
	return err != nil
}

func readAll(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// wholeOrGone looks for what a kill left: between the two names of the new file it
// is the first one, whole.
func wholeOrGone(t *testing.T, dir, name string, contents [2]string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if path == name {
			continue
		}
		if got := readAll(t, path); got != contents[0] && got != contents[1] {
			t.Fatalf("left behind, and not whole: %s", path)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}
