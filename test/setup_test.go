package test

import (
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"sandboxd/test/require"
)

// A machine of the set-up script: a PATH with real basic tools and fakes.
type machine struct {
	bin, log string
}

// newMachine makes a PATH that has what a fresh machine has. tools are more
// programs that are there; they do nothing.
func newMachine(t *testing.T, tools ...string) machine {
	t.Helper()
	dir := t.TempDir()
	m := machine{bin: dir + "/bin", log: dir + "/log"}
	if err := os.MkdirAll(m.bin, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, real := range []string{"sh", "id", "env", "mktemp", "rm", "cat"} {
		path, err := osexec.LookPath(real)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(m.bin, real)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range tools {
		m.fake(t, name, "exit 0")
	}
	// t.TempDir is only for its owner; the script also runs as another user.
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(m.log, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(m.log, 0o666); err != nil {
		t.Fatal(err)
	}
	return m
}

// fake puts a shell script on the PATH.
func (m machine) fake(t *testing.T, name, body string) {
	t.Helper()
	text := "#!/bin/sh\n" + body + "\n"
	if err := os.WriteFile(filepath.Join(m.bin, name), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// setup runs the script as uid and returns its messages and whether it
// succeeded.
func (m machine) setup(t *testing.T, uid uint32, args ...string) (string, bool) {
	t.Helper()
	script, err := os.ReadFile("../.ci/setup")
	if err != nil {
		t.Fatal(err)
	}
	cmd := osexec.Command(filepath.Join(m.bin, "sh"), append([]string{"-c", string(script), "setup"}, args...)...)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + m.bin, "LOG=" + m.log, "BIN=" + m.bin}
	if os.Geteuid() != int(uid) {
		require.Root(t, "to become another user")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid, NoSetGroups: true}}
	}
	out, err := cmd.CombinedOutput()
	return string(out), err == nil
}

func (m machine) calls(t *testing.T) []string {
	t.Helper()
	log, err := os.ReadFile(m.log)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(log)), "\n")
}

const (
	noSeccomp  = `echo "cannot find -lseccomp" >&2; exit 1`
	logsItself = `echo "apt-get $*" >>"$LOG"`
)

func TestSetupInstallsNothingWhenAllIsThere(t *testing.T) {
	m := newMachine(t, "go", "gcc", "pkg-config")
	m.fake(t, "apt-get", logsItself)
	if out, ok := m.setup(t, 0, "build"); !ok || out != "" {
		t.Errorf("setup said %q, success %v", out, ok)
	}
	if got := m.calls(t); len(got) != 1 || got[0] != "" {
		t.Errorf("apt-get was called: %q", got)
	}
}

func TestSetupInstallsWhatIsMissing(t *testing.T) {
	m := newMachine(t, "go", "pkg-config")
	m.fake(t, "gcc", noSeccomp)
	m.fake(t, "apt-get", logsItself)
	if out, ok := m.setup(t, 0, "build"); !ok {
		t.Fatalf("setup failed: %s", out)
	}
	got := m.calls(t)
	if len(got) != 1 || !strings.Contains(got[0], " install ") || !strings.Contains(got[0], " libseccomp-dev") ||
		!strings.Contains(got[0], "DPkg::Lock::Timeout=120") || strings.Contains(got[0], " gcc") {
		t.Errorf("calls = %q, want one install of libseccomp-dev that waits for the lock", got)
	}
}

func TestSetupTakesFreshListsWhenInstallingFails(t *testing.T) {
	m := newMachine(t, "go", "gcc")
	m.fake(t, "apt-get", logsItself+`; case "$*" in *update*) echo x >"$BIN/updated";; *) test -e "$BIN/updated";; esac`)
	if out, ok := m.setup(t, 0, "build"); !ok {
		t.Fatalf("setup failed: %s", out)
	}
	got := m.calls(t)
	if len(got) != 3 || !strings.HasSuffix(got[1], " update") || !strings.HasSuffix(got[2], " pkg-config") {
		t.Errorf("calls = %q, want install, update, install", got)
	}
}

func TestSetupSaysWhatItCannotDo(t *testing.T) {
	for _, tt := range []struct {
		name  string
		tools []string
		apt   string
		uid   uint32
		want  []string
	}{
		{"no go", []string{"gcc", "pkg-config"}, logsItself, 0, []string{"error: go is not on PATH", "hint: install Go 1.26"}},
		{"no apt", []string{"go", "gcc"}, "", 0, []string{"error: missing: pkg-config", "hint: install them with"}},
		{"user without sudo", []string{"go", "gcc"}, logsItself, 1000, []string{"error: missing: pkg-config", "hint: as root: apt-get install pkg-config"}},
		{"apt fails", []string{"go", "gcc"}, "exit 100", 0, []string{"error: could not install: pkg-config", "hint: as root: apt-get update"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newMachine(t, tt.tools...)
			if tt.apt != "" {
				m.fake(t, "apt-get", tt.apt)
			}
			out, ok := m.setup(t, tt.uid, "build")
			if ok {
				t.Errorf("setup succeeded: %s", out)
			}
			for _, want := range tt.want {
				if !strings.Contains(out, want) {
					t.Errorf("setup said %q, want %q in it", out, want)
				}
			}
			if got := m.calls(t); got[0] != "" {
				t.Errorf("apt-get was called: %q", got)
			}
		})
	}
}

func TestSetupOfAUserTakesSudo(t *testing.T) {
	m := newMachine(t, "go", "gcc")
	m.fake(t, "apt-get", logsItself)
	m.fake(t, "sudo", `echo "sudo $*" >>"$LOG"`)
	if out, ok := m.setup(t, 1000, "build"); !ok {
		t.Fatalf("setup failed: %s", out)
	}
	// Standard input is no terminal here, so sudo may not ask for a password.
	if got := m.calls(t); len(got) != 1 || !strings.HasPrefix(got[0], "sudo -n env ") {
		t.Errorf("calls = %q, want one through sudo -n", got)
	}
}
