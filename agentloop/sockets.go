package agentloop

import (
	"bytes"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"sandboxd/exec"
)

// maxHiddenSockets bounds the mounts that hide sockets; a plan takes 256.
const maxHiddenSockets = 64

// hideSockets covers the sockets that services of the host hold in trees that are
// granted for reading. To connect is more than to read, but a read-only mount
// permits it (unix(7) asks for the mode of the file alone), and no Landlock right
// up to ABI 7 covers it. --unix opens one by its path.
//
// A socket that is bound later, or in another network namespace, is not found.
func (b *builder) hideSockets() {
	if !b.h.MountView {
		return // the family is refused there
	}
	table, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return
	}
	hidden, dirs := 0, map[string]string{}
	for path := range boundSockets(table) {
		dir, base := filepath.Split(path)
		real, seen := dirs[dir]
		if !seen {
			real, _ = b.r.realDir(dir)
			dirs[dir] = real
		}
		if path = join(real, base); real == "" {
			continue
		}
		if up, ok := b.set.at(path); !ok || up.Access != exec.ReadOnly || up.Path == path || readNode(path).mode&unix.S_IFMT != unix.S_IFSOCK {
			continue
		}
		if hidden++; hidden > maxHiddenSockets {
			b.gap("sockets of services", "more than are hidden one by one lie in directories granted for reading", "the modes of their files")
			return
		}
		b.set.add(exec.Entry{Path: path, Access: exec.Deny, Optional: true, Reason: "socket of a service; --unix opens it"})
	}
}

// boundSockets lists the absolute paths in the text of /proc/net/unix (proc(5)):
// seven columns, then the path as it was given to bind(2).
func boundSockets(table []byte) map[string]bool {
	paths := map[string]bool{} // a connected socket repeats its listener's path
	for line := range bytes.Lines(table) {
		if at := bytes.Index(line, []byte(" /")); at >= 0 {
			paths[string(bytes.TrimSuffix(line[at+1:], []byte("\n")))] = true
		}
	}
	return paths
}
