package exec

import (
	"encoding/binary"
	"slices"
)

// hostFormat begins a kept answer; it changes with what follows.
const hostFormat = "sbx-host-2\n"

// encode lays h out for [decodeHost]: numbers as varints, strings and lists with
// their length before them. It is read at every start, where JSON would cost more
// than all the rest of that.
func (h Host) encode() []byte {
	b := []byte(hostFormat)
	number := func(n int) { b = binary.AppendVarint(b, int64(n)) }
	text := func(s string) { number(len(s)); b = append(b, s...) }
	flag := func(on bool) {
		if on {
			number(1)
		} else {
			number(0)
		}
	}
	texts := func(list []string) {
		number(len(list))
		for _, s := range list {
			text(s)
		}
	}
	number(h.LandlockABI)
	number(h.LandlockErrata)
	for _, on := range []bool{h.UserNS, h.MountView, h.PIDNS, h.IPCNS, h.NetNS, h.PIDMax, h.Scoped} {
		flag(on)
	}
	number(len(h.Mechanisms))
	for _, m := range h.Mechanisms {
		text(m.Name)
		flag(m.Works)
		texts([]string{m.RefusedBy, m.Evidence, m.Lost, m.Fix})
	}
	text(string(h.Cgroups.Kind))
	number(len(h.Cgroups.Parents))
	for _, p := range h.Cgroups.Parents {
		text(p.Path)
		flag(p.V2)
		texts(p.Controllers)
	}
	texts(h.Cgroups.Evidence)
	return b
}

// decodeHost reads what encode wrote. It reports false for anything else: a part
// of it, or more than it.
func decodeHost(text []byte) (h Host, ok bool) {
	d := hostReader{rest: text}
	if string(d.bytes(len(hostFormat))) != hostFormat {
		return Host{}, false
	}
	h.LandlockABI, h.LandlockErrata = d.number(), d.number()
	for _, on := range []*bool{&h.UserNS, &h.MountView, &h.PIDNS, &h.IPCNS, &h.NetNS, &h.PIDMax, &h.Scoped} {
		*on = d.flag()
	}
	for range d.count() {
		m := Mechanism{Name: d.text(), Works: d.flag()}
		four := d.texts()
		if len(four) != 4 {
			return Host{}, false
		}
		m.RefusedBy, m.Evidence, m.Lost, m.Fix = four[0], four[1], four[2], four[3]
		h.Mechanisms = append(h.Mechanisms, m)
	}
	h.Cgroups.Kind = cgroupKind(d.text())
	for range d.count() {
		h.Cgroups.Parents = append(h.Cgroups.Parents, cgroupParent{Path: d.text(), V2: d.flag(), Controllers: d.texts()})
	}
	h.Cgroups.Evidence = d.texts()
	if d.bad || len(d.rest) > 0 {
		return Host{}, false
	}
	h.landlock.ABI, h.landlock.Errata = h.LandlockABI, h.LandlockErrata
	return h, true
}

// hostReader takes fields off the front of rest. After the first that is not
// there everything is empty.
type hostReader struct {
	rest []byte
	bad  bool
}

func (d *hostReader) number() int {
	n, size := binary.Varint(d.rest)
	if size <= 0 || d.bad {
		d.bad, d.rest = true, nil
		return 0
	}
	d.rest = d.rest[size:]
	return int(n)
}

// count is the length of a list. Each entry takes a byte or more.
func (d *hostReader) count() int {
	n := d.number()
	if n < 0 || n > len(d.rest) {
		d.bad, d.rest = true, nil
		return 0
	}
	return n
}

func (d *hostReader) bytes(n int) []byte {
	if n > len(d.rest) {
		d.bad, d.rest = true, nil
		return nil
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}

func (d *hostReader) flag() bool {
	n := d.number()
	d.bad = d.bad || n != 0 && n != 1
	return n == 1
}

func (d *hostReader) text() string { return string(d.bytes(d.count())) }

// texts is nil for an empty list.
func (d *hostReader) texts() []string {
	var list []string
	for range d.count() {
		list = append(list, d.text())
	}
	return slices.Clip(list)
}
