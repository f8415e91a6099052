package tools

import (
	"context"
	"errors"
	"fmt"

	"sandboxd/agentloop"
	"sandboxd/agentloop/tools/files"
	"sandboxd/policy"
)

// editTool is file_edit.
type editTool struct{ helper }

func (editTool) Name() string                        { return "file_edit" }
func (editTool) Traits(policy.Args) agentloop.Traits { return writingTraits }

func (editTool) Schema() agentloop.ToolSchema {
	one := object{
		{name: "old_string", kind: "string", text: "The text to replace, exactly as in the file, without line numbers. It must occur once, unless replace_all is set.", required: true},
		{name: "new_string", kind: "string", text: "The text in its place.", required: true},
		{name: "replace_all", kind: "boolean", text: "Replace every occurrence."},
	}
	return schema("file_edit", "Replaces text in a file that was read in this conversation and has not changed since. "+
		"Give either old_string and new_string, or edits, which are made in order, all or none.",
		object{
			{name: "file_path", kind: "string", text: "The file, absolute or relative to the workspace.", required: true},
			{name: "old_string", kind: "string", text: one[0].text},
			{name: "new_string", kind: "string", text: one[1].text},
			{name: "replace_all", kind: "boolean", text: one[2].text},
			{name: "edits", kind: "array", text: "Several replacements.", items: &one},
		})
}

// Summary is for the classifier.
func (editTool) Summary(args policy.Args) string {
	path, _, _ := text(args, pathFields...)
	edits, err := editsOf(args)
	if err != nil {
		return "edit " + path + " (" + err.Error() + ")"
	}
	s := "edit " + path + ":"
	for _, e := range edits {
		s += "\nreplace:\n" + e.Old + "\nby:\n" + e.New
	}
	return s
}

func (t editTool) Call(ctx context.Context, r *agentloop.ToolRun) (string, error) {
	edits, err := editsOf(r.Call.Args)
	if err != nil {
		return "", err
	}
	return t.write(ctx, r, files.WriteRequest{Edits: edits})
}

// Check reads the arguments.
func (editTool) Check(args policy.Args) error {
	if _, err := writtenPath(args); err != nil {
		return err
	}
	_, err := editsOf(args)
	return err
}

// Preview is the change that Call would make.
func (t editTool) Preview(ctx context.Context, r *agentloop.ToolRun) (path, diff string, err error) {
	edits, err := editsOf(r.Call.Args)
	if err != nil {
		return "", "", err
	}
	return t.preview(ctx, r, files.WriteRequest{Edits: edits})
}

// maxEdits bounds the replacements of one call.
const maxEdits = 1000

// editsOf reads the replacements of a call.
func editsOf(args policy.Args) ([]files.Edit, error) {
	list, given := args["edits"]
	if !given || list == nil {
		e, err := editOf(args)
		if err != nil {
			return nil, err
		}
		return []files.Edit{e}, nil
	}
	for _, f := range []string{"old_string", "oldString", "new_string", "newString"} {
		if _, both := args[f]; both {
			return nil, fmt.Errorf("arguments edits and %s exclude each other", f)
		}
	}
	items, ok := list.([]any)
	if !ok || len(items) == 0 || len(items) > maxEdits {
		return nil, fmt.Errorf("argument edits: want a list of 1 to %d replacements", maxEdits)
	}
	edits := make([]files.Edit, 0, len(items))
	for i, item := range items {
		fields, ok := item.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("argument edits: entry %d: want an object", i+1)
		}
		e, err := editOf(fields)
		if err != nil {
			return nil, fmt.Errorf("argument edits: entry %d: %w", i+1, err)
		}
		edits = append(edits, e)
	}
	return edits, nil
}

func editOf(args policy.Args) (e files.Edit, err error) {
	if e.Old, err = need(args, "old_string", "oldString"); err != nil {
		return e, err
	}
	if e.New, err = need(args, "new_string", "newString"); err != nil {
		return e, err
	}
	if e.All, err = flag(args, "replace_all", "replaceAll"); err != nil {
		return e, err
	}
	if e.Count, err = number(args, "expected_replacements", 0, files.MaxWholeFile); err != nil {
		return e, err
	}
	switch {
	case e.Old == "":
		return e, errors.New("argument old_string is empty: name the text to replace, or write the whole file with file_write")
	case e.Old == e.New:
		return e, errors.New("old_string and new_string are the same: nothing would change")
	}
	return e, nil
}
