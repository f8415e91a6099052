package agentloop

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sandboxd/exec"
)

// abandon leaves the journal of a run of uid in workspace that never ended, and what
// that run wrote.
func (w *world) abandon(uid int, workspace string) (planted string) {
	w.t.Helper()
	state := filepath.Join(w.opts.StateDir, fmt.Sprint("uid-", uid))
	guard, err := BeginGuard(state, workspace, GuardOptions{User: &exec.User{UID: uid, GID: uid}})
	if err != nil {
		w.t.Fatal(err)
	}
	planted = filepath.Join(workspace, ".envrc")
	if err := os.WriteFile(planted, []byte("evil\n"), 0o644); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Chown(planted, uid, uid); err != nil {
		w.t.Fatal(err)
	}
	guard.file.Close() // as the end of a process does
	return planted
}

// TestRunsThatDidNotEndAreToldToTheirUserAlone, whoever runs something next, and
// after a start of the daemon that completed them.
func TestRunsThatDidNotEndAreToldToTheirUserAlone(t *testing.T) {
	w := otherWorld(t, denying())
	theirs := w.host.dir("theirs")
	if err := os.Chown(theirs, 1001, 1001); err != nil {
		t.Fatal(err)
	}
	for round, start := range []bool{false, true} {
		mine := w.abandon(1000, w.s.Workspace())
		other := w.abandon(1001, theirs)
		if start {
			if err := w.d.CompleteRuns(t.Context()); err != nil {
				t.Error(err)
			}
			for _, planted := range []string{mine, other} {
				if _, err := os.Lstat(planted); err == nil {
					t.Errorf("%s is there after the start", planted)
				}
			}
		}
		res := w.unread("true")
		said := strings.Join(res.Warnings, "\n")
		if res.Status != StatusOK || !strings.Contains(said, mine) {
			t.Errorf("round %d: uid 1000 is told %q, %v %s", round, said, res.Status, res.Error)
		}
		if strings.Contains(said, theirs) {
			t.Errorf("round %d: uid 1000 is told of uid 1001: %q", round, said)
		}
		if _, err := os.Lstat(other); (err == nil) == start {
			t.Errorf("round %d: what uid 1001 left: %v", round, err)
		}
		if again := w.unread("true"); strings.Contains(strings.Join(again.Warnings, "\n"), mine) {
			t.Errorf("round %d: told twice: %q", round, again.Warnings)
		}
		os.Remove(other)
		told := w.d.earlierRuns(filepath.Join(w.opts.StateDir, "uid-1001"))
		if start && !strings.Contains(strings.Join(told, "\n"), other) {
			t.Errorf("round %d: uid 1001 is told %q", round, told)
		}
	}
}

// TestGuardsOfTwoUsersInOneWorkspaceShareTheOlderSnapshot, though their journals lie
// apart: what one user's run did must not be what the other's restores.
func TestGuardsOfTwoUsersInOneWorkspaceShareTheOlderSnapshot(t *testing.T) {
	guardUsers(t, func(g *guarded) {
		g.sh("mkdir .vscode; echo good > .vscode/s")
		begin := func(dir string) *Guard {
			guard, err := BeginGuard(filepath.Join(g.state, dir), g.w, GuardOptions{User: g.user, Beside: filepath.Join(g.state, "uid-*")})
			if err != nil {
				t.Fatal(err)
			}
			return guard
		}
		first := begin("uid-1")
		g.sh("echo evil > .vscode/s; echo evil > .envrc")
		second := begin("uid-2")
		g.want(g.finish(first), ".vscode/s", ".envrc")
		g.want(g.finish(second))
		if got := g.read(".vscode/s"); got != "good\n" || g.exists(".envrc") {
			t.Errorf("the first run's plant is back: %q", got)
		}
	})
}
