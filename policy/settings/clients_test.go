package settings

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sandboxd/policy"
	"sandboxd/test/require"
)

// These tests ask the clients themselves. "make clients" installs them;
// SANDBOXD_TEST_CLIENTS names the directory.

// clientPackage is the directory of an installed npm package.
func clientPackage(t *testing.T, name string) string {
	t.Helper()
	root := os.Getenv("SANDBOXD_TEST_CLIENTS")
	dir := filepath.Join(root, "node_modules", name)
	if _, err := os.Stat(dir); root == "" || err != nil {
		require.Asked(t, name+" is not here: make clients, then SANDBOXD_TEST_CLIENTS=DIR")
	}
	return dir
}

// clientProgram is a client's native program, below its package or on PATH. The
// packages start it by a script, which takes longer than the program.
func clientProgram(t *testing.T, name string, patterns ...string) string {
	t.Helper()
	if root := os.Getenv("SANDBOXD_TEST_CLIENTS"); root != "" {
		for _, p := range patterns {
			if found, err := filepath.Glob(filepath.Join(root, "node_modules", p)); err == nil && len(found) > 0 {
				return found[0]
			}
		}
	}
	program, err := exec.LookPath(name)
	if err != nil {
		require.Asked(t, name+" is not here: make clients, then SANDBOXD_TEST_CLIENTS=DIR")
	}
	return program
}

// clientOutput runs a client with a home of its own, for limit at most. It returns what it printed
// and whether it exited with 0.
func clientOutput(t *testing.T, limit time.Duration, dir string, input []byte, argv ...string) ([]byte, string, bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.WaitDelay = time.Second
	home := filepath.Join(dir, "home")
	if err := os.MkdirAll(home, 0o700); err != nil {
		t.Fatal(err)
	}
	c.Dir, c.Stdin = dir, bytes.NewReader(input)
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "CODEX_HOME=" + home, "TMPDIR=" + dir}
	var out, problem bytes.Buffer
	c.Stdout, c.Stderr = &out, &problem
	err := c.Run()
	if err != nil && c.ProcessState == nil {
		t.Fatal(err)
	}
	return out.Bytes(), problem.String(), err == nil
}

func codexProgram(t *testing.T) string {
	return clientProgram(t, "codex", "@openai/codex-*/vendor/*/bin/codex", ".bin/codex")
}

// codexCheck is codex execpolicy check. ok is false when it refuses the file.
func codexCheck(t *testing.T, program, dir, file string, words []string) (v said, ok bool) {
	t.Helper()
	argv := append([]string{program, "execpolicy", "check", "--rules", file, "--"}, words...)
	out, problem, ok := clientOutput(t, time.Minute, dir, nil, argv...)
	if !ok {
		if !strings.Contains(problem, "policy") && !strings.Contains(problem, "example") {
			t.Fatalf("codex: %s", problem)
		}
		return "", false
	}
	var answer struct {
		MatchedRules []any
		Decision     string
	}
	if err := json.Unmarshal(out, &answer); err != nil || answer.MatchedRules == nil {
		t.Fatalf("codex answers %q: %v", out, err)
	}
	v, known := map[string]said{"": "", "allow": "allow", "prompt": "ask", "forbidden": "deny"}[answer.Decision]
	if !known {
		t.Fatalf("codex answers %q", out)
	}
	return v, true
}

// TestCodexAgrees: what an imported .rules file allows, Codex's own check
// allows, and what that forbids is denied. It also judges the model of Codex
// that TestImportIsNeverWiderForCommands uses.
func TestCodexAgrees(t *testing.T) {
	program := codexProgram(t)
	dir := t.TempDir()
	compared, allowed, denied := 0, 0, 0
	for name, data := range settingsFiles(t, "codex") {
		if !strings.HasSuffix(name, ".rules") {
			continue
		}
		p, _, err := Import("codex", source(name), data)
		if err != nil {
			t.Fatal(err)
		}
		file, err := filepath.Abs(name)
		if err != nil {
			t.Fatal(err)
		}
		model := codexModel(t, name, data)
		for i, command := range commands {
			got := ours(t, p, policy.BashCall(command, "/w"))
			modelled := model(splitWords(command), command)
			if got == "" && modelled == "" && i%10 != 0 {
				continue // a sample of those about which nobody speaks
			}
			want := spelled(func(words []string, _ string) said {
				v, ok := codexCheck(t, program, dir, file, words)
				if !ok {
					t.Fatalf("%s: Codex refuses what was imported", name)
				}
				return v
			}, command)
			if spelled(model, command) != want {
				t.Errorf("%s: %q: the model says %q, Codex %q", name, command, modelled, want)
			}
			if got.strictness() < want.strictness() || got == "allow" && want != "allow" {
				t.Errorf("%s: %q: ours %q, Codex %q", name, command, got, want)
			}
			compared++
			if got == "allow" {
				allowed++
			}
			if want == "deny" {
				denied++
			}
		}
	}
	t.Logf("%d commands compared, %d allowed by ours, %d forbidden by Codex", compared, allowed, denied)
	if allowed < 20 || denied < 10 {
		t.Errorf("%d allowed, %d denied: the comparison says little", allowed, denied)
	}
}

// codexTexts are files that Codex reads, and files that it refuses as a whole;
// of a refused file none of its allow rules holds.
var codexTexts = []struct {
	text    string
	refused bool
}{
	{text: `prefix_rule(pattern=["go","test"]);`},
	{text: `prefix_rule(pattern=["go","test"]); prefix_rule(pattern=["x"])`},
	{text: `prefix_rule(pattern=["go"] + ["te" + "st"])`},
	{text: `prefix_rule(pattern=["go", ("test")])`},
	{text: `prefix_rule(pattern=["go", ["test"]+["x"]])`},
	{text: `prefix_rule(["go"], "prompt", [["go", "x"]], ["gox"], "why")`},
	{text: `prefix_rule(pattern=["go"],match=[])`},
	{text: `prefix_rule(pattern=["go"],match=["\"go\" test", "go  x"])`},
	{text: `prefix_rule(pattern=["go"],match=["/usr/bin/go x"])`},
	{text: "prefix_rule(pattern\n=[\"go\"], decision=\"prompt\",)\r\n# x\r\n"},
	{text: "prefix_rule\\\n(pattern=['go'])"},
	{text: `network_rule(host="a.test", protocol="https", decision="forbidden")`},
	{text: `network_rule(host="A.test", protocol="http", decision="allow")`},
	{text: `network_rule("a.test", "https", "deny")`},
	{text: "host_executable(name=\"go\", paths=[\"/opt/go\"])\nprefix_rule(pattern=[\"go\"], match=[\"/opt/go x\"], not_match=[\"/usr/bin/go x\"])"},
	{text: `host_executable(name="go", paths=[])`},
	{text: "prefix_rule(pattern=[\"go\"], match=[\"/usr/bin/go x\"])\nhost_executable(name=\"go\", paths=[\"/opt/go\"])", refused: true},
	{text: `host_executable(name="go")`, refused: true},
	{text: `host_executable(name="a/b", paths=["/a/b"])`, refused: true},
	{text: `host_executable(name="go", paths=["go"])`, refused: true},
	{text: `host_executable(name="go", paths=["/x/other"])`, refused: true},
	{text: "prefix_rule(\n\tpattern=[\"go\"])", refused: true},
	{text: "prefix_rule(pattern=[\"go\"])\t# x", refused: true},
	{text: `prefix_rule(pattern=["go"], match=[""])`, refused: true},
	{text: `prefix_rule(pattern=("go", "test"))`, refused: true},
	{text: `prefix_rule(pattern=["go", ("test","vet")])`, refused: true},
	{text: `prefix_rule(pattern=["go", ("test",)])`, refused: true},
	{text: `prefix_rule(pattern=["go"], match=("go x",))`, refused: true},
	{text: `prefix_rule(pattern=["go"], match=[("go", "x")])`, refused: true},
	{text: `prefix_rule(pattern=["go"], decision=None)`, refused: true},
	{text: `prefix_rule(pattern=["go"], match=None)`, refused: true},
	{text: `prefix_rule(pattern=["go"], justification=None)`, refused: true},
	{text: `prefix_rule(pattern=["go"], justification=["x"])`, refused: true},
	{text: `prefix_rule(pattern=["go"], decision="deny")`, refused: true},
	{text: `prefix_rule(pattern=["go"], decision="Allow")`, refused: true},
	{text: `prefix_rule(pattern=["go"], justification="")`, refused: true},
	{text: `prefix_rule(pattern=["go"], justification=" ")`, refused: true},
	{text: `prefix_rule(pattern=[[]])`, refused: true},
	{text: `prefix_rule(pattern=[])`, refused: true},
	{text: `prefix_rule(pattern=["go", 1])`, refused: true},
	{text: `prefix_rule(pattern=["go"], foo="x")`, refused: true},
	{text: `prefix_rule(pattern=["go" "x"])`, refused: true},
	{text: `prefix_rule(pattern=["go"], match=["gox"])`, refused: true},
	{text: `prefix_rule(pattern=["go"], match=["go 'x"])`, refused: true},
	{text: `prefix_rule(pattern=["go"], match=["G=1 go"])`, refused: true},
	{text: `prefix_rule(pattern=["go"], not_match=["go"])`, refused: true},
	{text: `prefix_rule(pattern=["go"], not_match=["/usr/bin/go x"])`, refused: true},
	{text: `prefix_rule(pattern=["go"])prefix_rule(pattern=["x"])`, refused: true},
	{text: "  prefix_rule(pattern=[\"go\"])", refused: true},
	{text: "\tprefix_rule(pattern=[\"go\"])", refused: true},
	{text: "\n;prefix_rule(pattern=[\"go\"])", refused: true},
	{text: "prefix_rule(pattern=[\"go\"]);;", refused: true},
	{text: `network_rule(host="*.x.test", protocol="https", decision="allow")`, refused: true},
	{text: `network_rule(host="*", protocol="https", decision="allow")`, refused: true},
	{text: `network_rule(host="https://a.test", protocol="https", decision="allow")`, refused: true},
	{text: `network_rule(host="a.test/x", protocol="https", decision="allow")`, refused: true},
	{text: `network_rule(host="", protocol="https", decision="deny")`, refused: true},
	{text: `network_rule(host="a.test", protocol="ftp", decision="allow")`, refused: true},
	{text: `network_rule(host="a.test", protocol="https")`, refused: true},
	{text: `network_rule(host="a.test", protocol="https", decision=None)`, refused: true},
}

func TestImportRefusesWhatCodexRefuses(t *testing.T) {
	for _, tt := range codexTexts {
		_, _, err := Import("codex", source("x.rules"), []byte(tt.text))
		if (err != nil) != tt.refused {
			t.Errorf("%q: %v, want refused %v", tt.text, err, tt.refused)
		}
	}
}

func TestCodexReadsWhatTheTableSays(t *testing.T) {
	program := codexProgram(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "x.rules")
	for _, tt := range codexTexts {
		if err := os.WriteFile(file, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, ok := codexCheck(t, program, dir, file, []string{"go", "test"}); ok == tt.refused {
			t.Errorf("Codex: %q: read %v, want refused %v", tt.text, ok, tt.refused)
		}
	}
}

// TestGeminiAgrees asks Gemini CLI's own policy engine.
func TestGeminiAgrees(t *testing.T) {
	dir := clientPackage(t, "@google/gemini-cli")
	node, err := exec.LookPath("node")
	if err != nil {
		require.Missing(t, require.Program, "node is not here")
	}
	type answer struct {
		Errors, Decisions []string
	}
	input := struct {
		Files    []string `json:"files"`
		Commands []string `json:"commands"`
	}{}
	files := settingsFiles(t, "gemini")
	byFile := map[string]string{}
	for name := range files {
		file, err := filepath.Abs(name)
		if err != nil {
			t.Fatal(err)
		}
		byFile[name] = file
		input.Files = append(input.Files, file)
	}
	for k, script := range scripts() {
		input.Commands = append(input.Commands, strings.Join(script, []string{"; ", " && ", " | ", "\n"}[k%4]))
	}
	ask, err := json.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	program, err := filepath.Abs("testdata/clients/gemini.mjs")
	if err != nil {
		t.Fatal(err)
	}
	out, problem, ok := clientOutput(t, 5*time.Minute, t.TempDir(), ask, node, program, dir)
	if !ok {
		t.Fatalf("gemini: %.2000s", problem)
	}
	answers := map[string]answer{}
	if err := json.Unmarshal(out, &answers); err != nil {
		t.Fatal(err)
	}
	allowed, denied := 0, 0
	for name, data := range files {
		p, _, err := Import("gemini", source(name), data)
		theirs := answers[byFile[name]]
		if err != nil || len(theirs.Decisions) != len(input.Commands) {
			t.Fatal(name, err, len(theirs.Decisions))
		}
		if len(theirs.Errors) > 0 {
			t.Logf("%s: Gemini: %q", name, theirs.Errors)
		}
		for i, text := range input.Commands {
			want := map[string]said{"allow": "allow", "deny": "deny", "ask_user": "ask"}[theirs.Decisions[i]]
			got := ours(t, p, policy.BashCall(text, "/w"))
			if got == "allow" {
				allowed++
			}
			if want == "deny" {
				denied++
			}
			if got.strictness() < want.strictness() || got == "allow" && want != "allow" {
				t.Errorf("%s: %q: ours %q, Gemini %q", name, text, got, want)
			}
		}
	}
	t.Logf("%d scripts compared, %d allowed by ours, %d denied by Gemini", len(files)*len(input.Commands), allowed, denied)
	if allowed < 50 || denied < 50 {
		t.Errorf("%d allowed, %d denied: the comparison says little", allowed, denied)
	}
}

// TestOpencodeAgrees compares how opencode itself reads our files with the model
// of opencode that TestImportIsNeverWiderForCommands uses. It has no command that
// judges a call, but one that prints an agent's permissions in their order.
func TestOpencodeAgrees(t *testing.T) {
	program := clientProgram(t, "opencode", "opencode-ai/bin/opencode*", ".bin/opencode")
	for name, data := range settingsFiles(t, "opencode") {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "opencode"+filepath.Ext(name)), data, 0o600); err != nil {
			t.Fatal(err)
		}
		out, problem, ok := clientOutput(t, 30*time.Second, dir, nil, program, "debug", "agent", "build")
		if !ok {
			t.Logf("%s: opencode refuses it or gives no answer: %.300q", name, problem)
			continue
		}
		var agent struct {
			Permission []struct{ Permission, Pattern, Action string }
		}
		if err := json.Unmarshal(out, &agent); err != nil || len(agent.Permission) == 0 {
			t.Fatalf("%s: %v in %.300s", name, err, out)
		}
		var theirs []orderedPermission
		for _, p := range agent.Permission {
			theirs = append(theirs, orderedPermission{p.Permission, p.Pattern, p.Action})
		}
		for _, want := range orderedOf(t, data) {
			for _, home := range []string{"~/", "$HOME/"} {
				if rest, ok := strings.CutPrefix(want.pattern, home); ok {
					want.pattern = filepath.Join(dir, "home", rest)
				}
			}
			found := false
			for _, p := range theirs {
				found = found || p == want
			}
			if !found {
				t.Errorf("%s: the model has %+v, opencode reads %+v", name, want, theirs)
			}
		}
	}
}
