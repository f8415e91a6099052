package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"sandboxd/cmd/sandboxd/api"
)

// exitNotRunning is the status of sbx daemon status without a daemon, as service
// managers have it.
const exitNotRunning = 3

func daemonCommand(p *program) *cli.Command {
	return &cli.Command{
		UsageText: examples("sbx daemon start", "sbx daemon status", "sbx daemon stop"),
		Description: "start runs sandboxd in the background: the machine's as root, else your own. Where\n" +
			"systemd manages it, use systemctl.",
		Subcommands: []*cli.Command{
			{Name: "start", Usage: "start the daemon in the background", ArgsUsage: "[-- FLAG of sandboxd...]", Flags: []cli.Flag{socketFlag()}, Action: p.daemonStart},
			{Name: "stop", Usage: "end the daemon; calls that run may finish", Action: p.daemonStop, Flags: []cli.Flag{
				&cli.DurationFlag{Name: "wait", Value: 40 * time.Second, Usage: "wait for its end for `TIME`"}, socketFlag()}},
			{Name: "reload", Usage: "read the policies again", Flags: []cli.Flag{socketFlag()}, Action: p.daemonReload},
			{Name: "status", Usage: "say whether a daemon runs; exit status 3 without one", Action: p.daemonStatus, Flags: []cli.Flag{
				&cli.BoolFlag{Name: "json", Usage: "print one JSON object"}, socketFlag()}},
		},
		Action: needSubcommand,
	}
}

// ownSocket is where a daemon of the caller's would listen: sbx daemon start never
// takes the machine's for the caller's.
func (p *program) ownSocket(c *cli.Context) (string, error) {
	path := c.String("socket")
	if path == "" {
		path = p.variable("SANDBOXD_SOCKET")
	}
	if path == "" {
		path = api.SocketPath(os.Geteuid(), p.variable("XDG_RUNTIME_DIR"))
	}
	if path == "" {
		return "", misuse("set XDG_RUNTIME_DIR, as a login does, or give --socket", "no place for the daemon's socket")
	}
	return filepath.Abs(path)
}

// daemonProgram finds sandboxd: beside this program, else on PATH.
func (p *program) daemonProgram() (string, error) {
	if self, err := os.Executable(); err == nil {
		if real, err := filepath.EvalSymlinks(self); err == nil {
			self = real
		}
		if beside := filepath.Join(filepath.Dir(self), "sandboxd"); unix.Access(beside, unix.X_OK) == nil {
			return beside, nil
		}
	}
	for dir := range strings.SplitSeq(p.variable("PATH"), ":") {
		if file := filepath.Join(dir, "sandboxd"); filepath.IsAbs(dir) && unix.Access(file, unix.X_OK) == nil {
			return file, nil
		}
	}
	return "", &failure{code: exitNotFound, stage: "daemon", hint: "make install puts it beside sbx", err: errors.New("the program sandboxd is not installed")}
}

// startWait is how long a daemon may take until it serves. It probes the host and
// opens its audit log.
const startWait = 20 * time.Second

func (p *program) daemonStart(c *cli.Context) error {
	socket, err := p.ownSocket(c)
	if err != nil {
		return err
	}
	cl := api.Dial(socket, currentVersion().Version)
	defer cl.Close()
	if h, err := cl.Health(c.Context); err == nil {
		return p.writeOut("running already: pid %d, version %s, %s\n", h.PID, oneLine(h.Version), oneLine(socket))
	}
	path, err := p.daemonProgram()
	if err != nil {
		return err
	}
	log, err := p.daemonLog()
	if err != nil {
		return &failure{code: exitSandbox, stage: "daemon", err: err}
	}
	defer log.Close()
	proc, err := startDetached(path, append([]string{"--socket", socket}, c.Args().Slice()...), p.environ, log)
	if err != nil {
		return &failure{code: exitSandbox, stage: "daemon", err: err}
	}
	ended := make(chan *os.ProcessState, 1)
	go func() { // ends with the program or the daemon
		state, _ := proc.Wait()
		ended <- state
	}()
	h, err := awaitDaemon(c.Context, cl, ended, log)
	if err != nil {
		return err
	}
	return p.writeOut("started: pid %d, version %s, %s\n", h.PID, oneLine(h.Version), oneLine(cl.Path()))
}

// daemonLog is where a daemon in the background writes. It is begun anew with each
// start, the one before is kept.
func (p *program) daemonLog() (*os.File, error) {
	dir := "/var/log/sandboxd"
	if os.Geteuid() != 0 {
		base := p.variable("XDG_STATE_HOME")
		if !filepath.IsAbs(base) {
			base = filepath.Join(p.variable("HOME"), ".local/state")
		}
		dir = filepath.Join(base, "sandboxd")
	}
	if !filepath.IsAbs(dir) {
		return nil, errors.New("no place for the log: HOME is not set")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "daemon.log")
	if err := os.Rename(path, path+".1"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
}

// lastLine is what the daemon said last.
func lastLine(f *os.File) string {
	text := make([]byte, 4096)
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	n, _ := f.ReadAt(text, max(info.Size()-int64(len(text)), 0))
	lines := strings.Split(strings.TrimSpace(string(text[:n])), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		if !strings.HasPrefix(lines[i], "sandboxd: hint:") {
			return lines[i]
		}
	}
	return ""
}

// startDetached starts a program in a session of its own, away from the caller's
// terminal and directory.
func startDetached(path string, args, environ []string, out *os.File) (*os.Process, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	return os.StartProcess(path, append([]string{"sandboxd"}, args...), &os.ProcAttr{
		Dir: "/", Env: environ, Files: []*os.File{null, out, out}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
}

func (p *program) daemonStop(c *cli.Context) error {
	socket, err := p.ownSocket(c)
	if err != nil {
		return err
	}
	cl := api.Dial(socket, currentVersion().Version)
	defer cl.Close()
	if err := cl.Post(c.Context, "/api/daemon/stop", struct{}{}, nil); err != nil {
		return daemonFailure(err)
	}
	late := time.After(c.Duration("wait"))
	for {
		cl.Close()
		if _, err := cl.Health(c.Context); isUnreachable(err) {
			return p.writeOut("stopped\n")
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-late:
			return &failure{code: exitSandbox, stage: "daemon", hint: "sbx jobs list and sbx daemon status tell of what runs",
				err: fmt.Errorf("it has not ended after %v", c.Duration("wait"))}
		}
	}
}

func isUnreachable(err error) bool {
	_, ok := errors.AsType[*api.UnreachableError](err)
	return ok
}

func (p *program) daemonReload(c *cli.Context) error {
	cl := p.client(c)
	defer cl.Close()
	return daemonFailure(cl.Post(c.Context, "/api/daemon/reload", struct{}{}, nil))
}

func (p *program) daemonStatus(c *cli.Context) error {
	cl := p.client(c)
	defer cl.Close()
	h, err := cl.Health(c.Context)
	if isUnreachable(err) {
		p.note("note", err.Error())
		return exitStatus(exitNotRunning)
	}
	if err != nil {
		return daemonFailure(err)
	}
	if c.Bool("json") {
		return p.writeJSON(h)
	}
	if own := currentVersion().Version; h.Version != own {
		p.note("note", fmt.Sprintf("the daemon is version %s, sbx %s; both speak version %s of the API", h.Version, own, h.API))
	}
	return p.writeOut("%s\n", oneLine(fmt.Sprintf("%s: pid %d, uid %d, version %s, up %v, %d sessions, %d questions, %d jobs running, %s",
		h.Status, h.PID, h.UID, h.Version, (time.Duration(h.UptimeMS)*time.Millisecond).Round(time.Second), h.Sessions, h.Questions, h.JobsRunning, cl.Path())))
}
