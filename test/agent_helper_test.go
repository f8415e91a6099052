package test

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The daemon has the work of its file tools done by the sbx beside it, which starts
// faster. The process is seen while it waits for the lock of the file.
func TestFileToolsAreDoneByTheLighterProgram(t *testing.T) {
	d := startDaemon(t, os.Getuid())
	session := d.chat(`
steps:
  - calls: [{tool: read_file, args: {file_path: held.txt}}]
  - calls: [{tool: file_edit, args: {file_path: held.txt, old_string: one, new_string: two}}]
  - say: done
`, nil)
	name := d.file(d.Work+"/held.txt", "one\n")
	f, err := os.Open(name)
	d.must(err)
	defer f.Close()
	d.must(unix.Flock(int(f.Fd()), unix.LOCK_EX))
	d.object("POST", session+"/messages", `{"text":"go"}`, 202)
	var seen []string
	d.until("the helper waits", func() bool {
		for _, p := range processesWith("sandboxd-file-helper") {
			if strings.Contains(p, d.program("")) {
				seen = append(seen, p)
			}
		}
		return len(seen) > 0
	})
	d.must(unix.Flock(int(f.Fd()), unix.LOCK_UN))
	if o := d.said(session); d.content(name) != "two\n" {
		t.Errorf("held.txt holds %q: %v", d.content(name), o)
	}
	if !strings.Contains(seen[0], d.program("sbx")+" ") {
		t.Errorf("done by %s, want sbx", seen[0])
	}
}
