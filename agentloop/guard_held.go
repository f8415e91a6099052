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
	dir, err := takeNameID(filepath.Dir(name))
	return heldName{Dir: dirID{dir.Dev, dir.Ino}, Self: self}, err
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
