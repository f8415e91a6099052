package api

import (
	"encoding/json"
	"errors"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"sandboxd/agentloop"
	"sandboxd/exec"
	"sandboxd/policy"
)

// Exit codes of sbx, as users of env(1) and timeout(1) expect. A command that ran
// gives its own code, or 128+n when signal n ended it.
const (
	ExitTimeout  = 124 // it ran out of time
	ExitSandbox  = 125 // could not be set up, or misuse; nothing ran
	ExitRefused  = 126 // refused by policy, or found but not executable; nothing ran
	ExitNotFound = 127 // not found; nothing ran
)

// plainResult is exec.Result's fields.
type plainResult exec.Result

// Result is what sbx run --json prints, --status-fd gets and POST /api/exec
// answers, see docs/result.md. Fields are only added within a version.
type Result struct {
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
	Error    *ErrorObject             `json:"error,omitempty"` // outcomes setup and denied

	// What follows is there for calls through the daemon.
	Call    string `json:"call_id,omitempty"`
	Session string `json:"session_id,omitempty"`
	// Status is that of the call's last audit row; Generation is of the policy that
	// decided.
	Status     agentloop.Status `json:"status,omitempty"`
	Generation int64            `json:"policy_generation,omitempty"`
	Decision   json.RawMessage  `json:"decision,omitempty"`
	// Output is what the model gets of a tool call, Context what hooks add to it.
	Output  string   `json:"output,omitempty"`
	Context []string `json:"context,omitempty"`
	// Protected are the names below the workspace that were read-only.
	Protected []string            `json:"protected,omitempty"`
	Trace     []agentloop.HopTime `json:"trace,omitempty"`
}

// ErrorObject says why nothing ran.
type ErrorObject struct {
	Stage   string `json:"stage"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// Plain is the Result of package exec in r. Times are in whole milliseconds where
// r came over the wire.
func (r Result) Plain() exec.Result {
	p := exec.Result(r.plainResult)
	if p.Elapsed == 0 {
		p.Elapsed = time.Duration(r.ElapsedMS) * time.Millisecond
	}
	if p.CPU == 0 {
		p.CPU = time.Duration(r.CPUMS) * time.Millisecond
	}
	return p
}

// NewResult fills the object for one run. Lists are never null.
func NewResult(res exec.Result, argv []string) Result {
	res.Version = exec.ResultVersion
	res.LimitsHit = list(res.LimitsHit)
	res.Enforced.Parts = list(res.Enforced.Parts)
	res.Enforced.Missing = list(res.Enforced.Missing)
	res.Enforced.Weakened = list(res.Enforced.Weakened)
	return Result{
		plainResult: plainResult(res),
		ElapsedMS:   milliseconds(res.Elapsed),
		CPUMS:       milliseconds(res.CPU),
		Argv:        list(argv),
		Withheld:    []string{},
		Detected:    []agentloop.GuardFinding{},
		Warnings:    []string{},
	}
}

// WithoutOutput is the form for --status-fd.
func (r Result) WithoutOutput() Result {
	r.Stdout.Text, r.Stderr.Text, r.Output = "", "", ""
	return r
}

// masked is r without secrets, as it is kept.
func (r Result) masked(secrets *agentloop.Redactor) (out Result, err error) {
	text, err := json.Marshal(r)
	if err != nil {
		return out, err
	}
	args, err := policy.DecodeArgs(text)
	if err != nil {
		return out, err
	}
	if text, err = json.Marshal(secrets.MaskArgs(args)); err != nil {
		return out, err
	}
	if err := json.Unmarshal(text, &out); err != nil {
		return out, err
	}
	out.Session = r.Session // its name reads like that of a secret; it is ours
	return out, nil
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

// ExitStatus is the exit status of sbx for a run.
func ExitStatus(res exec.Result) int {
	switch res.Outcome {
	case exec.TimedOut:
		return ExitTimeout
	case exec.Refused:
		return ExitRefused
	case exec.NotSetUp:
		return ExitSandbox
	}
	return res.ExitCode
}

// Explain gives an error of the lower rooms its stage, its hint and the exit code.
func Explain(err error) (ErrorObject, int) {
	what, code := explain(err)
	if hint := FilesHint(err); hint != "" {
		what.Hint = hint
	}
	return what, code
}

// FilesHint is the hint for a lack of descriptors, which can strike anywhere; empty
// for other errors. No other hint is right then.
func FilesHint(err error) string {
	if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) {
		return "raise the limit of open files (ulimit -n)"
	}
	return ""
}

func explain(err error) (ErrorObject, int) {
	if e, ok := errors.AsType[*agentloop.ProgramError](err); ok {
		hint := e.Hint
		if hint == "" && !e.Found {
			hint = "see that it is installed and on PATH, or write its path; sbx run --dry-run -- true shows what can be reached"
		}
		return ErrorObject{"program", err.Error(), hint}, e.ExitCode()
	}
	if e, ok := errors.AsType[*agentloop.GrantError](err); ok {
		return ErrorObject{"grant", err.Error(), e.Hint}, ExitSandbox
	}
	if e, ok := errors.AsType[*exec.SetupError](err); ok {
		return ErrorObject{e.Stage, e.Err.Error(), setupHint(e)}, setupCode(e)
	}
	if errors.Is(err, agentloop.ErrNotRecorded) {
		return ErrorObject{"audit", err.Error(), "make room or repair it: nothing runs unrecorded"}, ExitSandbox
	}
	return ErrorObject{"run", err.Error(), ""}, ExitSandbox
}

// setupCode is 126 or 127 when it was the program itself that could not be
// started.
func setupCode(e *exec.SetupError) int {
	if e.Stage != "exec" {
		return ExitSandbox
	}
	switch {
	case errors.Is(e.Err, unix.ENOENT):
		return ExitNotFound
	case errors.Is(e.Err, unix.EACCES), errors.Is(e.Err, unix.ENOEXEC), errors.Is(e.Err, unix.EISDIR), errors.Is(e.Err, unix.EPERM):
		return ExitRefused
	}
	return ExitSandbox
}

// setupHint adds what only the command line knows.
func setupHint(e *exec.SetupError) string {
	switch {
	case e.Hint != "":
		return e.Hint
	case errors.Is(e.Err, unix.ENOEXEC):
		return "it is no program for this machine; a script needs a first line such as #!/bin/sh"
	case DiskHint(e.Err) != "":
		return DiskHint(e.Err)
	case strings.Contains(e.Stage, "namespace"), e.Stage == "landlock", e.Stage == "seccomp":
		return "sbx doctor says what this host can enforce"
	}
	return ""
}

// DiskHint says what to do about a full disk; empty for other errors.
func DiskHint(err error) string {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return "the disk is full; sbx clean removes what sbx keeps"
	}
	return ""
}

// Remedy says what would allow a call that was not allowed.
func Remedy(d policy.Decision) string {
	way, known := "", false
	if d.Suggest != nil {
		way, known = Suggestion(d.Suggest)
	}
	switch r := d.Reason.(type) {
	case policy.HeadlessReason:
		return "run it from a terminal, or attach somebody who answers (sbx approvals --watch)" + orElse(way, r.Asked)
	case policy.TimeoutReason:
		return "answer in time" + orElse(way, r.Asked)
	case policy.RuleReason:
		if !known && r.Kind == policy.DenyRule {
			return "narrow that rule; no flag or mode overrides a deny"
		}
		if !known {
			return "answer the question when it is asked, or narrow that rule"
		}
	case policy.HookReason:
		if !known {
			return "change the hook " + r.Name + ", or what it judges"
		}
	}
	switch {
	case known:
		return way
	case d.Verdict == policy.Ask:
		return "answer the question when it is asked; no rule lifts it"
	}
	return "nothing in a policy does"
}

// orElse is the other way to allow what somebody has to be asked about.
func orElse(way string, asked policy.Reason) string {
	if _, rule := asked.(policy.RuleReason); way == "" && rule {
		way = "narrow that rule"
	}
	if way == "" {
		return ""
	}
	return "; or " + way
}

// Suggestion is what package policy proposes, as a command to type.
func Suggestion(s *policy.Suggestion) (string, bool) {
	if len(s.Rules) == 0 {
		return s.Instead, s.Instead != ""
	}
	var words []string
	for _, r := range s.Rules {
		words = append(words, policy.QuoteWord(r))
	}
	out := "sbx permissions add allow " + strings.Join(words, " ")
	if s.AlsoAllows != "" {
		out += " (also allows " + s.AlsoAllows + ")"
	}
	return out, true
}
