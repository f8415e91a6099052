package agentloop

import (
	"slices"
	"strings"
)

// newWarnings are those that the session was not told yet; people are told apart from
// the result. What is wrong with the host is so with every call.
func (t *turn) newWarnings(warnings []string) []string {
	warnings = t.s.untold(warnings)
	for _, w := range warnings {
		t.events.send(EventTurnNotice, TurnNotice{Kind: "warning", Text: w})
	}
	return warnings
}

// endedHow says in one line what went wrong with a call; empty for one that did what
// it was asked to.
func endedHow(res ToolResult) string {
	switch {
	case res.Error != "":
		return res.Error
	case res.Exec != nil && res.Status != StatusOK:
		return strings.Trim(exitLine(res.Exec, res.Spec.Limits.Wall), "\n[]")
	}
	return ""
}

// maxTold bounds the warnings that a session remembers.
const maxTold = 64

// untold are the warnings that s was not told yet; from then on it was.
func (s *Session) untold(warnings []string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(warnings), func(w string) bool {
		if s.told[w] {
			return true
		}
		if s.told == nil {
			s.told = map[string]bool{}
		}
		if len(s.told) < maxTold {
			s.told[w] = true
		}
		return false
	})
}
