package tools

import (
	"context"

	"sandboxd/agentloop"
	"sandboxd/agentloop/tools/files"
	"sandboxd/policy"
)

// pathFields are the names that clients give to the path of a file tool.
var pathFields = []string{"file_path", "path", "filePath", "absolute_path"}

// Limits of read_file. More is read by a further call.
const (
	defaultLines = 2000
	maxLines     = 100_000
)

// readTool is read_file.
type readTool struct{ helper }

func (readTool) Name() string { return "read_file" }

// Traits are those of requirement 16.
func (readTool) Traits(policy.Args) agentloop.Traits { return readingTraits }

// readingTraits are of tools that only look.
var readingTraits = agentloop.Traits{ConcurrencySafe: true, ReadOnly: true, Harmless: true, Interrupt: agentloop.InterruptCancel}

func (readTool) Schema() agentloop.ToolSchema {
	return schema("read_file", "Reads a text file and shows its lines with their numbers, as \"NUMBER<tab>LINE\". "+
		"Long lines are cut, large files are read in parts with offset and limit. A file must be read before it may be edited or overwritten.",
		object{
			{name: "file_path", kind: "string", text: "The file, absolute or relative to the workspace.", required: true},
			{name: "offset", kind: "integer", text: "The first line to show, from 1."},
			{name: "limit", kind: "integer", text: "How many lines to show; 2000 unless given."},
		})
}

func (t readTool) Call(ctx context.Context, r *agentloop.ToolRun) (string, error) {
	path, lines, err := readOf(r.Call.Args)
	if err != nil {
		return "", err
	}
	a, err := t.run(ctx, r, files.Request{Path: r.Expand(path), Real: r.Decision().Reads, Read: &lines})
	if err != nil {
		return "", err
	}
	if a.Stamp != nil {
		r.Session.Files().Seen(a.Real, agentloop.FileStamp(*a.Stamp))
	}
	return a.Text, nil
}

// Check reads the arguments.
func (readTool) Check(args policy.Args) error {
	_, _, err := readOf(args)
	return err
}

func readOf(args policy.Args) (path string, lines files.ReadRequest, err error) {
	if path, err = pathOf(args, pathFields...); err != nil {
		return "", lines, err
	}
	from, err := number(args, "offset", 1, 1<<40)
	if err != nil {
		return "", lines, err
	}
	count, err := number(args, "limit", defaultLines, maxLines)
	return path, files.ReadRequest{From: max(from, 1), Count: count}, err
}
