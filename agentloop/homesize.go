package agentloop

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// HomeCap is how large a private home on disk may be, in bytes. No quota of the
// kernel holds it: a run that leaves more says so, and sbx clean, which keeps as much
// in all, removes the home.
const HomeCap = 4 << 30

// Bounds of looking at the size of a home when a run ends.
const (
	homeGrowth  = 64 << 20 // free space that went during the run, from which on it is measured
	homeAge     = 24 * time.Hour
	homeEntries = 100_000 // files that are looked at
	homeTime    = 200 * time.Millisecond
)

// homeWatch finds out whether a run filled its home. It costs two statfs(2), and a
// walk through the home only if the disk filled meanwhile or a day went by. The
// session's user can put links and files of his choice where the home lies, so it is
// used with his rights alone.
type homeWatch struct {
	dir  string // of the host; empty: none on disk
	free uint64 // bytes, at the start
	cap  int64  // bytes
}

func watchHome(dir string) homeWatch { return homeWatch{dir: dir, free: freeBytes(dir), cap: HomeCap} }

// over is a sentence about a home above its cap, or nothing.
func (w homeWatch) over() string {
	if w.dir == "" || !w.due() {
		return ""
	}
	bytes, all := sizeOfTree(w.dir, time.Now().Add(homeTime))
	if bytes <= w.cap {
		return ""
	}
	atLeast := ""
	if !all {
		atLeast = "at least "
	}
	return fmt.Sprintf("the private home %s holds %s%d MiB, above its cap of %d MiB, which no quota holds; sbx clean removes it",
		w.dir, atLeast, bytes>>20, w.cap>>20)
}

// due reports whether the home is to be measured, and notes that it was.
func (w homeWatch) due() bool {
	note := w.dir + ".measured"
	n := readNode(note)
	if n.err == nil && freeBytes(w.dir)+homeGrowth > w.free && readAge(note) < homeAge {
		return false
	}
	now := unix.NsecToTimeval(time.Now().UnixNano())
	if unix.Lutimes(note, []unix.Timeval{now, now}) != nil {
		if fd, err := unix.Open(note, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600); err == nil {
			unix.Close(fd)
		}
	}
	return true
}

func readAge(path string) time.Duration {
	info, err := os.Lstat(path)
	if err != nil {
		return homeAge
	}
	return time.Since(info.ModTime())
}

// freeBytes is what is left on the file system of dir; 0 if unknown.
func freeBytes(dir string) uint64 {
	var st unix.Statfs_t
	if dir == "" || ignoringEINTR(func() error { return unix.Statfs(dir, &st) }) != nil {
		return 0
	}
	return st.Bavail * uint64(st.Bsize)
}

var errBound = errors.New("bound reached")

// sizeOfTree sums the disk use beneath dir, without following links. all is false
// if a bound ended it.
func sizeOfTree(dir string, deadline time.Time) (bytes int64, all bool) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0, true
	}
	defer root.Close()
	seen := 0
	err = fs.WalkDir(root.FS(), ".", func(_ string, d fs.DirEntry, err error) error {
		if seen++; seen > homeEntries || seen%256 == 0 && time.Now().After(deadline) {
			return errBound
		}
		if err != nil {
			return nil // a directory that its owner closed
		}
		if info, err := d.Info(); err == nil {
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				bytes += st.Blocks * 512 // stat(2): blocks of 512 bytes
			}
		}
		return nil
	})
	return bytes, !errors.Is(err, errBound)
}
