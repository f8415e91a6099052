package tools

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"sandboxd/policy"
)

// dialTime bounds one attempt to connect.
const dialTime = 10 * time.Second

// hostGuard connects to one host and no other. Its name is resolved once, so that
// what was checked is what is connected to; addresses of this machine and of
// private networks are refused unless the policy names them.
type hostGuard struct {
	host, port string
	how        policy.HostGrant

	once  sync.Once
	addrs []netip.Addr
	err   error
	// lookup is nil for the resolver of this process.
	lookup func(ctx context.Context, host string) ([]netip.Addr, error)
}

// dial implements the DialContext of an http.Transport.
func (g *hostGuard) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host != g.host || port != g.port {
		return nil, fmt.Errorf("a connection to %s is refused: only %s is allowed", address, net.JoinHostPort(g.host, g.port))
	}
	g.once.Do(func() { g.addrs, g.err = g.resolve(ctx) })
	if g.err != nil {
		return nil, g.err
	}
	d := net.Dialer{Timeout: dialTime}
	var errs []error
	for _, a := range g.addrs {
		c, err := d.DialContext(ctx, network, net.JoinHostPort(a.String(), port))
		if err == nil {
			return c, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// resolve returns the addresses that may be connected to.
func (g *hostGuard) resolve(ctx context.Context) ([]netip.Addr, error) {
	addrs, err := g.all(ctx)
	if err != nil {
		return nil, err
	}
	var out []netip.Addr
	var refused error
	for _, a := range addrs {
		a = a.Unmap()
		if err := checkAddress(a, g.how); err != nil {
			refused = fmt.Errorf("%s is at %s: %w", g.host, a, err)
			continue
		}
		out = append(out, a)
	}
	if len(out) == 0 {
		if refused == nil {
			refused = fmt.Errorf("%s has no address", g.host)
		}
		return nil, refused
	}
	return out, nil
}

func (g *hostGuard) all(ctx context.Context) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(g.host); err == nil {
		return []netip.Addr{a}, nil
	}
	if g.lookup != nil {
		return g.lookup(ctx, g.host)
	}
	return net.DefaultResolver.LookupNetIP(ctx, "ip", g.host)
}

// special are networks that are neither public nor told by netip: carriers' shared
// addresses, protocol assignments, benchmarks, documentation, reserved (RFC 6890),
// and IPv6 forms that carry an IPv4 address (RFC 6052, 3056, 4380).
var special = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("203.0.113.0/24"),
	netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("64:ff9b:1::/48"),
	netip.MustParsePrefix("2002::/16"), netip.MustParsePrefix("2001::/32"), netip.MustParsePrefix("100::/64"), netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("fec0::/10"), netip.MustParsePrefix("::/96"),
}

// checkAddress says why an address may not be connected to. A private one needs a
// host that the policy names; one of this machine, or of its link, needs the
// address itself there: a name leads wherever its owner likes.
func checkAddress(a netip.Addr, how policy.HostGrant) error {
	switch {
	case !a.IsValid() || a.Zone() != "":
		return errors.New("no address that can be connected to")
	case a.IsUnspecified() || a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsMulticast() || a.IsLinkLocalMulticast() || a.IsInterfaceLocalMulticast():
		if how < policy.HostByAddress {
			return errors.New("an address of this machine or its link; network.allow would have to name the address")
		}
	case a.IsPrivate() || isSpecial(a):
		if how < policy.HostByName {
			return errors.New("an address that is not public; network.allow would have to name the host")
		}
	}
	return nil
}

func isSpecial(a netip.Addr) bool {
	for _, p := range special {
		if p.Contains(a) {
			return true
		}
	}
	return false
}
