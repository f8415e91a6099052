package agentloop

import (
	"crypto/sha256"
	"encoding/json"
	"maps"

	"sandboxd/policy"
)

// maxRepeatPeriod is the longest cycle of calls that counts as a repetition:
// A B C D A B C D ... A model that goes round in a larger circle is ended by the
// other limits.
const maxRepeatPeriod = 4

// repeatDetector finds calls that repeat: the same one a number of times in a row,
// or the same few in turn. Calls that were not run count too, so that a loop stays
// one.
type repeatDetector struct {
	times int // in a row from which on a call is a repetition; below 2: none is
	last  []string
}

// see takes the next call and returns the length of the cycle that it closes once
// too often, or 0.
func (r *repeatDetector) see(key string) (period int) {
	if r.times < 2 {
		return 0
	}
	keep := maxRepeatPeriod * r.times
	r.last = append(r.last, shortKey(key))
	if len(r.last) > keep {
		r.last = append(r.last[:0], r.last[len(r.last)-keep:]...)
	}
	for p := 1; p <= maxRepeatPeriod; p++ {
		if r.cycles(p) {
			return p
		}
	}
	return 0
}

// shortKey stands for a key of any length: those of a dozen calls are kept for as long
// as the turn takes, and each may have megabytes.
func shortKey(key string) string {
	if len(key) <= 2*sha256.Size {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return string(sum[:])
}

// cycles reports whether the last calls are one cycle of p calls, times over.
func (r *repeatDetector) cycles(p int) bool {
	n := p * r.times
	if len(r.last) < n {
		return false
	}
	tail := r.last[len(r.last)-n:]
	for i := p; i < n; i++ {
		if tail[i] != tail[i-p] {
			return false
		}
	}
	return true
}

// canonicalCall names a call by what it does: aliases of the tool, the order of
// the arguments, the form of numbers and what only describes the call for people
// make no difference.
func canonicalCall(tool string, args policy.Args) string {
	tool = policy.CanonicalTool(tool)
	if describedTools[tool] {
		if _, ok := args["description"]; ok {
			args = maps.Clone(args)
			delete(args, "description")
		}
	}
	text, err := json.Marshal(plainNumbers(map[string]any(args)))
	if err != nil { // not of the forms of encoding/json
		return tool + "\x00!" + err.Error()
	}
	return tool + "\x00" + string(text)
}

// describedTools have an argument that says for people what the call is about.
var describedTools = map[string]bool{"run_bash": true, "bg_task_run": true, "file_write": true, "subagent": true}

// plainNumbers writes -0 as 0. All other numbers have one form in encoding/json,
// since arguments are decoded as float64.
func plainNumbers(v any) any {
	switch v := v.(type) {
	case float64:
		return v + 0 // -0 + 0 is 0
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = plainNumbers(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, x := range v {
			out[k] = plainNumbers(x)
		}
		return out
	}
	return v
}
