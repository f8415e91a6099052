package seccomp

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	libseccomp "github.com/seccomp/libseccomp-golang"
	"golang.org/x/sys/unix"
)

var architectures = []string{"amd64", "arm64"}

// telling lists none, all, each option alone and the two that share a call; the
// fuzz target goes through the rest.
func telling() []Options {
	var all []Options
	for _, bits := range []int{0, 1, 2, 4, 8, 16, 1 | 2, 31} {
		all = append(all, optionsOf(bits))
	}
	return all
}

func optionsOf(bits int) Options {
	return Options{Inet: bits&1 != 0, Unix: bits&2 != 0, OwnPID: bits&4 != 0, OwnIPC: bits&8 != 0, NoExecWrite: bits&16 != 0}
}

// newestNumber is the highest number in table that libseccomp can name.
func newestNumber(t testing.TB, arch string, table numbers) uint32 {
	t.Helper()
	m, err := machineOf(arch)
	if err != nil {
		t.Fatal(err)
	}
	newest := uint32(0)
	for name, n := range table {
		if known, err := libseccomp.GetSyscallFromNameByArch(name, m.arch); err == nil && known >= 0 {
			newest = max(newest, n)
		}
	}
	return newest
}

func auditOf(t testing.TB, arch string) uint32 {
	t.Helper()
	m, err := machineOf(arch)
	if err != nil {
		t.Fatal(err)
	}
	return m.audit
}

// TestEveryCallByInterpreter compares the compiled filter with the profile's
// meaning for every call of both architectures, every option and, for calls with
// conditions, every combination of values at and beside the conditions.
func TestEveryCallByInterpreter(t *testing.T) {
	for _, arch := range architectures {
		table := loadNumbers(t, arch)
		newest, audit := newestNumber(t, arch, table), auditOf(t, arch)
		for _, profile := range Names() {
			for _, o := range telling() {
				p, _ := ByName(profile)
				code := interpret(t, compile(t, profile, arch, o))
				want := meaning{debug: profile == "debug", o: o, newest: newest}
				for name, number := range table {
					for _, args := range valuesFor(p, name) {
						if got, want := code.run(t, audit, number, args), want.of(name, number, args); got != want {
							t.Errorf("%s %s %+v: %s(%#x) = %#x, want %#x", arch, profile, o, name, args, got, want)
						}
					}
				}
			}
			if t.Failed() {
				return
			}
		}
	}
}

// telltale are values whose answer must be right whatever the tables say.
var telltale = map[string]map[uint8][]uint64{
	"ioctl": {1: {
		0x5401, 0x5412, 0x5413, 0x541b, 0x541c, 0x541d, 0x5423, 0x4b49, 0x4b3a, 0x4bff, 0x4c00, 0x5600, 0x5606, 0x5700,
		0x40086602, 0x40046602, 0x401c5820, 0x40087602, 0x40086604, 0x40806685, 0x800c6613, 0x4008941a,
		0x50009401, 0x5000940f, 0x50009417, 0x5000943f, 0x40049409, 0x4020940d, 0x80086601, 0x80047601,
	}},
	"prctl":       {0: append(upTo(80), 0x53564d41, 0x41555856, 0x59616d61)},
	"clone":       {0: {0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000, 0x3d0f00, 17}},
	"unshare":     {0: {0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000, 0x80, 0x200, 0x400}},
	"personality": {0: {0, 8, 0x20000, 0x40000, 0x400000, 0xffffffff}},
	"mknodat":     {2: {0o10644, 0o20644, 0o40755, 0o60644, 0o100644, 0o120777, 0o140755, 0o14644, 0o104755}},
	"mknod":       {1: {0o10644, 0o20644, 0o40755, 0o60644, 0o100644, 0o120777, 0o140755, 0o14644, 0o104755}},
	"openat":      {2: {0o100, 0o200000, 0o20000000, 0o20200000, 0o20200102}, 3: {0o4000, 0o755, 0o4755, 0o2755, 0o107777}},
	"open":        {1: {0o100, 0o200000, 0o20000000, 0o20200000, 0o20200102}, 2: {0o4000, 0o755, 0o4755, 0o2755, 0o107777}},
	"setpriority": {0: upTo(4), 1: {0, 1}},
	"ioprio_set":  {0: upTo(5), 1: {0, 1}},
}

func upTo(n uint64) []uint64 {
	var all []uint64
	for i := range n {
		all = append(all, i)
	}
	return all
}

// TestSocketsByInterpreter goes through every family, type and protocol that
// exists, and the protocol numbers that are also a family's.
func TestSocketsByInterpreter(t *testing.T) {
	for _, arch := range architectures {
		table := loadNumbers(t, arch)
		newest, audit := newestNumber(t, arch, table), auditOf(t, arch)
		for _, o := range []Options{{}, {Inet: true}, {Unix: true}, {Inet: true, Unix: true}} {
			code := interpret(t, compile(t, "default", arch, o))
			want := meaning{o: o, newest: newest}
			for args := range sockets {
				for _, name := range []string{"socket", "socketpair"} {
					if got, want := code.run(t, audit, table[name], args), want.of(name, table[name], args); got != want {
						t.Fatalf("%s %+v: %s(%#x) = %#x, want %#x", arch, o, name, args, got, want)
					}
				}
			}
		}
	}
}

func sockets(yield func([6]uint64) bool) {
	for domain := range uint64(48) {
		for kind := range uint64(12) {
			for _, protocol := range append(upTo(18), 40, 132, 136, 255, 256, 262, 1<<32, 1<<32|1) {
				for _, extra := range []uint64{0, 0o2004000} { // SOCK_CLOEXEC, SOCK_NONBLOCK
					if !yield([6]uint64{domain, kind | extra, protocol}) {
						return
					}
				}
			}
		}
	}
}

// valuesFor crosses, for each argument some rule of the call looks at, the
// values that decide: the wanted one, each with one bit changed in and out of
// the mask, upper halves set, none and all bits.
func valuesFor(p Profile, call string) [][6]uint64 {
	var perArg [6][]uint64
	for _, r := range slices.Concat(p.Allow, p.Refuse) {
		if !slices.Contains(r.Calls, call) {
			continue
		}
		for _, c := range r.When {
			v := []uint64{c.Value, c.Value | 1<<32, c.Value | 1<<63}
			if len(perArg[c.Arg]) == 0 {
				v = append(v, 0, ^uint64(0), c.Mask, 2, 3, 4, 1<<32)
				for bit := range 32 {
					v = append(v, c.Value^1<<bit)
				}
			}
			perArg[c.Arg] = append(perArg[c.Arg], v...)
		}
	}
	all := [][6]uint64{{}}
	for i, values := range perArg {
		// Not only what the tables name: they may lack it.
		values = append(values, telltale[call][uint8(i)]...)
		slices.Sort(values)
		values = slices.Compact(values)
		if len(values) == 0 {
			continue
		}
		var next [][6]uint64
		for _, args := range all {
			for _, v := range values {
				args[i] = v
				next = append(next, args)
			}
		}
		all = next
	}
	// A bounded sample of large products; TestSocketsByInterpreter goes through
	// socket and socketpair.
	const most = 400
	if len(all) > most {
		r := rand.New(rand.NewPCG(1, 2))
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:most]
	}
	return all
}

// TestNumbersWithoutName covers the numbers between and above the calls, and
// the foreign ABIs.
func TestNumbersWithoutName(t *testing.T) {
	for _, arch := range architectures {
		table := loadNumbers(t, arch)
		newest, audit := newestNumber(t, arch, table), auditOf(t, arch)
		code := interpret(t, compile(t, "default", arch, Options{Inet: true, Unix: true, OwnPID: true, OwnIPC: true}))
		named := map[uint32]bool{}
		for _, n := range table {
			named[n] = true
		}
		for n := range uint32(1024) {
			want := refused
			if n > newest {
				want = absent
			} else if named[n] {
				continue
			}
			if got := code.run(t, audit, n, [6]uint64{}); got != want {
				t.Errorf("%s: call %d = %#x, want %#x", arch, n, got, want)
			}
		}
		for _, n := range []uint32{1 << 20, x32Bit - 1} {
			if got := code.run(t, audit, n, [6]uint64{}); got != absent {
				t.Errorf("%s: call %#x = %#x, want ENOSYS", arch, n, got)
			}
		}
		// A tracer skips a call by changing its number to -1: not an attack.
		if got := code.run(t, audit, noNumber, [6]uint64{}); got != refused {
			t.Errorf("%s: call -1 = %#x, want EPERM", arch, got)
		}
		for _, foreign := range []uint32{i386, aarch32, 0, auditOf(t, map[string]string{"amd64": "arm64", "arm64": "amd64"}[arch])} {
			for _, n := range []uint32{0, 1, 5, 11, table["openat"], table["socket"], newest + 1, x32Bit, noNumber} {
				if got := code.run(t, foreign, n, [6]uint64{}); got != ended {
					t.Errorf("%s filter: call %d of ABI %#x = %#x, want kill", arch, n, foreign, got)
				}
			}
		}
	}
}

// TestX32CallsEndTheProcess: an open, a connect and a forbidden call with the
// x32 bit, and the x32-only numbers from 512.
func TestX32CallsEndTheProcess(t *testing.T) {
	table := loadNumbers(t, "amd64")
	code := interpret(t, compile(t, "default", "amd64", Options{Inet: true, Unix: true}))
	for _, n := range []uint32{0, table["open"], table["openat"], table["connect"], table["mount"], 512, 520, 547, 9999, x32Bit - 1 - 1} {
		if got := code.run(t, unix.AUDIT_ARCH_X86_64, n|x32Bit, [6]uint64{}); got != ended {
			t.Errorf("x32 call %d = %#x, want kill", n, got)
		}
	}
}

// TestEveryCallHasAPlace: each call of Linux is allowed by some rule, or
// refused with a written reason; never both, never neither.
func TestEveryCallHasAPlace(t *testing.T) {
	p, err := ByName("default")
	if err != nil {
		t.Fatal(err)
	}
	place := map[string]int{}
	mark := func(call string, bit int) {
		if place[call]&bit != 0 && bit == 2 {
			t.Errorf("%s has two reasons", call)
		}
		place[call] |= bit
	}
	for _, r := range p.Allow {
		for _, call := range r.Calls {
			mark(call, 1)
		}
	}
	for _, r := range Refusals() {
		if r.Why == "" {
			t.Errorf("%v: no reason", r.Calls)
		}
		for _, call := range r.Calls {
			mark(call, 2)
		}
	}
	all := map[string]bool{}
	for _, arch := range architectures {
		for call := range loadNumbers(t, arch) {
			all[call] = true
			if place[call] != 1 && place[call] != 2 {
				t.Errorf("%s: allowed=%v refused=%v", call, place[call]&1 != 0, place[call]&2 != 0)
			}
		}
	}
	for call := range place {
		if !all[call] {
			t.Errorf("%s is in a table of the profile, but no call of Linux", call)
		}
	}
	for _, call := range p.Missing {
		if place[call] != 2 {
			t.Errorf("%s is answered with ENOSYS without a reason", call)
		}
	}
}

// TestNoCallTwice: a second mention would be silently merged, or take away the
// conditions of the first.
func TestNoCallTwice(t *testing.T) {
	p, err := ByName("debug")
	if err != nil {
		t.Fatal(err)
	}
	type use struct {
		call string
		need Need
	}
	plain := map[use]bool{}
	for _, r := range p.Allow {
		for _, call := range r.Calls {
			if u := (use{call, r.If}); len(r.When) == 0 {
				if plain[u] {
					t.Errorf("%s is listed twice", call)
				}
				plain[u] = true
			}
			seen := map[uint8]bool{}
			for _, c := range r.When {
				if seen[c.Arg] || c.Arg > 5 || c.Value&^c.Mask != 0 {
					t.Errorf("%s: condition %+v can not hold, or its argument is used twice", call, c)
				}
				seen[c.Arg] = true
			}
		}
	}
	for _, r := range p.Allow {
		for _, call := range r.Calls {
			if len(r.When) > 0 && plain[use{call, Always}] {
				t.Errorf("%s has conditions and is allowed without", call)
			}
		}
	}
}

// TestUnknownNamesAreReported: a name libseccomp lacks is listed and not allowed.
func TestUnknownNamesAreReported(t *testing.T) {
	p := Profile{Name: "x", Allow: []Rule{{Calls: []string{"read", "no_such_call"}}, {Calls: []string{"no_such_call"}, When: []Condition{{0, 1, 1}}}}, Newest: 334}
	f, err := p.Compile("amd64", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(f.Unknown), "[no_such_call]"; got != want {
		t.Errorf("Unknown = %s, want %s", got, want)
	}
	code := interpret(t, f)
	for n, want := range map[uint32]uint32{0: allowed, 1: refused, 334: refused, 335: absent} {
		if got := code.run(t, unix.AUDIT_ARCH_X86_64, n, [6]uint64{}); got != want {
			t.Errorf("call %d = %#x, want %#x", n, got, want)
		}
	}
}

func TestZeroProfileAllowsNothing(t *testing.T) {
	f, err := Profile{}.Compile("amd64", Options{Inet: true, Unix: true})
	if err != nil {
		t.Fatal(err)
	}
	code := interpret(t, f)
	for n := range uint32(600) {
		if got := code.run(t, unix.AUDIT_ARCH_X86_64, n, [6]uint64{}); got == allowed {
			t.Errorf("call %d is allowed", n)
		}
	}
}

func TestCompileRefusesOtherArchitectures(t *testing.T) {
	for _, arch := range []string{"", "386", "riscv64"} {
		if f, err := (Profile{}).Compile(arch, Options{}); err == nil {
			t.Errorf("Compile(%q) = %d bytes, want an error", arch, len(f.BPF))
		}
	}
	if _, err := ByName("none"); err == nil {
		t.Error(`ByName("none") gives a profile`)
	}
}
