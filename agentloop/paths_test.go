package agentloop

import (
	"errors"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"sandboxd/exec"
)

func TestWithinComparesComponents(t *testing.T) {
	for _, tt := range []struct {
		path, dir string
		want      bool
	}{
		{"/a/b", "/a", true}, {"/a", "/a", true}, {"/ab", "/a", false}, {"/a", "/a/b", false},
		{"/a", "/", true}, {"/", "/", true}, {"/", "/a", false}, {"/a/b/c", "/a/b", true},
	} {
		if got := within(tt.path, tt.dir); got != tt.want {
			t.Errorf("within(%q, %q) = %v, want %v", tt.path, tt.dir, got, tt.want)
		}
	}
}

func TestResolveFollowsEachLevel(t *testing.T) {
	h := newHost(t)
	h.file("real/deep/file", "", 0o644)
	h.link("real", "one")
	h.link(h.path("one/deep"), "two")
	h.link("two/../../up", "odd") // ".." after a link counts from its target
	h.file("up", "", 0o644)
	h.link("loop2", "loop1")
	h.link("loop1", "loop2")
	h.link("nowhere", "dangling")
	for _, tt := range []struct {
		path, want string
		links      []exec.Link
		err        error
	}{
		{path: "two/file", want: "real/deep/file", links: []exec.Link{{Path: h.path("two"), Target: h.path("one/deep")}, {Path: h.path("one"), Target: "real"}}},
		{path: "real/./deep/", want: "real/deep"},
		{path: "odd", want: "up", links: []exec.Link{{Path: h.path("odd"), Target: "two/../../up"},
			{Path: h.path("two"), Target: h.path("one/deep")}, {Path: h.path("one"), Target: "real"}}},
		{path: "loop1", err: unix.ELOOP},
		{path: "dangling", err: unix.ENOENT},
		{path: "real/deep/file/x", err: unix.ENOTDIR},
	} {
		real, links, err := newResolver(0).resolve(h.path(tt.path))
		if !errors.Is(err, tt.err) {
			t.Errorf("resolve(%s): error %v, want %v", tt.path, err, tt.err)
			continue
		}
		if tt.err != nil {
			continue
		}
		if real != h.path(tt.want) {
			t.Errorf("resolve(%s) = %s, want %s", tt.path, real, tt.want)
		}
		if judge, _ := filepath.EvalSymlinks(h.path(tt.path)); judge != real {
			t.Errorf("resolve(%s) = %s, the standard library says %s", tt.path, real, judge)
		}
		if len(links) != len(tt.links) {
			t.Errorf("resolve(%s): links %v, want %v", tt.path, links, tt.links)
			continue
		}
		for i := range links {
			if links[i] != tt.links[i] {
				t.Errorf("resolve(%s): link %d %v, want %v", tt.path, i, links[i], tt.links[i])
			}
		}
	}
}
