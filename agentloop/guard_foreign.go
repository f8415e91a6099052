package agentloop

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// foreign reports whether what is called base in the open directory dir is nothing
// that this pass may change or tell of, and leaves a finding about it.
//
// A pass with the user's rights may do what the kernel lets it. One with root's acts
// where the run's user owns the entry or its directory: what he made, or could
// rename himself. In a directory that users share (mode 1777), the files of others
// are theirs, with whatever protected name.
func (p *guardPass) foreign(dir int, base, full string) bool {
	st, err := lstatAt(dir, base)
	if errors.Is(err, unix.ENOENT) {
		st.Uid = 0 // to be put back: what counts is the directory
		if p.UID == 0 {
			return false
		}
	}
	if !p.theirs(dir, st) {
		return false
	}
	p.others++
	what := fmt.Sprintf("it belongs to uid %d", st.Uid)
	if err != nil {
		what = "it is gone from a directory of another user"
	}
	p.add(GuardFinding{Path: full, What: what, Action: GuardLeft})
	return true
}

// theirs reports whether a file of dir with the status st is another user's, in a
// directory of another user, for a pass that could change it nevertheless.
func (p *guardPass) theirs(dir int, st unix.Stat_t) bool {
	if !p.asRoot || int(st.Uid) == p.UID {
		return false
	}
	var above unix.Stat_t
	return unix.Fstat(dir, &above) != nil || int(above.Uid) != p.UID
}
