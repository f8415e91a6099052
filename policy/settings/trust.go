package settings

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// TrustStore remembers which files a person trusted, each bound to its content.
// It is safe for use by several processes: a change locks, reads again, and
// replaces the file. It is not safe for concurrent use by several goroutines.
type TrustStore struct {
	dir     string // our state directory
	owners  []int
	entries []Trusted
}

// Trusted is one trusted file.
type Trusted struct {
	Path   string    `json:"path"`   // absolute, links of the directory resolved
	SHA256 string    `json:"sha256"` // of the content, hexadecimal
	When   time.Time `json:"when"`
}

// OpenTrust reads the trusted files kept in stateDir (our directory below
// $XDG_STATE_HOME). A missing file trusts nothing; one that others could have
// written is an error.
func OpenTrust(stateDir string, owners []int) (*TrustStore, error) {
	t := &TrustStore{dir: stateDir, owners: owners}
	return t, t.read()
}

func (t *TrustStore) file() string { return TrustFile(t.dir) }

// TrustFile is where the store in stateDir keeps what is trusted.
func TrustFile(stateDir string) string { return filepath.Join(stateDir, "trust.json") }

func (t *TrustStore) read() error {
	t.entries = nil
	data, err := readChecked(t.file(), t.owners, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var content struct{ Files []Trusted }
	if err := json.Unmarshal(data, &content); err != nil {
		return &Error{File: t.file(), Text: "damaged: " + err.Error(), Hint: "remove it and trust the files again"}
	}
	t.entries = content.Files
	return nil
}

// Trusts reports whether a person trusted exactly this content of this file.
func (t *TrustStore) Trusts(path string, content []byte) bool {
	if t == nil {
		return false
	}
	path, sum := resolved(path), Digest(content)
	return slices.ContainsFunc(t.entries, func(e Trusted) bool { return e.Path == path && e.SHA256 == sum })
}

// List returns the trusted files, by path.
func (t *TrustStore) List() []Trusted { return slices.Clone(t.entries) }

// Add trusts this content of the file at path, and no longer an earlier one.
func (t *TrustStore) Add(path string, content []byte, now time.Time) error {
	path = resolved(path)
	return t.change(func() bool {
		t.entries = slices.DeleteFunc(t.entries, func(e Trusted) bool { return e.Path == path })
		t.entries = append(t.entries, Trusted{path, Digest(content), now.UTC().Truncate(time.Second)})
		return true
	})
}

// Revoke forgets path, or everything beneath it when it is a directory, and
// returns how many files that were.
func (t *TrustStore) Revoke(path string) (int, error) {
	path = resolved(path)
	n := 0
	err := t.change(func() bool {
		before := len(t.entries)
		t.entries = slices.DeleteFunc(t.entries, func(e Trusted) bool { return within(e.Path, path) })
		n = before - len(t.entries)
		return n > 0
	})
	return n, err
}

// change applies edit to the newest content under a lock and replaces the file
// when edit returns true.
func (t *TrustStore) change(edit func() bool) error {
	if err := os.MkdirAll(t.dir, 0o700); err != nil {
		return &Error{File: t.dir, Text: "cannot keep state: " + err.Error()}
	}
	lock, err := os.OpenFile(filepath.Join(t.dir, "trust.lock"), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return &Error{File: t.dir, Text: "cannot keep state: " + err.Error()}
	}
	defer lock.Close() // ends the lock
	if err := flock(lock); err != nil {
		return &Error{File: lock.Name(), Text: "cannot lock: " + err.Error()}
	}
	if err := t.read(); err != nil {
		return err
	}
	if !edit() {
		return nil
	}
	slices.SortFunc(t.entries, func(a, b Trusted) int { return strings.Compare(a.Path, b.Path) })
	data, err := json.MarshalIndent(struct {
		Files []Trusted `json:"files"`
	}{t.entries}, "", " ")
	if err != nil {
		return err
	}
	return writeAtomic(t.file(), append(data, '\n'), 0o600)
}

// Digest is the SHA-256 by which content is trusted, hexadecimal.
func Digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// writeAtomic replaces path by a new file with this content, or leaves the old
// one when anything fails.
func writeAtomic(path string, data []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".sandboxd-*")
	if err != nil {
		return &Error{File: path, Text: "cannot be written: " + err.Error()}
	}
	defer os.Remove(f.Name()) // after the rename there is nothing to remove
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return &Error{File: path, Text: "cannot be written: " + err.Error()}
	}
	return nil
}
