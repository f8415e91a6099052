package exec

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
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
	path := filepath.Join(dir, "host-"+key+".json")
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
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return ""
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
	for _, ns := range []string{"user", "mnt", "pid", "net"} {
		link, _ := os.Readlink("/proc/self/ns/" + ns)
		h.Write([]byte(link))
	}
	cgroup, _ := os.ReadFile("/proc/self/cgroup")
	h.Write(cgroup)
	var st unix.Stat_t
	if unix.Stat("/proc/self/exe", &st) == nil {
		fmt.Fprint(h, st.Ino, st.Mtim.Nano(), st.Size)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

func readHost(path string) (Host, bool) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return Host{}, false
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Uid != uint32(os.Geteuid()) || st.Mode&0o7777 != 0o600 || st.Size > 1<<16 {
		return Host{}, false
	}
	b := make([]byte, st.Size)
	if n, err := f.Read(b); err != nil || int64(n) != st.Size {
		return Host{}, false
	}
	var h Host
	if json.Unmarshal(b, &h) != nil || h.LandlockABI == 0 {
		return Host{}, false
	}
	h.landlock.ABI, h.landlock.Errata = h.LandlockABI, h.LandlockErrata
	return h, true
}

// writeHost keeps h if it can; a host that cannot keep it probes each time.
func writeHost(dir, path string, h Host) {
	if h.LandlockABI == 0 || os.MkdirAll(dir, 0o700) != nil {
		return
	}
	b, err := json.Marshal(h)
	if err != nil {
		return
	}
	f, err := os.CreateTemp(dir, ".host-*")
	if err != nil {
		return
	}
	_, err = f.Write(b)
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
