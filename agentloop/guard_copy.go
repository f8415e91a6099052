package agentloop

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// guardCopyBytes bounds what is copied from a workspace on another file system
// than our state. Beyond it files are cut, and the finding says so.
const guardCopyBytes = 64 << 20

// guardCopyDepth bounds how deep a directory is copied and removed there.
const guardCopyDepth = 64

// errCut reports that a copy in our state is not whole. The original is gone
// all the same.
var errCut = errors.New("too large to keep whole")

// copyAside does what rename cannot do between file systems.
func (p *guardPass) copyAside(dir int, base, slot string) error {
	copied := p.copyTree(dir, base, p.kept.fd, slot, 0)
	if copied != nil && !errors.Is(copied, errCut) {
		return copied
	}
	if err := removeKept(dir, base, 0); err != nil {
		return err
	}
	return copied
}

func (p *guardPass) copyTree(from int, base string, to int, name string, depth int) error {
	st, err := lstatAt(from, base)
	if err != nil {
		return err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return p.copyFile(from, base, to, name, st)
	case unix.S_IFLNK:
		target, err := readLinkAt(from, base)
		if err != nil {
			return err
		}
		return unix.Symlinkat(target, to, name)
	case unix.S_IFDIR:
		return p.copyDir(from, base, to, name, depth)
	}
	return nil // a pipe or a socket holds nothing
}

func (p *guardPass) copyFile(from int, base string, to int, name string, st unix.Stat_t) error {
	fd, err := unix.Openat(from, base, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	in := os.NewFile(uintptr(fd), base)
	defer in.Close()
	fd, err = unix.Openat(to, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	out := os.NewFile(uintptr(fd), name)
	defer out.Close()
	n, err := io.Copy(out, io.LimitReader(in, p.kept.copy))
	p.kept.copy -= n
	if err == nil && n < st.Size {
		err = errCut
	}
	return err
}

func (p *guardPass) copyDir(from int, base string, to int, name string, depth int) error {
	if err := unix.Mkdirat(to, name, 0o700); err != nil {
		return err
	}
	if depth >= guardCopyDepth {
		return errCut
	}
	in, err := openDirAt(from, base)
	if err != nil {
		return err
	}
	defer unix.Close(in)
	out, err := openDirAt(to, name)
	if err != nil {
		return err
	}
	defer unix.Close(out)
	names, whole := entryNames(in, guardMaxSettings)
	var cut error
	if !whole {
		cut = errCut
	}
	for _, child := range names {
		err := p.copyTree(in, child, out, child, depth+1)
		if errors.Is(err, errCut) {
			cut = err
		} else if err != nil {
			return err
		}
	}
	return cut
}

// removeKept removes the name and what is in it, through no link, to a bounded
// depth.
func removeKept(dir int, base string, depth int) error {
	err := forceEntry(dir, func() error { return unix.Unlinkat(dir, base, 0) })
	if !errors.Is(err, unix.EISDIR) {
		return err
	}
	fd, err := openDirAt(dir, base)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for {
		names, whole := entryNames(fd, 4096)
		for _, name := range names {
			if depth >= guardCopyDepth {
				return unix.ELOOP
			}
			if err := removeKept(fd, name, depth+1); err != nil {
				return err
			}
		}
		if whole {
			return unix.Unlinkat(dir, base, unix.AT_REMOVEDIR)
		}
	}
}
