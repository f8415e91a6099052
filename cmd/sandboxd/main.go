// Command sandboxd is the daemon: it decides, asks, runs and remembers.
//
//	sandboxd                          serve, in the foreground
//	sandboxd --group agents           root's daemon, for the members of a group
//	sandboxd run-log                  write the log of sbx run, which starts it
//
// It is started by systemd, by "sbx daemon start" or by hand, and ends by SIGTERM
// or SIGINT: it takes no new calls, and waits for those that run. SIGHUP reads the
// policies again.
//
// # Limits
//
// The daemon decides nothing and confines nothing by itself, see packages policy
// and exec. When it is killed, the commands it runs die with it: their keepers
// notice. It is not Docker's program of the same name.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"sandboxd/agentloop/tools"
	"sandboxd/cmd/sandboxd/api"
)

// version is set by the Makefile through -ldflags -X; otherwise the go command's
// build information tells.
var version string

func main() {
	tools.HelperMain(version)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, unix.SIGHUP)
	code := run(ctx, os.Args, os.Environ(), os.Stdout, os.Stderr, hangups)
	stop()
	os.Exit(code)
}

// Exit codes, as sbx has them.
const (
	exitFailed  = 1
	exitMisuse  = 125
	exitRunning = 3 // another daemon serves the socket
)

// run executes one command line. hangups asks for the policies to be read again.
func run(ctx context.Context, args, environ []string, stdout, stderr io.Writer, hangups <-chan os.Signal) int {
	if len(args) == 2 && args[1] == api.RunLogCommand {
		return failed(runLog(ctx, environ, os.Stdin, stdout), stderr)
	}
	app := &cli.App{
		Name: "sandboxd", Usage: "decide, ask, run and remember for sbx",
		UsageText:       "sandboxd\nsandboxd --group agents --admin-group wheel\nsandboxd --listen 127.0.0.1:7777",
		Version:         buildVersion(),
		HideHelpCommand: true, Writer: stdout, ErrWriter: stderr,
		ExitErrHandler: func(*cli.Context, error) {},
		OnUsageError: func(_ *cli.Context, err error, _ bool) error {
			return misuse("sandboxd --help lists the flags", "%v", err)
		},
		Flags: flags(),
		Action: func(c *cli.Context) error {
			o, err := readOptions(c, environ)
			if err != nil {
				return err
			}
			o.stderr, o.hangups = stderr, hangups
			// Where it was started is nothing that a client's name may lead to.
			if err := os.Chdir("/"); err != nil {
				return err
			}
			return serve(ctx, o)
		},
	}
	return failed(app.RunContext(ctx, args), stderr)
}

// failed says what went wrong and returns the exit status.
func failed(err error, stderr io.Writer) int {
	if err == nil {
		return 0
	}
	fmt.Fprintf(stderr, "sandboxd: error: %v\n", err)
	if p, ok := errors.AsType[*problem](err); ok {
		if p.hint != "" {
			fmt.Fprintf(stderr, "sandboxd: hint: %s\n", p.hint)
		}
		return p.code
	}
	return exitFailed
}

// problem is an error with what can be done about it.
type problem struct {
	code int
	hint string
	err  error
}

func (p *problem) Error() string { return p.err.Error() }
func (p *problem) Unwrap() error { return p.err }

func misuse(hint, format string, args ...any) error {
	return &problem{code: exitMisuse, hint: hint, err: fmt.Errorf(format, args...)}
}

func buildVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return "unknown"
}

// defaultStopTime is how long calls may go on after SIGTERM.
const defaultStopTime = 30 * time.Second
