package test

import (
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"sandboxd/test/require"
)

// mountVectors take what is outside by mounts, devices and other roots.
func mountVectors() []vector {
	secret := func(s *scene) {
		s.file(s.Out+"/secret", s.Token)
		s.file(s.Work+"/mine", "mine")
		for _, d := range []string{"m", "u", "w"} {
			s.mkdir(s.Work + "/" + d)
		}
	}
	mine := func(p places) error { return show(p.Work + "/mine") }
	reads := func(name string, root bool, inside func(p places) error) vector {
		v := vector{name: name, setup: secret, reached: leaks, honest: mine, rootOnly: root}
		flags := uintptr(unix.CLONE_NEWNS | unix.CLONE_NEWUSER)
		if root {
			flags = unix.CLONE_NEWNS
		}
		v.attack = func(p places) error {
			return within(flags, p, v.name, inside)
		}
		return v
	}
	bind := func(p places) error {
		return errors.Join(unix.Mount(p.Out, p.Work+"/m", "", unix.MS_BIND, ""), show(p.Work+"/m/secret"))
	}
	overlay := func(p places) error {
		return errors.Join(unix.Mount("overlay", p.Work+"/m", "overlay", 0,
			"lowerdir="+p.Out+",upperdir="+p.Work+"/u,workdir="+p.Work+"/w"), show(p.Work+"/m/secret"))
	}
	tree := func(p places) error {
		fd, err := unix.OpenTree(unix.AT_FDCWD, p.Out, unix.OPEN_TREE_CLONE)
		return errors.Join(err, showAt(fd, "secret"))
	}
	return []vector{
		reads("bind mount", true, bind), reads("bind mount in a new user namespace", false, bind),
		reads("overlay mount", true, overlay), reads("overlay mount in a new user namespace", false, overlay),
		reads("open_tree", true, tree), reads("open_tree in a new user namespace", false, tree),
		{name: "read a block device", rootOnly: true, setup: blockDevice, reached: leaks, honest: mine,
			attack: func(p places) error { return head(p.Extra["device"]) }},
		{name: "read a device node in a granted tree", reached: printed("through"), setup: func(s *scene) {
			require.Root(s, "to make a device node")
			s.file(s.Out+"/tree/mine", "mine")
			for _, d := range []string{s.Out + "/tree", s.Work} {
				s.must(unix.Mknod(d+"/zero", unix.S_IFCHR|0o600, int(unix.Mkdev(1, 5)))) // as /dev/zero
				s.own(d + "/zero")
			}
		},
			flags: func(s *scene) []string { return []string{"--ro", s.Out + "/tree"} },
			open:  []gap{{tier: "base", part: "device nodes"}},
			attack: func(p places) error {
				var failed error
				for _, node := range []string{p.Out + "/tree/zero", p.Work + "/zero"} {
					f, err := os.Open(node)
					if err == nil {
						n, _ := f.Read(make([]byte, 1))
						f.Close()
						if n == 1 {
							err = through(nil)
						}
					}
					failed = errors.Join(failed, err)
				}
				return failed
			},
			honest: func(p places) error { return show(p.Out + "/tree/mine") }},
		{name: "read a new block device node", rootOnly: true, setup: blockDevice, reached: leaks,
			attack: func(p places) error {
				minor, err := strconv.Atoi(p.Extra["minor"])
				return errors.Join(err, unix.Mknod("node", unix.S_IFBLK|0o600, int(unix.Mkdev(loopMajor, uint32(minor)))), head("node"))
			},
			honest: func(places) error { // other special files may be made
				return errors.Join(unix.Mkfifo("fifo", 0o600), unix.Mknod("file", unix.S_IFREG|0o600, 0))
			}},
	}
}

// within plays inside in new namespaces: it starts this program again, which
// finds Extra["inner"] set.
func within(flags uintptr, p places, name string, inside func(places) error) error {
	if p.Extra["inner"] != "" {
		return inside(p)
	}
	p.Extra["inner"] = "yes"
	args, err := p.playerArgs(name, "attack")
	if err != nil {
		return err
	}
	c := osexec.Command("/proc/self/exe", args...)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
	if flags&unix.CLONE_NEWUSER != 0 {
		c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		c.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	return c.Run()
}

const loopMajor = 7

// blockDevice puts the token on a block device: a loop device on a file outside.
func blockDevice(s *scene) {
	s.file(s.Work+"/mine", "mine")
	if s.UID != 0 && s.Tier == "" {
		require.NotHere(s, "only root reaches devices")
	}
	path := s.file(s.Out+"/image", s.Token)
	s.must(os.Truncate(path, 1<<20))
	minor, err := loopDevice(s, path)
	if err != nil {
		require.Missing(s, require.Host, "no loop device: ", err)
	}
	s.Extra["device"], s.Extra["minor"] = "/dev/loop"+strconv.Itoa(minor), strconv.Itoa(minor)
}

func loopDevice(s *scene, path string) (int, error) {
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer control.Close()
	minor, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
	if err != nil {
		return 0, err
	}
	device, err := os.OpenFile("/dev/loop"+strconv.Itoa(minor), os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	image, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return 0, errors.Join(err, device.Close())
	}
	defer image.Close()
	if err := unix.IoctlSetInt(int(device.Fd()), unix.LOOP_SET_FD, int(image.Fd())); err != nil {
		return 0, errors.Join(err, device.Close())
	}
	s.Cleanup(func() {
		s.must(errors.Join(unix.IoctlSetInt(int(device.Fd()), unix.LOOP_CLR_FD, 0), device.Close()))
	})
	return minor, nil
}

// head prints the start of a device.
func head(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	text := make([]byte, 64)
	_, err = f.ReadAt(text, 0)
	fmt.Printf("%s\n", text)
	return err
}
