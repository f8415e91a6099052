package tools

import (
	"fmt"
	"os"
	osexec "os/exec"
	"strings"
	"testing"

	"sandboxd/agentloop"
	"sandboxd/agentloop/tools/files"
	"sandboxd/policy"
)

// BenchmarkFiles compares a call of a file tool, with its decision and its confined
// process, with the same work done plainly, and with the helper alone.
func BenchmarkFiles(b *testing.B) {
	w := newWorld(b, nil)
	w.file("code.go", strings.Repeat("func line() {} // of an ordinary file\n", 400))
	read := policy.Args{"file_path": "code.go"}
	run := func(name string, f func() error) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := f(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	call := func(tool string, args policy.Args) error {
		if res := w.call(tool, args); res.Status != agentloop.StatusOK {
			return fmt.Errorf("%s: %s", tool, res.Error)
		}
		return nil
	}
	run("read/plain", func() error { _, err := os.ReadFile(w.path("code.go")); return err })
	run("read/helper alone", func() error {
		c := osexec.Command(os.Args[0], files.Arg)
		c.Stdin = strings.NewReader(fmt.Sprintf(`{"version":%d,"path":%q,"read":{"from":1,"count":2000}}`, files.ProtocolVersion, w.path("code.go")))
		return c.Run()
	})
	run("read/run_bash cat", func() error { return call("run_bash", policy.Args{"command": "cat code.go"}) })
	run("read/read_file", func() error { return call("read_file", read) })
	n := 0
	run("edit/plain", func() error {
		n++
		return os.WriteFile(w.path("plain.txt"), []byte(fmt.Sprintf("edit %d\n", n)), 0o644)
	})
	w.file("edited.txt", "edit 0\n")
	w.read("edited.txt")
	n = 0
	run("edit/file_edit", func() error {
		n++
		return call("file_edit", policy.Args{"file_path": "edited.txt", "old_string": fmt.Sprintf("edit %d\n", n-1), "new_string": fmt.Sprintf("edit %d\n", n)})
	})
}

// BenchmarkGrep searches 10,000 files of 2 KiB for a word that is in a hundred.
func BenchmarkGrep(b *testing.B) {
	w := newWorld(b, nil)
	for i := range 10_000 {
		text := strings.Repeat("some ordinary text of a line\n", 70)
		if i%100 == 0 {
			text += "the needle\n"
		}
		w.file(fmt.Sprintf("tree/%02d/%04d.txt", i%50, i), text)
	}
	b.Run("plain grep -r", func(b *testing.B) {
		for b.Loop() {
			if out, err := osexec.Command("grep", "-rlE", "needle", w.path("tree")).Output(); err != nil || strings.Count(string(out), "\n") != 100 {
				b.Fatal(err)
			}
		}
	})
	for _, tool := range []struct {
		name string
		args policy.Args
	}{
		{"run_bash", policy.Args{"command": "grep -rlE needle tree"}},
		{"grep_files", policy.Args{"pattern": "needle", "path": "tree"}},
		{"glob_files", policy.Args{"pattern": "tree/**/*0.txt"}},
	} {
		b.Run(tool.name, func(b *testing.B) {
			for b.Loop() {
				if res := w.call(tool.name, tool.args); res.Status != agentloop.StatusOK || strings.Count(res.Output, "\n") < 100 {
					b.Fatal(res.Error, res.Output)
				}
			}
		})
	}
}
