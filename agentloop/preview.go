package agentloop

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"sandboxd/policy"
)

// Previewer is a tool that can say what a call would change in a file, without
// changing anything.
type Previewer interface {
	Tool
	// Preview gives the path as the call names it, and a unified diff. It may start
	// one command, which can write nothing; the error says why there is no diff.
	Preview(ctx context.Context, r *ToolRun) (path, diff string, err error)
}

const (
	// previewTime bounds how much later a question is put because of its diff.
	previewTime = 2 * time.Second
	// maxShownArgs bounds arguments in one line for people, in bytes; Args has all.
	maxShownArgs = 2 << 10
)

// preview puts into a question what its call would change. The file is read by the
// confined process of the tool, as far as the session's commands can read: nothing was
// approved yet.
func (d *Dispatcher) preview(ctx context.Context, s *Session, c policy.Call, p *PendingQuestion) {
	tool, ok := d.tools[p.Tool].(Previewer)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, previewTime)
	defer cancel()
	path, diff, err := d.previewed(ctx, s, c, p.Writes, tool)
	switch {
	case ctx.Err() != nil:
		p.NoDiff = fmt.Sprintf("it was not known within %v", previewTime)
	case err != nil:
		p.NoDiff = ShowText(s.masked(err.Error()))
	case diff == "":
		p.NoDiff = "nothing would change"
	default:
		p.Diff = clip(s.masked(diff), maxEventText)
		p.Shown = ShowText(p.Tool + " " + s.masked(path))
	}
}

func (d *Dispatcher) previewed(ctx context.Context, s *Session, c policy.Call, writes []string, tool Previewer) (path, diff string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("bug: %v", p)
		}
	}()
	if len(writes) == 0 || !allWithin(writes, s.shownRoots()) {
		return "", "", errors.New("it is outside of what this session shows")
	}
	if err := d.queue.acquire(ctx, s.peer.UID()); err != nil {
		return "", "", err
	}
	defer d.queue.release(s.peer.UID())
	r := &ToolRun{Call: ToolCall{Call: c}, Session: s, d: d, traits: Traits{ReadOnly: true, Interrupt: InterruptCancel}, result: &ToolResult{lastHop: d.o.Now()}}
	r.result.Decision.Writes = writes // where the path leads; without a reason they grant nothing
	return tool.Preview(ctx, r)
}

// shownRoots are the directories in which a path is the same for the commands of s and
// for who is asked: elsewhere a command may see another file, or none.
func (s *Session) shownRoots() []string {
	g := s.inForce().Grant
	roots := []string{s.workspace}
	for _, p := range g.Paths {
		if p.Access == policy.GrantRead || p.Access == policy.GrantWrite {
			roots = append(roots, realOr(s.expand(p.Path, s.workspace)))
		}
	}
	return roots
}

// shownArgs are the arguments of a call in one line; what is cut off says so.
func shownArgs(args []byte) string {
	text := string(args)
	if len(text) <= maxShownArgs {
		return ShowText(text)
	}
	return ShowText(strings.TrimSuffix(clip(text, maxShownArgs), "[...]")) + fmt.Sprintf(" [... %d bytes in all]", len(text))
}
