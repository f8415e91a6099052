package tools

import (
	"context"

	"sandboxd/agentloop"
	"sandboxd/agentloop/tools/files"
	"sandboxd/policy"
)

// writingTraits are those of requirement 17: alone and in order, and ended at once,
// since a file is replaced in one step.
var writingTraits = agentloop.Traits{Interrupt: agentloop.InterruptCancel}

// writeTool is file_write.
type writeTool struct{ helper }

func (writeTool) Name() string                        { return "file_write" }
func (writeTool) Traits(policy.Args) agentloop.Traits { return writingTraits }

func (writeTool) Schema() agentloop.ToolSchema {
	return schema("file_write", "Writes a whole file, in one step; missing directories are made. "+
		"A file that exists must have been read in this conversation, and must not have changed since. To change a part of a file use file_edit.",
		object{
			{name: "file_path", kind: "string", text: "The file, absolute or relative to the workspace.", required: true},
			{name: "content", kind: "string", text: "The whole new content.", required: true},
		})
}

// Summary is for the classifier: what is written matters as much as where.
func (writeTool) Summary(args policy.Args) string {
	path, _, _ := text(args, pathFields...)
	content, _, _ := text(args, contentFields...)
	return "write " + path + ":\n" + content
}

var contentFields = []string{"content", "contents", "text"}

func (t writeTool) Call(ctx context.Context, r *agentloop.ToolRun) (string, error) {
	_, content, err := writeOf(r.Call.Args)
	if err != nil {
		return "", err
	}
	return t.write(ctx, r, files.WriteRequest{Content: &content})
}

// Preview is the change that Call would make.
func (t writeTool) Preview(ctx context.Context, r *agentloop.ToolRun) (path, diff string, err error) {
	content, err := need(r.Call.Args, contentFields...)
	if err != nil {
		return "", "", err
	}
	return t.preview(ctx, r, files.WriteRequest{Content: &content})
}

// write changes a file and remembers what it is then.
func (h helper) write(ctx context.Context, r *agentloop.ToolRun, w files.WriteRequest) (string, error) {
	_, q, err := writeRequest(r, w)
	if err != nil {
		return "", err
	}
	a, err := h.run(ctx, r, q)
	if err != nil {
		return "", err
	}
	if a.Stamp != nil {
		r.Session.Files().Seen(a.Real, agentloop.FileStamp(*a.Stamp))
	}
	r.Changed(a.Diff)
	return a.Text, nil
}

// Check reads the arguments.
func (writeTool) Check(args policy.Args) error {
	_, _, err := writeOf(args)
	return err
}

func writeOf(args policy.Args) (path, content string, err error) {
	if path, err = writtenPath(args); err != nil {
		return "", "", err
	}
	content, err = need(args, contentFields...)
	return path, content, err
}

func writtenPath(args policy.Args) (string, error) {
	return pathOf(args, "file_path", "path", "filePath", "absolute_path", "notebook_path")
}

// preview tells what write would do.
func (h helper) preview(ctx context.Context, r *agentloop.ToolRun, w files.WriteRequest) (path, diff string, err error) {
	w.Dry = true
	path, q, err := writeRequest(r, w)
	if err != nil {
		return "", "", err
	}
	a, err := h.run(ctx, r, q)
	return path, a.Diff, err
}

// writeRequest is what the helper of a writing call is asked, and the path that the
// call names.
func writeRequest(r *agentloop.ToolRun, w files.WriteRequest) (path string, q files.Request, err error) {
	if path, err = writtenPath(r.Call.Args); err != nil {
		return "", q, err
	}
	q = files.Request{Path: r.Expand(path), Real: r.Decision().Writes, Write: &w}
	w.Most = r.MaxFileBytes()
	for _, real := range append(q.Real, q.Path) {
		if stamp, ok := r.Session.Files().Stamp(real); ok {
			seen := files.Stamp(stamp)
			w.Seen = &seen
			break
		}
	}
	return path, q, nil
}
