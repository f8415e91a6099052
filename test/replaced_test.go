package test

import (
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A person works in the checkout while a command runs in it. Git and editors
// save by renaming over the name, which takes a mount on it away.
func TestNamesReplacedFromOutsideAreStillGuarded(t *testing.T) {
	onStages(t, func(s *scene) {
		s.plain("git", "init", "-q", ".")
		s.plain("sh", "-c", "mkdir -p .git/hooks; echo old > .envrc")
		s.must(unix.Mkfifo(s.Work+"/go", 0o666))
		s.own(s.Work + "/go")
		outside := make(chan struct{})
		go func() {
			defer close(outside)
			f, err := openWhenRead(s.Work + "/go")
			if err != nil {
				s.Error(err)
				return
			}
			defer f.Close()
			s.plain("sh", "-c", "git config user.name person; mv .git/hooks x; mkdir .git/hooks; rm -r x; cp .envrc y; mv y .envrc")
		}()
		// The attack, and an honest setting beside it.
		s.sbx(nil, "sh", "-c", `read word < go
printf '[core]\n\tfsmonitor = ./evil\n[branch "b"]\n\tremote = o\n' >> .git/config
printf '#!/bin/sh\n./evil\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; echo evil > .envrc`)
		<-outside
		if config := s.content(s.Work + "/.git/config"); strings.Contains(config, "evil") || s.Tier == "full" && (!strings.Contains(config, "person") || !strings.Contains(config, "remote = o")) {
			s.Errorf("config after the run:\n%s", config)
		}
		if exists(s.Work + "/.git/hooks/pre-commit") {
			s.Error("the hook is in force")
		}
		if text := s.content(s.Work + "/.envrc"); text != "old\n" {
			s.Errorf(".envrc holds %q", text)
		}
	})
}

// openWhenRead opens a FIFO for writing as soon as somebody reads it, and gives
// up where nobody does.
func openWhenRead(path string) (*os.File, error) {
	var err error
	for range 1000 {
		var f *os.File
		if f, err = os.OpenFile(path, os.O_WRONLY|unix.O_NONBLOCK, 0); err == nil {
			return f, nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return nil, err
}
