package agentloop

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// dirIndex is what an earlier walk saw of the directories beneath one root, so
// that the next one need not open those that are still the same: a directory
// whose change time is what it was has the same entries, since the kernel sets
// that time at each change of an entry and a command cannot. Directories in
// which git could find something to run are opened each time.
//
// The nodes stand in the order of the walk, each before its children.
type dirIndex struct {
	dev   uint64
	nodes []dirNode
}

type dirNode struct {
	name  string
	ino   uint64
	ctime int64 // nanoseconds; 0 is never the same
	end   int32 // the first node behind the subtree
}

const (
	// dirIndexMagic changes with the meaning of the file.
	dirIndexMagic = "sandboxd directories 1\n"
	// dirIndexMin is how many directories make an index worth its file.
	dirIndexMin = 64
	// dirIndexNodes bounds an index, about 30 MiB. A larger tree has none.
	dirIndexNodes = 500_000
	// dirSettle is how old a change must be for its time to tell it from a later
	// one: before Linux 6.13 several changes within one tick (10 ms) had the
	// same.
	dirSettle = int64(time.Second)
)

// indexable reports whether the file system behind an open directory keeps
// change times as local ones do. Servers may answer from a cache.
func indexable(fd int) bool {
	var fs unix.Statfs_t
	if unix.Fstatfs(fd, &fs) != nil {
		return false
	}
	switch uint32(fs.Type) {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.OVERLAYFS_SUPER_MAGIC:
		return true
	}
	return false
}

// children calls f for each child of node i.
func (x *dirIndex) children(i int32, f func(child int32)) {
	for c := i + 1; c < x.nodes[i].end; c = x.nodes[c].end {
		f(c)
	}
}

func dirIndexFile(stateDir, root string) string {
	return filepath.Join(stateDir, "guards", workspaceKey(root)+".dirs")
}

// readDirIndex returns nil for whatever is not a whole index of ours: it only
// saves work.
func readDirIndex(file string) *dirIndex {
	f, err := os.OpenFile(file, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	var st unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || int(st.Uid) != unix.Geteuid() || st.Mode&0o022 != 0 {
		return nil
	}
	text := make([]byte, st.Size)
	if n, err := f.ReadAt(text, 0); err != nil || n != len(text) {
		return nil
	}
	return decodeDirIndex(text)
}

func decodeDirIndex(text []byte) *dirIndex {
	body, ok := bytes.CutPrefix(text, []byte(dirIndexMagic))
	if !ok || len(body) < 16 {
		return nil
	}
	sum, body := binary.LittleEndian.Uint32(body), body[4:]
	if crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)) != sum {
		return nil
	}
	count := binary.LittleEndian.Uint32(body)
	x := &dirIndex{dev: binary.LittleEndian.Uint64(body[4:])}
	body = body[12:]
	if count == 0 || count > dirIndexNodes {
		return nil
	}
	x.nodes = make([]dirNode, 0, count)
	names := string(body) // one copy for all names
	for at := 0; at < len(body); {
		if len(body)-at < 21 {
			return nil
		}
		rest := body[at:]
		n := dirNode{ino: binary.LittleEndian.Uint64(rest), ctime: int64(binary.LittleEndian.Uint64(rest[8:])), end: int32(binary.LittleEndian.Uint32(rest[16:]))}
		length, from := int(rest[20]), at+21
		if from+length > len(body) || n.end <= int32(len(x.nodes)) || uint32(n.end) > count {
			return nil
		}
		n.name = names[from : from+length]
		x.nodes = append(x.nodes, n)
		at = from + length
	}
	if len(x.nodes) != int(count) || x.nodes[0].end != int32(count) || !x.nested() {
		return nil
	}
	return x
}

// nested reports whether each subtree ends within the one it is in.
func (x *dirIndex) nested() bool {
	var open []int32
	for i, n := range x.nodes {
		for len(open) > 0 && open[len(open)-1] <= int32(i) {
			open = open[:len(open)-1]
		}
		if len(open) > 0 && n.end > open[len(open)-1] {
			return false
		}
		open = append(open, n.end)
	}
	return true
}

func (x *dirIndex) encode() []byte {
	body := make([]byte, 12, 12+len(x.nodes)*40)
	binary.LittleEndian.PutUint32(body, uint32(len(x.nodes)))
	binary.LittleEndian.PutUint64(body[4:], x.dev)
	for _, n := range x.nodes {
		body = binary.LittleEndian.AppendUint64(body, n.ino)
		body = binary.LittleEndian.AppendUint64(body, uint64(n.ctime))
		body = binary.LittleEndian.AppendUint32(body, uint32(n.end))
		body = append(append(body, byte(len(n.name))), n.name...) // NAME_MAX is 255
	}
	text := binary.LittleEndian.AppendUint32([]byte(dirIndexMagic), crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
	return append(text, body...)
}

// dirRecord makes the index of a walk while it goes on.
type dirRecord struct {
	dirIndex
	settled int64 // changes before this time are told from later ones
	changed bool  // it is not what the earlier walk saw
	off     bool  // the tree cannot be kept
}

// enter notes a directory and returns its node, to be ended by leave.
func (r *dirRecord) enter(name string, st *unix.Stat_t) int32 {
	if r.off || len(r.nodes) >= dirIndexNodes || len(name) > 255 {
		r.off = true
		return -1
	}
	n := dirNode{name: name, ino: st.Ino}
	if when := st.Ctim.Nano(); when < r.settled && st.Dev == r.dev {
		n.ctime = when
	}
	return r.add(n)
}

func (r *dirRecord) add(n dirNode) int32 {
	if r.off || len(r.nodes) >= dirIndexNodes {
		r.off = true
		return -1
	}
	r.nodes = append(r.nodes, n)
	return int32(len(r.nodes) - 1)
}

func (r *dirRecord) leave(node int32) {
	if !r.off && node >= 0 {
		r.nodes[node].end = int32(len(r.nodes))
	}
}

// reread has the next walk open a directory of which not every child was seen.
func (r *dirRecord) reread(node int32) {
	if !r.off && node >= 0 && r.nodes[node].ctime != 0 {
		r.nodes[node].ctime, r.changed = 0, true
	}
}
