package test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// keeperVectors are ways into the process that holds the run: the parent of the
// command. What confines the command is not to be had from there.
func keeperVectors() []vector {
	parent := func(name string) string { return fmt.Sprintf("/proc/%d/%s", os.Getppid(), name) }
	try := func(name string, do func() error) vector {
		return vector{name: "process keeper " + name, rootOnly: true, reached: printed("got in"), honest: ownMemory,
			attack: func(places) error {
				if err := do(); err != nil {
					return err
				}
				fmt.Println("got in")
				return nil
			}}
	}
	open := func(name string, flags int) func() error {
		return func() error {
			fd, err := unix.Open(parent(name), flags|unix.O_CLOEXEC, 0)
			if err == nil {
				unix.Close(fd)
			}
			return err
		}
	}
	return []vector{
		try("memory", open("mem", unix.O_RDWR)),
		try("root", open("root/proc", unix.O_RDONLY|unix.O_DIRECTORY)),
		try("directory", open("cwd/.", unix.O_RDONLY|unix.O_DIRECTORY)),
		// The kernel lets the owner list the numbers; what they are is another matter.
		try("descriptors", func() error {
			names, err := os.ReadDir(parent("fd"))
			for _, name := range names {
				if _, e := os.Readlink(parent("fd/" + name.Name())); e == nil {
					return nil
				}
			}
			return errors.Join(err, errors.New("none is told"))
		}),
		try("maps", func() error {
			text, err := os.ReadFile(parent("maps"))
			if err == nil && len(text) == 0 {
				err = errors.New("nothing to read")
			}
			return err
		}),
		try("environment", func() error { _, err := os.ReadFile(parent("environ")); return err }),
		try("oom score", func() error { return os.WriteFile(parent("oom_score_adj"), []byte("0"), 0) }),
	}
}

// ownMemory: a program looks into itself.
func ownMemory(places) error {
	for _, name := range []string{"maps", "environ", "status"} {
		if text, err := os.ReadFile("/proc/self/" + name); err != nil || len(text) == 0 {
			return fmt.Errorf("own %s: %d bytes, %w", name, len(text), err)
		}
	}
	f, err := os.Open("/proc/self/mem")
	if err != nil {
		return err
	}
	return f.Close()
}

// kernelFiles are what root owns in /proc and needs no capability to read.
var kernelFiles = []string{"/proc/slabinfo", "/proc/timer_list", "/proc/vmallocinfo", "/proc/kpageflags", "/proc/kpagecount"}

func readKernelFiles(places) error {
	var err error
	for _, name := range kernelFiles {
		fd, e := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if e == nil {
			n, _ := unix.Read(fd, make([]byte, 4096))
			unix.Close(fd)
			if n > 0 {
				fmt.Println("got", name)
				continue
			}
		}
		err = errors.Join(err, e)
	}
	return err
}

func kernelFileVectors() []vector {
	return []vector{{name: "read kernel files of root", rootOnly: true, attack: readKernelFiles, reached: printed("got /proc/"),
		open: []gap{{tier: "base", uids: []int{0}, part: "kernel files"}},
		honest: func(places) error {
			for _, name := range []string{"/proc/meminfo", "/proc/cpuinfo", "/proc/stat", "/proc/uptime", "/proc/self/stat"} {
				if _, err := os.ReadFile(name); err != nil {
					return err
				}
			}
			return nil
		}}}
}

// TestTheRootIsNeverWritable: it would hold the kernel's knobs, where nothing takes
// them out of a grant. The neighbour is granted one directory.
func TestTheRootIsNeverWritable(t *testing.T) {
	inTiers(t, func(s *scene) {
		knob := "/proc/sys/kernel/core_pattern"
		before := s.content(knob)
		r := s.sbx([]string{"--rw", "/"}, "/bin/sh", "-c", "cat "+knob+" > /tmp/x; cat /tmp/x > "+knob+" && echo written")
		if r.Code != 125 || strings.Contains(r.Stdout, "written") || s.content(knob) != before {
			s.Errorf("exit %d, %q, the knob holds %q", r.Code, r.Stdout, s.content(knob))
		}
		if e := r.Report.Error; e == nil || !strings.Contains(e.Hint, "name what is to be written") {
			s.Errorf("no hint: %+v", e)
		}
		if r := s.sbx([]string{"--rw", s.Out}, "/bin/sh", "-c", "echo x > "+s.Out+"/file"); r.Code != 0 || s.content(s.Out+"/file") != "x\n" {
			s.Errorf("one directory: exit %d: %s", r.Code, r.Stderr)
		}
	})
}

// TestManyGrants: what does not fit into a plan is one error with a way out.
func TestManyGrants(t *testing.T) {
	s := newScene(t, users()[0], "full")
	var flags []string
	for i := range 300 {
		flags = append(flags, "--rw", s.mkdir(fmt.Sprintf("%s/many/%d", s.Out, i)))
	}
	if r := s.sbx(flags, "true"); r.Code != 125 || r.Report.Error == nil || !strings.Contains(r.Report.Error.Hint, "directory above") {
		t.Errorf("exit %d: %+v", r.Code, r.Report.Error)
	}
	if r := s.sbx(flags[:200], "/bin/sh", "-c", "for d in "+s.Out+"/many/*; do echo x > $d/f || exit; done"); r.Code != 0 || s.content(s.Out+"/many/99/f") != "x\n" {
		t.Errorf("a hundred: exit %d: %s", r.Code, r.Stderr)
	}
}
