package files

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"
)

// Bounds of a diff, in bytes.
const (
	MaxDiff      = 64 << 10  // as it is shown
	MaxModelDiff = 4000      // as the model gets it
	maxCompared  = 512 << 10 // of what is left of either side without the lines they share at both ends
)

// unified compares two contents of a file.
func unified(name, before, after string) string {
	return unifiedAs(ShownName("a/"+name), ShownName("b/"+name), before, after)
}

// unifiedAs is unified for names as they stand in the head, where a name has a line: one
// that ends it would play a change.
func unifiedAs(from, to, before, after string) string {
	if !utf8.ValidString(before) || !utf8.ValidString(after) || strings.ContainsRune(before+after, 0) {
		return ""
	}
	head := commonHead(before, after)
	tail := commonTail(before[head:], after[head:])
	old, now := before[head:len(before)-tail], after[head:len(after)-tail]
	edits := []udiff.Edit{{Start: head, End: len(before) - tail, New: now}}
	if len(old) <= maxCompared && len(now) <= maxCompared {
		edits = udiff.Lines(old, now)
		for i := range edits {
			edits[i].Start += head
			edits[i].End += head
		}
	}
	const context = 3
	text, err := udiff.ToUnified(from, to, before, edits, context)
	if err != nil {
		return ""
	}
	return cutLines(text, MaxDiff)
}

// commonHead is the length of the whole lines that both begin with.
func commonHead(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return strings.LastIndexByte(a[:n], '\n') + 1
}

// commonTail is the length of the whole lines that both end with.
func commonTail(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	if n == len(a) && n == len(b) {
		return n
	}
	i := strings.IndexByte(a[len(a)-n:], '\n')
	if i < 0 {
		return 0
	}
	return n - i - 1
}

// cutLines keeps whole lines up to limit bytes and counts the others.
func cutLines(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	cut := strings.LastIndexByte(s[:limit], '\n') + 1
	return s[:cut] + fmt.Sprintf("[... %d more lines of the diff]\n", strings.Count(s[cut:], "\n"))
}
