package child

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Op codes, flags and limits of the plan, as in child.h.
const (
	planMagic = 0x78627331
	maxSlots  = 256
	maxFDs    = 250
)

type opCode uint32

const (
	opPrivate opCode = iota + 1
	opTree
	opTmpfs
	opProc
	opDevpts
	opRoot
	opMkdir
	opMkfile
	opSymlink
	opAttach
	opRebind
	opMask
	opRootRdonly
	opPivot
	opLoopback
	opPidmax
	opBounding
	opUser
	opDrop
	opScope
	opSubreaper
	opRuleset
	opRule
	opRulesetFD
	opPTY
	opRun
	opSeal
	opReady
	opTerminal
	opTasks
	opWait
	opFilesOf
	opFilesOwn
)

// Flag changes how one operation meets a missing path.
type Flag uint64

const (
	// Optional lets a missing path pass.
	Optional Flag = 1
	// MakeDir makes a missing mount point as a directory.
	MakeDir Flag = 2
	// MakeFile makes a missing mount point as an empty file.
	MakeFile Flag = 4
	// Follow lets the source path hold symbolic links.
	Follow Flag = 8
	// Keep leaves a slot open after Attach, for Seal.
	Keep Flag = 16
	// sameFile is set where the plan holds a Same.
	sameFile Flag = 32
)

// Attr is a set of mount attributes (mount_setattr(2)).
type Attr uint64

const (
	ReadOnly Attr = unix.MOUNT_ATTR_RDONLY
	NoSUID   Attr = unix.MOUNT_ATTR_NOSUID
	NoDev    Attr = unix.MOUNT_ATTR_NODEV
	NoExec   Attr = unix.MOUNT_ATTR_NOEXEC
)

type op struct {
	code   opCode
	a      uint32
	b, c   uint64
	s1, s2 uint32
	text   string // for error messages
}

// Plan is the list of operations that the keeper walks, in order. Build it with
// its methods, end it with [Plan.Run]. A Plan is not safe for concurrent use.
type Plan struct {
	ops   []op
	blob  []byte
	fds   []int
	slots uint32
	err   error
}

// Slot names a detached mount within a plan.
type Slot uint32

func (p *Plan) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf(format, args...)
	}
}

func (p *Plan) align(n int) {
	for len(p.blob)%n != 0 {
		p.blob = append(p.blob, 0)
	}
}

// str stores s with a final NUL; offsets are relative to the blob until encoding.
func (p *Plan) str(s string) uint32 {
	for i := range len(s) {
		if s[i] == 0 {
			p.fail("%q holds a NUL byte", s)
			s = s[:i]
			break
		}
	}
	off := len(p.blob)
	p.blob = append(p.blob, s...)
	p.blob = append(p.blob, 0)
	return uint32(off)
}

func (p *Plan) add(o op) { p.ops = append(p.ops, o) }

func (p *Plan) slot() Slot {
	if p.slots == maxSlots {
		p.fail("more than %d mounts", maxSlots)
		return 0
	}
	p.slots++
	return Slot(p.slots - 1)
}

// FD adds an open descriptor and returns its index in the plan. The caller
// keeps it open until Start has returned.
func (p *Plan) FD(fd int) int {
	for i, have := range p.fds {
		if have == fd {
			return i
		}
	}
	if len(p.fds) == maxFDs {
		p.fail("more than %d descriptors", maxFDs)
		return 0
	}
	p.fds = append(p.fds, fd)
	return len(p.fds) - 1
}

// Private makes every mount private to the new namespace, which is made here if
// the keeper has none.
func (p *Plan) Private(make bool) {
	o := op{code: opPrivate, text: "make mounts private"}
	if make {
		o.a = 1
	}
	p.add(o)
}

// Tree takes the mount tree at source, submounts included, with attributes.
func (p *Plan) Tree(source string, a Attr, f Flag) Slot {
	s := p.slot()
	p.add(op{code: opTree, a: uint32(s), b: uint64(a), c: uint64(f), s1: p.str(source), text: "take " + source})
	return s
}

// Bounds of the files of a memory file system: each takes about a KiB of the kernel's
// memory that its size does not count (tmpfs(5)), and small trees need some all the same.
const (
	bytesPerInode = 4096
	minInodes     = 4096
)

// Tmpfs makes an empty memory file system of at most bytes, and of one file for each
// page of them.
func (p *Plan) Tmpfs(bytes int64, mode uint32, a Attr) Slot {
	s := p.slot()
	o := fmt.Sprintf("size=%d,nr_inodes=%d,mode=%o", bytes, max(minInodes, bytes/bytesPerInode), mode)
	p.add(op{code: opTmpfs, a: uint32(s), b: uint64(a), s1: p.str(o), text: "make a tmpfs"})
	return s
}

// Proc makes a fresh proc for the new pid namespace.
func (p *Plan) Proc(a Attr) Slot {
	s := p.slot()
	p.add(op{code: opProc, a: uint32(s), b: uint64(a), text: "make a fresh proc"})
	return s
}

// Devpts makes a private instance of the terminal file system.
func (p *Plan) Devpts(a Attr) Slot {
	s := p.slot()
	p.add(op{code: opDevpts, a: uint32(s), b: uint64(a), text: "make a private devpts"})
	return s
}

// Root makes s the root that later operations build in.
func (p *Plan) Root(s Slot) { p.add(op{code: opRoot, a: uint32(s), text: "place the new root"}) }

// Mkdir makes a directory, with its parents, in the new root.
func (p *Plan) Mkdir(path string, mode uint32) {
	p.add(op{code: opMkdir, a: mode, s1: p.str(path), text: "make directory " + path})
}

// Mkfile makes an empty file in the new root.
func (p *Plan) Mkfile(path string, mode uint32) {
	p.add(op{code: opMkfile, a: mode, s1: p.str(path), text: "make file " + path})
}

// Symlink makes a link in the new root.
func (p *Plan) Symlink(target, path string) {
	p.add(op{code: opSymlink, s1: p.str(path), s2: p.str(target), text: "make link " + path})
}

// Attach mounts s at path in the new root.
func (p *Plan) Attach(s Slot, path string, f Flag) {
	p.add(op{code: opAttach, a: uint32(s), c: uint64(f), s1: p.str(path), text: "mount " + path})
}

// Same names the file that a path led to when the plan was made. The zero value
// names none.
type Same struct{ Dev, Ino uint64 }

// Rebind binds path of the new root onto itself with attributes. If same names a
// file, path must still lead to it (ESTALE).
func (p *Plan) Rebind(path string, a Attr, same Same, f Flag) {
	f, at := p.same(same, f)
	p.add(op{code: opRebind, b: uint64(a), c: uint64(f), s1: p.str(path), s2: at, text: "rebind " + path})
}

// Mask hides path of the new root. If same names a file, path must still lead to
// it (ESTALE).
func (p *Plan) Mask(path string, same Same, f Flag) {
	f, at := p.same(same, f)
	p.add(op{code: opMask, c: uint64(f), s1: p.str(path), s2: at, text: "hide " + path})
}

func (p *Plan) same(same Same, f Flag) (Flag, uint32) {
	if same == (Same{}) {
		return f, 0
	}
	p.align(8)
	at := uint32(len(p.blob))
	p.blob = binary.NativeEndian.AppendUint64(p.blob, same.Dev)
	p.blob = binary.NativeEndian.AppendUint64(p.blob, same.Ino)
	return f | sameFile, at
}

// RootReadOnly makes the new root itself read-only, not what is mounted in it.
func (p *Plan) RootReadOnly() {
	p.add(op{code: opRootRdonly, text: "make the root read-only"})
}

// Pivot enters the new root.
func (p *Plan) Pivot() { p.add(op{code: opPivot, text: "enter the new root"}) }

// Loopback brings the loopback device of a new network namespace up.
func (p *Plan) Loopback() { p.add(op{code: opLoopback, text: "bring loopback up"}) }

// PIDMax caps the pids, and so the tasks, of the new pid namespace.
func (p *Plan) PIDMax(n int) {
	p.add(op{code: opPidmax, b: uint64(n), c: uint64(Optional), text: "set kernel.pid_max"})
}

// Seal makes the mount s, attached with Keep, read-only. What is mounted inside
// it stays as it is.
func (p *Plan) Seal(s Slot) { p.add(op{code: opSeal, a: uint32(s), text: "seal a mount"}) }

// Ready reports success without a command, for probes.
func (p *Plan) Ready() { p.add(op{code: opReady, text: "report"}) }

// RestoreTerminal gives the terminal fd its settings back when the run ended,
// also when the starter was killed and could not.
func (p *Plan) RestoreTerminal(fd int, settings *unix.Termios) {
	p.align(8)
	off := uint32(len(p.blob))
	raw := unsafe.Slice((*byte)(unsafe.Pointer(settings)), unsafe.Sizeof(*settings))
	p.blob = append(p.blob, raw...)
	p.add(op{code: opTerminal, a: uint32(p.FD(fd)), s1: off, text: "remember the terminal"})
}

// Wait has the keeper wait here for the end of [Options.Meanwhile].
func (p *Plan) Wait() { p.add(op{code: opWait, text: "wait for the starter"}) }

// Bounding empties the capability bounding set.
func (p *Plan) Bounding(f Flag) {
	p.add(op{code: opBounding, c: uint64(f), text: "empty the bounding set"})
}

// User changes the identity of keeper and command.
func (p *Plan) User(uid, gid int, groups []int) {
	p.identity(opUser, fmt.Sprintf("become uid %d gid %d", uid, gid), uid, gid, groups)
}

// FilesOf gives the keeper the file rights of a user, until FilesOwn: what the next
// operations open is what that user may reach. User must follow.
func (p *Plan) FilesOf(uid, gid int, groups []int) {
	p.identity(opFilesOf, fmt.Sprintf("take the file rights of uid %d gid %d", uid, gid), uid, gid, groups)
}

// FilesOwn ends FilesOf.
func (p *Plan) FilesOwn() { p.add(op{code: opFilesOwn, text: "take the own file rights back"}) }

func (p *Plan) identity(code opCode, text string, uid, gid int, groups []int) {
	p.align(4)
	off := uint32(len(p.blob))
	for _, g := range groups {
		p.blob = binary.NativeEndian.AppendUint32(p.blob, uint32(g))
	}
	p.blob = append(p.blob, 0)
	p.add(op{code: code, a: uint32(uid), b: uint64(uint32(gid)), c: uint64(len(groups)), s1: off, text: text})
}

// Drop gives up all capabilities of the keeper and sets no_new_privs.
func (p *Plan) Drop() { p.add(op{code: opDrop, text: "drop capabilities"}) }

// Scope binds the keeper to a Landlock layer that scopes signals, for runs
// without a pid namespace. [Process.Scoped] tells whether it held.
func (p *Plan) Scope() { p.add(op{code: opScope, text: "scope signals"}) }

// Subreaper makes the keeper adopt the orphans of the tree.
func (p *Plan) Subreaper() { p.add(op{code: opSubreaper, text: "become subreaper"}) }

// Ruleset starts a Landlock ruleset that is built in the view.
func (p *Plan) Ruleset(handledFS, handledNet, scoped uint64) {
	p.add(op{code: opRuleset, a: uint32(scoped), b: handledFS, c: handledNet, text: "make a ruleset"})
}

// Rule allows access beneath path, as the view shows it.
func (p *Plan) Rule(path string, access uint64, f Flag) {
	p.add(op{code: opRule, b: access, c: uint64(f), s1: p.str(path), text: "allow " + path})
}

// RulesetFD uses a ruleset that the starter built.
func (p *Plan) RulesetFD(fd int) {
	p.add(op{code: opRulesetFD, a: uint32(p.FD(fd)), text: "use the ruleset"})
}

// PTY opens an own terminal in the view; see [Process.Terminal].
func (p *Plan) PTY() { p.add(op{code: opPTY, text: "open a terminal"}) }

// Tasks has the keeper count the tasks of the run, of which limit may be there;
// end says that it ends the run above that, where nothing else holds the limit.
func (p *Plan) Tasks(limit int, end bool) {
	o := op{code: opTasks, b: uint64(limit), text: "count the tasks"}
	if end {
		o.a = 1
	}
	p.add(o)
}

// encode lays the plan out as child.h describes.
func (p *Plan) encode() ([]byte, error) {
	if p.err != nil {
		return nil, p.err
	}
	const header, opSize = 16, 32
	base := header + opSize*len(p.ops)
	size := base + len(p.blob)
	out := make([]byte, base, size)
	n := binary.NativeEndian
	n.PutUint32(out[0:], planMagic)
	n.PutUint32(out[4:], uint32(len(p.ops)))
	n.PutUint64(out[8:], uint64(size))
	for i, o := range p.ops {
		b := out[header+opSize*i:]
		n.PutUint32(b[0:], uint32(o.code))
		n.PutUint32(b[4:], o.a)
		n.PutUint64(b[8:], o.b)
		n.PutUint64(b[16:], o.c)
		n.PutUint32(b[24:], o.s1+uint32(base))
		n.PutUint32(b[28:], o.s2+uint32(base))
	}
	out = append(out, p.blob...)
	p.relocate(out, base)
	return out, nil
}
