package tools

import (
	"context"
	"fmt"
	"os"
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"sandboxd/agentloop"
	"sandboxd/policy"
)

// maxGlobbed bounds the names of one answer.
const maxGlobbed = 1000

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
	a, err := t.run(ctx, r, request{Path: base, Real: r.Decision().Reads, Glob: &globRequest{Pattern: rest, All: all, Fold: fold}})
	if err != nil {
		return "", err
	}
	list, note := permitted(r, a.Found)
	var out strings.Builder
	here := r.Expand(".")
	for _, f := range list {
		out.WriteString(shortPath(f.Path, path.Clean(here)) + "\n")
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

// globRequest asks for the files that match.
type globRequest struct {
	Pattern string `json:"pattern"` // empty: the path itself
	All     bool   `json:"all,omitempty"`
	Fold    bool   `json:"fold,omitempty"` // case does not count
}

func handleGlob(q request, a *answer) error {
	p, err := at(q)
	if err != nil {
		return err
	}
	defer p.close()
	a.Real = p.real
	pattern := q.Glob.Pattern
	if pattern == "" {
		if p.exists {
			a.Found = []found{{Path: p.real}}
		}
		return nil
	}
	if q.Glob.Fold {
		pattern = strings.ToLower(pattern)
	}
	if !doublestar.ValidatePattern(pattern) {
		return fmt.Errorf("pattern %q: %w", q.Glob.Pattern, doublestar.ErrBadPattern)
	}
	f, err := p.openDir()
	if err != nil {
		return err
	}
	defer f.Close()
	w := newWalker(p, q.Glob.All)
	w.visit = func(rel, _ string, _ int, _ os.FileMode) bool {
		subject := rel
		if q.Glob.Fold {
			subject = strings.ToLower(rel)
		}
		if !doublestar.MatchUnvalidated(pattern, subject) {
			return true
		}
		if len(a.Found) == maxGlobbed {
			w.cut = fmt.Sprintf("more than %d files match", maxGlobbed)
			return false
		}
		a.Found = append(a.Found, found{Path: path.Join(p.real, rel)})
		return true
	}
	w.walk(f)
	a.Cut = w.cut
	return nil
}
