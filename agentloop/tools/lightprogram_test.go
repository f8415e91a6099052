package tools

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sandboxd/agentloop"
	"sandboxd/policy"
	"sandboxd/test/require"
)

// A lighter program of the same build plays the helper; one that is not as safe as
// the program that runs, or that is another, does nothing, and the call is done all
// the same.
func TestLighterProgramPlaysTheHelper(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	same, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	script := func(text string) []byte { return []byte("#!/bin/sh\n" + text + "\n") }
	for _, tt := range []struct {
		name    string
		content []byte
		mode    os.FileMode
		link    bool
		uid     int
		light   bool // it is started
		done    bool // it does the call
	}{
		{name: "the same build", content: same, mode: 0o755, light: true, done: true},
		{name: "another build", content: script(`cat >/dev/null; echo '{"version":2,"build":"other","text":"a lie"}'`), mode: 0o755, light: true},
		{name: "another protocol", content: script(`cat >/dev/null; echo '{"version":1,"text":"a lie"}'`), mode: 0o755, light: true},
		{name: "no helper", content: script(`echo 'sbx: error: unknown command' >&2; exit 125`), mode: 0o755, light: true},
		{name: "no program", content: []byte("\x7fELF"), mode: 0o755, light: true},
		{name: "not executable", content: same, mode: 0o644, light: true},
		{name: "the group may write it", content: same, mode: 0o775},
		{name: "others may write it", content: same, mode: 0o757},
		{name: "a link", content: same, mode: 0o755, link: true},
		{name: "of another owner", content: same, mode: 0o755, uid: 1000},
		{name: "missing"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "sbx")
			if tt.content != nil {
				put(t, path, tt.content, tt.mode)
			}
			if tt.uid != 0 {
				require.Root(t, "files of another owner")
				if err := os.Chown(path, tt.uid, tt.uid); err != nil {
					t.Fatal(err)
				}
			}
			if tt.link {
				if err := os.Rename(path, path+"-real"); err != nil {
					t.Fatal(err)
				}
				if err := os.Symlink("sbx-real", path); err != nil {
					t.Fatal(err)
				}
			}
			w := newWorld(t, nil)
			w.tools = Options{Light: path}
			w.remake()
			program := func() string {
				t.Helper()
				res := w.call("read_file", policy.Args{"file_path": "a.txt"})
				if res.Status != agentloop.StatusOK || res.Output != "1\tone\n2\ttwo\n3\tthree\n" {
					t.Fatalf("%s %s %q", res.Status, res.Error, res.Output)
				}
				return res.Spec.Argv[0]
			}
			want := exe
			if tt.done {
				want = path
			}
			if got := program(); got != want {
				t.Errorf("done by %s, want %s", got, want)
			}
			light := &lightProgram{path: path}
			if _, id, ok := light.fit(); ok != tt.light {
				t.Errorf("is it tried: %v, want %v", ok, tt.light)
			} else if light.refuse(id); ok {
				if _, _, again := light.fit(); again {
					t.Error("it is tried again")
				}
			}
			if tt.light && !tt.done { // replaced by what fits, as an update does
				put(t, path+".new", same, 0o755)
				if err := os.Rename(path+".new", path); err != nil {
					t.Fatal(err)
				}
				if got := program(); got != path {
					t.Errorf("after the update: done by %s, want %s", got, path)
				}
			}
			w.ok("file_write", policy.Args{"file_path": "new.txt", "content": "x\n"})
			if w.content("new.txt") != "x\n" {
				t.Error("nothing was written")
			}
		})
	}
}

// An answer of a program that fits is believed as it is: its failure is told, and
// nothing is done twice.
func TestFailureOfTheLighterProgramIsTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sbx")
	put(t, path, []byte("#!/bin/sh\necho half; exit 1\n"), 0o755)
	w := newWorld(t, nil)
	w.tools = Options{Light: path}
	w.remake()
	res := w.call("file_write", policy.Args{"file_path": "new.txt", "content": "x\n"})
	if res.Status != agentloop.StatusFail || !strings.Contains(res.Error, "did not end as it should") || res.Spec.Argv[0] != path {
		t.Errorf("%s %s, by %s", res.Status, res.Error, res.Spec.Argv[0])
	}
	if _, err := os.Lstat(w.path("new.txt")); err == nil {
		t.Error("it was done by another program")
	}
}

func put(t *testing.T, path string, content []byte, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, content, mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // whatever the umask
		t.Fatal(err)
	}
}
