package agentloop

import (
	"testing"

	"sandboxd/exec"
)

// What closes a path by default closes one that is only held read-only too, whichever is
// entered first; one that the user named to be read stays open.
func TestDefaultsCloseWhatIsHeldReadOnly(t *testing.T) {
	for name, tt := range map[string]struct{ said, want exec.Access }{
		"held read-only": {exec.Protect, exec.Deny},
		"named":          {exec.ReadOnly, exec.ReadOnly},
	} {
		closed, said := exec.Entry{Path: "/run/s.sock", Access: exec.Deny}, exec.Entry{Path: "/run/s.sock", Access: tt.said}
		first, last := newEntrySet(), newEntrySet()
		first.add(closed)
		first.demand(said)
		last.demand(said)
		last.add(closed)
		for order, s := range map[string]*entrySet{"first": first, "last": last} {
			if e, _ := s.at(said.Path); e.Access != tt.want {
				t.Errorf("%s, closed %s: %v, want %v", name, order, e.Access, tt.want)
			}
		}
	}
}
