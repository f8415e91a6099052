package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"sandboxd/policy"
	"sandboxd/policy/settings"
)

// policyTest loads the policy, which checks the examples of every rule, and
// compares verdicts with the expected ones of files. A line is a verdict and a
// command; # begins a comment line.
func (p *program) policyTest(c *cli.Context) error {
	e, err := p.loadSettings(c)
	if err != nil {
		return err
	}
	eng, err := engine(e)
	if err != nil {
		return err
	}
	cases, wrong := 0, 0
	for _, name := range c.Args().Slice() {
		lines, err := readLines(name)
		if err != nil {
			return err
		}
		for i, line := range lines {
			word, command, _ := strings.Cut(strings.TrimSpace(line), " ")
			if word == "" || strings.HasPrefix(word, "#") {
				continue
			}
			want, err := policy.ParseVerdict(word)
			if err != nil || strings.TrimSpace(command) == "" {
				return misuse("a line is a verdict and a command, as in: deny git push --force", "%s:%d: %q", name, i+1, shortLine(line))
			}
			cases++
			d := eng.Check(c.Context, policy.BashCall(strings.TrimSpace(command), e.Workspace))
			if d.Verdict == want {
				continue
			}
			wrong++
			if err := p.writeOut("%s\n", oneLine(fmt.Sprintf("%s:%d: %s: got %s, want %s: %s", name, i+1, shortLine(command), d.Verdict, want, d.Reason))); err != nil {
				return err
			}
		}
	}
	examples := 0
	for _, r := range e.Rules {
		examples += len(r.Match) + len(r.NotMatch)
	}
	if err := p.writeOut("%d rules, %d examples, %d cases, %d wrong\n", len(e.Rules), examples, cases, wrong); err != nil {
		return err
	}
	if wrong > 0 {
		return exitStatus(1)
	}
	return nil
}

func readLines(name string) ([]string, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, &failure{code: exitSandbox, stage: "policy", hint: "name a text file", err: err}
	}
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n"), nil
}

// difference is one command whose verdict changes.
type difference struct {
	Command string         `json:"command"`
	Old     policy.Verdict `json:"old"`
	New     policy.Verdict `json:"new"`
	By      string         `json:"by"` // why the new policy decides so
}

// policyDiff compares two policy files on a list of commands: lines of text, or
// of JSON with a command. Without a list it takes the commands that the rules
// themselves speak of. Both files are read alone, without other sources.
func (p *program) policyDiff(c *cli.Context) error {
	if n := c.Args().Len(); n < 2 || n > 3 {
		return misuse("as in: sbx policy diff old.toml new.toml commands.txt", "diff needs two policy files")
	}
	cwd, err := os.Getwd()
	if err != nil {
		return &failure{code: exitSandbox, stage: "workspace", err: err}
	}
	workspace, err := p.checkWorkspace(c, cwd)
	if err != nil {
		return err
	}
	var engines [2]*policy.Engine
	var commands []string
	for i := range engines {
		e, err := settings.LoadAlone(c.Args().Get(i), workspace, p.environ)
		if err != nil {
			return settingsFailure(err)
		}
		if engines[i], err = engine(e); err != nil {
			return err
		}
		commands = append(commands, ruleCommands(e.Rules)...)
	}
	if c.Args().Len() == 3 {
		if commands, err = commandList(c.Args().Get(2)); err != nil {
			return err
		}
	}
	differences := []difference{}
	for _, command := range commands {
		call := policy.BashCall(command, workspace)
		before, after := engines[0].Check(c.Context, call), engines[1].Check(c.Context, call)
		if before.Verdict != after.Verdict {
			differences = append(differences, difference{command, before.Verdict, after.Verdict, after.Reason.String()})
		}
	}
	return p.printDifferences(differences, len(commands), c.Bool("json"))
}

func (p *program) printDifferences(list []difference, checked int, asJSON bool) error {
	if asJSON {
		if err := p.writeJSON(map[string]any{"checked": checked, "differences": list}); err != nil {
			return err
		}
	} else {
		for _, d := range list {
			if err := p.writeOut("%s\n", oneLine(fmt.Sprintf("%-5s -> %-5s %s (%s)", d.Old, d.New, shortLine(d.Command), d.By))); err != nil {
				return err
			}
		}
		if err := p.writeOut("%d of %d commands differ\n", len(list), checked); err != nil {
			return err
		}
	}
	if len(list) > 0 {
		return exitStatus(1)
	}
	return nil
}

// ruleCommands makes commands from the rules on commands: their content with the
// stars filled in, and their examples.
func ruleCommands(rules []policy.Rule) []string {
	var out []string
	seen := map[string]bool{}
	add := func(s string) {
		if s = strings.TrimSpace(s); s != "" && !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	for _, r := range rules {
		tool, content, ok := strings.Cut(strings.TrimSuffix(r.Pattern, ")"), "(")
		if !ok || policy.CanonicalTool(tool) != "run_bash" {
			continue
		}
		if !strings.HasPrefix(content, "re:") {
			add(strings.ReplaceAll(content, "*", ""))
			add(strings.ReplaceAll(content, "*", "x"))
		}
		for _, ex := range append(r.Match, r.NotMatch...) {
			add(ex)
		}
	}
	return out
}

// commandList reads commands: a line of text each, or a JSON object with a
// command each.
func commandList(name string) ([]string, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, &failure{code: exitSandbox, stage: "policy", hint: "name a file with one command a line", err: err}
	}
	defer f.Close()
	in := bufio.NewScanner(f)
	in.Buffer(nil, maxBatchLine)
	asJSON := filepath.Ext(name) == ".jsonl"
	var out []string
	for in.Scan() {
		line := strings.TrimSpace(in.Text())
		if line == "" || !asJSON && strings.HasPrefix(line, "#") {
			continue
		}
		if asJSON {
			var object struct {
				Command *string `json:"command"`
			}
			if err := json.Unmarshal([]byte(line), &object); err != nil || object.Command == nil {
				return nil, misuse("each line of a .jsonl file is an object with command", "%s: %q", name, shortLine(line))
			}
			line = *object.Command
		}
		out = append(out, line)
	}
	if err := in.Err(); err != nil {
		return nil, &failure{code: exitSandbox, stage: "policy", err: errors.Join(errors.New(name), err)}
	}
	return out, nil
}
