package tools

import (
	"context"
	"path"
	"strings"

	"sandboxd/agentloop"
	"sandboxd/agentloop/tools/files"
	"sandboxd/policy"
)

// globTool is glob_files.
type globTool struct{ helper }

func (globTool) Name() string                        { return "glob_files" }
func (globTool) Traits(policy.Args) agentloop.Traits { return readingTraits }

func (globTool) Schema() agentloop.ToolSchema {
	return schema("glob_files", "Finds files by a pattern of their paths: * and ? within a name, ** for any directories, {a,b} for either. "+
		"What .gitignore leaves out is left out.",
		object{
			{name: "pattern", kind: "string", text: "For example **/*.go or src/**/*.{ts,tsx}.", required: true},
			{name: "path", kind: "string", text: "The directory to look in; the workspace unless given."},
			{name: "respect_git_ignore", kind: "boolean", text: "False: ignored files too."},
			{name: "case_sensitive", kind: "boolean", text: "False: upper and lower case are the same."},
		})
}

func (t globTool) Call(ctx context.Context, r *agentloop.ToolRun) (string, error) {
	args := r.Call.Args
	pattern, err := need(args, "pattern")
	if err != nil {
		return "", err
	}
	dir, _, err := text(args, dirFields...)
	if err != nil {
		return "", err
	}
	all, err := denied(args, "respect_git_ignore")
	if err != nil {
		return "", err
	}
	fold, err := denied(args, "case_sensitive")
	if err != nil {
		return "", err
	}
	fixed, rest := splitPattern(pattern)
	base := r.Expand(orHere(dir))
	switch {
	case fixed == "~" || strings.HasPrefix(fixed, "~/"), strings.HasPrefix(fixed, "/"):
		base = r.Expand(fixed)
	case fixed != "":
		base += "/" + fixed
	}
	a, err := t.run(ctx, r, files.Request{Path: base, Real: r.Decision().Reads, Glob: &files.GlobRequest{Pattern: rest, All: all, Fold: fold}})
	if err != nil {
		return "", err
	}
	list, note := permitted(r, a.Found)
	var out strings.Builder
	here := r.Expand(".")
	for _, f := range list {
		out.WriteString(files.ShownName(shortPath(f.Path, path.Clean(here))) + "\n")
	}
	if out.Len() == 0 {
		out.WriteString("[no file matches]\n")
	}
	return out.String() + note + cutNote(a.Cut), nil
}

// denied reports whether a truth value is given as false.
func denied(args policy.Args, field string) (bool, error) {
	if v, ok := args[field]; !ok || v == nil {
		return false, nil
	}
	on, err := flag(args, field)
	return !on, err
}

// splitPattern splits a pattern before its first name with a wildcard, as the
// decision about it did.
func splitPattern(pattern string) (fixed, rest string) {
	names := strings.Split(pattern, "/")
	n := 0
	for n < len(names) && !strings.ContainsAny(names[n], `*?[]{}\`) {
		n++
	}
	fixed = strings.Join(names[:n], "/")
	if n > 0 && fixed == "" {
		fixed = "/"
	}
	return fixed, strings.Join(names[n:], "/")
}
