package agentloop

import (
	"strings"
	"testing"
)

// TestAnotherGroupIsRefusedByItsName: an error that says "uid 1000 cannot become
// uid 1000" helps nobody.
func TestAnotherGroupIsRefusedByItsName(t *testing.T) {
	c := Caller{UID: 1000, GID: 1000}
	_, err := chooseIdentity("1000:0", c, node{})
	if err == nil || !strings.Contains(err.Error(), "group 1000 cannot take group 0") {
		t.Errorf("--user 1000:0 as uid 1000: %v", err)
	}
	if id, err := chooseIdentity("1000:1000", c, node{}); err != nil || id.uid != 1000 || id.gid != 1000 {
		t.Errorf("--user 1000:1000 as itself: %+v %v", id, err)
	}
}
