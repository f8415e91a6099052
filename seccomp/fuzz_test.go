package seccomp

import (
	"slices"
	"testing"
)

// FuzzFilterMatchesProfile compares the compiled filters, run by an interpreter
// of BPF that is not ours, with the profile's meaning, for any call, arguments,
// options and both architectures.
func FuzzFilterMatchesProfile(f *testing.F) {
	type machine struct {
		table  numbers
		names  []string
		byName map[uint32]string
		newest uint32
	}
	machines := map[string]*machine{}
	for _, arch := range architectures {
		m := &machine{table: loadNumbers(f, arch), byName: map[uint32]string{}}
		for name, n := range m.table {
			m.names = append(m.names, name)
			m.byName[n] = name
		}
		slices.Sort(m.names)
		m.newest = newestNumber(f, arch, m.table)
		machines[arch] = m
	}
	type variant struct {
		arch, profile string
		o             Options
	}
	compiled := map[variant]machineCode{}
	// shape: bit 0 architecture, bit 1 profile, bits 2-6 options, bit 7 the number
	// is an index into the names instead.
	f.Add(uint8(0), uint32(2), uint64(0), uint64(0o100), uint64(0o4755), uint64(0), uint64(0), uint64(0))
	f.Fuzz(func(t *testing.T, shape uint8, number uint32, a0, a1, a2, a3, a4, a5 uint64) {
		v := variant{architectures[shape&1], Names()[shape>>1&1], optionsOf(int(shape >> 2 & 31))}
		m := machines[v.arch]
		if shape&0x80 != 0 {
			number = m.table[m.names[int(number)%len(m.names)]]
		}
		code, ok := compiled[v]
		if !ok {
			code = interpret(t, compile(t, v.profile, v.arch, v.o))
			compiled[v] = code
		}
		args := [6]uint64{a0, a1, a2, a3, a4, a5}
		want := meaning{debug: v.profile == "debug", o: v.o, newest: m.newest}.of(m.byName[number], number, args)
		switch {
		case number == noNumber:
			want = refused
		case v.arch == "amd64" && number >= x32Bit:
			want = ended
		case v.arch == "arm64" && number >= x32Bit, m.byName[number] == "" && number <= m.newest:
			want = refused
		}
		if got := code.run(t, auditOf(t, v.arch), number, args); got != want {
			t.Errorf("%+v: call %d %s(%#x) = %#x, want %#x", v, number, m.byName[number], args, got, want)
		}
	})
}
