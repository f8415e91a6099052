#!/bin/sh
# Makes a small Go module in the new directory $1 whose test fails.
set -e
mkdir "$1"
cd "$1"
cat >go.mod <<'END'
module sum

go 1.26
END
cat >sum.go <<'END'
// Package sum adds numbers up.
package sum

// Sum is the sum of numbers.
func Sum(numbers ...int) (sum int) {
	for _, n := range numbers[1:] {
		sum += n
	}
	return sum
}
END
cat >sum_test.go <<'END'
package sum

import "testing"

func TestSum(t *testing.T) {
	if got := Sum(1, 2, 3); got != 6 {
		t.Errorf("Sum(1, 2, 3) = %d, want 6", got)
	}
}
END
