package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sandboxd/agentloop"
	"sandboxd/policy/settings"
)

// An answer "always" does not wait for what stands in the place of the policy file,
// nor for a program that keeps the lock of the trusted files.
func TestSavingARuleWaitsForNobody(t *testing.T) {
	for _, scope := range []string{"user", "project"} {
		for name, plant := range map[string]func(string) error{
			"pipe":      func(p string) error { return unix.Mkfifo(p, 0o600) },
			"device":    func(p string) error { return os.Symlink("/dev/zero", p) },
			"directory": func(p string) error { return os.Mkdir(p, 0o700) },
			"nothing":   func(string) error { return nil },
		} {
			t.Run(name+" as the policy of the "+scope, func(t *testing.T) {
				home, ws := t.TempDir(), t.TempDir()
				c := agentloop.Caller{UID: os.Geteuid(), GID: os.Getegid(), Environ: []string{"HOME=" + home}, Home: home}
				path := settings.UserFile(c.Environ)
				if scope == "project" {
					path = filepath.Join(ws, settings.LocalFile)
				}
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := plant(path); err != nil {
					t.Fatal(err)
				}
				err := within(t, 10*time.Second, func() error { return saveRules(c, ws, scope, []string{"run_bash(make *)"}) })
				if honest := name == "nothing"; (err == nil) != honest {
					t.Errorf("saved: %v", err)
				}
				if name != "nothing" {
					return
				}
				if text, err := os.ReadFile(path); err != nil || !strings.Contains(string(text), "run_bash(make *)") {
					t.Errorf("%s: %q %v", path, text, err)
				}
			})
		}
	}
	home, ws := t.TempDir(), t.TempDir()
	c := agentloop.Caller{UID: os.Geteuid(), GID: os.Getegid(), Environ: []string{"HOME=" + home}, Home: home}
	state := settings.StateDir(c.Environ)
	if err := os.MkdirAll(state, 0o700); err != nil {
		t.Fatal(err)
	}
	lock, err := os.Create(filepath.Join(state, "trust.lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if err := within(t, 20*time.Second, func() error { return saveRules(c, ws, "project", []string{"run_bash(make *)"}) }); err == nil || !strings.Contains(err.Error(), "lock") {
		t.Errorf("with a lock that is held: %v", err)
	}
}

// within fails the test when f takes longer than limit.
func within(t *testing.T, limit time.Duration, f func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-time.After(limit):
		t.Fatalf("it is not over after %v", limit)
		return nil
	}
}
