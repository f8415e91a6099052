package agentloop

import (
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sandboxd/test/require"
)

// A directory that its user closes to himself meanwhile is no place any more, and
// nothing to wait for.
func TestSlotOfAClosedDirectory(t *testing.T) {
	require.Root(t, "to play another user")
	dir := t.TempDir()
	fd, err := unix.Open(dir, openDirFlags, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	_ = os.Chmod(dir, 0)
	k := &guardKept{fd: fd}
	done := make(chan string, 1)
	go func() { _ = withUser(1000, 1000, nil, func() { done <- k.slot("x") }) }()
	select {
	case name := <-done:
		if name != "0001-x" {
			t.Errorf("slot %q", name)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it looks for one for ever")
	}
}

// TestUserGetsBackWhatWasMovedAside: the guard of root's daemon keeps it in the user's
// own state, where the user reads it and sbx clean finds it. It uses the user's rights
// there, and where that place cannot be had it moves the thing away all the same.
func TestUserGetsBackWhatWasMovedAside(t *testing.T) {
	const plant = "mkdir -p .git/hooks && printf '#!/bin/sh\\nid\\n' > .git/hooks/pre-commit && head -c 65536 /dev/zero >> .git/hooks/pre-commit && chmod +x .git/hooks/pre-commit"
	for _, tt := range []struct {
		name   string
		spoil  func(t *testing.T, w *world, kept string) // by the user, outside of any run
		theirs bool
	}{
		{"as it is", func(*testing.T, *world, string) {}, true},
		{"it is a link to what is closed to the user", func(t *testing.T, w *world, kept string) {
			w.host.link(w.host.dir("closed"), strings.TrimPrefix(kept, w.host.root+"/"))
			_ = os.Chmod(w.host.path("closed"), 0o700)
		}, false},
		{"its parent is such a link", func(t *testing.T, w *world, kept string) {
			_ = os.Remove(strings.TrimSuffix(kept, "/kept"))
			w.host.link(w.host.dir("closed"), strings.TrimPrefix(strings.TrimSuffix(kept, "/kept"), w.host.root+"/"))
			_ = os.Chmod(w.host.path("closed"), 0o700)
		}, false},
		{"it is a file", func(t *testing.T, w *world, kept string) { _ = os.WriteFile(kept, nil, 0o644) }, false},
		{"it cannot be written", func(t *testing.T, w *world, kept string) {
			_ = os.Mkdir(kept, 0o500)
			_ = os.Chown(kept, 1000, 1000)
		}, false},
		{"it belongs to somebody else", func(t *testing.T, w *world, kept string) {
			_ = os.Mkdir(kept, 0o777)
			_ = os.Chown(kept, 1001, 1001)
		}, false},
		{"it is full", func(t *testing.T, w *world, kept string) {
			_ = os.Mkdir(kept, 0o700)
			if err := unix.Mount("tmpfs", kept, "tmpfs", 0, "size=4096,mode=700,uid=1000,gid=1000"); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = unix.Unmount(kept, unix.MNT_DETACH) })
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := otherWorld(t, denying())
			w.bash("true")
			state := w.s.caller().StateDir
			if err := withUser(1000, 1000, nil, func() { _ = os.MkdirAll(state, 0o700) }); err != nil {
				t.Fatal(err)
			}
			tt.spoil(t, w, state+"/kept")
			res := w.unread(plant)
			if _, err := os.Lstat(w.host.path("home/u/w/.git/hooks/pre-commit")); err == nil || len(res.Detected) == 0 {
				t.Fatalf("the hook is still there: %+v %s", res.Detected, res.Output)
			}
			kept := res.Detected[0].Kept
			var size int
			if err := withUser(1000, 1000, nil, func() {
				text, _ := os.ReadFile(kept)
				size = len(text)
			}); err != nil {
				t.Fatal(err)
			}
			if in := within(kept, state+"/kept"); in != tt.theirs || (size > 65536) != tt.theirs {
				t.Errorf("kept as %s, of which uid 1000 reads %d bytes, want it in the user's state: %v", kept, size, tt.theirs)
			}
			if names, err := readNames(w.host.path("closed")); err == nil && len(names) > 0 {
				t.Errorf("in the closed directory were made %q", names)
			}
			if !tt.theirs && !within(kept, w.opts.StateDir) {
				t.Errorf("kept as %s, want it in the daemon's state", kept)
			}
		})
	}
}
