package seccomp

import (
	"bufio"
	"encoding/binary"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// numbers maps a call's name to its number for one architecture, from a table
// that does not come from libseccomp.
type numbers map[string]uint32

func loadNumbers(t testing.TB, arch string) numbers {
	t.Helper()
	file, err := os.Open("testdata/syscalls.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	column := map[string]int{"amd64": 1, "arm64": 2}[arch]
	table := numbers{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) != 3 || fields[0] == "#" || fields[column] == "-" {
			continue
		}
		n, err := strconv.ParseUint(fields[column], 10, 32)
		if err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		table[fields[0]] = uint32(n)
	}
	if len(table) < 300 {
		t.Fatalf("only %d calls for %s", len(table), arch)
	}
	return table
}

// machineCode runs a compiled filter as the kernel does.
type machineCode struct{ vm *bpf.VM }

func interpret(t testing.TB, f Filter) machineCode {
	t.Helper()
	var program []bpf.Instruction
	for _, in := range decode(f.BPF) {
		program = append(program, bpf.RawInstruction{Op: in.Code, Jt: in.Jt, Jf: in.Jf, K: in.K}.Disassemble())
	}
	vm, err := bpf.NewVM(program)
	if err != nil {
		t.Fatalf("compiled filter is not valid BPF: %v", err)
	}
	return machineCode{vm}
}

// run returns the SECCOMP_RET_* value. The kernel reads seccomp_data as native
// words, the interpreter reads big endian ones, so each word is laid out for it
// where a little endian kernel has it.
func (m machineCode) run(t testing.TB, audit, number uint32, args [6]uint64) uint32 {
	t.Helper()
	data := make([]byte, 0, 64)
	data = binary.BigEndian.AppendUint32(data, number)
	data = binary.BigEndian.AppendUint32(data, audit)
	data = binary.BigEndian.AppendUint64(data, 0x7f0000001000) // instruction pointer
	for _, a := range args {
		data = binary.BigEndian.AppendUint32(data, uint32(a))
		data = binary.BigEndian.AppendUint32(data, uint32(a>>32))
	}
	got, err := m.vm.Run(data)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(got)
}

// The answers a filter of ours gives.
const (
	allowed  = uint32(unix.SECCOMP_RET_ALLOW)
	refused  = uint32(unix.SECCOMP_RET_ERRNO) | uint32(unix.EPERM)
	absent   = uint32(unix.SECCOMP_RET_ERRNO) | uint32(unix.ENOSYS)
	ended    = uint32(unix.SECCOMP_RET_KILL_PROCESS)
	i386     = uint32(unix.AUDIT_ARCH_I386)
	aarch32  = uint32(unix.AUDIT_ARCH_ARM)
	noNumber = ^uint32(0)
)

func compile(t testing.TB, profile, arch string, o Options) Filter {
	t.Helper()
	p, err := ByName(profile)
	if err != nil {
		t.Fatal(err)
	}
	f, err := p.Compile(arch, o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}
