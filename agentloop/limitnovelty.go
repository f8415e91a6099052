package agentloop

import (
	"hash/maphash"
	"strings"

	"sandboxd/policy"
)

// novelty measures whether the steps of a turn still bring something new
// (requirement 134).
//
// What counts are the lines of the results. A line is compared after its spaces
// were joined and words that differ from run to run without meaning (durations,
// clock times, dates, addresses in memory) were left out. It is new unless it
// stood in an earlier result of this turn, or in what the model itself wrote: its
// answers and the arguments of its calls. The novelty of a step is the share of
// its characters that stand in new lines, from 0 to 1. A step is stale when its
// novelty is below [staleBelow].
//
// A step in which a tool changed something (all tools that are not read-only,
// but for run_bash, whose output tells) brought something new. A step without
// any output counts neither way: many commands that change something say nothing.
//
// # Limits
//
// A model that prints something random in each step is not found by this; the
// number of steps, tokens and the budgets bound it.
type novelty struct {
	seen map[lineHash]struct{}
	seed maphash.Seed

	all, fresh int // characters of this step
	change     bool
	stale      int // steps in a row
}

type lineHash uint64

const (
	// staleBelow is the novelty under which a step is stale. A page of a log that
	// differs in one line of ten is still new.
	staleBelow = 0.1
	// maxSeenLines bounds the memory of one turn: 16 bytes each or so.
	maxSeenLines = 200_000
)

// result takes the output of one call.
func (n *novelty) result(text string) {
	for line := range strings.Lines(text) {
		key, size := n.hash(line)
		if size == 0 {
			continue
		}
		n.all += size
		if n.add(key) {
			n.fresh += size
		}
	}
}

// own takes what the model wrote.
func (n *novelty) own(text string) {
	for line := range strings.Lines(text) {
		if key, size := n.hash(line); size > 0 {
			n.add(key)
		}
	}
}

// ownArgs takes the texts in the arguments of a call.
func (n *novelty) ownArgs(args string) {
	if decoded, err := policy.DecodeArgs([]byte(args)); err == nil {
		n.ownValue(map[string]any(decoded))
	}
}

func (n *novelty) ownValue(v any) {
	switch v := v.(type) {
	case string:
		n.own(v)
	case []any:
		for _, x := range v {
			n.ownValue(x)
		}
	case map[string]any:
		for _, x := range v {
			n.ownValue(x)
		}
	}
}

// changed says that a tool changed something in this step.
func (n *novelty) changed() { n.change = true }

// endStep judges the step and returns how many in a row were stale.
func (n *novelty) endStep() int {
	switch {
	case n.change:
		n.stale = 0
	case n.all == 0:
	case float64(n.fresh) < staleBelow*float64(n.all):
		n.stale++
	default:
		n.stale = 0
	}
	n.all, n.fresh, n.change = 0, 0, false
	return n.stale
}

// add reports whether a line was not seen yet. When the memory is full all lines
// count as new: a turn is not ended for that.
func (n *novelty) add(key lineHash) (isNew bool) {
	if _, ok := n.seen[key]; ok {
		return false
	}
	if len(n.seen) < maxSeenLines {
		n.seen[key] = struct{}{}
	}
	return true
}

// hash names a line and counts its characters, without what is left out.
func (n *novelty) hash(line string) (key lineHash, size int) {
	if n.seed == (maphash.Seed{}) {
		n.seed = maphash.MakeSeed()
	}
	var h maphash.Hash
	h.SetSeed(n.seed)
	for word := range strings.FieldsSeq(line) {
		if varies(word) {
			continue
		}
		_, _ = h.WriteString(word) // never fails
		_ = h.WriteByte(' ')
		size += len(word)
	}
	return lineHash(h.Sum64()), size
}

// varies reports whether a word is a duration (0.31s, 12ms, 1m2.5s), a time or a
// date (10:21:07.123, 2026-11-30T19:53:39Z), or an address (0xc000012345).
func varies(word string) bool {
	word = strings.Trim(word, "()[]{}<>,;\"'")
	if len(word) == 0 || len(word) > 40 || word[0] < '0' || word[0] > '9' {
		return false
	}
	if strings.HasPrefix(word, "0x") {
		return len(word) >= 8
	}
	unit := strings.TrimLeft(word, "0123456789.")
	switch unit {
	case "s", "ms", "µs", "us", "ns", "m", "h", "sec", "seconds":
		return true
	}
	digits, marks := 0, 0
	for _, r := range word {
		switch {
		case r >= '0' && r <= '9':
			digits++
		case r == ':', r == '-', r == 'T', r == 'Z', r == '+':
			marks++
		case r == '.', r == 'm', r == 'h', r == 's':
		default:
			return false
		}
	}
	return digits > 0 && (marks >= 2 || strings.ContainsAny(unit, "ms") && strings.HasSuffix(word, "s"))
}
