package seccomp

import (
	"slices"
	"testing"

	libseccomp "github.com/seccomp/libseccomp-golang"
	"golang.org/x/sys/unix"
)

// TestCompileNoticesWrongFilter: the shape of rules that libseccomp 2.5.4
// compiles wrongly (a rule with fewer conditions beside longer ones) must not
// pass the check. A libseccomp without the fault compiles it to the rules' meaning.
func TestCompileNoticesWrongFilter(t *testing.T) {
	p, _ := ByName("default")
	p.Allow = slices.DeleteFunc(slices.Clone(p.Allow), func(r Rule) bool { return r.If == IfUnix })
	p.Allow = append(p.Allow, Rule{Calls: []string{"socket"}, When: []Condition{{0, word, unix.AF_UNIX}}})
	f, err := p.Compile("amd64", Options{Inet: true})
	major, minor, micro := libseccomp.GetLibraryVersion()
	switch {
	case err != nil:
		t.Logf("libseccomp %d.%d.%d: found: %v", major, minor, micro, err)
	case interpret(t, f).run(t, unix.AUDIT_ARCH_X86_64, 41, [6]uint64{unix.AF_INET, unix.SOCK_STREAM, 1}) != refused:
		t.Errorf("libseccomp %d.%d.%d: Compile returned a filter that allows a protocol no rule names", major, minor, micro)
	}
}

// TestVerifyFindsChangedInstructions spoils each comparison of the compiled
// filter in turn.
func TestVerifyFindsChangedInstructions(t *testing.T) {
	p, _ := ByName("default")
	m, _ := machineOf("amd64")
	o := Options{Inet: true, Unix: true}
	program := decode(compile(t, "default", "amd64", o).BPF)
	newest := newestNumber(t, "amd64", loadNumbers(t, "amd64"))
	if err := p.verify(program, m, o, newest); err != nil {
		t.Fatal(err)
	}
	var missed int
	found := map[uint16]int{}
	for i, in := range program {
		broken := slices.Clone(program)
		switch {
		case in.Code == unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K && in.Jt != in.Jf:
			broken[i].Jf = in.Jt // the comparison always holds
		case in.Code == unix.BPF_ALU|unix.BPF_AND|unix.BPF_K && in.K == 0:
			broken[i].K = 1 // the upper half of an int is looked at
		default:
			continue
		}
		if p.verify(broken, m, o, newest) != nil {
			found[in.Code]++
		} else {
			missed++
		}
	}
	// Calls without conditions and foreign ABIs are not verify's task.
	if found[unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K] < 350 || found[unix.BPF_ALU|unix.BPF_AND|unix.BPF_K] < 20 {
		t.Errorf("noticed %v changes by kind of instruction, missed %d", found, missed)
	}
	t.Logf("noticed %v, missed %d", found, missed)
}

func BenchmarkCompile(b *testing.B) {
	p, _ := ByName("default")
	for b.Loop() {
		if _, err := p.Compile("amd64", Options{Inet: true, Unix: true}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCached(b *testing.B) {
	dir := b.TempDir()
	for b.Loop() {
		p, _ := ByName("default")
		if _, err := Cached(dir, p, "amd64", Options{Inet: true}); err != nil {
			b.Fatal(err)
		}
	}
}
