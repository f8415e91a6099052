package seccomp

import "golang.org/x/sys/unix"

// defaultRefuse lists ioctl(2) requests that stay out. Everything else is
// allowed: Landlock's ioctl_dev right holds devices, and the rest work on
// descriptors the command has anyhow. The kernel reads the request as unsigned
// int; comparing all 64 bits is how flatpak was escaped (CVE-2019-10063).
var defaultRefuse = []Rule{
	{Calls: ioctl, When: []Condition{{1, word, unix.TIOCSTI}}},       // types into the terminal
	{Calls: ioctl, When: []Condition{{1, word, unix.TIOCLINUX}}},     // pastes into the console
	{Calls: ioctl, When: []Condition{{1, word, unix.TIOCCONS}}},      // redirects the console
	{Calls: ioctl, When: []Condition{{1, word, unix.TIOCSETD}}},      // loads line disciplines: little used kernel code
	{Calls: ioctl, When: []Condition{{1, word &^ 0xff, kdRequests}}}, // keyboard map (its strings are typed input), console mode
	{Calls: ioctl, When: []Condition{{1, word &^ 0xff, vtRequests}}}, // switches consoles

	// Inode flags: they need ownership but no descriptor open for writing, so
	// without this a file granted for reading only could be changed.
	{Calls: ioctl, When: []Condition{{1, word, fsSetFlags}}},
	{Calls: ioctl, When: []Condition{{1, word, fsSetFlags32}}},
	{Calls: ioctl, When: []Condition{{1, word, fsSetXattr}}},
	{Calls: ioctl, When: []Condition{{1, word, fsSetVersion}}},
	{Calls: ioctl, When: []Condition{{1, word, ext4SetVersion}}},
	{Calls: ioctl, When: []Condition{{1, word, fsEnableVerity}}},
	{Calls: ioctl, When: []Condition{{1, word, fsEncrypt}}},
	// Subvolumes are made and deleted in a directory opened for reading.
	{Calls: ioctl, When: []Condition{{1, word &^ 0xff, btrfsVolume}}},
	{Calls: ioctl, When: []Condition{{1, word, btrfsSetFlags}}},
}

var ioctl = []string{"ioctl"}

// Requests that x/sys lacks on some architecture, from the kernel's uapi
// headers linux/kd.h, linux/vt.h, linux/fs.h, linux/fsverity.h,
// linux/fscrypt.h, linux/btrfs.h and from fs/ext4/ext4.h. The numbers are the
// same on amd64 and arm64.
const (
	kdRequests     = 0x4b00 // KD*, GIO_*, PIO_*
	vtRequests     = 0x5600 // VT_*
	fsSetFlags     = 0x40086602
	fsSetFlags32   = 0x40046602
	fsSetXattr     = 0x401c5820
	fsSetVersion   = 0x40087602
	ext4SetVersion = 0x40086604
	fsEnableVerity = 0x40806685
	fsEncrypt      = 0x800c6613
	btrfsVolume    = 0x50009400 // all that take a btrfs_ioctl_vol_args
	btrfsSetFlags  = 0x4008941a
)
