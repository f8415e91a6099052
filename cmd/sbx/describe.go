package main

import (
	"errors"

	"sandboxd/agentloop"
	"sandboxd/cmd/sandboxd/api"
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
	if e, ok := errors.AsType[*agentloop.GuardError](err); ok {
		return &failure{code: exitSandbox, stage: "protected names", hint: guardHint(e.Err), err: e.Err}
	}
	what, code := api.Explain(err)
	if e, ok := errors.AsType[*exec.SetupError](err); ok {
		err = e.Err // the stage is said once
	}
	return &failure{code: code, stage: what.Stage, hint: what.Hint, err: err}
}
