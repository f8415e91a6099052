package tools

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"sandboxd/agentloop"
	"sandboxd/agentloop/tools/files"
	"sandboxd/policy"
)

// Limits of an answer of grep_files.
const (
	defaultHead = 250 // files or lines
	maxContext  = 100 // lines before or after a match
)

// grepTool is grep_files.
type grepTool struct{ helper }

func (grepTool) Name() string                        { return "grep_files" }
func (grepTool) Traits(policy.Args) agentloop.Traits { return readingTraits }

func (grepTool) Schema() agentloop.ToolSchema {
	return schema("grep_files", "Searches the contents of files for a regular expression (RE2 syntax). "+
		"What .gitignore leaves out, and binary files, are not searched.",
		object{
			{name: "pattern", kind: "string", text: "The regular expression.", required: true},
			{name: "path", kind: "string", text: "A file, or the directory to search; the workspace unless given."},
			{name: "glob", kind: "string", text: "Only files whose names match, for example *.go or src/**/*.ts; several with commas, ! excludes."},
			{name: "type", kind: "string", text: "Only files of a language: " + strings.Join(typeNames(), ", ") + "."},
			{name: "output_mode", kind: "string", text: "The names of files (the default), matching lines, or the number of matching lines of each file.", enum: []string{files.GrepNames, files.GrepContent, files.GrepCount}},
			{name: "-i", kind: "boolean", text: "Upper and lower case are the same."},
			{name: "-n", kind: "boolean", text: "Line numbers with the lines; true unless given."},
			{name: "-A", kind: "integer", text: "Lines to show after each match."},
			{name: "-B", kind: "integer", text: "Lines to show before each match."},
			{name: "-C", kind: "integer", text: "Lines to show around each match."},
			{name: "multiline", kind: "boolean", text: "The expression may span lines, and . matches a line end."},
			{name: "head_limit", kind: "integer", text: "How many files or matching lines to show; 250 unless given."},
			{name: "offset", kind: "integer", text: "How many of them to pass over first."},
		})
}

func (t grepTool) Call(ctx context.Context, r *agentloop.ToolRun) (string, error) {
	dir, err := dirOf(r.Call.Args)
	if err != nil {
		return "", err
	}
	q, err := grepOf(r.Call.Args)
	if err != nil {
		return "", err
	}
	bare, err := denied(r.Call.Args, "-n")
	if err != nil {
		return "", err
	}
	a, err := t.run(ctx, r, files.Request{Path: r.Expand(orHere(dir)), Real: r.Decision().Reads, Grep: &q})
	if err != nil {
		return "", err
	}
	list, note := permitted(r, a.Found)
	out := formatFound(list, q.Mode, path.Clean(r.Expand(".")), !bare)
	if out == "" {
		out = "[no match]\n"
	}
	return out + note + cutNote(a.Cut), nil
}

// Check reads the arguments.
func (grepTool) Check(args policy.Args) error {
	if _, err := dirOf(args); err != nil {
		return err
	}
	if _, err := denied(args, "-n"); err != nil {
		return err
	}
	_, err := grepOf(args)
	return err
}

// grepOf reads the arguments of a search.
func grepOf(args policy.Args) (q files.GrepRequest, err error) {
	if q.Pattern, err = need(args, "pattern"); err != nil {
		return q, err
	}
	globs, _, err := text(args, "glob", "include")
	if err != nil {
		return q, err
	}
	q.Globs = splitGlobs(globs)
	language, given, err := text(args, "type")
	if err != nil {
		return q, err
	}
	if given && language != "" {
		if q.Names = fileTypes[language]; q.Names == nil {
			return q, fmt.Errorf("argument type: %q is not known; there are %s", language, strings.Join(typeNames(), ", "))
		}
	}
	if q.Mode, _, err = text(args, "output_mode"); err != nil {
		return q, err
	}
	if q.Mode == "" {
		q.Mode = files.GrepNames
	}
	if !slices.Contains([]string{files.GrepNames, files.GrepContent, files.GrepCount}, q.Mode) {
		return q, fmt.Errorf("argument output_mode: want %s, %s or %s", files.GrepNames, files.GrepContent, files.GrepCount)
	}
	return q, grepNumbers(args, &q)
}

func grepNumbers(args policy.Args, q *files.GrepRequest) (err error) {
	around := 0
	for _, f := range []struct {
		field       string
		to          *int
		usual, most int
	}{
		{"context", &around, 0, maxContext}, {"-C", &around, -1, maxContext},
		{"-A", &q.After, -1, maxContext}, {"-B", &q.Before, -1, maxContext},
		{"head_limit", &q.Head, defaultHead, files.MaxHead}, {"offset", &q.Offset, 0, 1 << 30},
	} {
		n, err := number(args, f.field, f.usual, f.most)
		if err != nil {
			return err
		}
		if n >= 0 {
			*f.to = n
		} else if f.to != &around {
			*f.to = around
		}
	}
	if q.Head == 0 {
		q.Head = files.MaxHead
	}
	if q.Multiline, err = flag(args, "multiline"); err != nil {
		return err
	}
	if q.Fold, err = flag(args, "-i"); err != nil {
		return err
	}
	if fold, err := denied(args, "case_sensitive"); err != nil || fold {
		q.Fold = true
		return err
	}
	return nil
}

// splitGlobs splits a list with commas or spaces, but not inside braces.
func splitGlobs(s string) []string {
	var list []string
	depth, from := 0, 0
	for i, r := range s + "," {
		switch {
		case r == '{':
			depth++
		case r == '}':
			depth--
		case (r == ',' || r == ' ') && depth <= 0:
			if i > from {
				list = append(list, s[from:i])
			}
			from = i + 1
		}
	}
	if depth > 0 { // an open brace: the pattern itself is bad, and told so
		list = append(list, s[from:])
	}
	return list
}

// formatFound writes a result as grep -r does.
func formatFound(list []files.Found, mode, base string, numbered bool) string {
	var out strings.Builder
	for i, f := range list {
		name := files.ShownName(shortPath(f.Path, base))
		switch mode {
		case files.GrepNames:
			fmt.Fprintf(&out, "%s\n", name)
		case files.GrepCount:
			fmt.Fprintf(&out, "%s:%d\n", name, f.Count)
		case files.GrepContent:
			formatLines(&out, f, name, numbered, i > 0)
		}
	}
	return out.String()
}

func formatLines(out *strings.Builder, f files.Found, name string, numbered, later bool) {
	last := 0
	context := slices.ContainsFunc(f.Lines, func(l files.FoundLine) bool { return l.Context })
	for j, l := range f.Lines {
		if context && (j > 0 && l.Number > last+1 || j == 0 && later) {
			out.WriteString("--\n")
		}
		last = l.Number
		mark := ":"
		if l.Context {
			mark = "-"
		}
		if numbered {
			fmt.Fprintf(out, "%s%s%d%s%s\n", name, mark, l.Number, mark, l.Text)
		} else {
			fmt.Fprintf(out, "%s%s%s\n", name, mark, l.Text)
		}
	}
}

// fileTypes are the names of the files of a language.
var fileTypes = map[string][]string{
	"c": {"*.c", "*.h"}, "cpp": {"*.cc", "*.cpp", "*.cxx", "*.h", "*.hh", "*.hpp", "*.hxx"}, "cs": {"*.cs"},
	"css": {"*.css", "*.scss", "*.sass", "*.less"}, "go": {"*.go"}, "html": {"*.html", "*.htm"}, "java": {"*.java"},
	"js": {"*.js", "*.jsx", "*.mjs", "*.cjs"}, "json": {"*.json"}, "kotlin": {"*.kt", "*.kts"}, "lua": {"*.lua"},
	"make": {"Makefile", "makefile", "GNUmakefile", "*.mk"}, "md": {"*.md", "*.markdown"}, "php": {"*.php"}, "proto": {"*.proto"},
	"py": {"*.py", "*.pyi"}, "rb": {"*.rb"}, "rust": {"*.rs"}, "sh": {"*.sh", "*.bash"}, "sql": {"*.sql"}, "swift": {"*.swift"},
	"toml": {"*.toml"}, "ts": {"*.ts", "*.tsx", "*.mts", "*.cts"}, "txt": {"*.txt"}, "xml": {"*.xml"}, "yaml": {"*.yaml", "*.yml"},
}

func typeNames() []string {
	names := make([]string, 0, len(fileTypes))
	for name := range fileTypes {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
