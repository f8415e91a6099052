package tools

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
	"golang.org/x/sys/unix"

	"sandboxd/agentloop"
	"sandboxd/policy"
)

// maxListed bounds the names of one answer.
const maxListed = 1000

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
	dir, _, err := text(r.Call.Args, dirFields...)
	if err != nil {
		return "", err
	}
	ignore, err := texts(r.Call.Args, "ignore")
	if err != nil {
		return "", err
	}
	a, err := t.run(ctx, r, request{Path: r.Expand(orHere(dir)), Real: r.Decision().Reads, List: &listRequest{Ignore: ignore}})
	if err != nil {
		return "", err
	}
	list, note := permitted(r, a.Found)
	var out strings.Builder
	for _, f := range list {
		fmt.Fprintf(&out, "%s%s\n", path.Base(f.Path), f.Note)
	}
	if out.Len() == 0 {
		out.WriteString("[no names]\n")
	}
	return out.String() + note + cutNote(a.Cut), nil
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

// listRequest asks for the names in a directory.
type listRequest struct {
	Ignore []string `json:"ignore,omitempty"`
}

func handleList(q request, a *answer) error {
	p, err := at(q)
	if err != nil {
		return err
	}
	defer p.close()
	f, err := p.openDir()
	if err != nil {
		return err
	}
	defer f.Close()
	a.Real = p.real
	entries, err := f.ReadDir(-1)
	if err != nil {
		return p.fail("list", err)
	}
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, e := range entries {
		skip, err := matchesAny(q.List.Ignore, e.Name())
		if err != nil {
			return err
		}
		if skip {
			continue
		}
		if len(a.Found) == maxListed {
			a.Cut = fmt.Sprintf("%d names are there, the first %d are shown", len(entries), maxListed)
			break
		}
		a.Found = append(a.Found, found{Path: path.Join(p.real, e.Name()), Note: describeEntry(int(f.Fd()), e)})
	}
	return nil
}

func matchesAny(patterns []string, name string) (bool, error) {
	for _, pattern := range patterns {
		ok, err := doublestar.Match(strings.TrimSuffix(pattern, "/"), name)
		if err != nil {
			return false, fmt.Errorf("pattern %q: %w", pattern, err)
		}
		if ok {
			return true, nil
		}
	}
	return false, nil
}

// describeEntry is what stands behind a name.
func describeEntry(dir int, e os.DirEntry) string {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, e.Name(), &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		if errors.Is(err, unix.ENOENT) {
			return " [gone]"
		}
		return " [cannot be looked at]"
	}
	here := place{stat: st}
	switch {
	case here.isDir():
		return "/"
	case here.isRegular():
		return fmt.Sprintf(" %d", st.Size)
	case st.Mode&unix.S_IFMT == unix.S_IFLNK:
		target, _ := readlinkAt(dir, e.Name())
		return " -> " + target
	}
	return " [" + here.kind() + "]"
}
