package exec

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// minFileSize is how large a file this process must be able to write, in bytes:
// compiled filters, plans and the memory files of the probes. 16 KiB were enough
// for each when measured.
const minFileSize = 64 << 10

// CheckOwnLimits reports what this process inherited that it cannot work with, as a
// [*SetupError]. To be called before [LoadHost]: what a limit of the caller makes
// fail must not be taken for a refusal of the host.
func CheckOwnLimits() error {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &l); err != nil {
		return &SetupError{Stage: "limits", Err: fmt.Errorf("getrlimit: %w", err)}
	}
	if l.Cur >= minFileSize {
		return nil
	}
	return &SetupError{Stage: "limits", Hint: "raise it (ulimit -f unlimited); --file-size limits the command alone",
		Err: fmt.Errorf("the caller's file size limit of %d bytes is too small for sandboxd's own files, which need %d", l.Cur, minFileSize)}
}
