package tools

import (
	"context"
	"fmt"
	"path"
	"strings"

	"sandboxd/agentloop"
	"sandboxd/agentloop/tools/files"
	"sandboxd/policy"
)

// listTool is list_dir.
type listTool struct{ helper }

func (listTool) Name() string                        { return "list_dir" }
func (listTool) Traits(policy.Args) agentloop.Traits { return readingTraits }

func (listTool) Schema() agentloop.ToolSchema {
	return schema("list_dir", "Lists the names in one directory: directories end with a slash, files have their size in bytes.",
		object{
			{name: "path", kind: "string", text: "The directory; the workspace unless given."},
			{name: "ignore", kind: "array", text: "Patterns of names to leave out."},
		})
}

func (t listTool) Call(ctx context.Context, r *agentloop.ToolRun) (string, error) {
	dir, err := dirOf(r.Call.Args)
	if err != nil {
		return "", err
	}
	ignore, err := texts(r.Call.Args, "ignore")
	if err != nil {
		return "", err
	}
	a, err := t.run(ctx, r, files.Request{Path: r.Expand(orHere(dir)), Real: r.Decision().Reads, List: &files.ListRequest{Ignore: ignore}})
	if err != nil {
		return "", err
	}
	list, note := permitted(r, a.Found)
	var out strings.Builder
	for _, f := range list {
		fmt.Fprintf(&out, "%s%s\n", files.ShownName(path.Base(f.Path)), f.Note)
	}
	if out.Len() == 0 {
		out.WriteString("[no names]\n")
	}
	return out.String() + note + cutNote(a.Cut), nil
}

// Check reads the arguments.
func (listTool) Check(args policy.Args) error {
	if _, err := dirOf(args); err != nil {
		return err
	}
	_, err := texts(args, "ignore")
	return err
}

// dirFields are the names that clients give to the directory of a search.
var dirFields = []string{"path", "dir_path"}

func orHere(dir string) string {
	if dir == "" {
		return "."
	}
	return dir
}

func cutNote(cut string) string {
	if cut == "" {
		return ""
	}
	return "[not complete: " + cut + "]\n"
}

// texts returns a list of texts; a single one counts as a list.
func texts(args policy.Args, field string) ([]string, error) {
	switch v := args[field].(type) {
	case nil:
		return nil, nil
	case string:
		return []string{v}, nil
	case []any:
		var list []string
		for _, x := range v {
			s, ok := x.(string)
			if !ok {
				return nil, fmt.Errorf("argument %s: want a list of texts", field)
			}
			list = append(list, s)
		}
		return list, nil
	}
	return nil, fmt.Errorf("argument %s: want a list of texts", field)
}
