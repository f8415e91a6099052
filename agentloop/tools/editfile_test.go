package tools

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sandboxd/agentloop"
	"sandboxd/agentloop/tools/files"
	"sandboxd/policy"
)

func TestEditReplacesExactUniqueText(t *testing.T) {
	w := newWorld(t, nil)
	pair := func(old, new string) policy.Args {
		return policy.Args{"old_string": old, "new_string": new}
	}
	list := func(edits ...policy.Args) policy.Args {
		var items []any
		for _, e := range edits {
			items = append(items, map[string]any(e))
		}
		return policy.Args{"edits": items}
	}
	all := func(a policy.Args) policy.Args { a["replace_all"] = true; return a }
	for _, tt := range []struct {
		name, before string
		args         policy.Args
		want         string // "" for a refusal
		say          string
	}{
		{"one", "a\nb\nc\n", pair("b", "B"), "a\nB\nc\n", "1 replacement"},
		{"not there", "a\n", pair("x", "y"), "", "not in the file"},
		{"white space differs", "if x {\n\ty()\n}\n", pair("if x {\n  y()\n}", "z"), "", "other white space"},
		{"twice", "a a\n", pair("a", "b"), "", "2 times in the file"},
		{"all", "a a\n", all(pair("a", "b")), "b b\n", "2 replacements"},
		{"same", "a\n", pair("a", "a"), "", "nothing would change"},
		{"empty old", "a\n", pair("", "b"), "", "empty"},
		{"list in order", "a\nb\n", list(pair("a", "b2"), pair("b2\nb", "c")), "c\n", "2 replacements"},
		{"list, all or none", "a\nb\n", list(pair("a", "x"), pair("nope", "y")), "", "edit 2 of 2"},
		{"list and pair", "a\n", policy.Args{"edits": []any{map[string]any{"old_string": "a", "new_string": "b"}}, "old_string": "a", "new_string": "c"}, "", "exclude each other"},
		{"CR LF is kept", "a\r\nb\r\nc\r\n", pair("a\nb", "x\ny\nz"), "x\r\ny\r\nz\r\nc\r\n", "1 replacement"},
		{"mixed ends are left alone", "a\r\nb\nc\n", pair("b\nc", "d\ne"), "a\r\nd\ne\n", "1 replacement"},
		{"no end of line stays", "a\nb", pair("b", "c"), "a\nc", "1 replacement"},
		{"byte order mark stays", "\xef\xbb\xbfa\n", pair("a", "b"), "\xef\xbb\xbfb\n", "1 replacement"},
		{"other bytes stay", "caf\xe9 x\n", pair("x", "y"), "caf\xe9 y\n", "1 replacement"},
		{"binary", "a\x00b", pair("a", "c"), "", "binary"},
		{"UTF-16", "\xff\xfea\x00", pair("a", "c"), "", "UTF-16"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := w.as(t)
			w.file("e.txt", tt.before)
			w.read("e.txt")
			args := policy.Args{"file_path": "e.txt"}
			for k, v := range tt.args {
				args[k] = v
			}
			if tt.want == "" {
				w.refused(tt.say, "file_edit", args)
				tt.want = tt.before
			} else if out := w.ok("file_edit", args); !strings.Contains(out, tt.say) {
				t.Errorf("told %q, want %q", out, tt.say)
			}
			if got := w.content("e.txt"); got != tt.want {
				t.Errorf("content %q, want %q", got, tt.want)
			}
		})
	}
}

func TestEditShowsADiffToModelAndPeople(t *testing.T) {
	w := newWorld(t, nil)
	w.read("a.txt")
	res := w.call("file_edit", policy.Args{"file_path": "a.txt", "old_string": "two", "new_string": "2"})
	const want = "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
	if res.Diff != want || !strings.HasSuffix(res.Output, want) {
		t.Errorf("diff %q\noutput %q", res.Diff, res.Output)
	}
	// A change of everything is bounded for both.
	w.file("big.txt", strings.Repeat("old line\n", 40_000))
	w.read("big.txt")
	res = w.call("file_edit", policy.Args{"file_path": "big.txt", "old_string": "old", "new_string": "new", "replace_all": true})
	if res.Status != agentloop.StatusOK || len(res.Output) > files.MaxModelDiff+500 || len(res.Diff) > files.MaxDiff+100 || !strings.Contains(res.Output, "more lines of the diff") {
		t.Errorf("%s %s: output %d bytes, diff %d bytes", res.Status, res.Error, len(res.Output), len(res.Diff))
	}
}

// TestFilesMustBeReadAndUnchanged is requirement 92.
func TestFilesMustBeReadAndUnchanged(t *testing.T) {
	w := newWorld(t, nil)
	edit := policy.Args{"file_path": "a.txt", "old_string": "two", "new_string": "2"}
	write := policy.Args{"file_path": "a.txt", "content": "all new\n"}
	w.refused("has not been read in this conversation", "file_edit", edit)
	w.refused("has not been read in this conversation", "file_write", write)
	w.read("a.txt")
	// Another session has not read it.
	if res := w.in(w.session(), "file_edit", edit); !strings.Contains(res.Error, "has not been read") {
		t.Errorf("another session edits what this one has read: %s %s", res.Status, res.Error)
	}
	for _, change := range []struct {
		name, content string
		touch         bool // size and time as before
		want          string
	}{
		{"other size", "one\ntwo\nthree\nfour\n", false, "size 14, then 19 bytes"},
		{"same size and time", "ONE\ntwo\nthree\n", true, "same size, other content"},
	} {
		t.Run(change.name, func(t *testing.T) {
			w := w.as(t)
			w.file("a.txt", "one\ntwo\nthree\n")
			w.read("a.txt")
			var st unix.Stat_t
			if err := unix.Stat(w.path("a.txt"), &st); err != nil {
				t.Fatal(err)
			}
			w.file("a.txt", change.content)
			if change.touch {
				if err := unix.UtimesNanoAt(unix.AT_FDCWD, w.path("a.txt"), []unix.Timespec{st.Atim, st.Mtim}, 0); err != nil {
					t.Fatal(err)
				}
			}
			w.refused(change.want, "file_edit", edit)
			w.refused(change.want, "file_write", write)
			if got := w.content("a.txt"); got != change.content {
				t.Errorf("content %q, want %q", got, change.content)
			}
			w.read("a.txt")
			w.ok("file_edit", edit)
			w.ok("file_edit", policy.Args{"file_path": "a.txt", "old_string": "2", "new_string": "two"}) // an own edit counts as read
		})
	}
	// A file that was only touched is the same.
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(w.path("a.txt"), later, later); err != nil {
		t.Fatal(err)
	}
	w.ok("file_edit", edit)
	w.s.Files().Clear()
	w.refused("has not been read", "file_write", write)
}

func TestWriteMakesFilesAndDirectories(t *testing.T) {
	w := newWorld(t, nil)
	if out := w.ok("file_write", policy.Args{"file_path": "new/deep/b.txt", "content": "hello\n"}); !strings.Contains(out, "wrote 6 bytes to") {
		t.Error(out)
	}
	if got := w.content("new/deep/b.txt"); got != "hello\n" {
		t.Errorf("%q", got)
	}
	info, err := os.Stat(w.path("new/deep/b.txt"))
	if err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	// What was written counts as read.
	w.ok("file_write", policy.Args{"file_path": "new/deep/b.txt", "content": "again\n"})
	w.refused("is a directory", "file_write", policy.Args{"file_path": "new", "content": "x"})
	w.refused("outside-roots", "file_write", policy.Args{"file_path": "/usr/made-by-a-test", "content": "x"})
	w.noLitter()
}

// TestApprovedWriteMakesDirectories: what a rule allows by name is made, also below
// directories that are not there yet.
func TestApprovedWriteMakesDirectories(t *testing.T) {
	w := newWorld(t, func(p *agentloop.PolicyInForce) {
		p.Config.Rules = append(p.Config.Rules, policy.Rule{Kind: policy.AllowRule, Pattern: "file_write(made/deep/a.txt)", Source: policy.Source{Kind: policy.SourceUser}})
		p.Config.Default = policy.Deny
	})
	w.ok("file_write", policy.Args{"file_path": "made/deep/a.txt", "content": "hello\n"})
	if got := w.content("made/deep/a.txt"); got != "hello\n" {
		t.Errorf("%q", got)
	}
	w.refused("", "file_write", policy.Args{"file_path": "made/deep/b.txt", "content": "x"})
}

// noLitter fails when a file of a write that did not end is left.
func (w *world) noLitter() {
	w.t.Helper()
	err := filepath.WalkDir(w.ws, func(p string, _ os.DirEntry, err error) error {
		if strings.HasPrefix(filepath.Base(p), ".sandboxd-") {
			w.t.Errorf("left behind: %s", p)
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func TestWriteKeepsModeOwnerAndAttributes(t *testing.T) {
	w := newWorld(t, nil)
	w.file("run.sh", "#!/bin/sh\n")
	if err := os.Chmod(w.path("run.sh"), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setxattr(w.path("run.sh"), "user.note", []byte("kept"), 0); err != nil {
		t.Logf("no attributes here: %v", err)
	}
	w.read("run.sh")
	w.ok("file_edit", policy.Args{"file_path": "run.sh", "old_string": "sh\n", "new_string": "sh\necho\n"})
	info, err := os.Stat(w.path("run.sh"))
	if err != nil || info.Mode() != 0o750 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	value := make([]byte, 10)
	if n, err := unix.Getxattr(w.path("run.sh"), "user.note", value); err != nil || string(value[:n]) != "kept" {
		t.Errorf("attribute %q, %v", value[:max(n, 0)], err)
	}
	// Read-only for its owner: the directory would allow to replace it.
	if err := os.Chmod(w.path("run.sh"), 0o444); err != nil {
		t.Fatal(err)
	}
	w.refused("permission denied", "file_edit", policy.Args{"file_path": "run.sh", "old_string": "echo", "new_string": "date"})
}

func TestWriteThroughLinksChangesTheTarget(t *testing.T) {
	w := newWorld(t, nil)
	if err := os.Symlink("a.txt", w.path("link")); err != nil {
		t.Fatal(err)
	}
	w.read("link")
	w.ok("file_edit", policy.Args{"file_path": "link", "old_string": "two", "new_string": "2"})
	if got := w.content("a.txt"); got != "one\n2\nthree\n" {
		t.Errorf("target %q", got)
	}
	if target, err := os.Readlink(w.path("link")); err != nil || target != "a.txt" {
		t.Errorf("the link became %q, %v", target, err)
	}
	// A dangling link: its target is made.
	if err := os.Symlink("made.txt", w.path("dangling")); err != nil {
		t.Fatal(err)
	}
	w.ok("file_write", policy.Args{"file_path": "dangling", "content": "x"})
	if got := w.content("made.txt"); got != "x" {
		t.Errorf("%q", got)
	}
	// Of a file with two names one gets the new content.
	if err := os.Link(w.path("a.txt"), w.path("second")); err != nil {
		t.Fatal(err)
	}
	w.read("second")
	if out := w.ok("file_edit", policy.Args{"file_path": "second", "old_string": "2", "new_string": "3"}); !strings.Contains(out, "1 other names (hard links), which keep the old content") {
		t.Error(out)
	}
	if got := w.content("a.txt"); got != "one\n2\nthree\n" {
		t.Errorf("the other name %q", got)
	}
}

// TestWriteLimitIsCheckedBeforeTheFirstByte is requirement 96.
func TestWriteLimitIsCheckedBeforeTheFirstByte(t *testing.T) {
	w := newWorld(t, func(p *agentloop.PolicyInForce) { p.Config.MaxFileSize = 100 })
	w.refused("100", "file_write", policy.Args{"file_path": "big", "content": strings.Repeat("x", 101)})
	if _, err := os.Stat(w.path("big")); !os.IsNotExist(err) {
		t.Errorf("a file was made: %v", err)
	}
	w.ok("file_write", policy.Args{"file_path": "big", "content": strings.Repeat("x", 100)})
	// An edit's text is small, its result is not.
	w.refused("allows 100", "file_edit", policy.Args{"file_path": "big", "old_string": "x", "new_string": "yy", "replace_all": true})
	if got := w.content("big"); got != strings.Repeat("x", 100) {
		t.Errorf("%q", got)
	}
	// The limit of a process counts too, and holds for Bash.
	v := newWorld(t, func(p *agentloop.PolicyInForce) { p.Grant.Limits.FileBytes = 4096 })
	v.refused("allows 4096", "file_write", policy.Args{"file_path": "big", "content": strings.Repeat("x", 4097)})
	if res := v.call("run_bash", policy.Args{"command": "head -c 10000 /dev/zero >bash.out"}); res.Status == agentloop.StatusOK {
		t.Errorf("Bash wrote over the limit: %s", res.Output)
	}
	if info, err := os.Stat(v.path("bash.out")); err != nil || info.Size() > 4096 {
		t.Errorf("%v %v", info, err)
	}
}

// TestEditsOfTwoSessionsAreNotLost: both work in one file at a time. Each edit is
// made or refused, and every one that was made is there at the end.
func TestEditsOfTwoSessionsAreNotLost(t *testing.T) {
	w := newWorld(t, nil)
	var start strings.Builder
	for i := range 100 {
		fmt.Fprintf(&start, "slot %02d: empty\n", i)
	}
	w.file("shared.txt", start.String())
	type outcome struct {
		made    int
		refused int
	}
	results := make(chan outcome, 2)
	for who := range 2 {
		s := w.session()
		go func() {
			var o outcome
			for i := range 50 {
				slot := fmt.Sprintf("slot %02d: empty", 2*i+who)
				for {
					if res := w.in(s, "read_file", policy.Args{"file_path": "shared.txt"}); res.Status != agentloop.StatusOK {
						t.Errorf("read: %s", res.Error)
						break
					}
					res := w.in(s, "file_edit", policy.Args{"file_path": "shared.txt", "old_string": slot, "new_string": fmt.Sprintf("slot %02d: by %d", 2*i+who, who)})
					if res.Status == agentloop.StatusOK {
						o.made++
						break
					}
					if !strings.Contains(res.Error, "has changed since it was read") && !strings.Contains(res.Error, "changed by another program") {
						t.Errorf("edit: %s", res.Error)
						break
					}
					o.refused++
				}
			}
			results <- o
		}()
	}
	a, b := <-results, <-results
	final := w.content("shared.txt")
	for i := range 100 {
		if want := fmt.Sprintf("slot %02d: by %d\n", i, i%2); !strings.Contains(final, want) {
			t.Errorf("lost: %q", want)
		}
	}
	if a.made != 50 || b.made != 50 {
		t.Errorf("made %d and %d edits", a.made, b.made)
	}
	t.Logf("%d edits were refused and made again", a.refused+b.refused)
	w.noLitter()
}
