package tools

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"sandboxd/agentloop"
	"sandboxd/policy"
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
	requests := []request{
		{Path: file, Real: []string{file}, Read: &readRequest{From: 1, Count: 10}},
		{Path: tree + "/f", Real: []string{dir + "/tree/f"}, Read: &readRequest{From: 1, Count: 10}},
		{Path: file, Real: []string{file}, Grep: &grepRequest{Pattern: "h", Mode: grepContent, Head: 10}},
		{Path: tree, Real: []string{dir + "/tree"}, Grep: &grepRequest{Pattern: "h", Mode: grepContent, Head: 10}},
		{Path: tree, Real: []string{dir + "/tree"}, List: &listRequest{}},
		{Path: file, Real: []string{file}, Write: &writeRequest{Content: &content, Seen: seen(honest)}},
		{Path: tree + "/f", Real: []string{dir + "/tree/f"}, Write: &writeRequest{Edits: []edit{{Old: "honest", New: "honest"}}, Seen: seen(honest)}},
		{Path: tree + "/new", Real: []string{dir + "/tree/new"}, Write: &writeRequest{Content: &content}},
	}
	var mu sync.Mutex
	done, refused := 0, map[string]int{}
	var workers sync.WaitGroup
	for worker := range 2 {
		workers.Go(func() {
			for i := range 1000 {
				a := answer{}
				if err := handle(requests[(i+worker)%len(requests)], &a); err != nil {
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

func seen(content string) *agentloop.FileStamp {
	return stampOf(&unix.Stat_t{}, []byte(content))
}

// TestSwappedPathsStayInTheSandbox does the same through the whole chain: links to
// what the policy denies, and to what no sandbox shows.
func TestSwappedPathsStayInTheSandbox(t *testing.T) {
	w := newWorld(t, denying("read_file(./denied.txt)", "file_edit(./denied.txt)", "file_write(./denied.txt)"))
	w.file("denied.txt", hush)
	w.file("flipped", honest)
	s := w.session()
	defer flip(t, w.path("flipped"), "", w.path("denied.txt"), "", "/etc/shadow", "").end()
	calls := []struct {
		tool string
		args policy.Args
	}{
		{"read_file", policy.Args{"file_path": "flipped"}},
		{"grep_files", policy.Args{"pattern": "h|:", "path": "flipped", "output_mode": "content"}},
		{"file_edit", policy.Args{"file_path": "flipped", "old_string": "h", "new_string": "H", "replace_all": true}},
		{"run_bash", policy.Args{"command": "cat flipped"}},
	}
	ok := map[string]int{}
	for i := range 240 {
		c := calls[i%len(calls)]
		res := w.in(s, c.tool, c.args)
		if strings.Contains(res.Output, "hush") || strings.Contains(res.Output, "root:") {
			t.Errorf("%s escaped: %q", c.tool, res.Output)
		}
		if res.Status == agentloop.StatusOK {
			ok[c.tool]++
		}
	}
	if got := w.content("denied.txt"); got != hush {
		t.Errorf("the denied file was changed: %q", got)
	}
	t.Logf("done: %v of 60 each", ok)
	for _, c := range calls[:2] {
		if ok[c.tool] == 0 {
			t.Errorf("honest use of %s does not go on", c.tool)
		}
	}
}
