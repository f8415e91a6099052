package main

import (
	"errors"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"sandboxd/policy"
	"sandboxd/policy/settings"
)

func policyCommand(p *program) *cli.Command {
	asJSON := &cli.BoolFlag{Name: "json", Usage: "print one JSON object"}
	with := func(flags ...cli.Flag) []cli.Flag { return append(flags, policyFlags()...) }
	return &cli.Command{
		UsageText: examples("sbx policy show", "sbx policy explain 'git push --force'", "sbx policy lint", "sbx policy import claude .claude/settings.json > sandboxd.toml"),
		Subcommands: []*cli.Command{
			{Name: "show", UsageText: examples("sbx policy show", "sbx policy show --json --mode plan"), Usage: "print the effective policy, each value with its source", Flags: with(asJSON), Action: p.policyShow},
			{Name: "sources", UsageText: examples("sbx policy sources"), Usage: "list where policy comes from, strongest first", Flags: with(asJSON), Action: p.policySources},
			{Name: "explain", UsageText: examples("sbx policy explain 'git push --force'"), Usage: "list the stages of a decision and mark the one that decided", ArgsUsage: "[COMMAND]",
				Flags: with(&cli.StringFlag{Name: "cwd", Usage: "the `DIR` where the command would start", TakesFile: true}), Action: p.policyExplain},
			{Name: "test", UsageText: examples("sbx policy test", "sbx policy test --policy new.toml verdicts.txt"), Usage: "check the rules' own examples, and files with lines such as: deny git push --force", ArgsUsage: "[FILE...]", Flags: with(), Action: p.policyTest},
			{Name: "lint", UsageText: examples("sbx policy lint", "sbx policy lint --policy new.toml"), Usage: "find rules that are wrong, dead, shadowed or fragile; status 1 when there are any", Flags: with(asJSON), Action: p.policyLint},
			{Name: "diff", UsageText: examples("sbx policy diff old.toml new.toml", "sbx policy diff old.toml new.toml commands.txt"), Usage: "list the commands whose verdict differs between two policy files; status 1 when there are any", ArgsUsage: "OLD NEW [COMMANDS]",
				Flags: []cli.Flag{asJSON, &cli.StringFlag{Name: "workspace", Usage: "the project `DIR`", TakesFile: true}}, Action: p.policyDiff},
			{Name: "import", UsageText: examples("sbx policy import claude .claude/settings.json", "sbx policy import codex --output sandboxd.toml default.rules"), Usage: "turn another agent's settings into a policy, never a wider one", ArgsUsage: strings.Join(settings.Clients, "|") + " FILE",
				Flags: []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print the report and the policy as one JSON object"},
					&cli.StringFlag{Name: "output", Usage: "write the policy to `FILE`, which must not exist", TakesFile: true}}, Action: p.policyImport},
		},
		Action: func(c *cli.Context) error {
			if c.Args().Len() == 0 {
				return cli.ShowSubcommandHelp(c)
			}
			return misuse("sbx policy --help lists them", "unknown command: policy %s", c.Args().First())
		},
	}
}

// noOperands refuses words behind the flags of a command that takes none: one
// that is left unread looks as if it had been obeyed.
func noOperands(c *cli.Context, hint string) error {
	if c.Args().Len() > 0 {
		return misuse(hint, "%s takes no operand: %s", c.Command.HelpName, c.Args().First())
	}
	return nil
}

// sourceLine is one source in the answer of sbx policy sources.
type sourceLine struct {
	Source  string `json:"source"`
	What    string `json:"what"`
	File    string `json:"file,omitempty"`
	Found   bool   `json:"found"`
	Trusted bool   `json:"trusted"`
}

// sourceTable is the documented order, strongest first.
func sourceTable() []sourceLine {
	return []sourceLine{
		{Source: "managed", What: "the administrator's file"},
		{Source: "cli", What: "flags, then variables: AGENT_PERMISSIONS_DENY, _ASK, _ALLOW, AGENT_PERMISSION_MODE, AGENT_ADDITIONAL_DIRS, SANDBOXD_*"},
		{Source: "command", What: "the command or skill that runs"},
		{Source: "session", What: "rules added while a session runs"},
		{Source: "local", What: settings.LocalFile + " of the project, one person's"},
		{Source: "project", What: settings.ProjectFile + " of the project"},
		{Source: "user", What: "the user's file"},
		{Source: "default", What: "what is built in"},
	}
}

func (p *program) policySources(c *cli.Context) error {
	if err := noOperands(c, "name a file by --policy FILE"); err != nil {
		return err
	}
	e, err := p.loadSettings(c)
	if err != nil {
		return err
	}
	var lines []sourceLine
	for _, s := range sourceTable() {
		found := false
		for _, f := range e.Files {
			if f.Kind.String() == s.Source {
				s.File, s.Found, s.Trusted, found = f.Path, f.Found, f.Trusted, true
				lines = append(lines, s)
			}
		}
		if !found {
			s.Found, s.Trusted = s.Source == "default", true
			lines = append(lines, s)
		}
	}
	if c.Bool("json") {
		return p.writeJSON(map[string]any{"sources": lines})
	}
	for _, l := range lines {
		state := "-"
		switch {
		case l.Found && !l.Trusted:
			state = "only tightens (sbx trust)"
		case l.Found:
			state = "read"
		case l.File != "":
			state = "not there"
		}
		if err := p.writeOut("%-8s %-26s %s\n", l.Source, state, oneLine(strings.TrimSpace(l.What+" "+l.File))); err != nil {
			return err
		}
	}
	return nil
}

// policyExplain lists the stages in their order; with a command, what each said.
func (p *program) policyExplain(c *cli.Context) error {
	if c.Args().Len() == 0 {
		for i, s := range policy.Stages() {
			if err := p.writeOut("%2d %s\n", i+1, s); err != nil {
				return err
			}
		}
		return nil
	}
	cwd, err := checkCwd(c)
	if err != nil {
		return err
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
	for i, s := range d.Trace {
		mark := " "
		if s.Result == policy.StageDecided {
			mark = "*"
		}
		said := string(s.Result)
		if s.Reason != nil {
			said += " " + s.Verdict.String() + ": " + s.Reason.String()
		}
		if s.Text != "" {
			said += " (" + s.Text + ")"
		}
		if err := p.writeOut("%s %2d %-14s %s\n", mark, i+1, s.Name, oneLine(said)); err != nil {
			return err
		}
	}
	return p.writeOut("%s", decisionText(d, title, e))
}

func (p *program) policyImport(c *cli.Context) error {
	if c.Args().Len() != 2 {
		return misuse("as in: sbx policy import claude .claude/settings.json", "import needs a client (%s) and a file", strings.Join(settings.Clients, ", "))
	}
	client, file := c.Args().Get(0), c.Args().Get(1)
	if !slices.Contains(settings.Clients, client) {
		return misuse("one of "+strings.Join(settings.Clients, ", "), "unknown client %q", client)
	}
	data, err := readBounded(file)
	if err != nil {
		return &failure{code: exitSandbox, stage: "import", hint: "name the settings file to read", err: err}
	}
	imported, report, err := settings.Import(client, settings.ImportSource(p.environ, file), data)
	if err != nil {
		return settingsFailure(err)
	}
	text := imported.TOML()
	if c.Bool("json") {
		return p.writeJSON(map[string]any{"client": client, "file": file, "report": report, "policy": string(text)})
	}
	counts := map[settings.Outcome]int{}
	for _, r := range report {
		counts[r.Outcome]++
		if r.Outcome == settings.Skipped {
			continue
		}
		line := r.Text
		if r.Reason != "" {
			line += " (" + r.Reason + ")"
		}
		p.note(string(r.Outcome), line)
	}
	p.note("imported", importSummary(counts))
	if out := c.String("output"); out != "" {
		return writeNew(out, text)
	}
	return p.writeOut("%s", text)
}

// maxImportBytes is more than package settings reads of one file, so that the
// error of a larger one is its own.
const maxImportBytes = 2 << 20

// readBounded reads the beginning of a file that may be a device without end.
func readBounded(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxImportBytes))
}

// writeNew writes a file that must not be there.
func writeNew(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err == nil {
		_, err = f.Write(text)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return &failure{code: exitSandbox, stage: "import", hint: "name a file that does not exist", err: err}
	}
	return nil
}
