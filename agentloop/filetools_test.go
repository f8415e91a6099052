package agentloop

import (
	"context"
	"errors"
	"os"
	"strings"

	"sandboxd/policy"
)

// catTool and teeTool stand for the file tools, which are in agentloop/tools: they
// reach files by programs in the confinement of their call.
type (
	catTool struct{}
	teeTool struct{}
)

func (catTool) Name() string { return "read_file" }

func (catTool) Traits(policy.Args) Traits {
	return Traits{ConcurrencySafe: true, ReadOnly: true, Harmless: true, Interrupt: InterruptCancel}
}

func (catTool) Call(ctx context.Context, r *ToolRun) (string, error) {
	path, err := oneText(r.Call.Args, "file_path", "path")
	if err != nil {
		return "", err
	}
	return r.program(ctx, Command{Argv: []string{systemProgram("cat"), "--", r.Expand(path)}})
}

func (teeTool) Name() string { return "file_write" }

func (teeTool) Traits(policy.Args) Traits { return Traits{} }

func (teeTool) Call(ctx context.Context, r *ToolRun) (string, error) {
	path, err := oneText(r.Call.Args, "file_path", "path")
	if err != nil {
		return "", err
	}
	content, err := oneText(r.Call.Args, "content")
	if err != nil {
		return "", err
	}
	in, out, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer in.Close()
	go func() {
		_, _ = out.WriteString(content)
		_ = out.Close()
	}()
	return r.program(ctx, Command{Argv: []string{systemProgram("sh"), "-c", `cat >"$1"`, "sh", r.Expand(path)}, Stdin: in})
}

// program runs a command that must succeed.
func (r *ToolRun) program(ctx context.Context, c Command) (string, error) {
	res, err := r.Command(ctx, c)
	if err == nil && res.ExitCode != 0 {
		err = errors.New(strings.TrimSpace(r.out.stderr))
	}
	return r.out.stdout, err
}
