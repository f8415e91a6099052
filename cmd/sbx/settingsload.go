package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"sandboxd/agentloop"
	"sandboxd/policy"
	"sandboxd/policy/settings"
)

// policyFlags are the flags of every command that works with the effective
// policy.
func policyFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "workspace", Usage: "the project `DIR` (default: the git checkout that holds the current directory)", TakesFile: true},
		&cli.StringSliceFlag{Name: "policy", Usage: "also read the policy `FILE`, as strong as a flag", TakesFile: true},
		&cli.StringSliceFlag{Name: "settings", Usage: "also read the Claude Code settings `FILE`", TakesFile: true},
		&cli.StringFlag{Name: "profile", Usage: "use the profile `NAME|FILE`", TakesFile: true},
		&cli.StringFlag{Name: "mode", Usage: "`MODE`: " + strings.Join(settings.Modes, ", ")},
	}
}

func ownAccountHome() string { return agentloop.AccountHome(os.Getuid()) }

// loadSettings reads the policy that the flags ask for.
func (p *program) loadSettings(c *cli.Context) (*settings.Effective, error) {
	cwd, err := os.Getwd()
	if err != nil {
		return nil, &failure{code: exitSandbox, stage: "workspace", hint: "change to a directory that exists", err: err}
	}
	for _, name := range []string{"policy", "settings"} {
		if slices.Contains(c.StringSlice(name), "") {
			return nil, misuse("name a file", "--%s is empty", name)
		}
	}
	o := settings.Options{
		Environ:        p.environ,
		AccountHome:    ownAccountHome,
		PolicyFiles:    fromHere(cwd, c.StringSlice("policy")),
		ClaudeSettings: fromHere(cwd, c.StringSlice("settings")),
		Profile:        c.String("profile"),
	}
	o.Workspace, err = p.checkWorkspace(c, cwd)
	if err != nil {
		return nil, err
	}
	if c.IsSet("mode") {
		if _, err := policy.ParseMode(c.String("mode")); err != nil {
			hint := "one of " + strings.Join(settings.Modes, ", ")
			return nil, misuse(hint, "unknown mode %q", c.String("mode"))
		}
		o.Layers = append(o.Layers, settings.FlagMode(c.String("mode")))
	}
	e, err := settings.Load(o)
	return e, settingsFailure(err)
}

// checkWorkspace returns the absolute project directory. It need not exist: a
// check starts nothing.
func (p *program) checkWorkspace(c *cli.Context, cwd string) (string, error) {
	if !c.IsSet("workspace") {
		return settings.FindWorkspace(cwd), nil
	}
	dir := c.String("workspace")
	if dir == "" {
		return "", misuse("name a directory", "--workspace is empty")
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(cwd, dir)
	}
	return filepath.Clean(dir), nil
}

// fromHere makes the files of flags absolute, so that messages and sources name
// them in full.
func fromHere(cwd string, files []string) []string {
	out := make([]string, len(files))
	for i, f := range files {
		out[i] = f
		if f != "" && !filepath.IsAbs(f) {
			out[i] = filepath.Join(cwd, f)
		}
	}
	return out
}

// settingsFailure gives an error of package settings its exit code.
func settingsFailure(err error) error {
	if err == nil {
		return nil
	}
	hint := "sbx policy sources lists the files that are read"
	if e, ok := errors.AsType[*settings.Error](err); ok && e.File != "" {
		hint = "correct that file; nothing was decided without it"
		if _, err := os.Stat(e.File); errors.Is(err, fs.ErrPermission) { // sudo and su leave HOME as it was
			hint = fmt.Sprintf("uid %d may not look there; set HOME to your own home directory", os.Geteuid())
		}
	}
	return &failure{code: exitSandbox, stage: "policy", hint: hint, err: err}
}

// engine builds the engine that checks calls against e. It assumes that the host
// confines fully, since a check does not look at the host.
func engine(e *settings.Effective) (*policy.Engine, error) {
	cfg, err := e.Config()
	if err != nil {
		return nil, settingsFailure(err)
	}
	cfg.Confinement = policy.FullyConfined
	cfg.AsRoot = os.Geteuid() == 0
	built, err := policy.NewEngine(cfg)
	return built, settingsFailure(err)
}

// reportIgnored tells on standard error what the project's files say in vain.
func (p *program) reportIgnored(e *settings.Effective) {
	for _, n := range e.Ignored {
		p.note("ignored", n.String())
	}
}
