package policy

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A command can leave in the workspace what never ends when it is read: a decision
// does not wait for it, does not read it into memory, and what it would have said
// there counts as unknown.
func TestDecisionsDoNotWaitForWhatACommandLeft(t *testing.T) {
	rules := []Rule{
		{Kind: DenyRule, Pattern: "run_bash(rm -rf secret/*)"}, {Kind: DenyRule, Pattern: "read_file(**/*.key)"},
		{Kind: DenyRule, Pattern: "effect(write /srv/*/x)"}, {Kind: AllowRule, Pattern: "run_bash"},
	}
	for name, plant := range map[string]func(string) error{
		"pipe":   func(p string) error { return unix.Mkfifo(p, 0o666) },
		"device": func(p string) error { return os.Symlink("/dev/zero", p) },
		"huge": func(p string) error {
			if err := os.WriteFile(p, nil, 0o644); err != nil {
				return err
			}
			return os.Truncate(p, 1<<40)
		},
	} {
		for _, place := range []string{".git/config", ".git/index", "sub", "sub/.git/index", "src"} {
			t.Run(name+" as "+place, func(t *testing.T) {
				g := newGitPlace(t)
				full := filepath.Join(g.dir, place)
				if err := os.RemoveAll(full); err != nil {
					t.Fatal(err)
				}
				if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := plant(full); err != nil {
					t.Fatal(err)
				}
				e := engine(t, g.cfg, rules...)
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				verdicts := make(chan map[string]Verdict, 1)
				go func() {
					got := map[string]Verdict{}
					for _, script := range []string{"git status", "git log -p", "rm -rf *", "rm -rf sub/*", "cat sub/*", "cp -r sub src /tmp", "mv * sub", "git clean -fd", "tar xf a.tar", "git -C sub status"} {
						got[script] = e.Check(t.Context(), BashCall(script, g.dir)).Verdict
					}
					e.KernelDenials([]string{g.dir})
					verdicts <- got
				}()
				select {
				case got := <-verdicts:
					if place == ".git/config" && got["git status"] == Allow && engine(t, g.cfg).Check(t.Context(), BashCall("git status", g.dir)).Verdict == Allow {
						t.Errorf("git status with a configuration that nobody read: %v", got["git status"])
					}
				case <-time.After(10 * time.Second):
					t.Fatal("it waits")
				}
				runtime.ReadMemStats(&after)
				if grown := after.TotalAlloc - before.TotalAlloc; grown > 256<<20 {
					t.Errorf("%d MiB were allocated", grown>>20)
				}
			})
		}
	}
}
