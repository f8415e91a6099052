package main

import (
	"time"

	"sandboxd/agentloop"
	"sandboxd/exec"
)

// plainResult is exec.Result's fields.
type plainResult exec.Result

// resultObject is what sbx run --json prints and --status-fd gets, see
// docs/result.md. Fields are only added within a version.
type resultObject struct {
	plainResult
	ElapsedMS int64    `json:"elapsed_ms"`
	CPUMS     int64    `json:"cpu_ms"`
	Argv      []string `json:"argv"`
	Workspace string   `json:"workspace,omitempty"`
	Withheld  []string `json:"withheld_env"`
	// Detected are protected names that the command changed and what was done
	// about it afterwards: detected, not prevented.
	Detected []agentloop.GuardFinding `json:"detected"`
	Warnings []string                 `json:"warnings"`
	Error    *errorObject             `json:"error,omitempty"` // outcomes setup and denied
}

// errorObject says why nothing ran.
type errorObject struct {
	Stage   string `json:"stage"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// newResultObject fills the object for one run. Lists are never null.
func newResultObject(res exec.Result, argv []string) resultObject {
	res.Version = exec.ResultVersion
	res.LimitsHit = list(res.LimitsHit)
	res.Enforced.Parts = list(res.Enforced.Parts)
	res.Enforced.Missing = list(res.Enforced.Missing)
	res.Enforced.Weakened = list(res.Enforced.Weakened)
	return resultObject{
		plainResult: plainResult(res),
		ElapsedMS:   milliseconds(res.Elapsed),
		CPUMS:       milliseconds(res.CPU),
		Argv:        list(argv),
		Withheld:    []string{},
		Detected:    []agentloop.GuardFinding{},
		Warnings:    []string{},
	}
}

// withoutOutput is the form for --status-fd.
func (r resultObject) withoutOutput() resultObject {
	r.Stdout.Text, r.Stderr.Text = "", ""
	return r
}

func list[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// milliseconds rounds up, so that nothing seems to have taken no time.
func milliseconds(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}
