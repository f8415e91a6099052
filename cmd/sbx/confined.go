package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"sandboxd/agentloop"
	"sandboxd/exec"
)

// withoutSet leaves out the variables that the command has, with a value of ours.
func withoutSet(withheld, env []string) []string {
	set := names(env)
	var list []string
	for _, name := range withheld {
		if _, has := slices.BinarySearch(set, name); !has {
			list = append(list, name)
		}
	}
	return list
}

// confined says in a few words what held the command.
func (j *job) confined() string {
	network := "no network"
	if j.spec.Network == exec.NetFull {
		network = "the whole network"
	}
	text := fmt.Sprintf("writes in %s and private directories only, %s, no namespaces of its own, private home; %s",
		oneLine(j.plan.Workspace), network, withheldKinds(j.plan.WithheldEnv, j.o.verbose))
	if names := j.protected(); names != "" {
		text += "; read-only: " + names + " (--unprotect opens one)"
	}
	return text
}

// protected names what is read-only inside the workspace, from its top. Without
// verbose the list ends after a few.
func (j *job) protected() string {
	var list []string
	for _, p := range j.plan.Protected {
		if p.Level != agentloop.LevelKernel {
			continue
		}
		if rel, err := filepath.Rel(j.plan.Workspace, p.Path); err == nil && filepath.IsLocal(rel) {
			list = append(list, oneLine(rel))
		}
	}
	const few = 4
	if len(list) > few && !j.o.verbose {
		list = append(list[:few:few], fmt.Sprintf("and %d more", len(list)-few))
	}
	return strings.Join(list, " ")
}
