package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"sandboxd/cmd/sandboxd/api"
)

// Exit codes of sbx, as users of env(1) and timeout(1) expect. A command that
// ran gives its own code, or 128+n when signal n ended it.
const (
	exitTimeout  = api.ExitTimeout  // it ran out of time
	exitSandbox  = api.ExitSandbox  // could not be set up, or sbx was misused; nothing ran
	exitRefused  = api.ExitRefused  // refused by policy, or found but not executable; nothing ran
	exitNotFound = api.ExitNotFound // not found; nothing ran
)

// failure is an error with what a person needs: the stage that failed and what
// can be done about it.
type failure struct {
	code  int
	stage string // "flags", "workspace", "landlock", ...
	hint  string // may be empty
	err   error
}

func (f *failure) Error() string { return f.stage + ": " + f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// misuse reports a command line that cannot be carried out.
func misuse(hint, format string, args ...any) error {
	return &failure{code: exitSandbox, stage: "usage", hint: hint, err: fmt.Errorf(format, args...)}
}

// exitStatus is an exit code with nothing left to say: the command's own, or the
// verdict of a check.
type exitStatus int

func (s exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// exitCode maps what a command returned to the exit code of sbx. It is the only
// place that does.
func exitCode(err error) int {
	if err == nil {
		return 0
	}
	if status, ok := errors.AsType[exitStatus](err); ok {
		return int(status)
	}
	if f, ok := errors.AsType[*failure](err); ok {
		return f.code
	}
	return exitSandbox
}

// report tells a person about err: one line for the error and one for the hint,
// or what was denied, by what, and how to allow it.
func report(stderr io.Writer, err error) {
	if err == nil {
		return
	}
	if _, ok := errors.AsType[exitStatus](err); ok {
		return
	}
	if r, ok := errors.AsType[*refusal](err); ok {
		fmt.Fprintf(stderr, "sbx: denied: %s\nsbx: by: %s\nsbx: to allow: %s\n", oneLine(r.what), oneLine(r.by), oneLine(r.toAllow))
		return
	}
	fmt.Fprintf(stderr, "sbx: error: %s\n", oneLine(api.OneLine(err.Error())))
	if f, ok := errors.AsType[*failure](err); ok && f.hint != "" {
		fmt.Fprintf(stderr, "sbx: hint: %s\n", oneLine(f.hint))
	}
}

// oneLine makes text that may hold names of files safe for one terminal line:
// control characters, and those that turn text around or do not show, become
// question marks.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0) || r > 0xa0 && unseen(r) {
			return '?'
		}
		return r
	}, text)
}
