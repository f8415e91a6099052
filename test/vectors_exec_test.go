package test

import (
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"sandboxd/test/require"
)

// execVectors run what must not run, or gain rights by running. The stand-in is
// the file "made", which the program in question makes: a copy of touch(1).
func execVectors() []vector {
	made := func(s *scene, _ result) bool { return exists(s.Work + "/made") }
	noExec := func(*scene) []string { return []string{"--no-exec-write"} }
	touch := func(places) error { return start("touch", "honest") }
	written := func(name string, do func(program string) error) vector {
		return vector{name: name, flags: noExec, refusedIn: "base", reached: made, honest: touch, attack: func(places) error {
			return errors.Join(copyTouch("program"), do("./program"))
		}}
	}
	mapped := func(_ *scene, r result) bool { return strings.Contains(r.Stdout, "mapped") }
	vs := []vector{
		written("run what was written", func(program string) error { return start(program, "made") }),
		written("run what was written by the loader", func(program string) error {
			loader, err := findLoader()
			return errors.Join(err, start(loader, program, "made"))
		}),
		{name: "run what was written to the temporary directory", flags: noExec, refusedIn: "base", reached: made, honest: touch, attack: func(places) error {
			program := os.TempDir() + "/program"
			return errors.Join(copyTouch(program), start(program, "made"))
		}},
		{name: "run what was written to the home", flags: noExec, refusedIn: "base", reached: made, honest: touch, attack: func(places) error {
			program := os.Getenv("HOME") + "/program"
			return errors.Join(copyTouch(program), start(program, "made"))
		}},
		{name: "run a memory file", flags: noExec, refusedIn: "base", reached: made, honest: touch, attack: func(places) error {
			fd, err := unix.MemfdCreate("program", 0)
			if err != nil {
				return err
			}
			text, err := os.ReadFile(touchPath())
			if err == nil {
				_, err = unix.Write(fd, text)
			}
			return errors.Join(err, start(fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), fd), "made"))
		}},
		{name: "run a program outside", reached: made, honest: touch,
			setup:  func(s *scene) { s.must(copyProgram(touchPath(), s.Out+"/program")); s.own(s.Out + "/program") },
			attack: func(p places) error { return start(p.Out+"/program", "made") }},
		{name: "run a program outside by the loader", reached: made, honest: touch,
			setup: func(s *scene) { s.must(copyProgram(touchPath(), s.Out+"/program")); s.own(s.Out + "/program") },
			attack: func(p places) error {
				loader, err := findLoader()
				return errors.Join(err, start(loader, p.Out+"/program", "made"))
			}},
	}
	for _, v := range []vector{
		{name: "map what was written executable", attack: func(places) error { return mapExecutable(unix.PROT_READ | unix.PROT_EXEC) }},
		{name: "make a mapping of what was written executable", attack: func(places) error { return mapExecutable(unix.PROT_READ) }},
	} {
		v.flags, v.refusedIn, v.reached, v.honest = noExec, "base", mapped, touch
		vs = append(vs, v)
	}
	return append(vs, rightsVectors()...)
}

// rightsVectors hold or gain more rights than the caller's files give.
func rightsVectors() []vector {
	granted := func(s *scene) []string { return []string{"--ro", s.Out} }
	honest := func(places) error { return start("id") }
	holds := func(set string) func(*scene, result) bool {
		return func(_ *scene, r result) bool {
			return strings.Contains(r.Stdout, set+":\t") && !strings.Contains(r.Stdout, set+":\t0000000000000000\n")
		}
	}
	capable := holds("CapEff")
	return []vector{
		{name: "run a set-user-id program", flags: granted, honest: honest,
			setup: func(s *scene) {
				owner := 0
				if s.UID == 0 {
					owner = 1000
				}
				s.copyID()
				s.must(errors.Join(os.Chown(s.Out+"/program", owner, owner), unix.Chmod(s.Out+"/program", 0o4755)))
			},
			attack: func(p places) error { return start(p.Out+"/program", "-u") },
			reached: func(s *scene, r result) bool {
				return strings.TrimSpace(r.Stdout) != fmt.Sprint(s.UID)
			}},
		{name: "run a program with file capabilities", flags: granted, honest: honest, reached: capable,
			setup: func(s *scene) {
				s.must(copyProgram(catPath(), s.Out+"/program"))
				// struct vfs_cap_data, version 2, effective: CAP_DAC_OVERRIDE and CAP_NET_RAW.
				value := []byte{1, 0, 0, 2, 2, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
				if err := unix.Setxattr(s.Out+"/program", "security.capability", value, 0); err != nil {
					require.Missing(s, require.Host, "no file capabilities here: ", err)
				}
			},
			attack: func(p places) error { return start(p.Out+"/program", "/proc/self/status") }},
		{name: "hold capabilities", reached: capable, rootOnly: true, honest: honest,
			attack: func(places) error { return show("/proc/self/status") }},
		{name: "hold permitted capabilities", reached: holds("CapPrm"), rootOnly: true, honest: honest,
			attack: func(places) error { return show("/proc/self/status") }},
		{name: "hold inheritable capabilities", reached: holds("CapInh"), honest: honest, rootOnly: true,
			attack: func(places) error { return show("/proc/self/status") }, caller: ambient},
		{name: "hold ambient capabilities", reached: holds("CapAmb"), honest: honest, rootOnly: true,
			attack: func(places) error { return show("/proc/self/status") }, caller: ambient},
		{name: "hold a bounding set", honest: honest, attack: func(places) error { return show("/proc/self/status") },
			open:    []gap{{tier: "base", uids: []int{1000}, part: "bounding set"}},
			reached: holds("CapBnd")},
		{name: "gain privileges by running", honest: honest, attack: func(places) error { return show("/proc/self/status") },
			reached: func(_ *scene, r result) bool { return strings.Contains(r.Stdout, "NoNewPrivs:\t0") }},
	}
}

// ambient lets a caller pass one capability on to what it starts.
func ambient(c *osexec.Cmd) { c.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_NET_RAW} }

// copyID puts a copy of id(1) into Out. A set-user-id program needs a file
// system that honours the bit.
func (s *scene) copyID() {
	s.Helper()
	s.must(copyProgram(findProgram("id"), s.Out+"/program"))
	var st unix.Statfs_t
	s.must(unix.Statfs(s.Out, &st))
	if st.Flags&unix.ST_NOSUID != 0 {
		require.Missing(s, require.Host, "set-user-id programs have no effect on this file system")
	}
	require.Root(s, "only root can make another user's program")
}

// findProgram is where a program of the system really lies.
func findProgram(name string) string {
	path, err := osexec.LookPath(name)
	if err != nil {
		return "/usr/bin/" + name
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

func touchPath() string { return findProgram("touch") }

func catPath() string { return findProgram("cat") }

func copyTouch(to string) error { return copyProgram(touchPath(), to) }

// findLoader is the dynamic loader of this machine.
func findLoader() (string, error) {
	for _, pattern := range []string{"/lib64/ld-linux-*.so.*", "/lib/ld-linux-*.so.*", "/lib/ld-musl-*.so.*"} {
		if found, err := filepath.Glob(pattern); err == nil && len(found) > 0 {
			return found[0], nil
		}
	}
	return "", errors.New("no dynamic loader found")
}

func start(argv ...string) error {
	c := osexec.Command(argv[0], argv[1:]...)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	return c.Run()
}

// mapExecutable maps a written file, first with prot, then executable.
func mapExecutable(prot int) error {
	if err := copyTouch("program"); err != nil {
		return err
	}
	fd, err := unix.Open("program", unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	memory, err := unix.Mmap(fd, 0, 4096, prot, unix.MAP_PRIVATE)
	if err == nil {
		err = unix.Mprotect(memory, unix.PROT_READ|unix.PROT_EXEC)
	}
	if err == nil {
		fmt.Println("mapped")
	}
	return err
}
