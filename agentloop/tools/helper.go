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
	"sandboxd/exec"
)

// protocolVersion tells a helper of another build: the file may have been replaced
// while the daemon runs.
const protocolVersion = 1

// request is what a helper is asked to do. Nothing in it can widen what the kernel
// lets the helper do.
type request struct {
	Version int    `json:"version"`
	Path    string `json:"path"` // absolute
	// Real lists where Path may lead: what was decided about. Empty: anywhere.
	Real []string `json:"real,omitempty"`
	// One of these is set.
	Read  *readRequest  `json:"read,omitempty"`
	Write *writeRequest `json:"write,omitempty"`
	List  *listRequest  `json:"list,omitempty"`
	Glob  *globRequest  `json:"glob,omitempty"`
	Grep  *grepRequest  `json:"grep,omitempty"`
	Fetch *fetchRequest `json:"fetch,omitempty"`
}

// answer is what a helper did. Error is for the model and for people.
type answer struct {
	Version int    `json:"version"`
	Error   string `json:"error,omitempty"`
	// Unreached: the path could not be followed to its end.
	Unreached bool   `json:"unreached,omitempty"`
	Real      string `json:"real,omitempty"` // where the path led
	Text      string `json:"text,omitempty"`
	Diff      string `json:"diff,omitempty"`
	// Stamp is what the file is now; nil where there is nothing to remember.
	Stamp *agentloop.FileStamp `json:"stamp,omitempty"`
	Found []found              `json:"found,omitempty"`
	// Cut says why there may be more than is in Found.
	Cut string `json:"cut,omitempty"`
}

// Bounds of a request and an answer, in bytes as JSON. A content of
// maxWholeFile may take six times as much in JSON (control characters).
const (
	maxRequest = 64 << 20
	maxAnswer  = 16 << 20
)

// helper starts this program as the confined process of one call.
type helper struct{ program string }

// run does q under the confinement of the call. The error is one line for the
// model.
func (h helper) run(ctx context.Context, r *agentloop.ToolRun, q request) (answer, error) {
	return h.runOn(ctx, r, q, nil)
}

// runOn is run with a network in place of the policy's. Nil is the policy's.
func (h helper) runOn(ctx context.Context, r *agentloop.ToolRun, q request, network []string) (answer, error) {
	program := h.program
	if program == "" {
		var err error
		if program, err = os.Executable(); err != nil {
			return answer{}, fmt.Errorf("the file helper cannot be started: this program's own path is not known: %w", err)
		}
	}
	q.Version = protocolVersion
	body, err := json.Marshal(q)
	if err != nil {
		return answer{}, fmt.Errorf("bug: a request that is no JSON: %w", err)
	}
	if len(body) > maxRequest {
		return answer{}, fmt.Errorf("the arguments are too large: %d bytes, at most %d", len(body), maxRequest)
	}
	in, feed, err := os.Pipe()
	if err != nil {
		return answer{}, err
	}
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		_, _ = feed.Write(body) // a helper that reads less has no answer either
		_ = feed.Close()
	}()
	out := &bounded{left: maxAnswer}
	res, err := r.Command(ctx, agentloop.Command{Argv: []string{program, helperArg}, Own: program, Network: network, Stdin: in, Stdout: out})
	_ = in.Close()
	<-fed
	if err != nil {
		if strings.Contains(err.Error(), program) {
			return answer{}, fmt.Errorf("the file helper cannot be started in the confinement of this call, so nothing was done: %w", err)
		}
		return answer{}, err
	}
	a, err := h.read(res, out)
	if err != nil && a.Unreached && !slices.ContainsFunc(append(q.Real, path.Clean(q.Path)), r.InView) {
		err = fmt.Errorf("%s is not in the sandbox of this session: its directory can be granted ([filesystem] in the policy, --ro), or a person can approve the call", q.Path)
	}
	return a, err
}

// read decodes the answer of a helper that has ended.
func (h helper) read(res *exec.Result, out *bounded) (answer, error) {
	var a answer
	switch {
	case res.Outcome == exec.TimedOut:
		return a, errors.New("timed out; nothing of the call is left")
	case res.Outcome != exec.Exited || res.ExitCode != 0:
		return a, fmt.Errorf("the file helper did not end as it should (%s, status %d): %s", res.Outcome, res.ExitCode, lastLine(res.Stderr.Text))
	case out.dropped > 0:
		return a, fmt.Errorf("the answer is larger than %d bytes: ask for less", maxAnswer)
	}
	if err := json.Unmarshal(out.Bytes(), &a); err != nil {
		return answer{}, fmt.Errorf("the file helper gave no answer: %w", err)
	}
	if a.Version != protocolVersion {
		return answer{}, errors.New("the program on disk is of another version than the one that runs: restart the daemon")
	}
	if a.Error != "" {
		return a, errors.New(a.Error)
	}
	return a, nil
}

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
