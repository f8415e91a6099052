package test

import (
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sandboxd/test/require"
)

// Case S020: sbx inside of sbx works, and what the inner one is told can only
// make the run smaller.
func TestNestedRuns(t *testing.T) {
	for _, uid := range users() {
		for _, tier := range tiers() {
			s := newScene(t, uid, tier)
			secret := s.file(s.Out+"/secret", s.Token)
			inner := func(flags ...string) []string {
				return append(slices.Concat([]string{s.program("sbx"), "run", "--quiet", "--ro", filepath.Dir(s.program("sbx"))}, flags), "--")
			}
			r := s.sbx(nil, append(slices.Concat(inner(), inner()), "sh", "-c", "echo hi; echo x >made")...)
			if r.Code != 0 || r.Stdout != "hi\n" || s.content(s.Work+"/made") != "x\n" {
				t.Errorf("uid %d, tier %s: three deep: exit %d, %s%s", uid, tier, r.Code, r.Stdout, r.Stderr)
			}
			// Unconfined the same flags open what they name.
			attack := []string{"sh", "-c", "cat " + secret + "; echo x >" + s.Out + "/new"}
			wide := []string{"--rw", s.Out, "--net", "full", "--best-effort"}
			if r := s.plain(append(inner(wide...), attack...)...); !leaks(s, r) || !exists(s.Out+"/new") {
				t.Errorf("uid %d, tier %s: the grant alone does not open it: %s%s", uid, tier, r.Stdout, r.Stderr)
			}
			s.must(osexec.Command("rm", "-f", s.Out+"/new").Run())
			if r := s.sbx(nil, append(inner(wide...), attack...)...); leaks(s, r) || exists(s.Out+"/new") {
				t.Errorf("uid %d, tier %s: a run granted itself more: %s%s", uid, tier, r.Stdout, r.Stderr)
			}
			narrow := append(inner("--workspace", s.mkdir(s.Work+"/sub")), "sh", "-c", "echo x >"+s.Work+"/sub/in; echo x >"+s.Work+"/beside")
			if r := s.sbx(nil, narrow...); s.content(s.Work+"/sub/in") != "x\n" || exists(s.Work+"/beside") {
				t.Errorf("uid %d, tier %s: the inner run is not smaller: %s%s", uid, tier, r.Stdout, r.Stderr)
			}
		}
	}
}

// A foreign sandbox needs namespaces, which a run does not get; the line about
// the failure says so.
func TestForeignSandboxInside(t *testing.T) {
	bwrap, err := osexec.LookPath("bwrap")
	if err != nil {
		require.Missing(t, require.Program, err.Error())
	}
	for _, uid := range users() {
		for _, tier := range tiers() {
			s := newScene(t, uid, tier)
			argv := []string{bwrap, "--ro-bind", "/", "/", "echo", "inside"}
			if r := s.plain(argv...); r.Code != 0 {
				require.Missing(t, require.Host, "it does not work here without sbx either: ", r.Stderr)
			}
			r := s.finish(s.command(slices.Concat([]string{s.program("sbx"), "run", "--tier", tier, "--"}, argv)...))
			if r.Code == 0 || strings.Contains(r.Stdout, "inside") || !strings.Contains(r.Stderr, "no namespaces of its own") {
				t.Errorf("uid %d, tier %s: exit %d, %s%s", uid, tier, r.Code, r.Stdout, r.Stderr)
			}
		}
	}
}
