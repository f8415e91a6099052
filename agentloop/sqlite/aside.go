package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// MoveAside renames the files of a store that cannot be used any more to
// NAME.aside-TIME, so that Open begins a new one. It is for the explicit command
// of a person; nothing calls it by itself, and nothing is removed. It is refused
// with [ErrInUse] while a daemon has the store open. It returns the new names.
func MoveAside(path string) ([]string, error) {
	path, err := prepare(path)
	if err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	l, err := lock(path)
	if err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	defer func() { _ = l.Close() }()
	suffix := ".aside-" + time.Now().UTC().Format("20060102T150405.000000000Z")
	var moved []string
	// The database goes first: when a later step fails, Open finds anchors without
	// one and says so. SQLite finds the WAL of the moved database by its name.
	for _, part := range []string{"", "-wal", "-shm", ".anchors"} {
		from, to := path+part, path+suffix+part
		if _, err := os.Lstat(from); errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err := rename(from, to); err != nil {
			return moved, fmt.Errorf("audit log: %w", err)
		}
		moved = append(moved, to)
	}
	return moved, syncDir(filepath.Dir(path))
}

// rename also renames a file that is append-only, which it stays.
func rename(from, to string) error {
	err := os.Rename(from, to)
	if !errors.Is(err, unix.EPERM) || !strings.HasSuffix(from, anchorsPath("")) {
		return err
	}
	f, errOpen := os.Open(from)
	if errOpen != nil {
		return errors.Join(err, errOpen)
	}
	setAppendOnly(f, false)
	err = os.Rename(from, to)
	setAppendOnly(f, true)
	return errors.Join(err, f.Close())
}
