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
	"golang.org/x/sys/unix"

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
		Action: func(c *cli.Context) error {
			cwd, err := workingDir()
			if err != nil {
				return err
			}
			o, err := parseRun(c, cwd)
			if err != nil {
				return err
			}
			j := &job{p: p, o: o}
			return j.do(c.Context)
		},
	}
}

// job is one sbx run on its way from flags to an exit status.
type job struct {
	p      *program
	o      runOptions
	spec   exec.Spec
	plan   agentloop.Report
	runner *exec.Runner
	// stateWarnings say where our own directories had to move.
	stateWarnings []string
}

func (j *job) do(ctx context.Context) error {
	if err := j.prepare(); err != nil {
		return j.refused(err)
	}
	defer j.cleanUp()
	if j.o.dryRun {
		return j.printPlan()
	}
	res, warnings, err := j.start(ctx)
	if err != nil {
		return j.refused(err)
	}
	return j.finish(res, warnings)
}

// prepare turns what was asked for into a complete Spec.
func (j *job) prepare() error {
	caller, warnings := agentloop.CurrentCaller(j.p.environ)
	host := exec.LoadHost(caller.CacheDir)
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

// start runs the command. The warnings are about its output.
func (j *job) start(ctx context.Context) (exec.Result, []string, error) {
	capped, err := j.p.connect(&j.spec, j.o)
	if err != nil {
		return exec.Result{}, nil, err
	}
	signals, stop := forwardSignals()
	defer stop()
	j.spec.Signals = signals
	res, err := j.runner.Run(ctx, j.spec)
	var warnings []string
	for _, w := range capped {
		if n := w.cut(); n > 0 {
			warnings = append(warnings, fmt.Sprintf("output cut at %s, %s dropped", sizeText(j.o.outputBytes), sizeText(n)))
		}
	}
	return res, warnings, err
}

// finish says what is to be said about a command that ran, and gives its status.
func (j *job) finish(res exec.Result, warnings []string) error {
	warnings = append(slices.Clone(j.plan.Warnings), warnings...)
	if j.o.verbose {
		warnings = append(warnings, j.stateWarnings...)
	}
	res.Enforced.Weakened = append(res.Enforced.Weakened, j.plan.Gaps...)
	if !j.o.quiet {
		for _, w := range warnings {
			j.p.note("warning", w)
		}
		failed := explainOutcome(res, filepath.Base(j.o.argv[0]), j.spec.Limits, j.confined())
		weaker := explainWeaker(res.Enforced, j.o.verbose)
		// The base tier is told of each time; what is less exact than elsewhere
		// in a better tier is of interest when something failed.
		if weaker != "" && (failed != "" || strings.HasPrefix(res.Enforced.Tier, "base")) {
			j.p.note("note", weaker)
		}
		if failed != "" {
			j.p.note("note", failed)
		}
	}
	object := newResultObject(res, j.o.argv)
	object.ExitCode = status(res)
	object.Workspace = j.plan.Workspace
	object.Withheld = list(j.plan.WithheldEnv)
	object.Warnings = list(warnings)
	if err := j.answer(object); err != nil {
		return err
	}
	if code := status(res); code != 0 {
		return exitStatus(code)
	}
	return nil
}

// refused answers for a command that never ran.
func (j *job) refused(err error) error {
	f := describe(err)
	outcome := exec.NotSetUp
	if f.code == exitRefused && f.stage == "policy" {
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

// withoutSet leaves out the variables that the command has, with a value of ours.
func withoutSet(withheld, env []string) []string {
	set := names(env)
	var list []string
	for _, name := range withheld {
		if _, has := slices.BinarySearch(set, name); !has {
			list = append(list, name)
		}
	}
	return list
}

// confined says in a few words what held the command.
func (j *job) confined() string {
	network := "no network"
	if j.spec.Network == exec.NetFull {
		network = "the whole network"
	}
	text := fmt.Sprintf("writes in %s and private directories only, %s, private home; %s",
		oneLine(j.plan.Workspace), network, withheldKinds(j.plan.WithheldEnv, j.o.verbose))
	if names := j.protected(); names != "" {
		text += "; read-only: " + names + " (--unprotect opens one)"
	}
	return text
}

// protected names what is read-only inside the workspace, from its top. Without
// verbose the list ends after a few.
func (j *job) protected() string {
	var list []string
	for _, p := range j.plan.Protected {
		if p.Level != agentloop.LevelKernel {
			continue
		}
		if rel, err := filepath.Rel(j.plan.Workspace, p.Path); err == nil && filepath.IsLocal(rel) {
			list = append(list, oneLine(rel))
		}
	}
	const few = 4
	if len(list) > few && !j.o.verbose {
		list = append(list[:few:few], fmt.Sprintf("and %d more", len(list)-few))
	}
	return strings.Join(list, " ")
}

// note is one line of sbx itself about a run.
func (p *program) note(kind, text string) {
	fmt.Fprintf(p.stderr, "sbx: %s: %s\n", kind, oneLine(text))
}

// describe gives an error of the lower rooms its stage, hint and code.
func describe(err error) *failure {
	if f, ok := errors.AsType[*failure](err); ok {
		return f
	}
	if e, ok := errors.AsType[*agentloop.ProgramError](err); ok {
		hint := e.Hint
		if hint == "" && !e.Found {
			hint = "see that it is installed and on PATH, or write its path; sbx run --dry-run -- true shows what can be reached"
		}
		return &failure{code: e.ExitCode(), stage: "program", hint: hint, err: err}
	}
	if e, ok := errors.AsType[*agentloop.GrantError](err); ok {
		return &failure{code: exitSandbox, stage: "grant", hint: e.Hint, err: err}
	}
	if e, ok := errors.AsType[*exec.SetupError](err); ok {
		return &failure{code: setupCode(e), stage: e.Stage, hint: setupHint(e), err: e.Err}
	}
	return &failure{code: exitSandbox, stage: "run", err: err}
}

// setupCode is 126 or 127 when it was the program itself that could not be
// started.
func setupCode(e *exec.SetupError) int {
	if e.Stage != "exec" {
		return exitSandbox
	}
	switch {
	case errors.Is(e.Err, unix.ENOENT):
		return exitNotFound
	case errors.Is(e.Err, unix.EACCES), errors.Is(e.Err, unix.ENOEXEC), errors.Is(e.Err, unix.EISDIR), errors.Is(e.Err, unix.EPERM):
		return exitRefused
	}
	return exitSandbox
}

// setupHint adds what only the command line knows.
func setupHint(e *exec.SetupError) string {
	switch {
	case e.Hint != "":
		return e.Hint
	case errors.Is(e.Err, unix.ENOEXEC):
		return "it is no program for this machine; a script needs a first line such as #!/bin/sh"
	case errors.Is(e.Err, unix.ENOSPC), errors.Is(e.Err, unix.EDQUOT):
		return "the disk is full; sbx clean removes what sbx keeps"
	case strings.Contains(e.Stage, "namespace"), e.Stage == "landlock", e.Stage == "seccomp":
		return "sbx doctor says what this host can enforce"
	}
	return ""
}
