package seccomp

import (
	"errors"
	"fmt"
	"slices"

	libseccomp "github.com/seccomp/libseccomp-golang"
	"golang.org/x/sys/unix"
)

// verify runs the compiled program for every call with conditions and compares
// the answer with the rules. The reason is libseccomp itself: version 2.5.4
// compiles some sets of rules to a filter that allows more than they say (see
// the rules of socket), and the version on the user's machine is not the one
// that the tests saw. It takes about a millisecond.
func (p Profile) verify(program []unix.SockFilter, m machine, o Options, newest uint32) error {
	_, allow := alternatives(p.Allow, o)
	_, refuse := alternatives(p.Refuse, o)
	for call, alternatives := range allow {
		number, err := libseccomp.GetSyscallFromNameByArch(call, m.arch)
		if err != nil || number < 0 || uint32(number) > newest {
			continue
		}
		for _, args := range decisive(slices.Concat(alternatives, refuse[call])) {
			want := uint32(unix.SECCOMP_RET_ERRNO) | uint32(unix.EPERM)
			if holdsAny(alternatives, args) && !holdsAny(refuse[call], args) {
				want = unix.SECCOMP_RET_ALLOW
			}
			got, err := execute(program, m.audit, uint32(number), args)
			if err != nil {
				return err
			}
			if got != want {
				return fmt.Errorf("libseccomp made a wrong filter: %s(%#x) gives %#x instead of %#x", call, args, got, want)
			}
		}
	}
	return nil
}

func holdsAny(alternatives [][]Condition, args [6]uint64) bool {
	return slices.ContainsFunc(alternatives, func(when []Condition) bool {
		return !slices.ContainsFunc(when, func(c Condition) bool { return args[c.Arg]&c.Mask != c.Value })
	})
}

// decisive crosses, for each argument that is looked at, the values that some
// condition wants of any argument (a filter may test the wrong one), and
// neighbours of them.
func decisive(alternatives [][]Condition) [][6]uint64 {
	values := []uint64{0, 1 << 32, ^uint64(0)}
	var looked [6]bool
	for _, c := range slices.Concat(alternatives...) {
		looked[c.Arg] = true
		values = append(values, c.Value, c.Value|c.Mask&-c.Mask)
	}
	slices.Sort(values)
	values = slices.Compact(values)
	all := [][6]uint64{{}}
	for arg := range looked {
		if !looked[arg] {
			continue
		}
		next := make([][6]uint64, 0, len(all)*len(values))
		for _, args := range all {
			for _, v := range values {
				args[arg] = v
				next = append(next, args)
			}
		}
		all = next
	}
	return all
}

var errNotOurs = errors.New("bug: instruction that a seccomp filter of libseccomp does not use")

// execute interprets a filter: the instructions that libseccomp makes, nothing
// else. Jumps go forward only, so it ends.
func execute(program []unix.SockFilter, audit, number uint32, args [6]uint64) (uint32, error) {
	var a uint32
	for at := 0; at < len(program); at++ {
		in := program[at]
		jump := func(taken bool) {
			if taken {
				at += int(in.Jt)
			} else {
				at += int(in.Jf)
			}
		}
		switch in.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			switch {
			case in.K == offsetNumber:
				a = number
			case in.K == offsetArch:
				a = audit
			case in.K >= offsetArgs && in.K < offsetArgs+48 && in.K%4 == 0:
				// Both architectures are little endian: the lower half comes first.
				i := (in.K - offsetArgs) / 4
				a = uint32(args[i/2] >> (32 * (i % 2)))
			default:
				return 0, errNotOurs
			}
		case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
			a &= in.K
		case unix.BPF_JMP | unix.BPF_JA:
			at += int(in.K)
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			jump(a == in.K)
		case unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K:
			jump(a > in.K)
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			jump(a >= in.K)
		case unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K:
			jump(a&in.K != 0)
		case unix.BPF_RET | unix.BPF_K:
			return in.K, nil
		default:
			return 0, errNotOurs
		}
	}
	return 0, errNotOurs
}
