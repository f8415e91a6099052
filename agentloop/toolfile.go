package agentloop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"sandboxd/policy"
)

// maxFileBytes bounds what a file tool reads or writes in one call.
const maxFileBytes = 10 << 20

// pathFields are the names that clients give to the path of a file tool.
var pathFields = []string{"file_path", "path", "filePath", "absolute_path"}

// readTool reads a file as the call's own confined command would, so that what is
// denied to a command is denied to it, whatever links were put in its way
// meanwhile.
type readTool struct{}

func (readTool) Name() string { return "read_file" }

func (readTool) Traits(policy.Args) Traits {
	return Traits{ConcurrencySafe: true, ReadOnly: true, Harmless: true, Interrupt: InterruptCancel}
}

func (readTool) Call(ctx context.Context, r *ToolRun) (string, error) {
	path, err := oneText(r.Call.Args, pathFields...)
	if err != nil {
		return "", err
	}
	from, count, err := lineRange(r.Call.Args)
	if err != nil {
		return "", err
	}
	content := &boundedBuffer{left: maxFileBytes}
	res, err := r.Command(ctx, Command{Argv: []string{systemProgram("cat"), "--", r.Session.expand(path, r.Call.Cwd)}, Stdout: content})
	if err != nil {
		return "", err
	}
	if res.ExitCode != 0 {
		return "", errors.New(strings.TrimSpace(r.out.stderr + exitLine(res, r.grant.Limits.Timeout)))
	}
	if content.dropped > 0 {
		r.Note("%s is cut at %d bytes, %d more are there", path, maxFileBytes, content.dropped)
	}
	return lines(content.String(), from, count), nil
}

// lineRange reads offset (the first line, from 1) and limit (how many).
func lineRange(args policy.Args) (from, count int, err error) {
	for _, f := range []struct {
		field string
		to    *int
	}{{"offset", &from}, {"limit", &count}} {
		v, ok := args[f.field]
		if !ok || v == nil {
			continue
		}
		n, ok := v.(float64)
		if !ok || n < 0 || n > 1<<40 || n != float64(int(n)) {
			return 0, 0, fmt.Errorf("argument %s: want a number of lines", f.field)
		}
		*f.to = int(n)
	}
	return from, count, nil
}

func lines(s string, from, count int) string {
	for ; from > 1 && s != ""; from-- {
		_, s, _ = strings.Cut(s, "\n")
	}
	if count == 0 {
		return s
	}
	end := 0
	for ; count > 0; count-- {
		i := strings.IndexByte(s[end:], '\n')
		if i < 0 {
			return s
		}
		end += i + 1
	}
	return s[:end]
}

// writeTool writes a file as a confined command.
type writeTool struct{}

func (writeTool) Name() string { return "file_write" }

func (writeTool) Traits(policy.Args) Traits { return Traits{} }

func (writeTool) Call(ctx context.Context, r *ToolRun) (string, error) {
	path, err := oneText(r.Call.Args, pathFields...)
	if err != nil {
		return "", err
	}
	content, err := oneText(r.Call.Args, "content", "contents", "text")
	if err != nil {
		return "", err
	}
	if len(content) > maxFileBytes {
		return "", fmt.Errorf("content of %d bytes: at most %d are written in one call", len(content), maxFileBytes)
	}
	in, out, err := os.Pipe()
	if err != nil {
		return "", err
	}
	written := make(chan error, 1)
	go func() {
		_, err := out.WriteString(content)
		written <- errors.Join(err, out.Close())
	}()
	// Counted first, so that a file is not emptied by a content that was cut.
	script := `data=$(mktemp) && cat >"$data" && [ "$(wc -c <"$data")" = "$2" ] && cat -- "$data" >"$1"; status=$?; rm -f -- "$data"; exit "$status"`
	if !r.grant.PrivateTmp {
		script = `cat >"$1"`
	}
	res, err := r.Command(ctx, Command{Argv: []string{systemProgram("sh"), "-c", script, "file_write", r.Session.expand(path, r.Call.Cwd), fmt.Sprint(len(content))}, Stdin: in})
	in.Close()
	if werr := <-written; err == nil && werr != nil && res.ExitCode == 0 {
		err = werr
	}
	if err != nil {
		return "", err
	}
	if res.ExitCode != 0 {
		return "", errors.New(strings.TrimSpace(r.out.stderr + exitLine(res, r.grant.Limits.Timeout)))
	}
	return fmt.Sprintf("wrote %d bytes to %s", len(content), path), nil
}

// boundedBuffer keeps the first bytes and counts the rest.
type boundedBuffer struct {
	bytes.Buffer
	left    int
	dropped int
}

func (b *boundedBuffer) Write(p []byte) (int, error) {
	keep := p[:min(len(p), b.left)]
	b.left -= len(keep)
	b.dropped += len(p) - len(keep)
	b.Buffer.Write(keep)
	return len(p), nil
}
