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
	"sandboxd/exec"
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
	o, err := parseRun(flags, argv, cwd)
	if err != nil {
		return err
	}
	j := &job{p: p, o: o}
	return j.do(ctx)
}

// job is one sbx run on its way from flags to an exit status.
type job struct {
	p        *program
	o        runOptions
	spec     exec.Spec
	plan     agentloop.Report
	runner   *exec.Runner
	stateDir string
	// policyWarnings say what a policy file says in vain.
	policyWarnings []string
	// stateWarnings say where our own directories had to move.
	stateWarnings []string
}

func (j *job) do(ctx context.Context) error {
	if err := j.prepare(ctx); err != nil {
		return j.refused(err)
	}
	defer j.cleanUp()
	if j.o.dryRun {
		return j.printPlan()
	}
	out, err := j.start(ctx)
	if err != nil {
		return j.refused(err)
	}
	return j.finish(out)
}

// prepare turns what was asked for into a complete Spec.
func (j *job) prepare(ctx context.Context) error {
	caller, warnings := agentloop.CurrentCaller(j.p.environ)
	if err := j.applyPolicy(ctx, caller); err != nil {
		return err
	}
	host := exec.LoadHost(caller.CacheDir)
	j.stateDir = caller.StateDir
	j.runner = exec.NewRunner(host)
	j.runner.CacheDir = caller.CacheDir
	view := agentloop.HostView{
		MountView:  host.MountView && j.o.tier != exec.TierBase,
		Protected:  protectedNames(j.o.grant.Workspace, caller),
		BestEffort: j.o.bestEffort,
	}
	spec, plan, err := agentloop.Build(j.o.grant, caller, view, j.o.argv)
	if err != nil {
		return err
	}
	// Where state had to move is of interest when something failed or was asked.
	j.stateWarnings = warnings
	plan.Warnings = append(j.policyWarnings, plan.Warnings...)
	plan.WithheldEnv = withoutSet(plan.WithheldEnv, spec.Env)
	spec.Tier = j.o.tier
	if j.o.json && caller.StateDir != "" {
		spec.OutputDir = filepath.Join(caller.StateDir, "outputs")
	}
	j.spec, j.plan = spec, plan
	return nil
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

// start runs the command and, when its tree is dead, looks at what it left.
func (j *job) start(ctx context.Context) (outcome, error) {
	capped, err := j.p.connect(&j.spec, j.o)
	if err != nil {
		return outcome{}, err
	}
	guard, err := j.beginGuard()
	if err != nil {
		return outcome{}, err
	}
	signals, stop := forwardSignals()
	defer stop()
	j.spec.Signals = signals
	res, err := j.runner.Run(ctx, j.spec)
	out := outcome{res: res, detected: j.finishGuard(guard, err == nil)}
	for _, w := range capped {
		if n := w.cut(); n > 0 {
			out.warnings = append(out.warnings, fmt.Sprintf("output cut at %s, %s dropped", sizeText(j.o.outputBytes), sizeText(n)))
		}
	}
	return out, err
}

// finish says what is to be said about a command that ran, and gives its status.
func (j *job) finish(out outcome) error {
	res, warnings := out.res, slices.Concat(j.plan.Warnings, out.warnings)
	if j.o.verbose {
		warnings = append(warnings, j.stateWarnings...)
	}
	res.Enforced.Weakened = append(res.Enforced.Weakened, j.plan.Gaps...)
	if !j.o.quiet {
		j.explain(res, warnings)
	}
	j.printDetected(out.detected) // also with --quiet: it is about the workspace
	object := newResultObject(res, j.o.argv)
	object.ExitCode = status(res)
	object.Workspace = j.plan.Workspace
	object.Withheld = list(j.plan.WithheldEnv)
	object.Warnings = list(warnings)
	object.Detected = list(out.detected)
	if err := j.answer(object); err != nil {
		return err
	}
	if code := status(res); code != 0 {
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
	object := newResultObject(exec.Result{Outcome: outcome, ExitCode: f.code, UID: os.Geteuid(), GID: os.Getegid()}, j.o.argv)
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
		text, err := marshal(object.withoutOutput())
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
