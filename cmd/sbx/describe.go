package main

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"

	"sandboxd/agentloop"
	"sandboxd/exec"
)

// describe gives an error of the lower rooms its stage, hint and code.
func describe(err error) *failure {
	if f, ok := errors.AsType[*failure](err); ok {
		return f
	}
	if r, ok := errors.AsType[*refusal](err); ok {
		return &failure{code: exitRefused, stage: "policy", hint: r.toAllow, err: err}
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
	if e, ok := errors.AsType[*agentloop.GuardError](err); ok {
		return &failure{code: exitSandbox, stage: "protected names", hint: guardHint(e.Err), err: e.Err}
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
	case diskHint(e.Err) != "":
		return diskHint(e.Err)
	case strings.Contains(e.Stage, "namespace"), e.Stage == "landlock", e.Stage == "seccomp":
		return "sbx doctor says what this host can enforce"
	}
	return ""
}

func diskHint(err error) string {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return "the disk is full; sbx clean removes what sbx keeps"
	}
	return ""
}
