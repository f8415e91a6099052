package seccomp

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"sandboxd/test/require"
)

func TestProbeAgreesWithTheKernel(t *testing.T) {
	s := Probe()
	if s.Available != (s.Err == nil) || s.LibVersion == "" {
		t.Errorf("%+v", s)
	}
	requireSeccomp(t)
	// By doing: a filter of ours installs in a child.
	e := stage{dir: t.TempDir()}
	if errno, _ := try(t, "chmod 0755 and set-group-id", compile(t, "default", runtime.GOARCH, Options{}), os.Getuid(), e, nil); errno != 0 {
		t.Errorf("Available, but a child under a filter cannot chmod: %v", errno)
	}
	if s.API >= 5 != s.UserNotif {
		t.Errorf("UserNotif = %v, libseccomp's level is %d", s.UserNotif, s.API)
	}
}

// TestProbeBehindOuterFilter hides seccomp(2), as an outer sandbox may.
func TestProbeBehindOuterFilter(t *testing.T) {
	requireSeccomp(t)
	m, err := machineOf(runtime.GOARCH)
	if err != nil {
		require.Missing(t, require.Seccomp, err)
	}
	hidden := Filter{BPF: encode([]unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offsetArch},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: m.audit, Jf: 3},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offsetNumber},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_SECCOMP, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EACCES)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	})}
	e := stage{dir: t.TempDir()}
	errno, _ := try(t, "probe and compile", hidden, os.Getuid(), e, nil)
	if errno != 0 {
		t.Errorf("behind a filter that hides seccomp(2): %v", errno)
	}
}

// probeAndCompile is made behind that filter: Probe reports it, and a filter
// compiles all the same.
func probeAndCompile(stage) error {
	if s := Probe(); s.Available || s.UserNotif || s.Err == nil {
		return unix.EBADMSG
	}
	p, err := ByName("default")
	if err != nil {
		return err
	}
	_, err = p.Compile("arm64", Options{})
	return err
}
