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
	q, dir, err := globOf(r.Call.Args)
	if err != nil {
		return "", err
	}
	fixed, rest := splitPattern(q.Pattern)
	q.Pattern = rest
	base := r.Expand(orHere(dir))
	switch {
	case fixed == "~" || strings.HasPrefix(fixed, "~/"), strings.HasPrefix(fixed, "/"):
		base = r.Expand(fixed)
	case fixed != "":
		base += "/" + fixed
	}
	a, err := t.run(ctx, r, files.Request{Path: base, Real: r.Decision().Reads, Glob: &q})
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

// Check reads the arguments.
func (globTool) Check(args policy.Args) error {
	_, _, err := globOf(args)
	return err
}

// globOf reads the arguments; the pattern is still whole.
func globOf(args policy.Args) (q files.GlobRequest, dir string, err error) {
	if q.Pattern, err = need(args, "pattern"); err != nil {
		return q, "", err
	}
	if dir, err = dirOf(args); err != nil {
		return q, "", err
	}
	if q.All, err = denied(args, "respect_git_ignore"); err != nil {
		return q, "", err
	}
	q.Fold, err = denied(args, "case_sensitive")
	return q, dir, err
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
