package files

import (
	"fmt"
	"strings"
)

// Edit is one replacement.
type Edit struct {
	Old string `json:"old"`
	New string `json:"new"`
	// All replaces every occurrence; Count, if not 0, is how many there must be.
	All   bool `json:"all,omitempty"`
	Count int  `json:"count,omitempty"`
}

// applyEdits makes all replacements in order, or none.
func applyEdits(text string, edits []Edit) (result string, replaced int, err error) {
	crlf := strings.Contains(text, "\r\n") && strings.Count(text, "\r\n") == strings.Count(text, "\n")
	result = text
	for i, e := range edits {
		if crlf {
			e.Old, e.New = withCRLF(e.Old), withCRLF(e.New)
		}
		n := strings.Count(result, e.Old)
		where := ""
		if len(edits) > 1 {
			where = fmt.Sprintf("edit %d of %d: ", i+1, len(edits))
		}
		switch {
		case n == 0:
			return "", 0, fmt.Errorf("%sold_string is not in the file%s; nothing was changed", where, nearMiss(result, e.Old))
		case e.Count > 0 && n != e.Count:
			return "", 0, fmt.Errorf("%sold_string is %d times in the file, %d were expected; nothing was changed", where, n, e.Count)
		case n > 1 && !e.All && e.Count == 0:
			return "", 0, fmt.Errorf("%sold_string is %d times in the file: give more of the text around it, or set replace_all; nothing was changed", where, n)
		}
		// Before it is made: a few dozen edits that each double a text fill any memory.
		if size := len(result) + n*(len(e.New)-len(e.Old)); size > max(MaxWholeFile, len(result)) {
			return "", 0, fmt.Errorf("%sit would make the file larger than %d bytes; nothing was changed", where, MaxWholeFile)
		}
		result = strings.ReplaceAll(result, e.Old, e.New)
		replaced += n
	}
	return result, replaced, nil
}

// withCRLF writes line ends as a file of such lines has them; the model was shown
// the lines without.
func withCRLF(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\n", "\r\n")
}

// nearMiss says what is wrong with a text that is almost in the file.
func nearMiss(text, old string) string {
	squeeze := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	if want := squeeze(old); want != "" && strings.Contains(squeeze(text), want) {
		return ", but with other white space: copy it exactly, with its tabs and line ends"
	}
	if first, _, _ := strings.Cut(strings.TrimSpace(old), "\n"); first != "" && first != strings.TrimSpace(old) && strings.Contains(text, first) {
		return ", though its first line is: read that part again"
	}
	return ""
}
