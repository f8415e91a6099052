package agentloop

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"sandboxd/exec"
)

// TestGuardIsCompletedAfterACrash kills a process that holds a guard, without
// any chance to finish, and lets the next start complete it.
func TestGuardIsCompletedAfterACrash(t *testing.T) {
	if arg := os.Getenv("SANDBOXD_TEST_GUARD"); arg != "" {
		guardChild(arg)
		return
	}
	guardUsers(t, func(g *guarded) {
		g.sh("git init -q .; mkdir .vscode; echo old > .vscode/s")
		arg, err := json.Marshal(map[string]any{"state": g.state, "w": g.w, "user": g.user})
		if err != nil {
			t.Fatal(err)
		}
		child := osexec.Command(os.Args[0], "-test.run=^TestGuardIsCompletedAfterACrash$")
		child.Env = append(os.Environ(), "SANDBOXD_TEST_GUARD="+string(arg))
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(out).ReadString('\n'); line != "begun\n" {
			t.Fatal(line, err)
		}
		g.sh("f=.git/hooks/pre-commit; " + evilHook + "echo new > .vscode/s; echo x > .envrc")
		if list, err := CompleteGuards(g.state); len(list) != 0 || err != nil {
			t.Errorf("a living process's guard was completed: %v, %v", list, err)
		}
		if err := child.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		child.Wait()
		list, err := CompleteGuards(g.state)
		if err != nil {
			t.Fatal(err)
		}
		g.want(g.byPath(list), ".git/hooks/pre-commit", ".vscode/s", ".envrc")
		g.gone(".git/hooks/pre-commit", ".envrc")
		if got := g.read(".vscode/s"); got != "old\n" {
			t.Errorf("restored %q", got)
		}
		if list, err := CompleteGuards(g.state); len(list) != 0 || err != nil {
			t.Errorf("completed twice: %v, %v", list, err)
		}
		if left, _ := filepath.Glob(g.state + "/guards/*.json"); len(left) != 0 {
			t.Errorf("journals are left: %q", left)
		}
	})
}

func guardChild(arg string) {
	var o struct {
		State, W string
		User     *exec.User
	}
	if err := json.Unmarshal([]byte(arg), &o); err != nil {
		panic(err)
	}
	if _, err := BeginGuard(o.State, o.W, GuardOptions{User: o.User}); err != nil {
		panic(err)
	}
	fmt.Println("begun")
	select {}
}

func TestGuardOfATornJournal(t *testing.T) {
	g := newGuarded(t, unix.Geteuid())
	guard := g.begin()
	name := guard.file.Name()
	guard.file.Close()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, text[:len(text)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	if list, err := CompleteGuards(g.state); len(list) != 0 || err != nil {
		t.Errorf("CompleteGuards = %v, %v", list, err)
	}
	if info, err := os.Stat(name); err == nil {
		t.Errorf("%v is left", info.Name())
	}
}

// TestGuardsOfTwoRunsShareTheOlderSnapshot: what one run did must not be what
// the other restores.
func TestGuardsOfTwoRunsShareTheOlderSnapshot(t *testing.T) {
	guardUsers(t, func(g *guarded) {
		g.sh("mkdir .vscode; echo good > .vscode/s; git init -q .")
		first := g.begin()
		g.sh("echo evil > .vscode/s; echo evil > .envrc; git config core.pager evil")
		second := g.begin()
		g.want(g.finish(first), ".vscode/s", ".envrc", ".git/config")
		g.want(g.finish(second))
		if got := g.read(".vscode/s"); got != "good\n" || g.exists(".envrc") || strings.Contains(g.read(".git/config"), "evil") {
			t.Errorf("the first run's plant is back: %q", got)
		}
	})
}

// TestGuardWithoutAPlaceToKeep: nothing is removed that could not be kept, and
// the report says that it is still there.
func TestGuardWithoutAPlaceToKeep(t *testing.T) {
	guardUsers(t, func(g *guarded) {
		guard := g.begin()
		g.sh("git init -q .; f=.git/hooks/pre-commit; " + evilHook)
		if err := os.WriteFile(filepath.Join(g.state, "kept"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		found := g.finish(guard)
		if f := found[".git/hooks/pre-commit"]; len(found) != 1 || f.Action != GuardFailed || f.Error == "" || !g.exists(".git/hooks/pre-commit") {
			t.Errorf("found %v", found)
		}
	})
}

func TestGuardWhenTheWorkspaceIsGone(t *testing.T) {
	g := newGuarded(t, unix.Geteuid())
	guard := g.begin()
	if err := os.Rename(g.w, g.w+"x"); err != nil {
		t.Fatal(err)
	}
	g.want(g.finish(guard), ".")
	if _, err := BeginGuard(g.state, g.w, GuardOptions{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("BeginGuard without a workspace: %v", err)
	}
}

func TestGuardStateIsPrivateAndGoesAway(t *testing.T) {
	guardUsers(t, func(g *guarded) {
		guard := g.begin()
		info, err := os.Stat(guard.file.Name())
		if err != nil || info.Mode() != 0o600 {
			t.Errorf("journal: %v, %v", info.Mode(), err)
		}
		g.want(g.finish(guard))
		left, _ := filepath.Glob(g.state + "/*/*")
		if len(left) != 0 {
			t.Errorf("left in the state: %q", left)
		}
	})
}

// TestGuardOfARunThatNeverStarted: what others do in the workspace while a start
// is refused is theirs.
func TestGuardOfARunThatNeverStarted(t *testing.T) {
	guardUsers(t, func(g *guarded) {
		g.sh("git init -q . ; git init -q far/away")
		guard := g.begin()
		g.sh("for f in .git/hooks/pre-commit far/away/.git/hooks/pre-commit; do " + evilHook + "done; echo x > .envrc; git config core.pager less")
		if err := guard.Discard(); err != nil {
			t.Fatal(err)
		}
		if list, err := CompleteGuards(g.state); len(list) != 0 || err != nil {
			t.Errorf("a discarded guard was completed: %v, %v", list, err)
		}
		for _, name := range []string{".git/hooks/pre-commit", "far/away/.git/hooks/pre-commit", ".envrc"} {
			if !g.exists(name) {
				t.Errorf("%s is gone", name)
			}
		}
		// The next run is guarded as ever.
		g.want(g.run("f=far/away/.git/hooks/pre-push; "+evilHook), "far/away/.git/hooks/pre-push", "far/away/.git/hooks/pre-commit")
	})
}
