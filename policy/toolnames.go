package policy

import (
	"maps"
	"slices"
)

// ToolNames returns every name of the tool that a client calls name: the one
// given, ours, and those of other agents, sorted after the first two.
func ToolNames(name string) []string {
	canonical := CanonicalTool(name)
	names := []string{name}
	if canonical != name {
		names = append(names, canonical)
	}
	var others []string
	for alias, c := range toolAliases {
		if c == canonical && alias != name {
			others = append(others, alias)
		}
	}
	slices.Sort(others)
	return append(names, others...)
}

// KnownTool reports whether name is a built-in tool, one of its aliases, or a
// tool of an MCP server.
func KnownTool(name string) bool {
	_, ok := builtinTool(CanonicalTool(name))
	return ok || IsMCPTool(name)
}

// CanonicalArgs returns the arguments with the main ones under our names: a
// script in "cmd" is found in "command". Where two spellings are given both
// stay, since a reader could take either.
func CanonicalArgs(tool string, a Args) Args {
	t, ok := builtinTool(CanonicalTool(tool))
	if !ok {
		return a
	}
	out := maps.Clone(a)
	rename := func(fields []string) {
		var given []string
		for _, f := range fields {
			if _, has := a[f]; has {
				given = append(given, f)
			}
		}
		if len(given) == 1 && given[0] != fields[0] {
			out[fields[0]] = out[given[0]]
			delete(out, given[0])
		}
	}
	var paths []string
	for _, p := range t.Paths {
		paths = append(paths, p.Field)
	}
	for _, fields := range [][]string{t.Command, t.Dir, paths, t.Body, t.Agent} {
		if len(fields) > 0 {
			rename(fields)
		}
	}
	return out
}
