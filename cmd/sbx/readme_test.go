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
// it alone for any lines, or none. Then those of docs/agent.md, and the scripts of
// docs/agent-scripts.md, each in a new module of the same project.
func TestReadmeExamples(t *testing.T) {
	p := newDocProject(t)
	for _, doc := range []struct {
		name  string
		least int
	}{{"README.md", 5}, {"docs/agent.md", 2}} {
		t.Run(filepath.Base(doc.name), func(t *testing.T) {
			p.clear(t)
			steps := consoleSteps(docText(t, doc.name))
			if len(steps) < doc.least {
				t.Fatalf("%s has %d commands in console blocks, want at least %d", doc.name, len(steps), doc.least)
			}
			for _, s := range steps {
				if out := p.run(s.command); !s.matches(out) {
					t.Errorf("$ %s\ngot:\n%s\n%s says:\n%s", s.command, out, doc.name, s.output)
				}
			}
		})
	}
	t.Run("agent-scripts.md", func(t *testing.T) {
		p.clear(t)
		p.run("sh docs/examples/broken-module.sh sum")
		scripts := yamlScripts(docText(t, "docs/agent-scripts.md"))
		if len(scripts) != 2 {
			t.Fatalf("%d scripts, want 2", len(scripts))
		}
		for _, script := range scripts {
			if err := os.WriteFile(p.dir+"/script.yaml", []byte(script), 0o600); err != nil {
				t.Fatal(err)
			}
			out := p.run("cd sum && sbx agent --workspace . --policy ../docs/examples/fix-test.toml --script ../script.yaml 'make the test pass' 2>&1; echo status $?")
			if !strings.HasSuffix(out, "status 0\n") || !strings.Contains(out, "completed") || strings.Contains(out, "fail [error") {
				t.Errorf("%s\ngives:\n%s", script, out)
			}
		}
	})
}

func docText(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// yamlScripts are the whole scripts of a document.
func yamlScripts(doc string) (scripts []string) {
	for block := range strings.SplitSeq(doc, "```yaml\n") {
		if script, _, found := strings.Cut(block, "```\n"); found && (strings.HasPrefix(script, "model:") || strings.HasPrefix(script, "steps:")) {
			scripts = append(scripts, script)
		}
	}
	return scripts
}

// docProject is a project in which commands of a document are run.
type docProject struct{ dir, home, daemon string }

// clear takes away the module of the document before.
func (p docProject) clear(t *testing.T) {
	t.Helper()
	if err := os.RemoveAll(p.dir + "/sum"); err != nil {
		t.Fatal(err)
	}
}

// run gives the output of a command; a status that matters is printed by the example.
func (p docProject) run(command string) string {
	cmd := osexec.Command("bash", "-c", command)
	cmd.Dir = p.dir
	cmd.Env = []string{"HOME=" + p.home, "PATH=" + os.Getenv("PATH") + ":" + p.daemon, "LC_ALL=C"}
	out, _ := cmd.CombinedOutput()
	return string(out)
}

func newDocProject(t *testing.T) docProject {
	t.Helper()
	daemon := t.TempDir()
	if out, err := osexec.Command("go", "build", "-o", daemon, "../sandboxd").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
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
	return docProject{dir: project, home: home, daemon: daemon}
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
