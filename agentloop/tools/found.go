package tools

import (
	"fmt"
	"path/filepath"
	"strings"

	"sandboxd/agentloop"
	"sandboxd/agentloop/tools/files"
)

// permitted takes out what the policy does not let the caller read, where the
// kernel alone did not: a rule about names at any depth is no mount.
func permitted(r *agentloop.ToolRun, list []files.Found) (kept []files.Found, note string) {
	paths := make([]string, len(list))
	for i, f := range list {
		paths[i] = f.Path
	}
	hidden := r.HiddenPaths(paths)
	for _, f := range list {
		if !hidden[f.Path] {
			kept = append(kept, f)
		}
	}
	if n := len(list) - len(kept); n > 0 {
		note = fmt.Sprintf("[%d left out: the policy does not let them be read]\n", n)
	}
	return kept, note
}

// shortPath is a path as a call from base writes it.
func shortPath(path, base string) string {
	if rel, err := filepath.Rel(base, path); err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
		return rel
	}
	return path
}
