package main

import (
	"cmp"
	"fmt"

	"sandboxd/agentloop"
	"sandboxd/cmd/sandboxd/api"
)

// maxDetectedLines bounds how many findings are printed; the object has all.
const maxDetectedLines = 10

func guardHint(err error) string {
	if hint := cmp.Or(api.FilesHint(err), api.DiskHint(err)); hint != "" {
		return hint
	}
	return "--best-effort runs without looking at them afterwards"
}

// printDetected tells of what was found after the run.
func (j *job) printDetected(found []agentloop.GuardFinding) {
	for i, f := range found {
		if i == maxDetectedLines {
			j.p.note("warning", fmt.Sprintf("and %d more, see --json", len(found)-i))
			return
		}
		j.p.note("warning", "detected after the run, not prevented: "+f.String())
	}
}
