package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestNothingIsLeftToReap: what a program leaves unreaped goes to the nearest
// reaper, here this process. Process 1 of a plain container is often a program
// that reaps nothing, and each run would cost it a number for ever.
func TestNothingIsLeftToReap(t *testing.T) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	defer unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
	inTiers(t, func(s *scene) {
		s.plain("/bin/sh", "-c", "sleep 0.01 &")
		if !soon(func() bool { return strings.Contains(zombies(s), "sleep") }) {
			s.Fatalf("an orphan does not come here: %q", zombies(s))
		}
		reapZombies()
		for _, tt := range []struct {
			flags []string
			argv  string
			code  int
		}{
			{nil, "true", 0},
			{nil, "false", 1},
			{[]string{"--net", "full"}, "true", 0},
			{[]string{"--dry-run"}, "true", 0},
			{[]string{"--tier", "neither"}, "true", 125},
			{[]string{"--no-such-flag"}, "true", 125},
			{nil, "/nonexistent", 127},
			{nil, "/etc/passwd", 126},
			{[]string{"--timeout", "50ms"}, "/bin/sh -c 'sleep 60'", 124},
		} {
			argv := []string{"/bin/sh", "-c", tt.argv}
			if !strings.Contains(tt.argv, " ") {
				argv = []string{tt.argv}
			}
			for range 3 {
				r := s.finish(s.command(s.sbxArgs(tt.flags, argv...)...))
				if found := zombies(s); r.Code != tt.code || found != "" {
					s.Errorf("%v %s: exit %d, left to reap: %s\n%s", tt.flags, tt.argv, r.Code, found, r.Stderr)
				}
				reapZombies()
			}
		}
	})
}

// zombies lists the children of this process that have ended.
func zombies(s *scene) string {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	s.must(err)
	var found []string
	for _, file := range files {
		text, _ := os.ReadFile(file)
		name, rest, _ := strings.Cut(string(text), ") ")
		if strings.HasPrefix(rest, fmt.Sprintf("Z %d ", os.Getpid())) {
			found = append(found, name+")")
		}
	}
	return strings.Join(found, " ")
}

func reapZombies() {
	for {
		if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); err != nil || pid <= 0 {
			return
		}
	}
}
