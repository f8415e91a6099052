// A run is short and waits most of its time: how many processors a control group
// may use is not worth reading five files at every start and again each second.
//
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0

// Command sbx runs commands under confinement and explains what confined them.
//
//	sbx run -- npm test
//	sbx doctor
//
// # Limits
//
// sbx decides nothing by itself and enforces nothing by itself: see packages
// policy and exec. It is not Docker's program of the same name.
package main

import (
	"context"
	"io"
	"os"

	"sandboxd/agentloop/tools/files"
	"sandboxd/exec"
)

func main() {
	files.Main(version, nil) // for the daemon beside it: sbx starts faster
	// No signal is caught here: sbx run hands them to its command, and the other
	// commands are short and end by them.
	code := run(context.Background(), os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr)
	exec.Settle()
	os.Exit(code)
}

// program is one invocation of sbx: what its commands may use of the outside.
type program struct {
	environ        []string
	stdin          *os.File
	stdout, stderr io.Writer
}

// run executes one command line and returns the exit code. Cancelling ctx ends a
// command that runs as its deadline would.
func run(ctx context.Context, args, environ []string, stdin *os.File, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == "help" {
		args = append(args[1:len(args):len(args)], "--help")
	}
	if len(args) > 0 && args[0] == "--version" {
		args = append([]string{"version"}, args[1:]...)
	}
	p := &program{environ: environ, stdin: stdin, stdout: stdout, stderr: stderr}
	err := p.command(ctx, args)
	report(stderr, err)
	return exitCode(err)
}

// command executes one command line. That of a plain run goes around the flag
// library, see plainFlags.
func (p *program) command(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == "run" {
		if flags, argv, ok := parsePlain(runFlags(), args[1:]); ok {
			return p.runArgv(ctx, flags, argv)
		}
	}
	if len(args) > 0 && args[0] == "exec" {
		if flags, argv, ok := parsePlain(execFlags(), args[1:]); ok {
			return p.execArgv(ctx, flags, argv)
		}
	}
	return p.app(args).RunContext(ctx, append([]string{"sbx"}, withContinue(args)...))
}
