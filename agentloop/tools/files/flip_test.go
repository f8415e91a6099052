package files

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// flipper makes a name lead to one target after the other until it is stopped: a
// file with honest content for "", else a link.
type flipper struct {
	stop chan struct{}
	done sync.WaitGroup
}

const (
	honest = "honest content\n"
	hush   = "hush hush"
)

func flip(t *testing.T, name string, targets ...string) *flipper {
	t.Helper()
	f := &flipper{stop: make(chan struct{})}
	f.done.Go(func() {
		next := name + ".next"
		for i := 0; ; i++ {
			select {
			case <-f.stop:
				return
			default:
			}
			_ = os.Remove(next)
			var err error
			if target := targets[i%len(targets)]; target == "" {
				err = os.WriteFile(next, []byte(honest), 0o644)
			} else {
				err = os.Symlink(target, next)
			}
			if err == nil {
				err = os.Rename(next, name)
			}
			if err != nil {
				t.Errorf("flip: %v", err)
				return
			}
		}
	})
	return f
}

func (f *flipper) end() {
	close(f.stop)
	f.done.Wait()
}

// TestHelperGoesOnlyWhereItWasDecided swaps a file for links during 2,000 requests
// that no sandbox holds: what leads elsewhere the helper refuses itself.
func TestHelperGoesOnlyWhereItWasDecided(t *testing.T) {
	dir := t.TempDir()
	put := func(name, content string) string {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		return p
	}
	secret := put("private/secret", hush)
	put("tree/f", honest)
	put("private/f", hush)
	file, tree := filepath.Join(dir, "flipped"), filepath.Join(dir, "way")
	put("flipped", honest)
	if err := os.Symlink("tree", tree); err != nil {
		t.Fatal(err)
	}
	defer flip(t, file, "", secret, "").end()
	defer flip(t, tree, "tree", "private", "tree").end()
	content := "written\n"
	requests := []Request{
		{Path: file, Real: []string{file}, Read: &ReadRequest{From: 1, Count: 10}},
		{Path: tree + "/f", Real: []string{dir + "/tree/f"}, Read: &ReadRequest{From: 1, Count: 10}},
		{Path: file, Real: []string{file}, Grep: &GrepRequest{Pattern: "h", Mode: GrepContent, Head: 10}},
		{Path: tree, Real: []string{dir + "/tree"}, Grep: &GrepRequest{Pattern: "h", Mode: GrepContent, Head: 10}},
		{Path: tree, Real: []string{dir + "/tree"}, List: &ListRequest{}},
		{Path: file, Real: []string{file}, Write: &WriteRequest{Content: &content, Seen: seen(honest)}},
		{Path: tree + "/f", Real: []string{dir + "/tree/f"}, Write: &WriteRequest{Edits: []Edit{{Old: "honest", New: "honest"}}, Seen: seen(honest)}},
		{Path: tree + "/new", Real: []string{dir + "/tree/new"}, Write: &WriteRequest{Content: &content}},
	}
	var mu sync.Mutex
	done, refused := 0, map[string]int{}
	var workers sync.WaitGroup
	for worker := range 2 {
		workers.Go(func() {
			for i := range 1000 {
				a := Answer{}
				if err := handle(requests[(i+worker)%len(requests)], &a, nil); err != nil {
					a.Error = err.Error()
				}
				_ = os.Remove(dir + "/tree/new")
				if text, _ := json.Marshal(a); strings.Contains(string(text), "hush") || strings.Contains(string(text), "secret") {
					t.Errorf("escaped: %s", text)
				}
				mu.Lock()
				if a.Error == "" {
					done++
				} else {
					_, why, _ := strings.Cut(a.Error, " ")
					refused[why]++
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	for _, name := range []string{"private/secret", "private/f"} {
		if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != hush {
			t.Errorf("%s was changed: %q, %v", name, b, err)
		}
	}
	if _, err := os.Lstat(dir + "/private/new"); err == nil {
		t.Error("a file was made elsewhere")
	}
	t.Logf("%d of 2000 done, the others refused: %v", done, refused)
	if done < 200 || refused["leads elsewhere now than when the call was decided: nothing was done; try again"] == 0 {
		t.Error("honest use does not go on, or nothing was swapped in time")
	}
}

func seen(content string) *Stamp {
	return stampOf(&unix.Stat_t{}, []byte(content))
}
