package tools

import (
	"os"
	"strings"
	"sync"
	"testing"

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
