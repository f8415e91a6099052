package exec

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// LoadHost returns what ProbeHost found, kept in dir for this boot, this caller
// and these namespaces. dir "" keeps nothing. A file that is not ours alone, or
// that cannot be read as it was written, is not believed: the host is probed
// again. A later start that fails reports its own error in any case.
func LoadHost(dir string) Host {
	key := hostKey()
	if dir == "" || key == "" {
		return ProbeHost()
	}
	path := filepath.Join(dir, "host-"+key)
	if h, ok := readHost(path); ok {
		return h
	}
	h := ProbeHost()
	writeHost(dir, path, h)
	return h
}

// hostKey names everything that the answer depends on: boot, identity, rights,
// namespaces, filters around this process, and this program.
func hostKey() string {
	var room [3][4096]byte
	boot := readSmall("/proc/sys/kernel/random/boot_id", room[0][:])
	status := readSmall("/proc/self/status", room[1][:])
	cgroup := readSmall("/proc/self/cgroup", room[2][:])
	if len(boot) == 0 || len(status) == 0 || max(len(status), len(cgroup)) == len(room[0]) {
		return "" // unknown, or more than was read: a caller of very many groups
	}
	h := sha256.New()
	h.Write(boot)
	for line := range bytes.Lines(status) {
		for _, want := range []string{"Uid:", "Gid:", "Cap", "NoNewPrivs:", "Seccomp"} {
			if bytes.HasPrefix(line, []byte(want)) {
				h.Write(line)
			}
		}
	}
	var link [64]byte
	for _, ns := range []string{"/proc/self/ns/user", "/proc/self/ns/mnt", "/proc/self/ns/pid", "/proc/self/ns/net"} {
		n, _ := unix.Readlink(ns, link[:])
		h.Write(link[:max(n, 0)])
	}
	h.Write(cgroup)
	var st unix.Stat_t
	if unix.Stat("/proc/self/exe", &st) == nil {
		fmt.Fprint(h, st.Ino, st.Mtim.Nano(), st.Size)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// readSmall reads a file of proc at once, into buf; what does not fit is left
// out. It returns nothing on an error. os.ReadFile would also hand the descriptor
// to the poller and take it back.
func readSmall(path string, buf []byte) []byte {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	n, err := unix.Read(fd, buf)
	if err != nil {
		return nil
	}
	return buf[:n]
}

// maxHostBytes bounds a kept answer: a few mechanisms with a line of text each.
const maxHostBytes = 1 << 16

func readHost(path string) (Host, bool) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return Host{}, false
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Uid != uint32(os.Geteuid()) || st.Mode != unix.S_IFREG|0o600 || st.Size > maxHostBytes {
		return Host{}, false
	}
	text := make([]byte, st.Size)
	if n, err := unix.Read(fd, text); err != nil || int64(n) != st.Size {
		return Host{}, false
	}
	h, ok := decodeHost(text)
	return h, ok && h.LandlockABI != 0
}

// enoughFiles is how many open files a caller must be allowed for its answer to
// be kept. A probe needs a few dozen, and does not always say what it lacked.
const enoughFiles = 256

// writeHost keeps h if it can; a host that cannot keep it probes each time. What
// a caller in need found would leave later ones with less confinement than the
// host can give.
func writeHost(dir, path string, h Host) {
	var files unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &files) != nil || files.Cur < enoughFiles || h.short {
		return
	}
	if h.LandlockABI == 0 || os.MkdirAll(dir, 0o700) != nil {
		return
	}
	f, err := os.CreateTemp(dir, ".host-*")
	if err != nil {
		return
	}
	_, err = f.Write(h.encode())
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
		return
	}
	sweepHosts(dir, filepath.Base(path))
}

// keptHosts is how many answers are kept: programs, users and containers that
// share a cache take turns, and each has its own.
const keptHosts = 64

// sweepHosts removes the oldest answers beyond keptHosts.
func sweepHosts(dir, keep string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	var old []os.FileInfo
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "host-") || e.Name() == keep {
			continue
		}
		if info, err := e.Info(); err == nil {
			old = append(old, info)
		}
	}
	if len(old) < keptHosts {
		return
	}
	slices.SortFunc(old, func(a, b os.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, info := range old[:len(old)-keptHosts+1] {
		os.Remove(filepath.Join(dir, info.Name()))
	}
}
