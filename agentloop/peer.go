package agentloop

// Peer is who talks to the daemon: the identity that the kernel vouches for
// (SO_PEERCRED and the group list of the process), and what the client says
// about itself. The zero Peer is root without a process: make one on purpose.
type Peer struct {
	PID    int
	Caller Caller
	// Admin may see and answer for every user's sessions: root, or a member of
	// the admin group.
	Admin bool
}

// UID is the peer's user.
func (p Peer) UID() int { return p.Caller.UID }

// owns reports whether the peer may see what belongs to uid.
func (p Peer) owns(uid int) bool { return p.Admin || p.Caller.UID == uid }
