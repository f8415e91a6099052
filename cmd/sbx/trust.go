package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"sandboxd/policy/settings"
)

func trustCommand(p *program) *cli.Command {
	return &cli.Command{
		UsageText:   examples("sbx trust", "sbx trust ./sandboxd.toml", "sbx trust list", "sbx trust revoke"),
		Description: "Lets the policy files of this project loosen, not only tighten. Trust is bound to the content: after a change the file must be trusted again.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "workspace", Usage: "the project `DIR`", TakesFile: true},
			&cli.BoolFlag{Name: "dry-run", Usage: "show what would have effect and change nothing"},
		},
		Action: p.trust,
		Subcommands: []*cli.Command{
			{Name: "list", Usage: "list the trusted files", Flags: []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print one JSON object"}}, Action: p.trustList},
			{Name: "revoke", Usage: "forget files (default: all of this project)", ArgsUsage: "[PATH...]", Action: p.trustRevoke},
		},
	}
}

// trustStore opens the list of trusted files of the caller.
func (p *program) trustStore() (*settings.TrustStore, error) {
	dir := settings.StateDir(p.environ)
	if dir == "" {
		return nil, &failure{code: exitSandbox, stage: "trust", hint: "set HOME or XDG_STATE_HOME", err: errors.New("no place to keep trust")}
	}
	store, err := settings.OpenTrust(dir, []int{os.Geteuid(), 0})
	return store, settingsFailure(err)
}

func (p *program) trust(c *cli.Context) error {
	files := c.Args().Slice()
	cwd, err := os.Getwd()
	if err != nil {
		return &failure{code: exitSandbox, stage: "workspace", err: err}
	}
	workspace, err := p.checkWorkspace(c, cwd)
	if err != nil {
		return err
	}
	e, err := settings.Load(settings.Options{Workspace: workspace, Environ: p.environ})
	if err != nil {
		return settingsFailure(err)
	}
	if len(files) == 0 {
		if files = e.ProjectFiles(); len(files) == 0 {
			return misuse("a project's policy is "+settings.ProjectFile, "there is nothing to trust in %s", workspace)
		}
	}
	p.reportIgnored(e)
	if c.Bool("dry-run") {
		return nil
	}
	store, err := p.trustStore()
	if err != nil {
		return err
	}
	for _, f := range fromHere(cwd, files) {
		data, err := os.ReadFile(f)
		if err != nil {
			return &failure{code: exitSandbox, stage: "trust", err: err}
		}
		if err := store.Add(f, data, time.Now()); err != nil {
			return settingsFailure(err)
		}
		if err := p.writeOut("trusted %s\n", oneLine(f)); err != nil {
			return err
		}
	}
	return nil
}

func (p *program) trustList(c *cli.Context) error {
	store, err := p.trustStore()
	if err != nil {
		return err
	}
	type file struct {
		settings.Trusted
		State string `json:"state"` // "trusted", "changed" or "gone"
	}
	list := []file{}
	for _, t := range store.List() {
		state := "changed"
		if data, err := os.ReadFile(t.Path); errors.Is(err, fs.ErrNotExist) {
			state = "gone"
		} else if err == nil && store.Trusts(t.Path, data) {
			state = "trusted"
		}
		list = append(list, file{t, state})
	}
	if c.Bool("json") {
		return p.writeJSON(map[string]any{"files": list})
	}
	for _, f := range list {
		if err := p.writeOut("%-8s %s %.12s %s\n", f.State, f.When.Format("2006-01-02"), f.SHA256, oneLine(f.Path)); err != nil {
			return err
		}
	}
	return nil
}

func (p *program) trustRevoke(c *cli.Context) error {
	cwd, err := os.Getwd()
	if err != nil {
		return &failure{code: exitSandbox, stage: "workspace", err: err}
	}
	paths := fromHere(cwd, c.Args().Slice())
	if len(paths) == 0 {
		paths = []string{settings.FindWorkspace(cwd)}
	}
	store, err := p.trustStore()
	if err != nil {
		return err
	}
	for _, path := range paths {
		n, err := store.Revoke(filepath.Clean(path))
		if err != nil {
			return settingsFailure(err)
		}
		if err := p.writeOut("revoked %d below %s\n", n, oneLine(path)); err != nil {
			return err
		}
	}
	return nil
}
