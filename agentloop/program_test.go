package agentloop

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"sandboxd/policy"
	"sandboxd/test/require"
)

func TestProgramLookup(t *testing.T) {
	h := newHost(t)
	h.file("home/u/w/bin/tool", "#!/bin/sh\necho\n", 0o755)
	h.file("home/u/w/bin/plain", "echo no first line\n", 0o755)
	h.file("home/u/w/bin/data", "x", 0o644)
	h.file("home/u/w/bin/lost", "#!"+h.path("home/u/interp")+"\n", 0o755)
	h.file("home/u/interp", "#!/bin/sh\n", 0o755)
	h.dir("home/u/w/bin/folder")
	h.file("home/u/w/late/data", "#!/bin/sh\n", 0o755)
	h.file("hidden/tool2", "#!/bin/sh\n", 0o755)
	h.file("home/u/mine", "#!/bin/sh\n", 0o755)
	h.link("tool", "home/u/w/bin/alias")
	h.Environ = []string{"PATH=" + h.path("home/u/w/bin") + "::late:/usr/bin:/bin", "HOME=" + h.Home}
	w := h.Cwd
	for _, tt := range []struct {
		name, arg, path string
		code            int
		says, hint      string
	}{
		{name: "on PATH", arg: "sh", path: "/usr/bin/sh"},
		{name: "first on PATH", arg: "tool", path: w + "/bin/tool"},
		{name: "a link keeps its name", arg: "alias", path: w + "/bin/alias"},
		{name: "relative", arg: "./bin/tool", path: w + "/bin/tool"},
		{name: "absolute", arg: "/bin/sh", path: "/bin/sh"},
		{name: "not executable here, executable further on", arg: "data", path: w + "/late/data"},
		{name: "no first line: by the shell", arg: "plain", path: "/bin/sh"},
		{name: "not found", arg: "no-such-thing", code: 127, says: "not found"},
		{name: "not found by path", arg: "./no-such-thing", code: 127, says: "not found"},
		{name: "a directory", arg: "folder", code: 126, says: "is a directory"},
		{name: "a directory by path", arg: "/usr", code: 126, says: "is a directory"},
		{name: "not executable", arg: "./bin/data", code: 126, says: "not executable", hint: "chmod"},
		{name: "outside of the view", arg: h.path("hidden/tool2"), code: 127, says: "not in view", hint: "--ro " + h.path("hidden")},
		{name: "in the real home", arg: h.path("home/u/mine"), code: 127, says: "not in view", hint: "--ro"},
		{name: "its interpreter is outside", arg: "lost", code: 126, says: "interpreter"},
	} {
		for _, mount := range []bool{true, false} {
			t.Run(tt.name, func(t *testing.T) {
				s, r, err := Build(policy.Grant{}, h.Caller, HostView{MountView: mount}, []string{tt.arg, "a b"})
				defer r.Cleanup()
				if tt.code == 0 {
					if err != nil || s.Path != tt.path {
						t.Fatalf("path %q, %v; want %q", s.Path, err, tt.path)
					}
					if want := []string{tt.arg, "a b"}; tt.arg != "plain" && !slices.Equal(s.Argv, want) {
						t.Errorf("argv %q, want %q", s.Argv, want)
					}
					if want := []string{"/bin/sh", w + "/bin/plain", "a b"}; tt.arg == "plain" && !slices.Equal(s.Argv, want) {
						t.Errorf("argv %q, want %q", s.Argv, want)
					}
					return
				}
				pe, ok := errors.AsType[*ProgramError](err)
				if !ok || pe.ExitCode() != tt.code || !strings.Contains(err.Error(), tt.says) || !strings.Contains(pe.Hint, tt.hint) {
					t.Errorf("error %v (hint %q), want status %d saying %q with hint %q", err, hintOf(err), tt.code, tt.says, tt.hint)
				}
			})
		}
	}
	for _, argv := range [][]string{nil, {""}, {"a\x00b"}} {
		_, _, err := Build(policy.Grant{}, h.Caller, HostView{}, argv)
		if _, ok := errors.AsType[*ProgramError](err); !ok {
			t.Errorf("argv %q: %v", argv, err)
		}
	}
}

func hintOf(err error) string {
	if pe, ok := errors.AsType[*ProgramError](err); ok {
		return pe.Hint
	}
	return ""
}

func TestProgramThatTheUserCannotReachIsPassedOver(t *testing.T) {
	needRoot(t)
	h := newHost(t)
	h.file("locked/bin/sh", "#!/bin/sh\n", 0o755)
	if err := os.Chmod(h.path("locked"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(h.Cwd, 1000, 1000); err != nil {
		t.Fatal(err)
	}
	h.Environ = []string{"PATH=" + h.path("locked/bin") + ":/usr/bin", "HOME=" + h.Home}
	s, r, err := Build(policy.Grant{}, h.Caller, HostView{}, []string{"sh"})
	defer dropSharedHome(t, r)
	if err != nil || s.Path != "/usr/bin/sh" {
		t.Errorf("path %q, %v; uid 1000 cannot enter the first directory of PATH", s.Path, err)
	}
}

func TestELFLoader(t *testing.T) {
	head, err := os.ReadFile("/bin/true")
	if err != nil {
		require.Missing(t, require.Host, err)
	}
	if got := elfLoader(head[:4096]); !strings.Contains(got, "ld-") && !strings.Contains(got, "ld.so") {
		t.Errorf("loader of /bin/true is %q", got)
	}
}

func TestProgramWhoseLoaderIsOutsideIsRefused(t *testing.T) {
	program, err := os.ReadFile("/bin/true")
	if err != nil {
		require.Missing(t, require.Host, err)
	}
	loader := elfLoader(program[:4096])
	h := newHost(t)
	elsewhere := "/gone" + loader[5:] // of equal length, so that no offset moves
	h.file("home/u/w/lost", strings.Replace(string(program), loader, elsewhere, 1), 0o755)
	h.file("home/u/w/fine", string(program), 0o755)
	_, _, err = Build(policy.Grant{}, h.Caller, HostView{}, []string{"./lost"})
	if pe, ok := errors.AsType[*ProgramError](err); !ok || pe.ExitCode() != 126 || !strings.Contains(err.Error(), elsewhere) {
		t.Errorf("error %v, want status 126 that names %s", err, elsewhere)
	}
	if _, _, err := Build(policy.Grant{}, h.Caller, HostView{}, []string{"./fine"}); err != nil {
		t.Errorf("the untouched copy: %v", err)
	}
}

func FuzzELFLoader(f *testing.F) {
	if head, err := os.ReadFile("/bin/true"); err == nil {
		f.Add(head[:min(len(head), 4096)])
	}
	f.Add([]byte("\x7fELF\x02\x01"))
	f.Fuzz(func(_ *testing.T, head []byte) { elfLoader(head) })
}

func TestShebang(t *testing.T) {
	for _, tt := range []struct{ head, interpreter, argument string }{
		{"#!/bin/sh\n", "/bin/sh", ""}, {"#! /usr/bin/env  -S a b \nx", "/usr/bin/env", "-S a b"}, {"#!/bin/sh", "/bin/sh", ""},
		{"#!\n", "", ""}, {"# x", "", ""}, {"", "", ""}, {"#!/bin/sh\r\n", "/bin/sh", ""},
	} {
		if i, a := shebang([]byte(tt.head)); i != tt.interpreter || a != tt.argument {
			t.Errorf("shebang(%q) = %q, %q", tt.head, i, a)
		}
	}
}
