package test

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"sandboxd/test/require"
)

// changeVectors change what describes a file: outside, and on one that is granted
// for reading only, where hiding it is no answer.
func changeVectors() []vector {
	metadata := []gap{{tier: "base", part: "metadata"}}
	mode := func(s *scene) uint32 { return s.stat().Mode & 0o7777 }
	modified := func(s *scene, _ result) bool { return s.stat().Mtim.Sec == 1 }
	attribute := func(s *scene, _ result) bool {
		_, err := unix.Lgetxattr(s.Out+"/old", "user.sandboxd", nil)
		return err == nil
	}
	changes := []struct {
		name     string
		rootOnly bool
		open     []gap
		reached  func(*scene, result) bool
		do       func(dir string) error
	}{
		{"chmod", false, metadata, func(s *scene, _ result) bool { return mode(s) == 0o600 },
			func(dir string) error { return os.Chmod(dir+"/old", 0o600) }},
		{"chmod through a path descriptor", false, metadata, func(s *scene, _ result) bool { return mode(s) == 0o600 },
			func(dir string) error {
				fd, err := unix.Open(dir+"/old", unix.O_PATH, 0)
				return errors.Join(err, os.Chmod("/proc/self/fd/"+strconv.Itoa(fd), 0o600))
			}},
		{"chown", true, nil, func(s *scene, _ result) bool { return s.stat().Gid == 1 },
			func(dir string) error {
				if strings.HasSuffix(dir, "/work") {
					return os.Chown(dir+"/old", os.Getuid(), os.Getgid())
				}
				return os.Chown(dir+"/old", -1, 1)
			}},
		{"utimensat", false, metadata, modified, func(dir string) error { return os.Chtimes(dir+"/old", time.Unix(1, 0), time.Unix(1, 0)) }},
		{"setxattr", false, metadata, attribute, func(dir string) error {
			return unix.Setxattr(dir+"/old", "user.sandboxd", []byte("x"), 0)
		}},
	}
	var vs []vector
	for _, c := range changes {
		v := vector{setup: withOld, reached: c.reached, rootOnly: c.rootOnly, open: c.open,
			attack: func(p places) error { return c.do(p.Out) },
			honest: func(p places) error { return c.do(p.Work) }}
		v.name = c.name + " outside"
		vs = append(vs, v)
		v.name, v.flags = c.name+" on a file granted for reading", grantOut
		vs = append(vs, v)
	}
	return append(vs, vector{name: "inode flags by ioctl on a file granted for reading", flags: grantOut, setup: withOld,
		attack:  func(p places) error { return setNoDump(p.Out + "/old") },
		reached: func(s *scene, _ result) bool { return hasNoDump(s.Out + "/old") },
		honest:  func(p places) error { return show(p.Out + "/old") }})
}

func withOld(s *scene) {
	s.file(s.Out+"/old", before)
	s.file(s.Work+"/old", before)
	if s.Tier == "" && unix.Setxattr(s.Out+"/old", "user.probe", []byte("x"), 0) != nil {
		s.Log("no user attributes on this file system")
	}
}

func grantOut(s *scene) []string { return []string{"--ro", s.Out} }

// stat looks at the stand-in.
func (s *scene) stat() unix.Stat_t {
	s.Helper()
	var st unix.Stat_t
	s.must(unix.Lstat(s.Out+"/old", &st))
	return st
}

const noDump = 0x40 // FS_NODUMP_FL: the owner may set it

func setNoDump(path string) error {
	fd, err := unix.Open(path, unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	flags, err := unix.IoctlGetInt(fd, unix.FS_IOC_GETFLAGS)
	if err != nil {
		return err
	}
	return unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, flags|noDump)
}

func hasNoDump(path string) bool {
	fd, err := unix.Open(path, unix.O_RDONLY, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	flags, err := unix.IoctlGetInt(fd, unix.FS_IOC_GETFLAGS)
	return err == nil && flags&noDump != 0
}

// rootVectors change the view, or reach the kernel's own files.
func rootVectors() []vector {
	secret := func(s *scene) {
		withOld(s)
		s.mkdir(s.Work + "/m")
	}
	honest := func(p places) error { return show(p.Work + "/old") }
	inNew := func(name string, flags uintptr, root bool, inside func(places) error) vector {
		return vector{name: name, setup: secret, reached: appears, honest: honest, rootOnly: root,
			attack: func(p places) error { return within(flags, p, name, inside) }}
	}
	vs := []vector{
		inNew("remount writable in a nested namespace", unix.CLONE_NEWNS|unix.CLONE_NEWUSER, false, func(p places) error {
			m := p.Work + "/m"
			err := errors.Join(
				unix.Mount(p.Out, m, "", unix.MS_BIND, ""),
				unix.Mount("", m, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""),
				unix.Mount("", m, "", unix.MS_BIND|unix.MS_REMOUNT, ""))
			return errors.Join(err, write(m+"/new", os.O_CREATE|os.O_WRONLY))
		}),
		{name: "remount a read-only grant writable", setup: secret, flags: grantOut, reached: appears, honest: func(p places) error { return show(p.Out + "/old") },
			attack: func(p places) error {
				if write(p.Out+"/new", os.O_CREATE|os.O_WRONLY) == nil {
					return nil
				}
				return errors.Join(unix.Mount("", p.Out, "", unix.MS_BIND|unix.MS_REMOUNT, ""),
					unix.MountSetattr(unix.AT_FDCWD, p.Out, 0, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}),
					write(p.Out+"/new", os.O_CREATE|os.O_WRONLY))
			}},
		inNew("chroot out", unix.CLONE_NEWUSER, false, chrootOut), {name: "chroot out as root", rootOnly: true,
			setup: secret, reached: appears, honest: honest, attack: chrootOut},
		{name: "open kernel knobs for writing", rootOnly: true, setup: withOld, attack: openKnobs, honest: honest,
			reached: func(_ *scene, r result) bool { return strings.Contains(r.Stdout, "opened /") }},
		{name: "make a control group by path", rootOnly: true, setup: controlGroup, reached: controlled, honest: honest,
			attack: func(p places) error {
				var err error
				for dir := range strings.SplitSeq(p.Extra["hierarchies"], " ") {
					err = errors.Join(err, os.Mkdir(dir+"/"+p.Extra["group"], 0o755))
				}
				return err
			}},
		{name: "make a control group by a fresh mount", rootOnly: true, setup: controlGroup, reached: controlled, honest: honest,
			attack: func(p places) error {
				return within(unix.CLONE_NEWNS, p, "make a control group by a fresh mount", func(p places) error {
					err := unix.Mount("none", p.Work+"/m", "cgroup2", 0, "")
					return errors.Join(err, os.Mkdir(p.Work+"/m/"+p.Extra["group"], 0o755))
				})
			}},
	}
	return vs
}

// chrootOut climbs with a descriptor of the old root, then writes.
func chrootOut(p places) error {
	if p.Extra["inner"] == "" && os.Getuid() != 0 {
		return within(unix.CLONE_NEWUSER, p, "chroot out", chrootOut)
	}
	root, err := unix.Open("/", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	err = errors.Join(unix.Chroot(p.Work), unix.Fchdir(root))
	for range 20 {
		err = errors.Join(err, unix.Chdir(".."))
	}
	err = errors.Join(err, unix.Chroot("."))
	return errors.Join(err, write(p.Out+"/new", os.O_CREATE|os.O_WRONLY))
}

// openKnobs opens files that steer the kernel, and writes nothing.
func openKnobs(places) error {
	knobs := []string{"/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/pid_max",
		"/proc/sys/fs/protected_symlinks", "/proc/sys/net/ipv4/ip_forward", "/sys/power/state", "/sys/kernel/mm/ksm/run", "/sys/fs/cgroup/release_agent",
		"/sys/fs/cgroup/memory/release_agent", "/sys/fs/cgroup/pids/release_agent", "/sys/fs/cgroup/pids/cgroup.procs", "/sys/fs/cgroup/cgroup.procs"}
	vm, err := os.ReadDir("/proc/sys/vm")
	for _, e := range vm {
		knobs = append(knobs, "/proc/sys/vm/"+e.Name())
	}
	for _, knob := range knobs {
		f, e := os.OpenFile(knob, os.O_WRONLY, 0)
		if e == nil {
			fmt.Println("opened", knob)
			e = f.Close()
		}
		err = errors.Join(err, e)
	}
	return err
}

// controlGroup finds the host's hierarchies and a name for a new group.
func controlGroup(s *scene) {
	withOld(s)
	s.mkdir(s.Work + "/m")
	s.Extra["group"] = "sandboxd-" + s.Token
	var found []string
	for line := range strings.Lines(s.content("/proc/self/mountinfo")) {
		head, tail, _ := strings.Cut(line, " - ")
		if fields := strings.Fields(head); strings.HasPrefix(tail, "cgroup") && len(fields) > 4 {
			found = append(found, fields[4])
		}
	}
	if len(found) == 0 {
		require.Missing(s, require.Cgroup, "no control groups on this host")
	}
	s.Extra["hierarchies"] = strings.Join(found, " ")
	s.Cleanup(func() {
		for _, dir := range found {
			os.Remove(dir + "/" + s.Extra["group"])
		}
	})
}

func controlled(s *scene, _ result) bool {
	for dir := range strings.SplitSeq(s.Extra["hierarchies"], " ") {
		if exists(dir + "/" + s.Extra["group"]) {
			return true
		}
	}
	return false
}
