package landlock

import (
	"strings"

	"golang.org/x/sys/unix"
)

// Access is a set of file rights, in the kernel's bits
// (LANDLOCK_ACCESS_FS_*, linux/landlock.h). The zero value grants nothing.
type Access uint64

// The single rights. The ABI that brought a right is in [Levels]; rights that
// the running kernel lacks are left out of a rule.
const (
	Execute    Access = unix.LANDLOCK_ACCESS_FS_EXECUTE     // execute a file
	WriteFile  Access = unix.LANDLOCK_ACCESS_FS_WRITE_FILE  // open a file to write
	ReadFile   Access = unix.LANDLOCK_ACCESS_FS_READ_FILE   // open a file to read
	ReadDir    Access = unix.LANDLOCK_ACCESS_FS_READ_DIR    // open a directory, list it
	RemoveDir  Access = unix.LANDLOCK_ACCESS_FS_REMOVE_DIR  // rmdir(2), rename a directory away
	RemoveFile Access = unix.LANDLOCK_ACCESS_FS_REMOVE_FILE // unlink(2), rename a file away
	MakeDir    Access = unix.LANDLOCK_ACCESS_FS_MAKE_DIR
	MakeReg    Access = unix.LANDLOCK_ACCESS_FS_MAKE_REG // create, link or rename a regular file
	MakeSock   Access = unix.LANDLOCK_ACCESS_FS_MAKE_SOCK
	MakeFifo   Access = unix.LANDLOCK_ACCESS_FS_MAKE_FIFO
	MakeSym    Access = unix.LANDLOCK_ACCESS_FS_MAKE_SYM
	Refer      Access = unix.LANDLOCK_ACCESS_FS_REFER        // link or rename between directories
	Truncate   Access = unix.LANDLOCK_ACCESS_FS_TRUNCATE     // truncate(2), O_TRUNC
	IoctlDev   Access = unix.LANDLOCK_ACCESS_FS_IOCTL_DEV    // ioctl(2) on a device
	ConnectFS  Access = unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX // connect to a UNIX socket from outside

	// MakeChar and MakeBlock are handled and never granted: a rule that asks
	// for one is an error.
	MakeChar  Access = unix.LANDLOCK_ACCESS_FS_MAKE_CHAR
	MakeBlock Access = unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK
)

// The usual sets.
const (
	Read     = ReadFile | ReadDir
	ReadExec = Read | Execute
	// Write is everything that changes a tree; it does not include reading.
	Write = WriteFile | Truncate | RemoveDir | RemoveFile |
		MakeDir | MakeReg | MakeSock | MakeFifo | MakeSym | Refer
	// Device is the use of one device node, its ioctls included.
	Device = ReadFile | WriteFile | IoctlDev

	// FileRights are the rights that the kernel takes in a rule on anything but
	// a directory; others make it answer EINVAL (ACCESS_FILE in
	// security/landlock/fs.c).
	FileRights = Execute | WriteFile | ReadFile | Truncate | IoctlDev | ConnectFS

	deviceNodes = MakeChar | MakeBlock
)

// accessNames has the kernel's names, in the order of the bits.
var accessNames = [...]string{
	"execute", "write_file", "read_file", "read_dir", "remove_dir", "remove_file",
	"make_char", "make_dir", "make_reg", "make_sock", "make_fifo", "make_block",
	"make_sym", "refer", "truncate", "ioctl_dev", "resolve_unix",
}

// String lists the rights by the kernel's names, "none" if there are none.
func (a Access) String() string {
	var names []string
	for i, name := range accessNames {
		if a&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	if a>>len(accessNames) != 0 {
		names = append(names, "unknown")
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, " ")
}
