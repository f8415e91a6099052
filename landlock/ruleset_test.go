package landlock

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestZeroRulesetPermitsNoFile(t *testing.T) {
	asEachUser(t, func(t *testing.T, uid int) {
		for _, op := range []string{"read", "list", "create", "unlink", "read out"} {
			tr := trial{Op: op, Dir: newTree(t, uid)}
			if got := tr.run(t, uid); got != "EACCES" {
				t.Errorf("%s: %s, want EACCES", op, got)
			}
		}
	})
}

func TestRuleOnAFileCarriesFileRightsOnly(t *testing.T) {
	asEachUser(t, func(t *testing.T, uid int) {
		for _, plan := range []bool{false, true} {
			for _, tt := range []struct{ op, want string }{
				{"read", "ok"}, {"write", "ok"}, {"truncate", "ok"},
				{"list", "EACCES"}, {"unlink", "EACCES"}, {"create", "EACCES"}, {"read out", "EACCES"},
			} {
				tr := trial{Op: tt.op, Dir: newTree(t, uid), FromPlan: plan}
				tr.Ruleset.Paths = []PathRule{{Path: tr.in("file"), Access: ReadExec | Write}}
				if got := tr.run(t, uid); got != tt.want {
					t.Errorf("%s (plan %v): %s, want %s", tt.op, plan, got, tt.want)
				}
			}
		}
	})
}

func TestRuleOnALinkGrantsItsTarget(t *testing.T) {
	asEachUser(t, func(t *testing.T, uid int) {
		root := newTree(t, uid)
		in := filepath.Join(root, "in")
		must(t, os.Symlink("in", filepath.Join(root, "one")))
		must(t, os.Symlink(filepath.Join(root, "one"), filepath.Join(root, "two")))
		must(t, os.Symlink("../in/file", filepath.Join(root, "out", "link")))
		for _, tt := range []struct{ grant, open, want string }{
			{"two", "two/file", "ok"},
			{"two", "one/file", "ok"},
			{"two", "in/file", "ok"},
			{"one", "two/a/f", "ok"},
			{"in", "two/file", "ok"},
			{"two", "out/file", "EACCES"},
			{"out", "out/link", "EACCES"}, // a link inside a grant leads nowhere else
			{"out/link", "in/file", "ok"},
			{"out/link", "out/link", "ok"},
			{"out/link", "in/a/f", "EACCES"},
		} {
			tr := trial{Op: "open", Dir: root, Args: []string{filepath.Join(root, tt.open)}}
			tr.Ruleset.Paths = []PathRule{{Path: filepath.Join(root, tt.grant), Access: Read}}
			if got := tr.run(t, uid); got != tt.want {
				t.Errorf("grant %s, open %s: %s, want %s", tt.grant, tt.open, got, tt.want)
			}
		}
		two := filepath.Join(root, "two")
		rules := []PathRule{{Path: two}, {Path: in + "/"}, {Path: root + "/no"}, {Path: two, Kind: Dir}}
		if got, want := (Ruleset{Paths: rules}).Links(), []Link{{two, in}}; !reflect.DeepEqual(got, want) {
			t.Errorf("Links = %q, want %q", got, want)
		}
	})
}

func TestOddNames(t *testing.T) {
	asEachUser(t, func(t *testing.T, uid int) {
		root := newTree(t, uid)
		for _, name := range []string{
			" a b ", "new\nline", "tab\t", "\xff\xfe", `quote"'\`, "-rf", "*", "(deleted)", " (deleted)",
			"é日本", strings.Repeat("x", 255),
		} {
			dir := filepath.Join(root, "in", name)
			must(t, os.Mkdir(dir, 0o755))
			must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
			rule := PathRule{Path: dir, Access: Read}
			if links := (Ruleset{Paths: []PathRule{rule}}).Links(); len(links) > 0 {
				t.Errorf("%q: links %q", name, links)
			}
			// JSON can not carry every name, so this trial binds to a link to it.
			link := filepath.Join(root, "link")
			must(t, os.Symlink(dir, link))
			must(t, os.Symlink(filepath.Join(dir, name), filepath.Join(root, "file")))
			for _, tt := range []struct{ open, want string }{{"file", "ok"}, {"in/file", "EACCES"}} {
				tr := trial{Op: "open", Args: []string{filepath.Join(root, tt.open)}}
				tr.Ruleset.Paths = []PathRule{{Path: link, Access: Read}}
				if got := tr.run(t, uid); got != tt.want {
					t.Errorf("%q: open %s: %s, want %s", name, tt.open, got, tt.want)
				}
			}
			must(t, errors.Join(os.Remove(link), os.Remove(filepath.Join(root, "file"))))
		}
	})
}

func TestPathsThatCanNotBeReached(t *testing.T) {
	needLandlock(t)
	root := newTree(t, os.Getuid())
	loop := filepath.Join(root, "loop")
	must(t, os.Symlink("loop", loop))
	for _, tt := range []struct {
		name, path string
		errno      error
	}{
		{"missing", filepath.Join(root, "no\nsuch"), unix.ENOENT},
		{"beneath a file", filepath.Join(root, "in/file/x"), unix.ENOTDIR},
		{"a loop of links", loop, unix.ELOOP},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rule := PathRule{Path: tt.path, Access: Read}
			_, _, _, err := Ruleset{Paths: []PathRule{rule}}.Open(Probe())
			if !errors.Is(err, tt.errno) || !strings.Contains(err.Error(), fmt.Sprintf("%q", tt.path)) {
				t.Errorf("Open: %v; want %v naming the path", err, tt.errno)
			}
			rule.Optional = true
			fd, _, e, err := Ruleset{Paths: []PathRule{rule}}.Open(Probe())
			if err != nil || !reflect.DeepEqual(e.Skipped, []string{tt.path}) {
				t.Fatalf("optional: Skipped = %q, %v", e.Skipped, err)
			}
			unix.Close(fd)
		})
	}
}

func TestPipesAndNamespacesTakeNoRule(t *testing.T) {
	needLandlock(t)
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	defer w.Close()
	for _, path := range []string{fmt.Sprintf("/proc/self/fd/%d", r.Fd()), "/proc/self/ns/net"} {
		_, _, _, err := Ruleset{Paths: []PathRule{{Path: path, Access: Read}}}.Open(Probe())
		if !errors.Is(err, unix.EBADFD) || !strings.Contains(err.Error(), "takes no rule") || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v; want a reason that names it", path, err)
		}
	}
}

func TestRulesThatCanNotBeMeant(t *testing.T) {
	s := Support{ABI: 7, Errata: 7}
	for _, tt := range []struct {
		name string
		rs   Ruleset
	}{
		{"relative path", Ruleset{Paths: []PathRule{{Path: "usr", Access: Read, Optional: true}}}},
		{"empty path", Ruleset{Paths: []PathRule{{Access: Read, Optional: true}}}},
		{"NUL in the path", Ruleset{Paths: []PathRule{{Path: "/usr\x00/x", Access: Read, Optional: true}}}},
		{"unknown right", Ruleset{Paths: []PathRule{{Path: "/usr", Access: 1 << 40}}}},
		{"ports without restriction", Ruleset{ConnectTCP: []uint16{443}}},
		{"scopes only, with a path", Ruleset{ScopesOnly: true, ScopeSignal: true, Paths: []PathRule{{Path: "/usr", Access: Read}}}},
		{"scopes only, with TCP", Ruleset{ScopesOnly: true, ScopeSignal: true, RestrictTCP: true}},
		{"scopes only, without one", Ruleset{ScopesOnly: true}},
	} {
		if _, _, err := tt.rs.Plan(s); err == nil {
			t.Errorf("%s: no error", tt.name)
		}
	}
}

func TestNothingToEnforceIsAnError(t *testing.T) {
	needLandlock(t)
	// go-landlock answers -1 without an error to this.
	if fd, err := (Plan{}).open(); err == nil || fd != -1 {
		t.Errorf("open of an empty plan = %d, %v", fd, err)
	}
	if err := Restrict(-1, 0); err == nil {
		t.Error("Restrict(-1) succeeds")
	}
	for _, s := range []Support{{}, {ABI: 7, Errata: 7, Err: unix.ENOSYS}} {
		if fd, _, _, err := (Ruleset{}).Open(s); !errors.Is(err, ErrNotSupported) || fd != -1 {
			t.Errorf("Open(%+v) = %d, %v; want -1, ErrNotSupported", s, fd, err)
		}
	}
	if fd, _, _, err := (Ruleset{}).Open(Support{ABI: 11, Errata: 7}); err == nil && Probe().ABI < 9 {
		t.Errorf("Open for a newer kernel than this = %d, want an error", fd)
	}
}

func TestDescriptorIsClosedOnExec(t *testing.T) {
	needLandlock(t)
	fd, _, _, err := Ruleset{}.Open(Probe())
	must(t, err)
	defer unix.Close(fd)
	if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("F_GETFD = %#x, %v; want FD_CLOEXEC", flags, err)
	}
}

func TestRuleStaysWithItsInode(t *testing.T) {
	asEachUser(t, func(t *testing.T, uid int) {
		tr := trial{Op: "replaced", Dir: newTree(t, uid), Free: true} // binds itself
		must(t, os.Chmod(tr.Dir, 0o777))
		tr.Ruleset.Paths = []PathRule{{Path: tr.in(""), Access: Read}}
		if got := tr.run(t, uid); got != "EACCES" {
			t.Errorf("the new directory: %s, want EACCES", got)
		}
	})
}

func TestSeventeenthLayerIsAClearError(t *testing.T) {
	asEachUser(t, func(t *testing.T, uid int) {
		tr := trial{Op: "17 layers", Free: true}
		want := fmt.Sprintf("%d layers, then: landlock: %v", MaxLayers, ErrTooManyLayers)
		if got := tr.run(t, uid); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestBehindAFilterThatRefusesLandlock(t *testing.T) {
	asEachUser(t, func(t *testing.T, uid int) {
		for _, call := range []int{
			0, unix.SYS_LANDLOCK_CREATE_RULESET, unix.SYS_LANDLOCK_ADD_RULE, unix.SYS_LANDLOCK_RESTRICT_SELF,
		} {
			for _, errno := range []syscall.Errno{unix.ENOSYS, unix.EOPNOTSUPP} {
				tr := trial{Op: "filtered", Free: true, Args: []string{fmt.Sprint(call), fmt.Sprint(int(errno))}}
				if got, want := tr.run(t, uid), unix.ErrnoName(errno); got != want {
					t.Errorf("call %d answers %s: Probe().Err = %s", call, want, got)
				}
			}
		}
	})
}

func TestTCPByPort(t *testing.T) {
	needABI(t, 4)
	listen := func() string {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		must(t, err)
		t.Cleanup(func() { l.Close() })
		_, port, err := net.SplitHostPort(l.Addr().String())
		must(t, err)
		return port
	}
	yes, no := listen(), listen()
	free := func() string { // a port that nobody has now
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		must(t, err)
		defer l.Close()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		return port
	}()
	port := func(s string) []uint16 { return []uint16{uint16(number(s))} }
	asEachUser(t, func(t *testing.T, uid int) {
		for _, tt := range []struct {
			name, op, port string
			rs             Ruleset
			want           string
		}{
			{"granted", "connect tcp", yes, Ruleset{RestrictTCP: true, ConnectTCP: port(yes)}, "ok"},
			{"another", "connect tcp", no, Ruleset{RestrictTCP: true, ConnectTCP: port(yes)}, "EACCES"},
			{"bind is not connect", "connect tcp", yes, Ruleset{RestrictTCP: true, BindTCP: port(yes)}, "EACCES"},
			{"both", "connect tcp", yes, Ruleset{RestrictTCP: true, BindTCP: port(yes), ConnectTCP: port(yes)}, "ok"},
			{"none", "connect tcp", yes, Ruleset{RestrictTCP: true}, "EACCES"},
			{"not restricted", "connect tcp", no, Ruleset{}, "ok"},
			{"granted", "bind tcp", free, Ruleset{RestrictTCP: true, BindTCP: port(free)}, "ok"},
			{"another", "bind tcp", free, Ruleset{RestrictTCP: true, BindTCP: port(no)}, "EACCES"},
			{"none", "bind tcp", "0", Ruleset{RestrictTCP: true}, "EACCES"},
		} {
			for _, plan := range []bool{false, true} {
				tr := trial{Op: tt.op, Args: []string{tt.port}, Ruleset: tt.rs, FromPlan: plan}
				if got := tr.run(t, uid); got != tt.want {
					t.Errorf("%s, %s (plan %v): %s, want %s", tt.op, tt.name, plan, got, tt.want)
				}
			}
		}
	})
}

func TestScopes(t *testing.T) {
	needABI(t, 6)
	asEachUser(t, func(t *testing.T, uid int) {
		outside := startSleep(t, uid)
		name := listenAbstract(t)
		both := Ruleset{ScopeSignal: true, ScopeAbstractUnix: true, Paths: system()}
		only := Ruleset{ScopesOnly: true, ScopeSignal: true}
		for _, tt := range []struct {
			name, op, arg string
			rs            Ruleset
			want          string
		}{
			{"held", "signal", outside, both, "EPERM"},
			{"not asked for", "signal", outside, Ruleset{ScopeAbstractUnix: true}, "ok"},
			{"own child", "signal child", "", both, "ok"},
			{"held", "abstract", name, both, "EPERM"},
			{"not asked for", "abstract", name, Ruleset{ScopeSignal: true}, "ok"},
			{"own server", "abstract child", "", both, "ok"},
			{"scopes only", "signal", outside, only, "EPERM"},
			{"scopes only leaves files alone", "open", "/etc/passwd", only, "ok"},
			{"scopes only leaves the other scope alone", "abstract", name, only, "ok"},
		} {
			for _, plan := range []bool{false, true} {
				tr := trial{Op: tt.op, Args: []string{tt.arg}, Ruleset: tt.rs, FromPlan: plan}
				if got := tr.run(t, uid); got != tt.want {
					t.Errorf("%s, %s (plan %v): %s, want %s", tt.op, tt.name, plan, got, tt.want)
				}
			}
		}
		for op, arg := range map[string]string{"signal": outside, "abstract": name} {
			tr := trial{Op: op, Args: []string{arg}, Free: true}
			if got := tr.run(t, uid); got != "ok" {
				t.Errorf("%s unconfined: %s", op, got)
			}
		}
	})
}

func startSleep(t *testing.T, uid int) (pid string) {
	t.Helper()
	cmd := exec.Command("sleep", "300")
	if uid != os.Getuid() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
	must(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return fmt.Sprint(cmd.Process.Pid)
}

func listenAbstract(t *testing.T) (name string) {
	t.Helper()
	name = fmt.Sprintf("landlock-test-%d-%s", os.Getpid(), t.Name())
	l, err := net.Listen("unix", "@"+name)
	must(t, err)
	t.Cleanup(func() { l.Close() })
	return name
}

func TestPlanAsData(t *testing.T) {
	rs := Ruleset{
		Paths: []PathRule{
			{Path: "/view/tmp", Access: ReadExec | Write, Kind: Dir},
			{Path: "/view/file", Access: ReadExec | Write, Kind: File},
			{Path: "/view/dev/null", Access: Device, Kind: File},
			{Path: "/view/listed", Access: ReadDir, Kind: File}, // nothing left of it
		},
		RestrictTCP: true, ConnectTCP: []uint16{443, 80}, BindTCP: []uint16{80},
		ScopeSignal: true, ScopeAbstractUnix: true, LogExec: true,
	}
	got, e, err := rs.Plan(Support{ABI: 7, Errata: 7})
	want := Plan{
		HandledFS: 1<<16 - 1, HandledNet: 3, Scoped: 3, Flags: 2,
		Rules: []RuleData{
			{"/view/tmp", ReadExec | Write, true},
			{"/view/file", ReadFile | Execute | WriteFile | Truncate, false},
			{"/view/dev/null", ReadFile | WriteFile | IoctlDev, false},
		},
		Ports: []PortData{{443, netConnect}, {80, netConnect | netBind}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("Plan =\n %+v, %v; want\n %+v", got, err, want)
	}
	wantE := Enforced{ABI: 7, Errata: 7, Files: 1<<16 - 1, TCP: true, ScopeSignal: true, ScopeAbstractUnix: true, Log: true}
	if !reflect.DeepEqual(e, wantE) {
		t.Errorf("Enforced = %+v, want %+v", e, wantE)
	}
}
