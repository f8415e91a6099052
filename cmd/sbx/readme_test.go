package main

import (
	"os"
	osexec "os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every console block of the README is run, in order, in one new project that has the
// examples of docs; "..." in its output stands for anything on that line, and a line of
// it alone for any lines, or none.
func TestReadmeExamples(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	steps := consoleSteps(string(readme))
	if len(steps) < 5 {
		t.Fatalf("the README has %d commands in console blocks, want at least 5", len(steps))
	}
	home := t.TempDir()
	project := filepath.Join(home, "project")
	for _, dir := range []string{project, home + "/.ssh"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(home+"/.ssh/id_ed25519", []byte("secret key\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(project+"/docs/examples", os.DirFS("../../docs/examples")); err != nil {
		t.Fatal(err)
	}
	daemon := t.TempDir()
	if out, err := osexec.Command("go", "build", "-o", daemon, "../sandboxd").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	for _, s := range steps {
		cmd := osexec.Command("bash", "-c", s.command)
		cmd.Dir = project
		cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH") + ":" + daemon, "LC_ALL=C"}
		out, _ := cmd.CombinedOutput() // a status that matters is printed by the example
		if !s.matches(string(out)) {
			t.Errorf("$ %s\ngot:\n%s\nthe README says:\n%s", s.command, out, s.output)
		}
	}
}

// step is a command of a console block and the output below it.
type step struct{ command, output string }

func consoleSteps(text string) []step {
	var steps []step
	inside := false
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "```"):
			inside = strings.TrimSpace(line) == "```console"
		case !inside:
		case strings.HasPrefix(line, "$ "):
			steps = append(steps, step{command: strings.TrimSpace(line[2:])})
		default:
			steps[len(steps)-1].output += line
		}
	}
	return steps
}

func (s step) matches(out string) bool {
	pattern := "\n" + regexp.QuoteMeta(s.output)
	pattern = strings.ReplaceAll(pattern, "\n"+`\.\.\.`+"\n", "\n"+`(?:.*\n)*?`)[1:]
	pattern = strings.ReplaceAll(pattern, `\.\.\.`, `.*`)
	return regexp.MustCompile(`^` + pattern + `$`).MatchString(out)
}

func TestReadmeStepMatching(t *testing.T) {
	for _, tt := range []struct {
		says, got string
		want      bool
	}{
		{"a\nb\n", "a\nb\n", true},
		{"a\n", "a\nb\n", false},
		{"", "a\n", false},
		{"a ... c\n", "a b c\n", true},
		{"a ... c\n", "a\n c\n", false},
		{"a+\n", "aa\n", false},
		{"a\n...\nb\n", "a\nx\ny\nb\n", true},
		{"a\n...\nb\n", "a\nb\n", true},
		{"a\n...\nb\n", "a\nx\n", false},
		{"...\nb\n", "x\nb\n", true},
	} {
		if got := (step{output: tt.says}).matches(tt.got); got != tt.want {
			t.Errorf("README %q, output %q: match %v, want %v", tt.says, tt.got, got, tt.want)
		}
	}
	steps := consoleSteps("x\n```sh\n$ no\n```\n```console\n$ yes 1\nout\n$ yes 2\n```\n$ no\n")
	if len(steps) != 2 || steps[0] != (step{"yes 1", "out\n"}) || steps[1] != (step{"yes 2", ""}) {
		t.Errorf("steps = %q", steps)
	}
}
