package main

import (
	"strings"
	"testing"
)

// Lines of a diff that changed and those beside them have their text in one column,
// with and without colours.
func TestTabsOfADiffStandInLine(t *testing.T) {
	const text = "--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n \tbefore\n-\told\n+\tnew\n \ta\tb\n"
	for _, p := range []paint{false, true} {
		got := p.diff(text, 100)
		if strings.Contains(got, "\t") || !strings.Contains(got, "       before\n") || !strings.Contains(got, "-    old") || !strings.Contains(got, "+    new") || !strings.Contains(got, "a    b") {
			t.Errorf("colours %v:\n%s", p, got)
		}
	}
}
