package sqlite

import (
	"errors"
	"fmt"
	"syscall"

	driver "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"sandboxd/agentloop"
)

var (
	// ErrDamaged reports a file that is no readable database of ours. Nothing was
	// changed; [MoveAside] makes room for a new one.
	ErrDamaged = errors.New("the database is damaged")
	// ErrMissing reports that the database is gone while its anchors are there.
	ErrMissing = errors.New("the database is missing")
	// ErrNewer reports a database that a newer version of this program made.
	ErrNewer = errors.New("the database is of a newer version")
	// ErrInUse reports that another process has the store open for writing.
	ErrInUse = errors.New("another process writes to the store")
	// ErrUnsafe reports a place where others could reach or replace the files.
	ErrUnsafe = errors.New("not a safe place for the store")
	// ErrClosed reports a store that was closed.
	ErrClosed = errors.New("the store is closed")
	// ErrSettled reports a question that has its answer already.
	ErrSettled = errors.New("the question is answered")
)

// errWALGone reports rows that are in a WAL without a name only.
var errWALGone = errors.New("the WAL was removed or replaced while the log is read; its rows are not safe yet")

// notRecorded wraps the cause of a row that is not on disk.
func notRecorded(path string, err error) error {
	return fmt.Errorf("%w: %s: %w", agentloop.ErrNotRecorded, path, withErrno(err))
}

// withErrno adds the errno that an SQLite code stands for, so that callers can
// tell a full disk from a broken one.
func withErrno(err error) error {
	switch code(err) {
	case sqlite3.SQLITE_FULL:
		return errors.Join(err, syscall.ENOSPC)
	case sqlite3.SQLITE_READONLY:
		return errors.Join(err, syscall.EROFS)
	}
	return err
}

// code is the primary SQLite result code of an error, or 0.
func code(err error) int {
	if e, ok := errors.AsType[*driver.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

// onlyThis says whether the error is about one statement, which SQLite has undone
// alone; the transaction goes on.
func onlyThis(err error) bool {
	switch code(err) {
	case sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH:
		return true
	}
	return errors.Is(err, ErrSettled)
}

// damaged says whether the error means that the file cannot be read as a database.
func damaged(err error) bool {
	switch code(err) {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return true
	}
	return false
}
