package files

import (
	"fmt"

	"github.com/bmatcuk/doublestar/v4"
)

// Bounds of a pattern of paths. Each combination of alternatives is tried for each
// name: {,a}{,a}{,a}... forty times over would take for ever.
const (
	maxPattern      = 4096 // bytes
	maxCombinations = 1000
)

// checkPattern says what is wrong with a pattern of paths.
func checkPattern(pattern string) error {
	switch {
	case len(pattern) > maxPattern:
		return fmt.Errorf("pattern %.60q...: it has %d bytes, at most %d are taken", pattern, len(pattern), maxPattern)
	case combinations(pattern) > maxCombinations:
		return fmt.Errorf("pattern %.200q: its alternatives in braces have more than %d combinations: use fewer, or * in their place", pattern, maxCombinations)
	case !doublestar.ValidatePattern(pattern):
		return fmt.Errorf("pattern %.200q: %w", pattern, doublestar.ErrBadPattern)
	}
	return nil
}

// combinations is how many patterns without braces a pattern stands for, or some
// number above maxCombinations.
func combinations(pattern string) int {
	type group struct{ done, now int } // the alternatives before, and this one
	top := group{now: 1}
	var open []group
	for i := 0; i < len(pattern); i++ {
		switch pattern[i] {
		case '\\':
			i++
		case '{':
			open, top = append(open, top), group{now: 1}
		case ',':
			if len(open) > 0 {
				top = group{done: top.done + top.now, now: 1}
			}
		case '}':
			if n := len(open); n > 0 {
				all := top.done + top.now
				top, open = open[n-1], open[:n-1]
				top.now *= all
			}
		}
		if top.now > maxCombinations || top.done > maxCombinations {
			return maxCombinations + 1
		}
	}
	return top.done + top.now
}
