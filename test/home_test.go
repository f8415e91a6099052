package test

import (
	"os"
	"strings"
	"testing"

	"sandboxd/test/require"
)

// TestHomeOfAnotherUser: a HOME that su left behind is an error that says so. The
// neighbour has a HOME of its own.
func TestHomeOfAnotherUser(t *testing.T) {
	require.Root(t, "to make another user's directory")
	s := newScene(t, 1000, "full")
	if r := s.plain(s.program("sbx"), "run", "--", "true"); r.Code != 0 {
		t.Errorf("an own HOME: exit %d: %s", r.Code, r.Stderr)
	}
	s.must(os.Chown(s.Home, 0, 0))
	s.must(os.Chmod(s.Home, 0o700))
	if r := s.plain(s.program("sbx"), "run", "--", "true"); r.Code != 125 || !strings.Contains(r.Stderr, "set HOME to your own") {
		t.Errorf("another user's HOME: exit %d: %s", r.Code, r.Stderr)
	}
}
