package sqlite

import (
	"crypto/sha256"
	"database/sql"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sandboxd/agentloop"
	"sandboxd/test/require"
)

func TestFilesAreOursAlone(t *testing.T) {
	path := newPath(t)
	s := open(t, path, Options{})
	fillInOrder(t, s, 1, 3)
	if st, err := os.Stat(filepath.Dir(path)); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("directory: %v %v, want 0700", st.Mode(), err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 5 {
		t.Fatalf("%d files, %v, want database, wal, shm, anchors and lock", len(entries), err)
	}
	for _, e := range entries {
		if st, err := e.Info(); err != nil || st.Mode() != 0o600 {
			t.Errorf("%s: %v %v, want 0600", e.Name(), st.Mode(), err)
		}
	}
}

func TestUnsafePlacesAreRefused(t *testing.T) {
	made := func(t *testing.T) string {
		path := newPath(t)
		_ = open(t, path, Options{}).Close()
		return path
	}
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, spoil := range map[string]func(path string) string{
		"link to the database": func(path string) string {
			must(os.Rename(path, path+".real"))
			must(os.Symlink(path+".real", path))
			return path
		},
		"link to the anchors": func(path string) string {
			must(os.Rename(anchorsPath(path), path+".real"))
			must(os.Symlink(path+".real", anchorsPath(path)))
			return path
		},
		"link for the WAL":   func(path string) string { must(os.Symlink("/dev/null", walPath(path))); return path },
		"another name":       func(path string) string { must(os.Link(path, path+".2")); return path },
		"readable by others": func(path string) string { must(os.Chmod(path, 0o644)); return path },
		"open directory":     func(path string) string { must(os.Chmod(filepath.Dir(path), 0o770)); return path },
		"open directory above": func(path string) string {
			must(os.Chmod(filepath.Dir(filepath.Dir(path)), 0o777))
			return path
		},
		"link to the directory": func(path string) string {
			must(os.Symlink(filepath.Dir(path), filepath.Dir(path)+".link"))
			return filepath.Join(filepath.Dir(path)+".link", "audit.db")
		},
		"a pipe": func(path string) string {
			must(os.Remove(path))
			must(mkfifo(path))
			return path
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := spoil(made(t))
			if s, err := Open(path, Options{}); !errors.Is(err, ErrUnsafe) {
				if err == nil {
					_ = s.Close()
				}
				t.Errorf("Open = %v, want ErrUnsafe", err)
			}
		})
	}
	if os.Geteuid() == 0 {
		for name, of := range map[string]func(string) string{
			"directory of another": filepath.Dir, "database of another": func(p string) string { return p }, "anchors of another": anchorsPath,
		} {
			path := made(t)
			must(os.Chown(of(path), 1000, 1000))
			if _, err := Open(path, Options{}); !errors.Is(err, ErrUnsafe) {
				t.Errorf("%s: Open = %v, want ErrUnsafe", name, err)
			}
		}
	}
}

func TestBrokenDatabaseIsLeftUntilMovedAside(t *testing.T) {
	for name, content := range map[string]string{
		"no database":     strings.Repeat("this is not a database\n", 1000),
		"cut header":      "SQLite format 3\x00\x10",
		"another program": "",
	} {
		t.Run(name, func(t *testing.T) {
			path := newPath(t)
			if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if content == "" {
				makeForeign(t, path)
			} else if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			before := sum(t, path)
			_, err := Open(path, Options{})
			if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), path) {
				t.Fatalf("Open = %v, want ErrDamaged with the path", err)
			}
			if sum(t, path) != before {
				t.Error("Open changed the file")
			}
			moved, err := MoveAside(path)
			if err != nil || len(moved) == 0 || sum(t, moved[0]) != before {
				t.Fatalf("MoveAside = %v, %v", moved, err)
			}
			s := open(t, path, Options{})
			fillInOrder(t, s, 1, 2)
			mustVerify(t, s.Reader, 2)
		})
	}
}

func makeForeign(t *testing.T, path string) {
	t.Helper()
	db, err := sql.Open(driverName, "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.Exec(`CREATE TABLE cookies (a)`); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
}

func sum(t *testing.T, path string) [32]byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return sha256.Sum256(text)
}

func TestMissingDatabaseIsNotMadeAnew(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"removed": os.Remove,
		"emptied": func(path string) error { return os.Truncate(path, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			path := newPath(t)
			s := open(t, path, Options{})
			fillInOrder(t, s, 1, 5)
			_ = s.Close()
			if err := spoil(path); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(path, Options{}); !errors.Is(err, ErrMissing) {
				t.Fatalf("Open = %v, want ErrMissing", err)
			}
			if _, err := MoveAside(path); err != nil {
				t.Fatal(err)
			}
			fillInOrder(t, open(t, path, Options{}), 1, 1)
		})
	}
}

func TestDatabaseThatIsTakenAwayStopsAppend(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"gone":     func(string) error { return nil },
		"replaced": func(path string) error { return os.WriteFile(path, nil, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			path := newPath(t)
			s := open(t, path, Options{})
			fillInOrder(t, s, 1, 5)
			if err := errors.Join(os.Rename(path, path+".away"), put(path)); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if seq, err := s.Append(t.Context(), record(6)); !errors.Is(err, agentloop.ErrNotRecorded) {
					t.Fatalf("Append = %d, %v, want ErrNotRecorded", seq, err)
				}
			}
			if h := s.Health(); h.LastError == "" || h.Failing.IsZero() {
				t.Errorf("Health = %+v", h)
			}
			if err := os.Rename(path+".away", path); err != nil {
				t.Fatal(err)
			}
			fillInOrder(t, s, 6, 8)
			mustVerify(t, s.Reader, 8)
			if h := s.Health(); h.LastError != "" {
				t.Errorf("Health = %+v", h)
			}
		})
	}
}

func TestLockedDatabaseStopsAppendUntilItIsFree(t *testing.T) {
	s := open(t, newPath(t), Options{LockWait: 50 * time.Millisecond})
	fillInOrder(t, s, 1, 2)
	db, err := sql.Open(driverName, dsn(s.path, "rw", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Append(t.Context(), record(3)); !errors.Is(err, agentloop.ErrNotRecorded) || !strings.Contains(err.Error(), "locked") {
		t.Errorf("Append = %v, want ErrNotRecorded: locked", err)
	}
	_ = tx.Rollback()
	fillInOrder(t, s, 3, 4)
	mustVerify(t, s.Reader, 4)
}

func TestNewerSchemaIsRefused(t *testing.T) {
	path := newPath(t)
	_ = open(t, path, Options{}).Close()
	tamper(t, path, func(h hand) { h.do(`PRAGMA user_version = 99`) })
	if _, err := Open(path, Options{}); !errors.Is(err, ErrNewer) || !strings.Contains(err.Error(), "99") {
		t.Errorf("Open = %v, want ErrNewer", err)
	}
	if _, err := OpenReader(path); !errors.Is(err, ErrNewer) {
		t.Errorf("OpenReader = %v, want ErrNewer", err)
	}
}

func TestPathsWithAnyCharacter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a ?mode=memory#%41&é", "audit%3f.db")
	s := open(t, path, Options{})
	fillInOrder(t, s, 1, 2)
	_ = s.Close()
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	if rep := verifyAt(t, path); !rep.OK || rep.Rows != 2 {
		t.Errorf("Verify = %+v", rep)
	}
}

func TestAppendOnlyAnchors(t *testing.T) {
	path := newPath(t)
	s := open(t, path, Options{AppendOnly: true})
	t.Cleanup(func() { clearAppendOnly(t, filepath.Dir(path)) })
	fillInOrder(t, s, 1, 3)
	if !s.Health().AppendOnly {
		require.Missing(t, require.Host, "this file system or user cannot make a file append-only")
	}
	if err := os.WriteFile(anchorsPath(path), nil, 0o600); err == nil {
		t.Error("the anchors could be emptied")
	}
	if err := os.Remove(anchorsPath(path)); err == nil {
		t.Error("the anchors could be removed")
	}
	_ = s.Close()
	if rep := verifyAt(t, path); !rep.OK || !rep.AppendOnly || rep.Anchored != 3 {
		t.Errorf("Verify = %+v", rep)
	}
	moved, err := MoveAside(path)
	if err != nil || !strings.HasSuffix(moved[len(moved)-1], ".anchors") {
		t.Errorf("MoveAside = %v, %v", moved, err)
	}
}

func clearAppendOnly(t *testing.T, dir string) {
	t.Helper()
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if f, err := os.Open(filepath.Join(dir, e.Name())); err == nil {
			setAppendOnly(f, false)
			_ = f.Close()
		}
	}
}

// The rows of a WAL that was removed are in the database when Append returns: a
// copy of the file, as a crash leaves it, has them.
func TestRemovedWALLosesNothing(t *testing.T) {
	for name, spoil := range map[string]func(wal string) error{
		"removed":  os.Remove,
		"replaced": func(wal string) error { return errors.Join(os.Remove(wal), os.WriteFile(wal, []byte("x"), 0o600)) },
	} {
		t.Run(name, func(t *testing.T) {
			path := newPath(t)
			s := open(t, path, Options{})
			fillInOrder(t, s, 1, 5)
			mustVerify(t, s.Reader, 5) // the reader has its connection
			if err := spoil(walPath(path)); err != nil {
				t.Fatal(err)
			}
			fillInOrder(t, s, 6, 6)
			if w := s.Health().Warnings; len(w) != 1 || !strings.Contains(w[0], "-wal") {
				t.Errorf("warnings = %v", w)
			}
			copyFile(t, path, path+"-copy")
			copyFile(t, anchorsPath(path), anchorsPath(path+"-copy"))
			if rep := verifyAt(t, path+"-copy"); !rep.OK || rep.Rows != 6 {
				t.Errorf("after a crash: %+v", rep)
			}
			fillInOrder(t, s, 7, 9)
			mustVerify(t, s.Reader, 9)
			_ = s.Close()
			if rep := verifyAt(t, path); !rep.OK || rep.Rows != 9 {
				t.Errorf("Verify = %+v", rep)
			}
		})
	}
}

// While somebody reads, the rows cannot be moved: Append says so, and all of them
// are safe once it succeeds.
func TestRemovedWALDuringARead(t *testing.T) {
	path := newPath(t)
	s := open(t, path, Options{LockWait: 50 * time.Millisecond})
	fillInOrder(t, s, 1, 5)
	err := s.snapshot(t.Context(), func(tx *sql.Tx) error {
		var rows int
		if err := tx.QueryRow(`SELECT count(*) FROM agent_audit_log`).Scan(&rows); err != nil || rows != 5 {
			t.Errorf("%d rows, %v", rows, err)
		}
		if err := os.Remove(walPath(path)); err != nil {
			return err
		}
		for range 2 {
			if _, err := s.Append(t.Context(), record(6)); !errors.Is(err, agentloop.ErrNotRecorded) || !strings.Contains(err.Error(), "WAL") {
				t.Errorf("Append = %v, want ErrNotRecorded", err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	fillInOrder(t, s, 8, 9)
	copyFile(t, path, path+"-copy")
	copyFile(t, anchorsPath(path), anchorsPath(path+"-copy"))
	if rep := verifyAt(t, path+"-copy"); !rep.OK || rep.Rows < 8 {
		t.Errorf("after a crash: %+v", rep)
	}
	mustVerify(t, s.Reader, 9)
}

// copyFile copies by a process of its own: closing the database here would drop
// the locks of SQLite.
func copyFile(t *testing.T, from, to string) {
	t.Helper()
	if out, err := exec.Command("cp", from, to).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v %s", err, out)
	}
}
