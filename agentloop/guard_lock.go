package agentloop

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// journalTries bounds how often a start loses its new journal to another start,
// which takes it for that of a dead run while it has no lock yet.
const journalTries = 100

// openLocked makes the empty journal file and locks it, under a new ID each time
// that [CompleteGuards] of another start was faster.
func (j *guardJournal) openLocked(dir string) (*os.File, error) {
	for range journalTries {
		file, err := os.OpenFile(filepath.Join(dir, j.fileName()), os.O_RDWR|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, err
		}
		var st unix.Stat_t
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			err = unix.Fstat(int(file.Fd()), &st)
		}
		if err == nil && st.Nlink > 0 {
			return file, nil
		}
		os.Remove(file.Name())
		file.Close()
		if err != nil && !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, &os.PathError{Op: "lock", Path: file.Name(), Err: err}
		}
		j.ID = rand.Text()
	}
	return nil, fmt.Errorf("%s: other starts took the journal %d times", dir, journalTries)
}
