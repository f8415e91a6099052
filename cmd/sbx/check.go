package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"sandboxd/cmd/sandboxd/api"
	"sandboxd/policy"
	"sandboxd/policy/settings"
)

// Exit codes of sbx check.
const (
	checkAsk  = 1
	checkDeny = 2
)

func checkCommand(p *program) *cli.Command {
	return &cli.Command{
		UsageText: examples("sbx check 'git push --force'", "sbx check --json -- rm -rf build", "sbx check --tool read_file --args '{\"file_path\":\".env\"}'",
			"sbx check --batch commands.jsonl"),
		Description: "Decides and explains; nothing is run. One word is a Bash script, several are one command.\nExit status: 0 allow, 1 ask, 2 deny, 125 misuse; with --batch 0 when every line was answered.",
		Flags: append([]cli.Flag{
			&cli.BoolFlag{Name: "json", Usage: "print the decision as one JSON object"},
			&cli.StringFlag{Name: "batch", Usage: "answer every line of `FILE` (- for standard input) with one line", TakesFile: true},
			&cli.StringFlag{Name: "cwd", Usage: "the `DIR` where the command would start (default: the current directory)", TakesFile: true},
			&cli.StringFlag{Name: "tool", Usage: "check a call of the tool `NAME` instead of a command"},
			&cli.StringFlag{Name: "args", Usage: "the tool's arguments, a `JSON` object"},
			&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "print nothing, the exit status tells"},
		}, policyFlags()...),
		Action: p.check,
	}
}

func (p *program) check(c *cli.Context) error {
	if args, ok := flagsBehindScript(c); ok {
		return p.app([]string{"check"}).RunContext(c.Context, args)
	}
	cwd, err := checkCwd(c)
	if err != nil {
		return err
	}
	if st, err := os.Stat(cwd); c.IsSet("cwd") && (err != nil || !st.IsDir()) {
		p.note("note", "there is no directory "+cwd+" here: nothing could start in it")
	}
	if c.IsSet("batch") {
		if c.Args().Len() > 0 || c.IsSet("tool") || c.IsSet("args") {
			return misuse("the file holds the commands", "--batch takes no command and no --tool")
		}
		return p.checkBatch(c, cwd)
	}
	call, title, err := checkedCall(c, cwd)
	if err != nil {
		return err
	}
	e, err := p.loadSettings(c)
	if err != nil {
		return err
	}
	eng, err := engine(e)
	if err != nil {
		return err
	}
	d := eng.Check(c.Context, call)
	switch {
	case c.Bool("quiet"):
	case c.Bool("json"):
		err = p.writeJSON(d)
	default:
		err = p.writeOut("%s", decisionText(d, title, e))
	}
	if err != nil {
		return err
	}
	return checkStatus(d.Verdict)
}

// flagsBehindScript reads sbx check 'git push origin' --json, which is often
// typed: when the first operand holds a blank it is a script and no program, so
// flags behind it are ours. It returns the command line in the order that the
// flag parser wants.
func flagsBehindScript(c *cli.Context) (args []string, ok bool) {
	words := c.Args().Slice()
	if len(words) < 2 || !strings.ContainsAny(words[0], " \t\n") || !strings.HasPrefix(words[1], "--") {
		return nil, false
	}
	args = []string{"sbx", "check"}
	for _, name := range c.LocalFlagNames() {
		switch value := c.Value(name).(type) {
		case bool:
			if len(name) > 1 {
				args = append(args, "--"+name)
			}
		case cli.StringSlice:
			for _, v := range value.Value() {
				args = append(args, "--"+name, v)
			}
		default:
			args = append(args, "--"+name, c.String(name))
		}
	}
	return append(append(args, words[1:]...), "--", words[0]), true
}

// plainJSONError is err without the names of our types.
func plainJSONError(err error) string {
	if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return "it is a JSON " + kind.Value
	}
	return err.Error()
}

func checkStatus(v policy.Verdict) error {
	switch v {
	case policy.Allow:
		return nil
	case policy.Ask:
		return exitStatus(checkAsk)
	case policy.Deny:
		return exitStatus(checkDeny)
	}
	return exitStatus(checkDeny)
}

// checkCwd returns the absolute directory of --cwd, or the current one.
func checkCwd(c *cli.Context) (string, error) {
	here, err := os.Getwd()
	if err != nil && (!c.IsSet("cwd") || !filepath.IsAbs(c.String("cwd"))) {
		return "", &failure{code: exitSandbox, stage: "workspace", hint: "change to a directory that exists", err: err}
	}
	if !c.IsSet("cwd") {
		return here, nil
	}
	dir := c.String("cwd")
	if dir == "" {
		return "", misuse("name a directory", "--cwd is empty")
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(here, dir)
	}
	return filepath.Clean(dir), nil
}

// checkedCall reads the call from flags and operands; title is what to show of
// it.
func checkedCall(c *cli.Context, cwd string) (call policy.Call, title string, err error) {
	words := c.Args().Slice()
	if c.IsSet("tool") || c.IsSet("args") {
		if c.IsSet("tool") && c.String("tool") == "" {
			return call, "", misuse("name the tool, as in --tool read_file", "--tool is empty")
		}
		if !c.IsSet("tool") {
			return call, "", misuse("name the tool, as in --tool read_file", "--args without --tool")
		}
		if len(words) > 0 {
			return call, "", misuse("put the command into --args", "--tool takes no command")
		}
		args, err := policy.DecodeArgs([]byte(c.String("args")))
		if err != nil {
			return call, "", misuse(`write an object, as in --args '{"file_path":"x"}'`, "--args is no JSON object: %s", plainJSONError(err))
		}
		return policy.Call{Tool: c.String("tool"), Args: args, Cwd: cwd}, c.String("tool") + " " + c.String("args"), nil
	}
	switch len(words) {
	case 0:
		return call, "", misuse("write it as one word, as in: sbx check 'git push'", "no command to check")
	case 1:
		return policy.BashCall(words[0], cwd), words[0], nil
	}
	return policy.ArgvCall(words, cwd), strings.Join(words, " "), nil
}

// decisionText is a decision for people: the verdict, why, each command, and
// what would allow it.
func decisionText(d policy.Decision, title string, e *settings.Effective) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintln(&b, oneLine(fmt.Sprintf(format, args...))) }
	line("%-5s %s", d.Verdict, shortLine(title))
	line("by    %s", d.Reason)
	if len(d.Commands) > 1 || len(d.Commands) == 1 && len(d.Commands[0].Via) > 0 {
		line("commands:")
		for _, cmd := range d.Commands {
			why := ""
			if cmd.Reason != nil {
				why = cmd.Reason.String()
			}
			line("  %-5s %-40s %s", cmd.Verdict, shortLine(strings.Join(cmd.Argv, " ")), why)
		}
	}
	for _, list := range []struct {
		name  string
		items []string
	}{{"writes", d.Writes}, {"unknown", d.Unknown}, {"not compared", d.Unmatched}} {
		if len(list.items) > 0 {
			line("%s: %s", list.name, shortLine(strings.Join(list.items, ", ")))
		}
	}
	if d.Verdict != policy.Allow {
		line("to allow: %s", api.Remedy(d))
	}
	for _, n := range e.Ignored {
		line("ignored: %s", n)
	}
	return b.String()
}

// shortLine keeps a line readable.
func shortLine(s string) string {
	if len(s) <= 160 {
		return s
	}
	return strings.ToValidUTF8(s[:157], "") + "..."
}
