package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"sandboxd/agentloop"
	"sandboxd/cmd/sandboxd/api"
	"sandboxd/exec"
	"sandboxd/policy"
)

func runCommand(p *program) *cli.Command {
	return &cli.Command{
		UsageText: examples(
			"sbx run -- npm test",
			"sbx run --timeout 5m --memory 2GiB -- make -j4",
			"sbx run --net full --rw ~/.cache/pip -- pip install -r requirements.txt",
			"sbx run --json -- go vet ./... | jq .outcome",
			"sbx run --dry-run -- ./configure"),
		Description: "Runs COMMAND so that it can write the workspace and a private home and temporary\n" +
			"directory, read the system's programs, and reach nothing else: no network, no other\n" +
			"process, no secret of yours. Flags after COMMAND belong to COMMAND.\n\n" +
			"A variable stands for a flag that is not given, as SANDBOXD_FILE_SIZE=1GiB does for\n" +
			"--file-size: those of timeout, memory, pids, cpu, file-size, output-limit, syscalls,\n" +
			"user, tier and net, and with 1 or 0 no-exec-write, best-effort, quiet and verbose.\n\n" +
			"Exits with the command's status; 124 out of time, 125 the sandbox could not be set up\n" +
			"or sbx was misused, 126 refused or not executable, 127 not found.",
		ArgsUsage: "COMMAND [ARG...]",
		Flags:     runFlags(),
		Action:    func(c *cli.Context) error { return p.runArgv(c.Context, c, c.Args().Slice()) },
	}
}

// runArgv runs one command as the flags ask.
func (p *program) runArgv(ctx context.Context, flags flagValues, argv []string) error {
	cwd, err := workingDir()
	if err != nil {
		return err
	}
	o, err := p.readRun(flags, nil, argv, cwd)
	if err != nil {
		return err
	}
	j := &job{p: p, o: o}
	return j.do(ctx)
}

// job is one sbx run on its way from flags to an exit status.
type job struct {
	p       *program
	o       runOptions
	door    *agentloop.Dispatcher
	session *agentloop.Session
	call    agentloop.ToolCall
	spec    exec.Spec
	plan    agentloop.Report
	runner  *exec.Runner
	log     *runLog // nil: the policy wants none
	capped  []*cappedWriter
	// policyWarnings say what a policy file says in vain.
	policyWarnings []string
	// stateWarnings say where our own directories had to move.
	stateWarnings []string
}

func (j *job) do(ctx context.Context) error {
	defer func() { j.log.close() }()
	if err := j.prepare(); err != nil {
		return j.refused(err)
	}
	if j.o.dryRun {
		if err := j.planOnly(ctx); err != nil {
			return j.refused(err)
		}
		defer j.cleanUp()
		return j.printPlan()
	}
	out, err := j.start(ctx)
	if err != nil {
		return j.refused(err)
	}
	return j.finish(out)
}

// prepare turns what was asked for into a session and one call of it.
func (j *job) prepare() error {
	if err := exec.CheckOwnLimits(); err != nil {
		return err
	}
	caller, warnings := agentloop.CurrentCaller(j.p.environ)
	j.stateWarnings = warnings
	in, err := j.loadPolicy(caller)
	if err != nil {
		return err
	}
	host := exec.LoadHost(caller.CacheDir)
	j.runner = exec.NewRunner(host)
	j.runner.CacheDir = caller.CacheDir
	o := agentloop.DispatcherOptions{Runner: j.runner, Host: host}
	if j.o.json {
		o.Results = agentloop.NewResultFiles(agentloop.ResultFilesOptions{})
	}
	if in.Recorded {
		j.log = &runLog{p: j.p}
		o.Audit = j.log
	}
	if j.door, err = agentloop.NewDispatcher(o); err != nil {
		return err
	}
	if j.session, err = agentloop.LocalSession(caller, in); err != nil {
		return settingsFailure(err)
	}
	j.call = agentloop.ToolCall{Call: policy.ArgvCall(j.o.argv, caller.Cwd), Argv: j.o.argv, Tier: j.o.tier, BestEffort: j.o.bestEffort}
	if j.capped, err = j.p.connect(&j.call, j.o); err == nil && in.Recorded {
		keepHead(&j.call.IO)
	}
	return err
}

// planOnly is the dry run: what the rules say, and how it would be confined.
func (j *job) planOnly(ctx context.Context) error {
	if d, _ := j.session.Check(ctx, j.call.Call); d.Verdict != policy.Allow {
		if d.Verdict == policy.Ask {
			d.Reason = policy.HeadlessReason{Asked: d.Reason}
		}
		return j.denied(d)
	}
	var err error
	j.spec, j.plan, err = j.door.Plan(j.session, j.call)
	j.completePlan()
	return err
}

// completePlan adds to the plan what only this program knows.
func (j *job) completePlan() {
	j.plan.Warnings = append(j.policyWarnings, j.plan.Warnings...)
	j.plan.WithheldEnv = withoutSet(j.plan.WithheldEnv, j.spec.Env)
}

// cleanUp removes what was made for this run alone.
func (j *job) cleanUp() {
	if err := j.plan.Cleanup(); err != nil && !j.o.quiet {
		j.p.note("warning", "left behind: "+err.Error())
	}
}

// outcome is what became of a command that ran.
type outcome struct {
	res      exec.Result
	detected []agentloop.GuardFinding
	warnings []string // about its output
}

// start puts the call through the one door.
func (j *job) start(ctx context.Context) (outcome, error) {
	got := j.door.Dispatch(ctx, j.session, j.call)
	j.spec = got.Spec
	if got.Plan.Workspace != "" {
		j.plan = got.Plan
	}
	j.completePlan()
	if got.Exec == nil {
		if d, ok := errors.AsType[*agentloop.DeniedError](got.Err); ok {
			return outcome{}, j.denied(d.Decision)
		}
		return outcome{}, got.Err
	}
	out := outcome{res: *got.Exec, detected: got.Detected, warnings: got.Notes}
	for _, w := range j.capped {
		if n := w.cut(); n > 0 {
			out.warnings = append(out.warnings, fmt.Sprintf("output cut at %s, %s dropped", sizeText(j.o.outputBytes), sizeText(n)))
		}
	}
	return out, nil
}

// finish says what is to be said about a command that ran, and gives its status.
func (j *job) finish(out outcome) error {
	res, warnings := out.res, slices.Concat(j.plan.Warnings, out.warnings)
	if j.o.verbose {
		warnings = append(warnings, j.stateWarnings...)
	}
	if !j.o.quiet {
		j.explain(res, warnings)
	}
	j.printDetected(out.detected) // also with --quiet: it is about the workspace
	object := api.NewResult(res, j.o.argv)
	object.ExitCode = api.ExitStatus(res)
	object.Workspace = j.plan.Workspace
	object.Withheld = list(j.plan.WithheldEnv)
	object.Warnings = list(warnings)
	object.Detected = list(out.detected)
	if err := j.answer(object); err != nil {
		return err
	}
	if code := api.ExitStatus(res); code != 0 {
		return exitStatus(code)
	}
	if lost := res.Stdout.Lost; lost != nil {
		// Nobody else can tell: the command wrote all of it into a pipe.
		return &failure{code: exitSandbox, stage: "output", err: fmt.Errorf("the command succeeded, but its output is cut: %w", lost),
			hint: "see that standard output can be written"}
	}
	return nil
}

// explain prints the lines of sbx about a run.
func (j *job) explain(res exec.Result, warnings []string) {
	for _, w := range warnings {
		j.p.note("warning", w)
	}
	failed := explainOutcome(res, filepath.Base(j.o.argv[0]), j.spec.Limits, j.confined())
	weaker := explainWeaker(res.Enforced, j.o.verbose)
	// The base tier and what is not held at all are told of each time; what is less
	// exact than elsewhere in a better tier is of interest when something failed.
	open := slices.ContainsFunc(res.Enforced.Missing, func(g exec.Gap) bool { return !onlyRefused(g) })
	if weaker != "" && (failed != "" || open || strings.HasPrefix(res.Enforced.Tier, "base")) {
		j.p.note("note", weaker)
	}
	if failed != "" {
		j.p.note("note", failed)
	}
}

// refused answers for a command that never ran.
func (j *job) refused(err error) error {
	f := describe(err)
	outcome := exec.NotSetUp
	if _, ok := errors.AsType[*refusal](err); ok {
		outcome = exec.Refused
	}
	object := api.NewResult(exec.Result{Outcome: outcome, ExitCode: f.code, UID: os.Geteuid(), GID: os.Getegid()}, j.o.argv)
	object.Workspace = j.plan.Workspace
	object.Error = &errorObject{Stage: f.stage, Message: f.err.Error(), Hint: f.hint}
	if err := j.answer(object); err != nil {
		return err
	}
	return f
}

// answer writes the object where it was asked for.
func (j *job) answer(object resultObject) error {
	if j.o.statusFD >= 0 {
		f := os.NewFile(uintptr(j.o.statusFD), fmt.Sprintf("descriptor %d", j.o.statusFD))
		text, err := marshal(object.WithoutOutput())
		if err == nil {
			_, err = f.Write(text)
		}
		if err != nil {
			return &failure{code: exitSandbox, stage: "output", err: err, hint: "see that the descriptor of --status-fd can be written"}
		}
	}
	if j.o.json {
		return j.p.writeJSON(object)
	}
	return nil
}

// note is one line of sbx itself about a run.
func (p *program) note(kind, text string) {
	fmt.Fprintf(p.stderr, "sbx: %s: %s\n", kind, oneLine(text))
}
