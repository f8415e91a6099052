package policy

// HostGrant says how the list [network] allow grants a host. The zero value is not
// at all.
type HostGrant uint8

const (
	HostNotGranted HostGrant = iota
	// HostByStar: by a star, for any name or those below a domain.
	HostByStar
	// HostByName: by its own name.
	HostByName
	// HostByAddress: by its address, a prefix of it, or as localhost.
	HostByAddress
)

// GrantsHost says how [network] allow grants the host of an address, a URL or
// HOST:PORT; the most exact entry counts.
func (e *Engine) GrantsHost(address string) HostGrant {
	t := parseHostTarget(address)
	best := HostNotGranted
	for i := range e.hosts {
		p := &e.hosts[i]
		if !p.match(&t, false) {
			continue
		}
		how := HostByName
		switch {
		case p.any, p.below:
			how = HostByStar
		case p.prefix.IsValid(), p.host == "localhost":
			how = HostByAddress
		}
		best = max(best, how)
	}
	return best
}
