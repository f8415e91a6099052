package agentloop

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"sandboxd/exec"
)

// kernelTypes are file systems whose files are knobs, devices and other processes.
// Root owns them and needs no capability to write many of them.
var kernelTypes = []string{
	"proc", "sysfs", "devtmpfs", "devpts", "cgroup", "cgroup2", "debugfs", "tracefs", "securityfs", "configfs", "efivarfs",
	"bpf", "binfmt_misc", "fusectl", "pstore", "selinuxfs", "nfsd", "rpc_pipefs", "resctrl",
}

// kernelPlaces are where such file systems are expected: what is granted there is
// judged by its path.
var kernelPlaces = []string{"/proc", "/sys", "/dev"}

// kernelMount is a file system of the kernel that lies where files do: in the tree
// of a chroot or a container, say.
type kernelMount struct{ path, fstype string }

// guardKernelMounts keeps such file systems out of what is granted. Below a tree
// granted for reading one is masked, unless it was named; a writable tree with one
// in it is refused, for want of anything that is right to do with it.
func (b *builder) guardKernelMounts() error {
	table, err := readTable("/proc/self/mountinfo")
	if err != nil {
		b.gap("kernel files", "the mounts of this host cannot be read: "+err.Error(), "none: /proc or /sys below a grant is not looked for")
		return nil
	}
	for _, m := range kernelMounts(table) {
		for _, e := range b.set.sorted() { // of entries below the mount each counts
			if e.Path != m.path && within(e.Path, m.path) && e.Kind == exec.Bind {
				if err := b.guardKernelMount(m, e.Path); err != nil {
					return err
				}
			}
		}
		if err := b.guardKernelMount(m, m.path); err != nil {
			return err
		}
	}
	return nil
}

// guardKernelMount judges path, which lies in the mount m.
func (b *builder) guardKernelMount(m kernelMount, path string) error {
	e, ok := b.set.at(path)
	if !ok || e.Kind != exec.Bind || e.Source != "" && e.Source != e.Path {
		return nil
	}
	switch named := within(e.Path, m.path) && b.set.user[e.Path]; {
	case e.Access == exec.ReadWrite:
		return &GrantError{Entry: "write " + e.Path, Hint: "unmount it, grant the directories beside it, or add --deny " + m.path,
			Err: fmt.Errorf("%s is a %s file system: %w", m.path, m.fstype, errKernelMount)}
	case e.Access == exec.ReadOnly && named:
		b.gap("kernel files", fmt.Sprintf("%s is a %s file system and granted by its name", e.Path, m.fstype), "the modes of its files, no writing")
	case e.Access >= exec.Protect:
		b.set.add(exec.Entry{Path: m.path, Access: exec.Deny, Optional: true, Reason: m.fstype + " of the host; name it to read it"})
	}
	return nil
}

var errKernelMount = errors.New("the kernel's knobs and other processes are never writable")

// kernelMounts lists them from the text of /proc/PID/mountinfo (proc(5)): the fifth
// field is the mount point, the one after the dash the type.
func kernelMounts(table []byte) []kernelMount {
	var list []kernelMount
	for line := range bytes.Lines(table) {
		before, after, ok := bytes.Cut(line, []byte(" - "))
		fstype, _, _ := bytes.Cut(after, []byte(" "))
		if !ok || !slices.Contains(kernelTypes, string(fstype)) {
			continue
		}
		fields := strings.Fields(string(before))
		if len(fields) >= 5 && !withinAny(fields[4], kernelPlaces) {
			list = append(list, kernelMount{unescapeMount(fields[4]), string(fstype)})
		}
	}
	return list
}

// readTable reads a file of /proc, whose size nobody knows, with few calls: the
// kernel makes each piece anew.
func readTable(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := bytes.NewBuffer(make([]byte, 0, 32<<10))
	_, err = b.ReadFrom(f)
	return b.Bytes(), err
}

// unescapeMount undoes the octal escapes of space, tab, newline and backslash.
func unescapeMount(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}
