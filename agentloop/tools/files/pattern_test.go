package files

import "testing"

func TestCombinationsOfAlternatives(t *testing.T) {
	for pattern, want := range map[string]int{
		"*.go": 1, "src/**/*.{ts,tsx}": 2, "{a,b}{c,d,e}": 6, "{a,{b,c}d}": 3, `\{a,b}`: 1, "a,b": 1, "{,a}{,b}": 4, "{a}": 1,
	} {
		if got := combinations(pattern); got != want {
			t.Errorf("%s stands for %d patterns, want %d", pattern, got, want)
		}
	}
}
