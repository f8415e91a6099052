package seccomp

import (
	"fmt"
	"io"
	"os"
	"syscall"

	libseccomp "github.com/seccomp/libseccomp-golang"
	"golang.org/x/sys/unix"
)

// Filter is a compiled profile.
type Filter struct {
	// BPF is an array of struct sock_filter (8 bytes each, native byte order)
	// for seccomp(SECCOMP_SET_MODE_FILTER).
	BPF []byte
	// Unknown lists calls of the profile that this libseccomp has no number
	// for although the architecture may have them. They are not allowed: the
	// filter answers them with ENOSYS where their number is above the newest
	// one libseccomp knows, else with EPERM. To be shown to people.
	Unknown []string
	// Arch is "amd64" or "arm64".
	Arch string
}

// Compile makes the filter for an architecture, named as in GOARCH: "amd64" or
// "arm64". It takes some milliseconds; see [Cached]. The outcome depends on the
// profile, the options and libseccomp's version, not on the running kernel.
// Calls of any other ABI, 32-bit and x32 ones included, end the process.
func (p Profile) Compile(arch string, o Options) (Filter, error) {
	m, err := machineOf(arch)
	if err != nil {
		return Filter{}, err
	}
	f := Filter{Arch: arch}
	screen, err := m.build(libseccomp.ActAllow, func(b *builder) {
		b.add(p.Refuse, o, refuseAction())
	})
	if err != nil {
		return Filter{}, fmt.Errorf("profile %q: refuse list: %w", p.Name, err)
	}
	allow, err := m.build(refuseAction(), func(b *builder) {
		b.add(p.Allow, o, libseccomp.ActAllow)
		for _, call := range p.Missing {
			b.rule(call, libseccomp.ActErrno.SetReturnCode(int16(unix.ENOSYS)), nil)
		}
		f.Unknown = b.unknown
	})
	if err != nil {
		return Filter{}, fmt.Errorf("profile %q: allow list: %w", p.Name, err)
	}
	newest := min(p.Newest, m.newestKnown(p.Newest))
	program := m.prologue(newest)
	program = append(program, thenContinue(screen)...)
	program = append(program, allow...)
	if len(program) > maxInstructions {
		return Filter{}, fmt.Errorf("profile %q: %d instructions, the kernel takes %d", p.Name, len(program), maxInstructions)
	}
	if err := p.verify(program, m, o, newest); err != nil {
		return Filter{}, fmt.Errorf("profile %q: %w", p.Name, err)
	}
	f.BPF = encode(program)
	return f, nil
}

func refuseAction() libseccomp.ScmpAction {
	return libseccomp.ActErrno.SetReturnCode(int16(unix.EPERM))
}

// machine is an architecture we compile for.
type machine struct {
	arch  libseccomp.ScmpArch
	audit uint32 // AUDIT_ARCH_* of linux/audit.h, as in struct seccomp_data
}

func machineOf(arch string) (machine, error) {
	switch arch {
	case "amd64":
		return machine{libseccomp.ArchAMD64, unix.AUDIT_ARCH_X86_64}, nil
	case "arm64":
		return machine{libseccomp.ArchARM64, unix.AUDIT_ARCH_AARCH64}, nil
	}
	return machine{}, fmt.Errorf("no seccomp filter for architecture %q (amd64, arm64)", arch)
}

// newestKnown returns the highest number up to limit that libseccomp has a
// name for.
func (m machine) newestKnown(limit uint32) uint32 {
	for n := limit; n > 0; n-- {
		if _, err := libseccomp.ScmpSyscall(n).GetNameByArch(m.arch); err == nil {
			return n
		}
	}
	return 0
}

// build makes one libseccomp filter and returns its instructions.
func (m machine) build(otherwise libseccomp.ScmpAction, fill func(*builder)) ([]unix.SockFilter, error) {
	lib, err := newLibFilter(m.arch, otherwise)
	if err != nil {
		return nil, err
	}
	defer lib.Release()
	b := &builder{machine: m, filter: lib, priority: 255}
	fill(b)
	if b.err != nil {
		return nil, b.err
	}
	return export(lib)
}

// newLibFilter returns an empty filter for one architecture alone, in which
// calls of other ABIs end the process.
func newLibFilter(arch libseccomp.ScmpArch, otherwise libseccomp.ScmpAction) (*libseccomp.ScmpFilter, error) {
	// libseccomp asks the running kernel what it can do and refuses the rest.
	// Ending the process instead of the thread is level 3 (kernel 4.14, far
	// below Landlock's 5.13); the answer must not depend on an outer filter
	// that hides seccomp(2).
	if api, err := libseccomp.GetAPI(); err != nil || api < 3 {
		if err := libseccomp.SetAPI(3); err != nil {
			return nil, fmt.Errorf("libseccomp API level 3: %w", err)
		}
	}
	lib, err := libseccomp.NewFilter(otherwise)
	if err != nil {
		return nil, err
	}
	err = func() error {
		native, err := libseccomp.GetNativeArch()
		if err != nil {
			return err
		}
		if native != arch {
			if err := lib.AddArch(arch); err != nil {
				return err
			}
			if err := lib.RemoveArch(native); err != nil {
				return err
			}
		}
		return lib.SetBadArchAction(libseccomp.ActKillProcess)
	}()
	if err != nil {
		lib.Release()
		return nil, err
	}
	return lib, nil
}

// builder adds rules to one filter. After an error it does nothing more.
type builder struct {
	machine  machine
	filter   *libseccomp.ScmpFilter
	priority uint8 // for the next call; the highest is tested first
	unknown  []string
	err      error
}

func (b *builder) add(rules []Rule, o Options, action libseccomp.ScmpAction) {
	order, when := alternatives(rules, o)
	for _, call := range order {
		for _, conditions := range when[call] {
			b.rule(call, action, conditions)
		}
	}
}

func (b *builder) rule(call string, action libseccomp.ScmpAction, when []Condition) {
	if b.err != nil {
		return
	}
	// libseccomp takes the number of the machine it runs on, even for a filter
	// of another architecture, and translates it.
	native, err := libseccomp.GetSyscallFromName(call)
	if err != nil {
		if n := len(b.unknown); n == 0 || b.unknown[n-1] != call {
			b.unknown = append(b.unknown, call)
		}
		return
	}
	if number, err := libseccomp.GetSyscallFromNameByArch(call, b.machine.arch); err != nil || number < 0 {
		return // known, but this architecture lacks it
	}
	if b.err = b.insert(native, action, when); b.err != nil {
		b.err = fmt.Errorf("%s: %w", call, b.err)
	}
}

func (b *builder) insert(number libseccomp.ScmpSyscall, action libseccomp.ScmpAction, when []Condition) error {
	if err := b.filter.SetSyscallPriority(number, b.priority); err != nil {
		return err
	}
	b.priority = max(b.priority, 1) - 1
	if len(when) == 0 {
		return b.filter.AddRuleExact(number, action)
	}
	conditions := make([]libseccomp.ScmpCondition, len(when))
	for i, c := range when {
		var err error
		conditions[i], err = libseccomp.MakeCondition(uint(c.Arg), libseccomp.CompareMaskedEqual, c.Mask, c.Value)
		if err != nil {
			return err
		}
	}
	return b.filter.AddRuleConditionalExact(number, action, conditions)
}

// export goes through a memory file: libseccomp 2.5 writes to a descriptor only,
// and a pipe could fill up.
func export(lib *libseccomp.ScmpFilter) ([]unix.SockFilter, error) {
	fd, err := unix.MemfdCreate("seccomp", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	file := os.NewFile(uintptr(fd), "seccomp")
	defer file.Close()
	if err := lib.ExportBPF(file); err != nil {
		return nil, err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(file)
	if err != nil {
		return nil, err
	}
	if len(raw) == 0 || len(raw)%instructionBytes != 0 {
		return nil, fmt.Errorf("libseccomp exported %d bytes: %w", len(raw), syscall.EINVAL)
	}
	return decode(raw), nil
}
