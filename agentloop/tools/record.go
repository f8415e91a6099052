package tools

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"sandboxd/agentloop"
)

// record is one thing that an agent wants kept.
type record struct {
	Key  string    `json:"key"`
	Text string    `json:"text"` // masked
	Time time.Time `json:"time"`
}

// records is a file of them in the user's state, where no run reaches it. All its
// methods are called with the rights of the user. A reader finds the state before
// a change or after it, whenever who changes it is killed.
type records struct{ dir, name string }

const (
	// maxRecordFile bounds what is read back, in bytes.
	maxRecordFile = 1 << 20
	// recordLockTime bounds the wait for another process that changes the file.
	recordLockTime = time.Second
)

// recordsOf names a file of records of the session's user.
func recordsOf(s *agentloop.Session, kind, name string) (records, error) {
	state := s.Peer().Caller.StateDir
	if state == "" {
		return records{}, errors.New("there is no private directory to keep it in: neither HOME nor XDG_STATE_HOME is set")
	}
	return records{filepath.Join(state, kind), name + ".json"}, nil
}

// as calls f with the rights of the session's user.
func as(s *agentloop.Session, f func() error) (err error) {
	rights := agentloop.AsUser(s.Peer().Caller, func() { err = f() })
	return errors.Join(rights, err)
}

func (f records) path() string { return filepath.Join(f.dir, f.name) }

// read returns the records, oldest first; none when there is no file.
func (f records) read() ([]record, error) {
	file, err := os.OpenFile(f.path(), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxRecordFile+1))
	if err != nil {
		return nil, err
	}
	var content struct{ Records []record }
	if err := json.Unmarshal(data, &content); err != nil || len(data) > maxRecordFile {
		return nil, fmt.Errorf("%s is damaged: move it away", f.path())
	}
	return content.Records, nil
}

// change lets edit make the new records from the old ones, and puts them in their
// place at once.
func (f records) change(ctx context.Context, edit func([]record) ([]record, error)) error {
	if err := privateDir(f.dir); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(f.dir, ".lock"), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close() // ends the lock
	if err := flock(ctx, lock); err != nil {
		return err
	}
	old, err := f.read()
	if err != nil {
		return err
	}
	list, err := edit(old)
	if err != nil {
		return err
	}
	data, err := json.MarshalIndent(struct {
		Records []record `json:"records"`
	}{list}, "", " ")
	if err != nil {
		return err
	}
	if len(data) > maxRecordFile {
		return fmt.Errorf("%s would be larger than %d bytes", f.path(), maxRecordFile)
	}
	return f.replace(append(data, '\n'))
}

// replace puts data in the place of the file. The lock is held, so that the one
// name of the new file is nobody else's; what a killed change left is overwritten.
func (f records) replace(data []byte) error {
	fresh := f.path() + ".new"
	file, err := os.OpenFile(fresh, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(fresh, f.path())
	}
	if err != nil {
		return errors.Join(err, os.Remove(fresh))
	}
	dir, err := os.Open(f.dir)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// flock waits for the lock, not for ever: a holder may have been stopped.
func flock(ctx context.Context, f *os.File) error {
	for end := time.Now().Add(recordLockTime); ; time.Sleep(5 * time.Millisecond) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil || !errors.Is(err, unix.EWOULDBLOCK) {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s is held by another process", f.Name())
		}
	}
}

// privateDir makes a directory that others do not see into.
func privateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Lstat(dir)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is no directory", dir)
	case info.Mode().Perm()&0o077 != 0:
		return os.Chmod(dir, 0o700)
	}
	return nil
}

// sweep removes the oldest files of dir that are more than keep, and those that
// nobody changed for age.
func sweep(dir string, keep int, age time.Duration, now time.Time) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	var files []fs.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && filepath.Ext(e.Name()) == ".json" {
			files = append(files, info)
		}
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int {
		return cmp.Or(b.ModTime().Compare(a.ModTime()), cmp.Compare(a.Name(), b.Name()))
	})
	for i, info := range files {
		if i >= keep || now.Sub(info.ModTime()) > age {
			_ = os.Remove(filepath.Join(dir, info.Name())) // the next sweep tries again
		}
	}
}
