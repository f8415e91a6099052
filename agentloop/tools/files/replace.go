package files

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// replace gives an existing file its new content in one step: a new file is
// written beside it and takes its name. Whoever reads the name meanwhile sees the
// old content or the new one, also after a kill or a crash: the content is on disk
// before the name changes (the change of the name itself is not waited for: that
// would double the time of an edit, and after a crash either is a whole file). The new file has mode,
// owner and extended attributes of the old one. Where that cannot be had the old
// file is overwritten, and note says so.
//
// The name's other hard links keep the old content.
func (p *place) replace(h *held, old, next []byte) (note string, err error) {
	// A file that may not be written is not replaced either, though its directory
	// would allow it.
	w, err := openAt(p.dir, p.name, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_NOCTTY, p.real)
	if err != nil {
		return "", p.fail("write", err)
	}
	defer w.Close()
	t, err := p.newFile(next, true)
	if err == nil {
		defer t.close()
		err = t.likeOld(h.file, &p.stat)
	}
	if err == nil {
		if err := p.compare(h, old); err != nil {
			return "", err
		}
		err = t.takeName(p.name)
	}
	switch {
	case cannotReplace(err):
		return p.overwrite(h, w, old, next)
	case err != nil:
		return "", p.fail("write", err)
	}
	if p.stat.Nlink > 1 {
		note = fmt.Sprintf("; the file had %d other names (hard links), which keep the old content", p.stat.Nlink-1)
	}
	return note, nil
}

// cannotReplace reports errors which mean that a file cannot be replaced by
// another one but may be written: no new files in its directory, a mount on its
// name, an owner that only root could give.
func cannotReplace(err error) bool {
	for _, e := range []error{unix.EACCES, unix.EPERM, unix.EROFS, unix.EBUSY, unix.EXDEV, errNotKept} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// errNotKept reports that a new file cannot get the owner or the access list of
// the old one.
var errNotKept = errors.New("owner or access list cannot be kept")

// compare looks at the file a last time.
func (p *place) compare(h *held, old []byte) error {
	same, err := p.still(h.file)
	if err != nil {
		return err
	}
	if same {
		if _, err := h.file.Seek(0, io.SeekStart); err != nil {
			return p.fail("read", err)
		}
		now, err := readWhole(h.file)
		if err != nil && !errors.Is(err, errTooLarge) {
			return p.fail("read", err)
		}
		same = bytes.Equal(now, old)
	}
	if !same {
		return fmt.Errorf("%s was changed by another program at this moment: nothing was changed here; read it again", p.path)
	}
	return nil
}

// overwrite writes into the file itself. A kill in the middle leaves half of it.
func (p *place) overwrite(h *held, w *os.File, old, next []byte) (note string, err error) {
	if same, err := p.still(w); err != nil || !same {
		return "", errors.Join(err, fmt.Errorf("%s was replaced meanwhile: nothing was changed", p.path))
	}
	if err := p.compare(h, old); err != nil {
		return "", err
	}
	if _, err = w.WriteAt(next, 0); err == nil {
		err = w.Truncate(int64(len(next)))
	}
	if err == nil {
		err = w.Sync()
	}
	if err != nil {
		_, undone := w.WriteAt(old, 0)
		undone = errors.Join(undone, w.Truncate(int64(len(old))))
		return "", errors.Join(p.fail("write", err), undone)
	}
	return "; written in place, since no file can take its place here", nil
}

// create makes a file with a name that must be free.
func (p *place) create(content []byte) error {
	t, err := p.newFile(content, false)
	if err != nil {
		return p.fail("write", err)
	}
	defer t.close()
	if t.name == "" {
		err = t.link(p.name)
	} else if err = unix.Renameat2(p.dir, t.name, p.dir, p.name, unix.RENAME_NOREPLACE); err == nil {
		t.name = ""
	}
	if errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("%s was made by somebody else meanwhile: nothing was changed; read it first", p.path)
	}
	if err != nil {
		return p.fail("write", err)
	}
	return nil
}

// newFile is a file on its way to a name.
type newFile struct {
	*os.File
	dir  int
	name string // empty: it has none yet
}

// newFile writes a content, on disk when it returns, to a file without a name
// (O_TMPFILE), so that a kill leaves nothing; where the file system has no such
// files it has a random name.
func (p *place) newFile(content []byte, private bool) (*newFile, error) {
	mode := uint32(0o666)
	if private {
		mode = 0o600 // until it has the old file's
	}
	t := &newFile{dir: p.dir}
	fd, err := again(func() (int, error) {
		return unix.Openat(p.dir, ".", unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, mode)
	})
	if err != nil {
		t.name = tempName()
		fd, err = again(func() (int, error) {
			return unix.Openat(p.dir, t.name, unix.O_CREAT|unix.O_EXCL|unix.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
		})
	}
	if err != nil {
		return nil, err
	}
	t.File = os.NewFile(uintptr(fd), p.real)
	if _, err = t.Write(content); err == nil {
		err = t.Sync()
	}
	if err != nil {
		t.close()
		return nil, unwrapped(err)
	}
	return t, nil
}

func tempName() string { return ".sandboxd-" + rand.Text() + ".tmp" }

// takeName puts the file in the place of another one. Only rename(2) replaces, and
// it needs a name to rename: between these two calls a kill leaves that name.
func (t *newFile) takeName(name string) error {
	if t.name == "" {
		own := tempName()
		if err := t.link(own); err != nil {
			return err
		}
		t.name = own
	}
	err := unix.Renameat(t.dir, t.name, t.dir, name)
	if err == nil {
		t.name = ""
	}
	return err
}

// link gives a file without a name a free one. The way through /proc needs no
// capability, see open(2).
func (t *newFile) link(name string) error {
	return unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(int(t.Fd())), t.dir, name, unix.AT_SYMLINK_FOLLOW)
}

// close removes a file that took no name.
func (t *newFile) close() {
	if t.name != "" {
		_ = unix.Unlinkat(t.dir, t.name, 0)
	}
	t.Close()
}

// likeOld gives the file owner, mode and extended attributes of the old one. Set-id
// bits are not kept, as a write to the old file would not keep them.
func (t *newFile) likeOld(old *os.File, st *unix.Stat_t) error {
	fd := int(t.Fd())
	var mine unix.Stat_t
	if err := unix.Fstat(fd, &mine); err != nil {
		return err
	}
	if mine.Uid != st.Uid || mine.Gid != st.Gid {
		if err := unix.Fchown(fd, int(st.Uid), int(st.Gid)); err != nil {
			return errNotKept
		}
	}
	if err := unix.Fchmod(fd, st.Mode&0o777); err != nil {
		return err
	}
	return copyAttributes(fd, int(old.Fd()))
}

// copyAttributes copies the user's attributes and the access list. What is kept by
// the system alone (labels, capabilities) a new file has of itself, or not at all.
func copyAttributes(to, from int) error {
	buf := make([]byte, 64<<10) // XATTR_LIST_MAX
	n, err := unix.Flistxattr(from, buf)
	if err != nil {
		return nil // a file system without attributes
	}
	value := make([]byte, 64<<10) // XATTR_SIZE_MAX
	for _, name := range bytes.Split(bytes.TrimSuffix(buf[:n], []byte{0}), []byte{0}) {
		attr := string(name)
		acl := attr == "system.posix_acl_access"
		if !acl && !bytes.HasPrefix(name, []byte("user.")) {
			continue
		}
		size, err := unix.Fgetxattr(from, attr, value)
		if err == nil {
			err = unix.Fsetxattr(to, attr, value[:size], 0)
		}
		if err != nil && acl {
			return errNotKept
		}
	}
	return nil
}
