package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"sandboxd/agentloop"
	"sandboxd/cmd/sandboxd/api"
)

// A daemon that sbx starts for its own command keeps its state where the user's own
// daemon does, for root too, so that conversations go on the next time. Several
// commands share it; it ends when the last of them has.
const (
	// idleExit is how long it waits for another command.
	idleExit = 500 * time.Millisecond
	// startTries is how often a daemon is looked for and started: one that is found
	// may be about to end.
	startTries = 3
	// maxSocketPath is what fits into sun_path (unix(7)), less the daemon's suffix.
	maxSocketPath = 100
)

// shortDaemon is a daemon that this command started, or found; close lets go of it.
type shortDaemon struct {
	*api.Client
	ended <-chan *os.ProcessState // nil: it was not started by this command
}

// close waits for the end of a daemon of this command's own, so that nothing of it is
// left when sbx has ended. One that others use goes on.
func (d *shortDaemon) close() {
	d.Client.Close()
	if d.ended == nil {
		return
	}
	select {
	case <-d.ended:
	case <-time.After(idleExit + time.Second): // it serves others too
	}
}

// someDaemon is the daemon that runs, else one for this command alone.
func (p *program) someDaemon(ctx context.Context, flags flagValues) (*shortDaemon, error) {
	if flags.IsSet("socket") || p.variable("SANDBOXD_SOCKET") != "" {
		return &shortDaemon{Client: p.client(flags)}, nil
	}
	var err error
	for range startTries {
		cl := p.client(flags)
		if _, err := cl.Health(ctx); err == nil {
			return &shortDaemon{Client: cl}, nil
		} else if !isUnreachable(err) {
			cl.Close()
			return nil, daemonFailure(err)
		}
		cl.Close()
		var d *shortDaemon
		if d, err = p.startShort(ctx); err == nil {
			return d, nil
		}
	}
	return nil, err
}

// stateHome is where the user's own daemon keeps its state.
func (p *program) stateHome() (string, error) {
	base := p.variable("XDG_STATE_HOME")
	if !filepath.IsAbs(base) {
		home := p.variable("HOME")
		if !filepath.IsAbs(home) {
			return "", misuse("set HOME, or start a daemon: sbx daemon start", "no place for the daemon's state: HOME is not set")
		}
		base = filepath.Join(home, ".local/state")
	}
	return filepath.Join(base, "sandboxd"), nil
}

// shortSocket is the socket of a daemon that sbx starts for its own commands.
func (p *program) shortSocket() (socket, state string, err error) {
	dir, err := p.stateHome()
	if err != nil {
		return "", "", err
	}
	state = filepath.Join(dir, "daemon")
	if socket = filepath.Join(state, "sandboxd.sock"); len(socket) <= maxSocketPath {
		return socket, state, nil
	}
	sum := sha256.Sum256([]byte(state))
	return filepath.Join(os.TempDir(), fmt.Sprintf("sandboxd-%d-%s", os.Geteuid(), hex.EncodeToString(sum[:8])), "s.sock"), state, nil
}

// startShort starts a daemon for this command and returns when it serves.
func (p *program) startShort(ctx context.Context) (*shortDaemon, error) {
	socket, state, err := p.shortSocket()
	if err != nil {
		return nil, err
	}
	path, err := p.daemonProgram()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(state, 0o700); err != nil {
		return nil, &failure{code: exitSandbox, stage: "daemon", err: err}
	}
	log, err := os.OpenFile(filepath.Join(filepath.Dir(state), "agent-daemon.log"), os.O_RDWR|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, &failure{code: exitSandbox, stage: "daemon", err: err}
	}
	defer log.Close()
	proc, err := startDetached(path, []string{"--socket", socket, "--state", state, "--idle-exit", idleExit.String(), "--stop-timeout", "5s"}, withoutKeys(p.environ), log)
	if err != nil {
		return nil, &failure{code: exitSandbox, stage: "daemon", err: err}
	}
	ended := make(chan *os.ProcessState, 1)
	go func() { // ends with the program or the daemon
		state, _ := proc.Wait()
		ended <- state
	}()
	cl := api.Dial(socket, currentVersion().Version)
	h, err := awaitDaemon(ctx, cl, ended, log)
	if err != nil {
		cl.Close()
		return nil, err
	}
	if h.PID != proc.Pid { // another command was faster
		return &shortDaemon{Client: cl}, nil
	}
	p.note("note", "no daemon runs; started one for this command (sbx daemon start keeps one running)")
	return &shortDaemon{Client: cl, ended: ended}, nil
}

// withoutKeys leaves out the keys of model APIs: a daemon gets those of a session with
// its request, and has none of its own.
func withoutKeys(environ []string) []string {
	names := agentloop.KeyVariables()
	return slices.DeleteFunc(slices.Clone(environ), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains(names, name)
	})
}

// awaitDaemon returns when a daemon serves at the socket of cl, or says why it does
// not.
func awaitDaemon(ctx context.Context, cl *api.Client, ended <-chan *os.ProcessState, log *os.File) (api.Health, error) {
	late := time.After(startWait)
	for {
		h, err := cl.Health(ctx)
		if err == nil {
			return h, nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
			continue
		case state := <-ended:
			if h, err := cl.Health(ctx); err == nil { // it ended since another one serves
				return h, nil
			}
			err := fmt.Errorf("it ended at once (%v): %s", state, lastLine(log))
			return api.Health{}, &failure{code: exitSandbox, stage: "daemon", hint: "see " + log.Name(), err: err}
		case <-late:
			err := fmt.Errorf("it does not serve after %v", startWait)
			return api.Health{}, &failure{code: exitSandbox, stage: "daemon", hint: "see " + log.Name(), err: err}
		case <-ctx.Done():
			return api.Health{}, errors.Join(ctx.Err(), exitStatus(128+int(unix.SIGINT)))
		}
	}
}
