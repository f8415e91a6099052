package policy

import (
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// hostPattern is a host compared label by label: example.org, *.example.org
// (names below it, not itself), an address or a prefix of addresses, each with
// an optional :port; or a URL with a scheme and a glob for the path.
type hostPattern struct {
	any    bool
	below  bool   // *.host
	host   string // canonical
	prefix netip.Prefix
	port   uint16 // 0: any
	scheme string // "" any
	path   glob   // only with scheme
}

// hostTarget is a host that a call wants to reach.
type hostTarget struct {
	host   string // canonical name; empty for an address
	addr   netip.Addr
	port   uint16 // 0 unknown
	scheme string
	path   string
	// broken is why the text is no host that every reader understands alike.
	// No allow rule matches it.
	broken string
}

func newHostPattern(text string) (hostPattern, error) {
	text = strings.TrimPrefix(strings.TrimSpace(text), "domain:")
	var p hostPattern
	if text == "*" {
		p.any = true
		return p, nil
	}
	if scheme, rest, ok := strings.Cut(text, "://"); ok {
		p.scheme = strings.ToLower(scheme)
		host, pathText, hasPath := strings.Cut(rest, "/")
		if !hasPath {
			pathText = "*"
		}
		p.path = newGlob("/" + pathText)
		text = host
		if text == "*" {
			p.any = true
			return p, nil
		}
		if p.port == 0 && !strings.Contains(lastLabel(text), ":") {
			p.port = schemePort(p.scheme)
		}
	}
	if pre, err := netip.ParsePrefix(text); err == nil {
		p.prefix = pre.Masked()
		return p, nil
	}
	if rest, ok := strings.CutPrefix(text, "*."); ok {
		p.below, text = true, rest
	}
	host, port, err := splitPort(text)
	if err != nil {
		return p, err
	}
	if port != 0 {
		p.port = port
	}
	name, addr, broken := canonicalHost(host)
	if broken != "" {
		return p, fmt.Errorf("host %q: %s", host, broken)
	}
	if addr.IsValid() {
		if p.below {
			return p, fmt.Errorf("host %q: no star before an address", text)
		}
		p.prefix = netip.PrefixFrom(addr, addr.BitLen())
	}
	p.host = name
	return p, nil
}

func lastLabel(s string) string { return s[strings.LastIndexByte(s, ']')+1:] }

func schemePort(scheme string) uint16 {
	switch scheme {
	case "http", "ws":
		return 80
	case "https", "wss":
		return 443
	}
	return 0
}

// splitPort cuts host:port. An IPv6 address with a port needs brackets.
func splitPort(text string) (host string, port uint16, err error) {
	host = text
	i := strings.LastIndexByte(text, ':')
	if i < 0 || strings.HasSuffix(text, "]") || (strings.Count(text, ":") > 1 && !strings.HasPrefix(text, "[")) {
		return strings.Trim(host, "[]"), 0, nil
	}
	n, err := strconv.ParseUint(text[i+1:], 10, 16)
	if err != nil || n == 0 {
		return "", 0, fmt.Errorf("port %q: want a number from 1 to 65535", text[i+1:])
	}
	return strings.Trim(text[:i], "[]"), uint16(n), nil
}

// canonicalHost returns the one spelling of a host: a lower-case name without a
// final dot, or an address. Spellings that readers understand differently are
// broken: characters outside letters, digits, - and _, empty labels.
func canonicalHost(host string) (name string, addr netip.Addr, broken string) {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if host == "" || len(host) > 253 {
		return "", addr, "no host name"
	}
	if a, err := netip.ParseAddr(host); err == nil {
		if a.Zone() != "" {
			return "", addr, "address with a zone"
		}
		return "", a.Unmap(), ""
	}
	for _, r := range host {
		if !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.') {
			return "", addr, fmt.Sprintf("character %q", r)
		}
	}
	labels := strings.Split(host, ".")
	for _, l := range labels {
		if l == "" || len(l) > 63 {
			return "", addr, "empty or long label"
		}
	}
	if numeric(labels[len(labels)-1]) {
		a, ok := looseIPv4(labels)
		if !ok {
			return "", addr, "numeric name that is no address"
		}
		return "", a, ""
	}
	return host, addr, ""
}

func numeric(label string) bool {
	if h, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(h, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}

// looseIPv4 reads the spellings that inet_aton(3) takes: one to four numbers,
// decimal, octal or hexadecimal, the last one filling the rest.
func looseIPv4(labels []string) (netip.Addr, bool) {
	if len(labels) > 4 {
		return netip.Addr{}, false
	}
	var value uint64
	for i, l := range labels {
		n, err := strconv.ParseUint(octal(l), 0, 32)
		if err != nil {
			return netip.Addr{}, false
		}
		bits := 8
		if i == len(labels)-1 {
			bits = 8 * (5 - len(labels))
		}
		if n >= 1<<bits {
			return netip.Addr{}, false
		}
		value = value<<bits | n
	}
	return netip.AddrFrom4([4]byte{byte(value >> 24), byte(value >> 16), byte(value >> 8), byte(value)}), true
}

// octal gives a number with a leading zero the prefix that strconv wants.
func octal(l string) string {
	if len(l) > 1 && l[0] == '0' && l[1] != 'x' {
		return "0o" + l[1:]
	}
	if l == "0x" {
		return "0"
	}
	return l
}

// parseHostTarget reads a URL or host[:port].
func parseHostTarget(text string) hostTarget {
	if strings.ContainsAny(text, "\\\x00\t\r\n ") || strings.Contains(text, "%00") {
		return hostTarget{broken: "character that readers of addresses treat differently"}
	}
	var t hostTarget
	host := text
	var port uint16
	if strings.Contains(text, "://") {
		u, err := url.Parse(text)
		if err != nil {
			return hostTarget{broken: "no address: malformed"}
		}
		if u.User != nil {
			return hostTarget{broken: "user name in an address"}
		}
		t.scheme, t.path = strings.ToLower(u.Scheme), u.EscapedPath()
		if t.path == "" {
			t.path = "/"
		}
		if u.RawQuery != "" {
			t.path += "?" + u.RawQuery
		}
		host = u.Hostname()
		port = schemePort(t.scheme)
		if p := u.Port(); p != "" {
			n, err := strconv.ParseUint(p, 10, 16)
			if err != nil {
				return hostTarget{broken: "no port"}
			}
			port = uint16(n)
		}
	} else {
		var err error
		if host, port, err = splitPort(text); err != nil {
			return hostTarget{broken: err.Error()}
		}
	}
	t.port = port
	t.host, t.addr, t.broken = canonicalHost(host)
	return t
}

// dotted reports a path with .. in some spelling, whose meaning is the server's.
func dotted(p string) bool {
	return strings.Contains(p, "..") || strings.Contains(strings.ToLower(p), "%2e")
}

// match compares; unknownPort says what an unknown port of the target counts as
// against a pattern with a port (true for deny and ask rules).
func (p *hostPattern) match(t *hostTarget, unknownPort bool) bool {
	if t.broken != "" {
		return false
	}
	if p.port != 0 && p.port != t.port && !(t.port == 0 && unknownPort) {
		return false
	}
	if p.scheme != "" {
		if t.scheme != "" && t.scheme != p.scheme || t.scheme == "" && !unknownPort {
			return false
		}
		if t.path != "" && (!p.path.match(t.path) || !unknownPort && dotted(t.path)) {
			return false
		}
	}
	switch {
	case p.any:
		return true
	case p.prefix.IsValid():
		return t.addr.IsValid() && p.prefix.Contains(t.addr)
	case t.host == "":
		return false
	case p.below:
		return strings.HasSuffix(t.host, p.host) && len(t.host) > len(p.host) && t.host[len(t.host)-len(p.host)-1] == '.'
	}
	return t.host == p.host
}
