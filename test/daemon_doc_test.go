package test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Every console block of docs/api.md is run, in order, with a daemon of its own;
// "..." in its output stands for anything on that line.
func TestExamplesOfTheDaemon(t *testing.T) {
	text, err := os.ReadFile("../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	s := newScene(t, os.Getuid(), "full")
	program, err := daemonProgram()
	s.must(err)
	runtime := s.mkdir(filepath.Dir(s.Work) + "/runtime")
	s.must(os.Chmod(runtime, 0o700))
	s.must(os.Chmod(s.mkdir(s.Home+"/state"), 0o700))
	s.Env = []string{"XDG_RUNTIME_DIR=" + runtime, "SANDBOXD_SOCKET=" + runtime + "/sandboxd/sandboxd.sock",
		"PATH=" + filepath.Dir(program) + ":/usr/local/bin:/usr/bin:/bin"}
	t.Cleanup(func() {
		for _, p := range processesWith(s.Home + "/state") {
			var pid int
			if _, err := sscan(p, &pid); err == nil {
				unix.Kill(pid, unix.SIGKILL)
			}
		}
	})
	commands := 0
	var command, want string
	check := func() {
		if command == "" {
			return
		}
		commands++
		r := s.finish(s.command("bash", "-c", command+" 2>&1"))
		pattern := "^" + strings.ReplaceAll(regexp.QuoteMeta(want), `\.\.\.`, ".*") + "$"
		if !regexp.MustCompile(pattern).MatchString(r.Stdout) {
			t.Errorf("$ %s\ngot:\n%s\ndocs/api.md says:\n%s", command, r.Stdout, want)
		}
		command, want = "", ""
	}
	inside := false
	for line := range strings.Lines(string(text)) {
		switch {
		case strings.HasPrefix(line, "```"):
			check()
			inside = strings.TrimSpace(line) == "```console"
		case inside && strings.HasPrefix(line, "$ "):
			check()
			command = strings.TrimSpace(line[2:])
		case inside:
			want += line
		}
	}
	if commands < 8 {
		t.Errorf("%d commands, want at least 8", commands)
	}
}

// sscan reads the pid out of a line of processesWith.
func sscan(line string, pid *int) (int, error) {
	path, _, _ := strings.Cut(line, " ")
	n := 0
	for _, c := range filepath.Base(path) {
		if c < '0' || c > '9' {
			return 0, os.ErrInvalid
		}
		n = n*10 + int(c-'0')
	}
	*pid = n
	return 1, nil
}
