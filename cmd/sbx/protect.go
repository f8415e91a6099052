package main

import (
	"path/filepath"

	"sandboxd/agentloop"
	"sandboxd/policy/path"
)

// protectedNames lists the protected names of the workspace that exist now. The
// workspace is the one that the run will detect; what is wrong with it is
// reported there.
func protectedNames(override string, c agentloop.Caller) []agentloop.ProtectedPath {
	ws, _, err := agentloop.DetectWorkspace(c.Cwd, override, c)
	if err != nil {
		return nil
	}
	var list []agentloop.ProtectedPath
	for _, n := range path.Existing(ws.Root) {
		level := agentloop.LevelCheck
		if n.Entry.Level == path.LevelKernel {
			level = agentloop.LevelKernel
		}
		name := n.Path
		if real, err := filepath.EvalSymlinks(name); err == nil {
			name = real
		}
		list = append(list, agentloop.ProtectedPath{Path: name, Level: level})
	}
	return list
}
