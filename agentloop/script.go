package agentloop

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"

	policypath "sandboxd/policy/path"
)

// scriptHead is what the kernel looks at of a script's first line, in bytes
// (BINPRM_BUF_SIZE).
const scriptHead = 256

// readHead reads the first size bytes of a file.
func readHead(path string, size int) ([]byte, error) {
	fd, err := policypath.OpenNamed(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	head := make([]byte, size)
	n, err := unix.Pread(fd, head, 0)
	if err != nil {
		return nil, &os.PathError{Op: "read", Path: path, Err: err}
	}
	return head[:n], nil
}

// shebang splits "#!interpreter argument" as the kernel does: one argument.
func shebang(head []byte) (interpreter, argument string) {
	text, ok := strings.CutPrefix(string(head), "#!")
	if !ok {
		return "", ""
	}
	line, _, _ := strings.Cut(text, "\n")
	line = strings.Trim(line, " \t\r")
	if i := strings.IndexAny(line, " \t"); i >= 0 {
		return line[:i], strings.TrimLeft(line[i:], " \t")
	}
	return line, ""
}
