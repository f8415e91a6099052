package agentloop

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// sharedBase holds what root makes for runs as other users: below root's own
// home they could not reach it. Only root can make entries in it.
const sharedBase = "/var/cache/sandboxd"

// stateBase is the directory that holds private homes and temporary directories
// for a run as uid: the caller's cache, or a directory that others may pass
// through when root builds for someone else.
func (b *builder) stateBase() (string, error) {
	if b.base == "" && b.baseErr == nil {
		b.base, b.baseErr = b.findBase()
	}
	return b.base, b.baseErr
}

func (b *builder) findBase() (string, error) {
	if b.id.uid == b.c.UID {
		if b.c.CacheDir == "" {
			return "", errors.New("no private cache directory")
		}
		return b.c.CacheDir, makeOwnDir(b.c.CacheDir, b.c.UID)
	}
	err := makePassable(sharedBase)
	if err == nil {
		return sharedBase, nil
	}
	instead := "/tmp/sandboxd-" + strconv.Itoa(b.c.UID) + "-shared"
	if makePassable(instead) == nil {
		return instead, nil
	}
	return "", err
}

// makePassable makes a directory of ours that others may pass through, but not
// list or write.
func makePassable(dir string) error {
	if readNode(dir).err != nil {
		if err := os.Mkdir(dir, 0o711); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
		if err := os.Chmod(dir, 0o711); err != nil { // the umask may have cut it
			return err
		}
	}
	return checkOwnDir(dir, os.Geteuid())
}

// makePart makes a directory of stateBase that holds directories of runs.
func (b *builder) makePart(name string) (string, error) {
	base, err := b.stateBase()
	if err != nil {
		return "", err
	}
	part := base + "/" + name
	if b.id.uid != b.c.UID {
		return part, makePassable(part)
	}
	return part, makeOwnDir(part, b.c.UID)
}

// makeFor makes dir (0700) for the identity of the run. Its parent is ours, so
// nobody else can put something in its place.
func (b *builder) makeFor(dir string) error {
	n := readNode(dir)
	if n.err != nil {
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
		if b.id.uid != b.c.UID {
			if err := os.Lchown(dir, b.id.uid, b.id.gid); err != nil {
				return err
			}
		}
		n = readNode(dir)
	}
	switch {
	case n.err != nil:
		return &os.PathError{Op: "lstat", Path: dir, Err: n.err}
	case !n.isDir() || int(n.uid) != b.id.uid:
		return fmt.Errorf("%s is not a directory of uid %d", dir, b.id.uid)
	case n.mode&0o777 != 0o700:
		return os.Chmod(dir, 0o700)
	}
	return nil
}

// homeKey names the private home of a workspace for one uid.
func homeKey(workspace string, uid int) string {
	sum := sha256.Sum256([]byte(strconv.Itoa(uid) + "\x00" + workspace))
	return hex.EncodeToString(sum[:10])
}

// noteUse keeps, beside a private home, which workspace it belongs to and when
// it was used last (the time stamp of the file), for sbx clean.
func noteUse(home, workspace string) {
	file := home + ".workspace"
	if now := unix.NsecToTimeval(time.Now().UnixNano()); unix.Lutimes(file, []unix.Timeval{now, now}) == nil {
		return
	}
	if fd, err := unix.Open(file, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600); err == nil {
		f := os.NewFile(uintptr(fd), file)
		_, _ = f.WriteString(workspace + "\n")
		_ = f.Close()
	}
}
