package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"sandboxd/policy"
)

// command is a subcommand of sbx. Only the one that is asked for is built, so
// that the flags of the others cost no start-up time.
type command struct {
	name, usage string
	build       func(*program) *cli.Command
}

// commands lists the subcommands in the order of the help.
func commands() []command {
	return []command{
		{"run", "run a command under confinement", runCommand},
		{"exec", "run a command through the daemon", execCommand},
		{"agent", "let a model work in the workspace, each call decided and confined", agentCommand},
		{"check", "say whether a command may run, and why", checkCommand},
		{"policy", "show, explain, test, compare and import policies", policyCommand},
		{"permissions", "list, add and remove rules", permissionsCommand},
		{"trust", "let the policy files of a project loosen", trustCommand},
		{"jobs", "list, read, join and end jobs of the daemon", jobsCommand},
		{"sessions", "make, list, change and end sessions of the daemon", sessionsCommand},
		{"approvals", "list and answer questions that wait", approvalsCommand},
		{"approve", "allow a call that waits", approveCommand},
		{"deny", "deny a call that waits", denyCommand},
		{"audit", "show and verify what was decided and run", auditCommand},
		{"daemon", "start, stop and ask after the daemon", daemonCommand},
		{"doctor", "say what this host can enforce and what is missing", doctorCommand},
		{"clean", "remove outputs, homes and caches that sbx keeps", cleanCommand},
		{"version", "say which sbx this is", versionCommand},
		{"completion", "print a completion script for a shell", completionCommand},
	}
}

// app builds the command line. args decides which subcommand gets its flags.
func (p *program) app(args []string) *cli.App {
	asked := ""
	if len(args) > 0 {
		asked = args[0]
	}
	return &cli.App{
		Name:                      "sbx",
		Usage:                     "run commands under confinement",
		UsageText:                 "sbx run -- npm test\nsbx run --net full --timeout 5m -- npm install\nsbx doctor",
		HideVersion:               true,
		HideHelpCommand:           true,
		DisableSliceFlagSeparator: true,
		Reader:                    p.stdin,
		Writer:                    p.stdout,
		ErrWriter:                 p.stderr,
		ExitErrHandler:            func(*cli.Context, error) {}, // codes are mapped in exit.go
		OnUsageError:              usageError,
		Action:                    noCommand,
		Commands:                  p.subcommands(asked),
	}
}

// subcommands builds the one that is asked for, or, for the help, all of them
// without their flags.
func (p *program) subcommands(asked string) []*cli.Command {
	var list []*cli.Command
	for _, c := range commands() {
		if c.name == asked {
			return []*cli.Command{p.build(c)}
		}
		list = append(list, &cli.Command{Name: c.name, Usage: c.usage})
	}
	return list
}

func (p *program) build(c command) *cli.Command {
	built := c.build(p)
	built.Name, built.Usage = c.name, c.usage
	prepare(built)
	return built
}

// prepare gives a command and those below it what all of them share.
func prepare(c *cli.Command) {
	c.OnUsageError = usageError
	c.HideHelpCommand = true
	for _, sub := range c.Subcommands {
		prepare(sub)
		sub.Before = refuseOuterFlags
	}
}

// refuseOuterFlags refuses flags that stand before the name of a command below another:
// they are of the other, and would do nothing.
func refuseOuterFlags(c *cli.Context) error {
	for _, outer := range c.Lineage()[1:] {
		if outer.Command == nil {
			continue
		}
		for _, name := range outer.LocalFlagNames() {
			hint := fmt.Sprintf("%s --help lists its flags", c.Command.HelpName)
			if slices.ContainsFunc(c.Command.Flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) }) {
				hint = fmt.Sprintf("write it behind: sbx %s %s --%s", outer.Command.Name, c.Command.Name, name)
			}
			return misuse(hint, "--%s stands before %s, where it has no effect", name, c.Command.Name)
		}
	}
	return nil
}

// noCommand answers a command line that names no subcommand.
func noCommand(c *cli.Context) error {
	if c.Args().Len() == 0 {
		return cli.ShowAppHelp(c)
	}
	name := c.Args().First()
	var names []string
	for _, known := range commands() {
		names = append(names, known.name)
	}
	hint := "sbx --help lists the commands; to run a program, write: sbx run -- " + name
	if near := nearest(name, names); near != "" {
		hint = "did you mean: sbx " + near
	}
	return misuse(hint, "unknown command %q", name)
}

// commandPath is what was typed up to the command itself: sbx sessions deny.
func commandPath(c *cli.Context) string {
	path := ""
	for _, at := range c.Lineage() {
		if at.Command != nil && at.Command.Name != "" && at.Command.Name != "sbx" {
			path = " " + at.Command.Name + path
		}
	}
	return "sbx" + path
}

// usageError turns the flag parser's words into ours.
func usageError(c *cli.Context, err error, _ bool) error {
	hint := commandPath(c) + " --help lists the flags"
	text := err.Error()
	if flag, ok := strings.CutPrefix(text, "flag provided but not defined: -"); ok {
		flag = strings.TrimLeft(flag, "-")
		var known []string
		if c.Command != nil {
			for _, f := range c.Command.Flags {
				known = append(known, f.Names()...)
			}
		}
		if near := nearest(flag, known); near != "" {
			hint = "did you mean --" + near + "? " + hint
		}
		return misuse(hint, "unknown flag --%s", flag)
	}
	if flag, ok := strings.CutPrefix(text, "flag needs an argument: -"); ok {
		return misuse(hint, "flag --%s needs a value", strings.TrimLeft(flag, "-"))
	}
	if _, ok := errors.AsType[*failure](err); ok {
		return err
	}
	return misuse(hint, "%s", text)
}

// nearest returns the known name that differs from name by the fewest edits, if
// these are few enough to be a slip: at most 2, and less than half of the name.
func nearest(name string, known []string) string {
	best, edits := "", 3
	for _, k := range slices.Sorted(slices.Values(known)) {
		if d := policy.EditDistance(name, k); d < edits && 2*d < len(name) {
			best, edits = k, d
		}
	}
	return best
}

// examples is the start of a command's help: what is typed most, before the list
// of its flags.
func examples(lines ...string) string { return strings.Join(lines, "\n") }
