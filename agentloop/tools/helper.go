package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"sandboxd/agentloop"
	"sandboxd/agentloop/tools/files"
	"sandboxd/exec"
)

// HelperMain plays the helper if this process was started as one, and then does
// not return. A program that has file tools calls it first in main, with the build
// that it tells [Options], and a test of them in TestMain.
func HelperMain(build string) { files.Main(build, handleFetch) }

// helper starts a program as the confined process of one call: the light one where
// it fits, else this program itself.
type helper struct {
	program string // empty: this process's own
	build   string
	light   *lightProgram
}

// run does q under the confinement of the call. The error is one line for the
// model.
func (h helper) run(ctx context.Context, r *agentloop.ToolRun, q files.Request) (files.Answer, error) {
	if program, id, ok := h.light.fit(); ok {
		a, err := h.runOn(ctx, r, program, q, agentloop.Command{})
		if !errors.Is(err, errMisfit) {
			return a, err
		}
		h.light.refuse(id)
	}
	return h.runOwn(ctx, r, q, agentloop.Command{Again: true})
}

// runOwn is run by this program itself; c is what else the command needs.
func (h helper) runOwn(ctx context.Context, r *agentloop.ToolRun, q files.Request, c agentloop.Command) (files.Answer, error) {
	program := h.program
	if program == "" {
		var err error
		if program, err = os.Executable(); err != nil {
			return files.Answer{}, fmt.Errorf("the file helper cannot be started: this program's own path is not known: %w", err)
		}
	}
	return h.runOn(ctx, r, program, q, c)
}

func (h helper) runOn(ctx context.Context, r *agentloop.ToolRun, program string, q files.Request, c agentloop.Command) (files.Answer, error) {
	q.Version, q.Build = files.ProtocolVersion, h.build
	body, err := json.Marshal(q)
	if err != nil {
		return files.Answer{}, fmt.Errorf("bug: a request that is no JSON: %w", err)
	}
	if len(body) > files.MaxRequest {
		return files.Answer{}, fmt.Errorf("the arguments are too large: %d bytes, at most %d", len(body), files.MaxRequest)
	}
	in, feed, err := os.Pipe()
	if err != nil {
		return files.Answer{}, err
	}
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		_, _ = feed.Write(body) // a helper that reads less has no answer either
		_ = feed.Close()
	}()
	out := &bounded{left: files.MaxAnswer}
	c.Argv, c.Own, c.Stdin, c.Stdout = []string{program, files.Arg}, program, in, out
	res, err := r.Command(ctx, c)
	_ = in.Close()
	<-fed
	if err != nil {
		if strings.Contains(err.Error(), program) {
			return files.Answer{}, misfit("the file helper cannot be started in the confinement of this call, so nothing was done: %w", err)
		}
		return files.Answer{}, err
	}
	a, err := h.read(res, out)
	if err != nil && a.Unreached && !slices.ContainsFunc(append(q.Real, path.Clean(q.Path)), r.InView) {
		err = fmt.Errorf("%s is not in the sandbox of this session: its directory can be granted ([filesystem] in the policy, --ro), or a person can approve the call", q.Path)
	}
	return a, err
}

// exitMisuse is what sbx and sandboxd end with when they do not know an argument; the
// two statuses above it are those of what cannot be executed. A helper has none of them.
const exitMisuse = 125

// read decodes the answer of a helper that has ended.
func (h helper) read(res *exec.Result, out *bounded) (files.Answer, error) {
	var a files.Answer
	switch {
	case res.Outcome == exec.TimedOut:
		return a, errors.New("timed out; nothing of the call is left")
	case res.Outcome == exec.Exited && res.ExitCode >= exitMisuse && res.ExitCode <= exitMisuse+2 && out.Len() == 0:
		return a, misfit("the program on disk plays no file helper: %s", lastLine(res.Stderr.Text))
	case res.Outcome != exec.Exited || res.ExitCode != 0:
		return a, fmt.Errorf("the file helper did not end as it should (%s, status %d): %s", res.Outcome, res.ExitCode, lastLine(res.Stderr.Text))
	case out.dropped > 0:
		return a, fmt.Errorf("the answer is larger than %d bytes: ask for less", files.MaxAnswer)
	}
	if err := json.Unmarshal(out.Bytes(), &a); err != nil {
		return files.Answer{}, fmt.Errorf("the file helper gave no answer: %w", err)
	}
	if a.Version != files.ProtocolVersion || a.Build != h.build {
		return files.Answer{}, misfit("the program on disk is of another version than the one that runs: restart the daemon")
	}
	if a.Error != "" {
		return a, errors.New(a.Error)
	}
	return a, nil
}

// errMisfit marks the errors of a program that did nothing, since it is another one
// than it should be.
var errMisfit = errors.New("another program")

type misfitError struct{ error }

func (e misfitError) Unwrap() error      { return e.error }
func (misfitError) Is(target error) bool { return target == errMisfit }

func misfit(format string, args ...any) error { return misfitError{fmt.Errorf(format, args...)} }

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}

// bounded keeps the first bytes and counts the rest.
type bounded struct {
	bytes.Buffer
	left, dropped int
}

func (b *bounded) Write(p []byte) (int, error) {
	keep := p[:min(len(p), b.left)]
	b.left -= len(keep)
	b.dropped += len(p) - len(keep)
	b.Buffer.Write(keep)
	return len(p), nil
}
