package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"sandboxd/agentloop"
	"sandboxd/cmd/sandboxd/api"
	"sandboxd/exec"
)

func execCommand(p *program) *cli.Command {
	return &cli.Command{
		UsageText: examples(
			"sbx exec -- npm test",
			"sbx exec --detach -- make -j4",
			"sbx exec --mode plan --json -- grep -rn x .",
			"tar c . | sbx exec -- tar t"),
		Description: "Runs COMMAND as sbx run does, through the daemon: the whole policy decides, questions\n" +
			"are asked, and what happened is in the audit log. Flags, their variables and exit codes\n" +
			"are those of sbx run. Input is read ahead once the command runs: use </dev/null where the rest of\n" +
			"a script's input is not for it.",
		ArgsUsage: "COMMAND [ARG...]",
		Flags:     execFlags(),
		Action:    func(c *cli.Context) error { return p.execArgv(c.Context, c, c.Args().Slice()) },
	}
}

// execFlags are those of run and what only the daemon does.
func execFlags() []cli.Flag {
	own := []string{"detach", "mode"}
	flags := slices.DeleteFunc(runFlags(), func(f cli.Flag) bool { return slices.Contains(own, f.Names()[0]) })
	return append(flags,
		&cli.StringFlag{Name: "mode", Usage: "decide in `MODE`: default, acceptEdits, bypassPermissions, dontAsk, plan or auto"},
		&cli.BoolFlag{Name: "detach", Usage: "make a job of it, print its id and return"},
		&cli.StringFlag{Name: "session", Usage: "let the session `ID` decide"},
		&cli.BoolFlag{Name: "no-ask", Usage: "answer no question at this terminal"},
		socketFlag())
}

// execArgv runs one command through the daemon.
func (p *program) execArgv(ctx context.Context, flags flagValues, argv []string) error {
	cwd, err := workingDir()
	if err != nil {
		return err
	}
	o, err := p.readRun(flags, func(f flagValues) flagValues { return withoutFlags{f, []string{"detach", "mode"}} }, argv, cwd)
	if err != nil {
		return err
	}
	j := &job{p: p, o: o}
	if o.dryRun {
		return j.do(ctx)
	}
	if len(o.passFDs) > 0 {
		return misuse("sbx run passes them", "--pass-fd: descriptors do not go through the daemon")
	}
	q := p.execRequest(o, cwd)
	q.Mode, q.Session, q.Detach = flags.String("mode"), flags.String("session"), flags.Bool("detach")
	if q.Session != "" {
		if err := notInSession(flags, p.environ); err != nil {
			return err
		}
		q.Env = nil // the session has its own
	}
	c := p.client(flags)
	defer c.Close()
	if q.Detach {
		var started api.Job
		if err := c.Post(ctx, "/api/exec", q, &started); err != nil {
			return daemonFailure(err)
		}
		return p.writeOut("%s\n", started.ID)
	}
	return j.stream(ctx, func(ctx context.Context, s api.StreamIO) (api.StreamResult, error) { return c.Exec(ctx, q, s) }, &q, !flags.Bool("no-ask"))
}

// notInSession refuses what a session decides by itself, by the name of the flag or the
// variable that asked for it. The daemon refuses the same, by the names of the wire.
func notInSession(flags flagValues, environ []string) error {
	all, err := withVariables(flags, environ)
	if err != nil {
		return err
	}
	for _, name := range []string{"workspace", "ro", "ro-try", "rw", "rw-try", "unprotect", "policy", "profile", "mode", "user", "unix", "env", "syscalls", "net"} {
		if !all.IsSet(name) || name == "net" && slices.Equal(all.StringSlice(name), []string{"none"}) {
			continue
		}
		asked := "--" + name
		if !flags.IsSet(name) {
			asked = variableOf(name)
		}
		return misuse("leave it out, make a session with it, or name no session; a call in a session can only be held tighter",
			"%s cannot be applied in a session, which has its own", asked)
	}
	return nil
}

// withoutFlags hides flags that parseRun refuses.
type withoutFlags struct {
	flagValues
	names []string
}

func (f withoutFlags) IsSet(name string) bool {
	return !slices.Contains(f.names, name) && f.flagValues.IsSet(name)
}

// execRequest is what the flags ask for, on the wire. Without --timeout the limit is
// the policy's, and none where it says nothing, as for sbx run.
func (p *program) execRequest(o runOptions, cwd string) api.ExecRequest {
	q := api.ExecRequest{
		Argv: api.Texts(o.argv), Cwd: api.Text(cwd), Env: api.Texts(p.environ), Grant: api.NewGrant(o.grant),
		Policy: api.Texts(fromHere(cwd, o.policyFiles)), Profile: api.Text(o.profile), BestEffort: o.bestEffort, Capture: o.json, Attended: true,
	}
	switch o.tier {
	case exec.TierBase:
		q.Tier = "base"
	case exec.TierFull:
		q.Tier = "full"
	}
	if o.json && o.outputBytes != 0 {
		q.Grant.Limits.OutputBytes = int(o.outputBytes)
	}
	return q
}

// stream runs a call, or joins a job, and says what sbx run would say of it.
func (j *job) stream(ctx context.Context, call func(context.Context, api.StreamIO) (api.StreamResult, error), q *api.ExecRequest, ask bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := api.StreamIO{Stdout: j.p.stdout, Stderr: j.p.stderr}
	if j.p.stdin != nil {
		s.Stdin = j.p.stdin
	}
	var capped []*cappedWriter
	if j.o.outputBytes > 0 && !j.o.json {
		out, errs := &cappedWriter{to: s.Stdout, left: j.o.outputBytes}, &cappedWriter{to: s.Stderr, left: j.o.outputBytes}
		s.Stdout, s.Stderr, capped = out, errs, []*cappedWriter{out, errs}
	}
	term, err := j.terminal(q, &s)
	if err != nil {
		return err
	}
	defer term.restore()
	if ask && q != nil && hasTerminal() {
		q.Answers = true
		s.Question = func(ctx context.Context, text json.RawMessage) (api.AnswerRequest, bool) {
			return j.p.askHere(ctx, text)
		}
	}
	signals, stop, err := forwardSignals()
	if err != nil {
		return err
	}
	defer stop()
	interrupted := j.untilStarted(&s, signals, cancel, term)
	end, err := call(ctx, s)
	term.restore()
	if n := interrupted(); n != 0 {
		return exitStatus(128 + int(n))
	}
	if err != nil {
		return daemonFailure(err)
	}
	for _, w := range capped {
		if n := w.cut(); n > 0 {
			end.Result.Warnings = append(end.Result.Warnings, fmt.Sprintf("output cut at %s, %s dropped", sizeText(j.o.outputBytes), sizeText(n)))
		}
	}
	return j.told(end)
}

// untilStarted forwards signals to a command that runs. Before that, those that end
// a program end the call: there is nothing yet that could obey them. It returns a
// function that tells which signal did.
func (j *job) untilStarted(s *api.StreamIO, signals <-chan os.Signal, cancel func(), term *localTerminal) func() unix.Signal {
	var mu sync.Mutex
	var by unix.Signal
	begun := make(chan struct{})
	s.Started = func() {
		term.raw()
		close(begun)
	}
	forward := make(chan os.Signal)
	s.Signals = forward
	go func() { // ends with the program
		for sig := range signals {
			n, _ := sig.(unix.Signal)
			select {
			case <-begun:
				forward <- sig
				continue
			default:
			}
			if slices.Contains([]unix.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT}, n) {
				mu.Lock()
				by = n
				mu.Unlock()
				cancel()
			}
		}
	}()
	return func() unix.Signal {
		mu.Lock()
		defer mu.Unlock()
		return by
	}
}

// told says what is to be said about a call that ended, and gives its status.
func (j *job) told(end api.StreamResult) error {
	r := end.Result
	if r.Error != nil {
		return j.notRun(r)
	}
	res := r.Plain()
	j.plan.Workspace, j.plan.WithheldEnv = r.Workspace, r.Withheld
	for _, name := range r.Protected {
		j.plan.Protected = append(j.plan.Protected, agentloop.ProtectedPath{Path: filepath.Join(r.Workspace, name), Level: agentloop.LevelKernel})
	}
	l := j.o.grant.Limits
	j.spec.Limits = exec.Limits{Wall: l.Timeout, CPU: l.CPU, Memory: l.MemoryBytes, Tasks: l.Tasks, FileSize: l.FileBytes}
	if slices.Contains(j.o.grant.Network, "full") {
		j.spec.Network = exec.NetFull
	}
	if !j.o.quiet {
		j.explain(res, r.Warnings)
	}
	j.printDetected(r.Detected)
	if err := j.answer(r); err != nil {
		return err
	}
	if r.ExitCode != 0 {
		return exitStatus(r.ExitCode)
	}
	if end.OutputError != nil {
		return &failure{code: exitSandbox, stage: "output", err: fmt.Errorf("the command succeeded, but its output is cut: %w", end.OutputError),
			hint: "see that standard output can be written"}
	}
	return nil
}

// notRun answers for a command that was refused or could not be started.
func (j *job) notRun(r api.Result) error {
	if err := j.answer(r); err != nil {
		return err
	}
	what := strings.Join(r.Argv, " ")
	if what != strings.Join(j.o.argv, " ") && !j.o.quiet {
		j.explain(r.Plain(), r.Warnings) // a hook made it another command
	}
	if r.Outcome == exec.Refused {
		by := strings.TrimPrefix(r.Error.Message, "denied: "+strings.Join(r.Argv, " ")+": ")
		return describe(&refusal{what: what, by: by, toAllow: r.Error.Hint})
	}
	return &failure{code: r.ExitCode, stage: r.Error.Stage, hint: strings.ReplaceAll(r.Error.Hint, "sbx run", "sbx exec"), err: errors.New(r.Error.Message)}
}
