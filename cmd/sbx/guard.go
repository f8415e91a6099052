package main

import (
	"fmt"

	"sandboxd/agentloop"
	"sandboxd/exec"
)

// maxDetectedLines bounds how many findings are printed; the object has all.
const maxDetectedLines = 10

// beginGuard completes what earlier runs left undone by a crash, and notes what
// is there before this run. It returns nil where nothing is to be looked at.
func (j *job) beginGuard() (*agentloop.Guard, error) {
	if j.o.grant.ReadOnlyWorkspace {
		return nil, nil
	}
	if j.stateDir == "" {
		j.plan.Gaps = append(j.plan.Gaps, exec.Gap{Part: "protected names that are new",
			Why: "no private directory for the journal", Instead: "not looked at after the run"})
		return nil, nil
	}
	earlier, err := agentloop.CompleteGuards(j.stateDir)
	for _, f := range earlier {
		j.plan.Warnings = append(j.plan.Warnings, "an earlier run that did not end: "+f.String())
	}
	if err != nil {
		j.plan.Warnings = append(j.plan.Warnings, "an earlier run could not be completed: "+err.Error())
	}
	var held []string
	for _, p := range j.plan.Protected {
		if p.Level == agentloop.LevelKernel {
			held = append(held, p.Path)
		}
	}
	guard, err := agentloop.BeginGuard(j.stateDir, j.plan.Workspace, agentloop.GuardOptions{Kernel: held, User: j.spec.User})
	if err == nil {
		return guard, nil
	}
	if j.o.bestEffort {
		j.plan.Warnings = append(j.plan.Warnings, "protected names are not looked at after the run: "+err.Error())
		return nil, nil
	}
	return nil, &failure{code: exitSandbox, stage: "protected names", err: err, hint: guardHint(err)}
}

func guardHint(err error) string {
	if hint := diskHint(err); hint != "" {
		return hint
	}
	return "--best-effort runs without looking at them afterwards"
}

// printDetected tells of what was found after the run.
func (j *job) printDetected(found []agentloop.GuardFinding) {
	for i, f := range found {
		if i == maxDetectedLines {
			j.p.note("warning", fmt.Sprintf("and %d more, see --json", len(found)-i))
			return
		}
		j.p.note("warning", "detected after the run, not prevented: "+f.String())
	}
}

// finishGuard never hides a failure: a workspace that could not be looked at may
// hold anything. Where nothing ran, nothing is looked at: what changed meanwhile
// is the work of others.
func (j *job) finishGuard(guard *agentloop.Guard, ran bool) []agentloop.GuardFinding {
	if guard == nil {
		return nil
	}
	if !ran {
		if err := guard.Discard(); err != nil {
			j.plan.Warnings = append(j.plan.Warnings, "the journal of this start stays: "+err.Error())
		}
		return nil
	}
	found, err := guard.Finish()
	if err != nil {
		j.plan.Warnings = append(j.plan.Warnings, "the workspace could not be looked at after the run; the next run tries again: "+err.Error())
	}
	return found
}
