package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"sandboxd/cmd/sandboxd/api"
)

// socketFlag is the flag of every command that talks to the daemon.
func socketFlag() cli.Flag {
	return &cli.StringFlag{Name: "socket", Usage: "the daemon's socket `PATH` (default: $SANDBOXD_SOCKET, your own daemon's, the machine's)", TakesFile: true}
}

// socketPath is where the daemon is: the flag, the variable, the caller's own
// daemon if it has a socket, the machine's; where that has none, the one that sbx
// agent started.
func (p *program) socketPath(flags flagValues) string {
	if flags.IsSet("socket") {
		return flags.String("socket")
	}
	if path := p.variable("SANDBOXD_SOCKET"); path != "" {
		return path
	}
	if os.Geteuid() != 0 {
		if own := api.SocketPath(os.Geteuid(), p.variable("XDG_RUNTIME_DIR")); own != "" && exists(own) {
			return own
		}
	}
	machine := api.SocketPath(0, "")
	if short, _, err := p.shortSocket(); err == nil && !exists(machine) && exists(short) {
		return short
	}
	return machine
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// variable returns the last value of a variable of the caller.
func (p *program) variable(name string) string {
	value := ""
	for _, e := range p.environ {
		if len(e) > len(name) && e[:len(name)] == name && e[len(name)] == '=' {
			value = e[len(name)+1:]
		}
	}
	return value
}

// client is the way to the daemon.
func (p *program) client(flags flagValues) *api.Client {
	path := p.socketPath(flags)
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	return api.Dial(path, currentVersion().Version)
}

// daemonFailure gives an error of the client its hint and code.
func daemonFailure(err error) error {
	if err == nil {
		return nil
	}
	if f, ok := errors.AsType[*api.Fault](err); ok {
		code, stage := exitSandbox, "daemon"
		switch f.Code {
		case api.CodeInsideRun:
			code = exitRefused
		case api.CodePolicy:
			stage = "policy"
		case api.CodeSetup:
			stage = "grant"
		case api.CodeBadRequest:
			stage = "usage"
		}
		return &failure{code: code, stage: stage, hint: f.Hint, err: err}
	}
	if e, ok := errors.AsType[*api.UnreachableError](err); ok {
		return &failure{code: exitSandbox, stage: "daemon", hint: e.Hint, err: err}
	}
	if errors.Is(err, api.ErrGone) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, unix.ECONNRESET) {
		return &failure{code: exitSandbox, stage: "daemon", hint: "sbx daemon status; sbx daemon start starts it again", err: api.ErrGone}
	}
	if errors.Is(err, api.ErrCut) {
		return &failure{code: exitSandbox, stage: "daemon", hint: "the daemon was stopped or killed, and the command with it; sbx daemon status", err: err}
	}
	return &failure{code: exitSandbox, stage: "daemon", err: err}
}
