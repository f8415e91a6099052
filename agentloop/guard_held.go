package agentloop

import (
	"errors"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// heldName is a name that the kernel holds read-only for a run, by a mount on it.
//
// Such a mount lies on a directory entry of the run's own mount namespace. When
// somebody outside renames another file over the name, or removes it, the kernel
// takes the mount away with the entry (mount_namespaces(7)), and what is there
// then is writable for the run. "git config" and most editors replace files that
// way. So a name counts as held only if it still is what it was.
//
// Nor does a mount hold a file that has a second name in a writable place, which an
// earlier run can have made while the file was writable. Names with such files are
// not taken for held.
type heldName struct {
	Dir  dirID // the directory that holds it
	Self nameID
}

// nameID tells a file from a later one. File systems use an inode's number again
// soon, so the time of birth belongs to it, where the file system keeps one.
type nameID struct {
	Dev, Ino uint64
	Born     int64 // nanoseconds; 0: not kept
}

func takeHeld(name string) (heldName, error) {
	self, err := takeNameID(name)
	if err != nil {
		return heldName{}, err
	}
	if linked(unix.AT_FDCWD, name, 0, new(int)) {
		return heldName{}, errLinked
	}
	dir, err := takeNameID(filepath.Dir(name))
	return heldName{Dir: dirID{dir.Dev, dir.Ino}, Self: self}, err
}

// errLinked reports a file with more than one name.
var errLinked = errors.New("has other names")

// Bounds of the search for other names. What is larger counts as linked.
const (
	linkedDepth = 8
	linkedFiles = 4096
)

// linked reports whether the file called name in dir, or a file beneath it, has
// more than one name. seen counts what was looked at.
func linked(dir int, name string, depth int, seen *int) bool {
	if *seen++; *seen > linkedFiles || depth > linkedDepth {
		return true
	}
	st, err := lstatAt(dir, name)
	if err != nil {
		return false
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return st.Nlink > 1
	}
	fd, err := unix.Openat(dir, name, openDirFlags, 0)
	if err != nil {
		return true
	}
	defer unix.Close(fd)
	names, whole := entryNames(fd, linkedFiles)
	for _, child := range names {
		if linked(fd, child, depth+1, seen) {
			return true
		}
	}
	return !whole
}

// takeNameID does not follow a link.
func takeNameID(name string) (nameID, error) {
	var x unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, name, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_INO|unix.STATX_BTIME, &x)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) { // an old container's filter
		var st unix.Stat_t
		err = unix.Lstat(name, &st)
		return nameID{Dev: st.Dev, Ino: st.Ino}, err
	}
	id := nameID{Dev: unix.Mkdev(x.Dev_major, x.Dev_minor), Ino: x.Ino}
	if x.Mask&unix.STATX_BTIME != 0 {
		id.Born = x.Btime.Sec*1e9 + int64(x.Btime.Nsec)
	}
	return id, err
}

// holds reports whether the kernel held the name read-only all the time: it was
// given to BeginGuard, or lies beneath one that was, and neither that one nor the
// directory that held it was replaced since.
func (j *guardJournal) holds(full string) bool {
	for name, was := range j.Held {
		if !within(full, name) {
			continue
		}
		if is, err := takeHeld(name); err == nil && is == was {
			return true
		}
	}
	return false
}
