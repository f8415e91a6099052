package seccomp

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

const (
	// maxInstructions is BPF_MAXINSNS of linux/bpf_common.h.
	maxInstructions  = 4096
	instructionBytes = 8 // struct sock_filter

	// Offsets in struct seccomp_data of linux/seccomp.h.
	offsetNumber = 0
	offsetArch   = 4
	offsetArgs   = 16

	// x32Bit marks calls of the x32 ABI on amd64 (__X32_SYSCALL_BIT).
	x32Bit = 0x40000000
)

// prologue answers ENOSYS to numbers above newest. libseccomp has one default
// action, and that is EPERM: right for calls we leave out, but libc takes it for
// a final answer where a newer call has an older sibling. Other ABIs and x32
// numbers go on to libseccomp's own test, which ends the process.
func (m machine) prologue(newest uint32) []unix.SockFilter {
	const (
		load  = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		above = unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K
		x32   = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
	)
	return []unix.SockFilter{
		{Code: load, K: offsetArch},
		{Code: equal, K: m.audit, Jf: 4},
		{Code: load, K: offsetNumber},
		{Code: x32, K: x32Bit, Jt: 2},
		{Code: above, K: newest, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
	}
}

// thenContinue turns a filter that allows by default into a first part: where
// it would allow, the program goes on behind it. Jumps are relative, so neither
// part changes otherwise.
func thenContinue(program []unix.SockFilter) []unix.SockFilter {
	for i := range program {
		in := &program[i]
		if in.Code == unix.BPF_RET|unix.BPF_K && in.K == unix.SECCOMP_RET_ALLOW {
			*in = unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JA, K: uint32(len(program) - i - 1)}
		}
	}
	return program
}

func encode(program []unix.SockFilter) []byte {
	raw := make([]byte, 0, len(program)*instructionBytes)
	for _, in := range program {
		raw = binary.NativeEndian.AppendUint16(raw, in.Code)
		raw = append(raw, in.Jt, in.Jf)
		raw = binary.NativeEndian.AppendUint32(raw, in.K)
	}
	return raw
}

func decode(raw []byte) []unix.SockFilter {
	program := make([]unix.SockFilter, 0, len(raw)/instructionBytes)
	for ; len(raw) >= instructionBytes; raw = raw[instructionBytes:] {
		program = append(program, unix.SockFilter{
			Code: binary.NativeEndian.Uint16(raw), Jt: raw[2], Jf: raw[3],
			K: binary.NativeEndian.Uint32(raw[4:]),
		})
	}
	return program
}
