package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"sandboxd/cmd/sandboxd/api"
)

func jobsCommand(p *program) *cli.Command {
	follow := &cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "wait for more until the job ends"}
	object := &cli.BoolFlag{Name: "json", Usage: "print one JSON object"}
	return &cli.Command{
		UsageText:   examples("sbx exec --detach -- make -j4", "sbx jobs list", "sbx jobs logs -f ID", "sbx jobs attach ID", "sbx jobs kill ID"),
		Description: "Jobs are calls that sbx exec --detach started. They end with the daemon.",
		Subcommands: []*cli.Command{
			{Name: "list", Usage: "list jobs, oldest first", Flags: []cli.Flag{object, socketFlag()}, Action: p.jobsList},
			{Name: "logs", Usage: "print the output of a job", ArgsUsage: "ID", Flags: []cli.Flag{follow, socketFlag()}, Action: p.jobsLogs},
			{Name: "attach", Usage: "join a job: its output from the start, signals to it, its exit status", ArgsUsage: "ID",
				Flags: []cli.Flag{&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "no lines of sbx about a failed command"}, socketFlag()}, Action: p.jobsAttach},
			{Name: "kill", Usage: "end a job, or send it a signal", ArgsUsage: "ID",
				Flags: []cli.Flag{&cli.StringFlag{Name: "signal", Usage: "send only the signal `NAME|N`"}, socketFlag()}, Action: p.jobsKill},
			{Name: "rm", Usage: "forget an ended job and its log", ArgsUsage: "ID", Flags: []cli.Flag{socketFlag()}, Action: p.jobsRemove},
		},
		Action: needSubcommand,
	}
}

// needSubcommand answers a command that is only a group of others.
func needSubcommand(c *cli.Context) error {
	var names []string
	for _, sub := range c.Command.Subcommands {
		names = append(names, sub.Name)
	}
	if c.Args().Present() {
		hint := "one of " + strings.Join(names, ", ")
		if near := nearest(c.Args().First(), names); near != "" {
			hint = "did you mean: sbx " + c.Command.Name + " " + near
		}
		return misuse(hint, "unknown command %q", c.Args().First())
	}
	return misuse("one of "+strings.Join(names, ", "), "sbx %s needs a command", c.Command.Name)
}

// plainID is an id as the daemon makes them. Another word would be part of an address.
func plainID(id, what string) (string, error) {
	if strings.Trim(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
		return "", misuse("ids have letters, digits and -", "%q is no id of a %s", id, what)
	}
	return id, nil
}

// oneArg is the single operand of a command: an id.
func oneArg(c *cli.Context, what string) (string, error) {
	if c.Args().Len() != 1 || c.Args().First() == "" {
		return "", misuse("flags come before it", "name one %s", what)
	}
	return plainID(c.Args().First(), what)
}

func (p *program) jobsList(c *cli.Context) error {
	cl := p.client(c)
	defer cl.Close()
	var jobs api.JobList
	if err := cl.Get(c.Context, "/api/jobs", &jobs); err != nil {
		return daemonFailure(err)
	}
	if c.Bool("json") {
		return p.writeJSON(jobs)
	}
	for _, j := range jobs.Jobs {
		how := string(j.State)
		if j.Result != nil {
			how = fmt.Sprintf("%s %d", j.Result.Outcome, j.Result.ExitCode)
		}
		line := fmt.Sprintf("%-15s %-12s %-20s %s", j.ID, how, j.Started.Local().Format(time.DateTime), shortLine(strings.Join(api.Strings(j.Argv), " ")))
		if err := p.writeOut("%s\n", oneLine(line)); err != nil {
			return err
		}
	}
	return nil
}

func (p *program) jobsLogs(c *cli.Context) error {
	id, err := oneArg(c, "job")
	if err != nil {
		return err
	}
	cl := p.client(c)
	defer cl.Close()
	return daemonFailure(cl.JobLogs(c.Context, id, c.Bool("follow"), p.stdout, p.stderr))
}

// jobsAttach joins a job. Ctrl-C goes to the job; leaving does not end it.
func (p *program) jobsAttach(c *cli.Context) error {
	id, err := oneArg(c, "job")
	if err != nil {
		return err
	}
	cl := p.client(c)
	defer cl.Close()
	var state api.Job
	if err := cl.Get(c.Context, "/api/jobs/"+id, &state); err != nil {
		return daemonFailure(err)
	}
	j := &job{p: p, o: runOptions{argv: api.Strings(state.Argv), quiet: c.Bool("quiet"), statusFD: -1}}
	return j.stream(c.Context, func(ctx context.Context, s api.StreamIO) (api.StreamResult, error) {
		s.Stdin = nil
		return cl.Attach(ctx, id, s)
	}, nil, false)
}

func (p *program) jobsKill(c *cli.Context) error {
	id, err := oneArg(c, "job")
	if err != nil {
		return err
	}
	var k api.KillRequest
	if name := c.String("signal"); c.IsSet("signal") {
		if k.Signal = signalNumber(name); k.Signal == 0 {
			return misuse("as in --signal TERM or --signal 15", "unknown signal %q", name)
		}
	}
	cl := p.client(c)
	defer cl.Close()
	return daemonFailure(cl.Post(c.Context, "/api/jobs/"+id+"/kill", k, nil))
}

// signalNumber reads a name with or without SIG, or a number; 0 is none.
func signalNumber(text string) int {
	name := strings.ToUpper(text)
	if !strings.HasPrefix(name, "SIG") {
		name = "SIG" + name
	}
	if n := unix.SignalNum(name); n != 0 {
		return int(n)
	}
	n := 0
	if _, err := fmt.Sscanf(text, "%d", &n); err != nil || n < 1 || n > 64 || fmt.Sprint(n) != text {
		return 0
	}
	return n
}

func (p *program) jobsRemove(c *cli.Context) error {
	id, err := oneArg(c, "job")
	if err != nil {
		return err
	}
	cl := p.client(c)
	defer cl.Close()
	return daemonFailure(cl.Delete(c.Context, "/api/jobs/"+id, nil))
}
