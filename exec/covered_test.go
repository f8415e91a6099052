package exec

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"sandboxd/exec/child"
	"sandboxd/test/require"
)

// Another run with the same workspace can move names while the view is built.
func TestNameMovedWhileTheViewIsBuiltStopsTheRun(t *testing.T) {
	if !host.MountView {
		require.Missing(t, require.UserNS, "no mount view")
	}
	for _, access := range []Access{Deny, Protect} {
		for name, move := range map[string]func(held string) error{
			"away": func(held string) error { return os.Rename(held, held+"-away") },
			"decoy": func(held string) error {
				return unix.Renameat2(unix.AT_FDCWD, held, unix.AT_FDCWD, held+"-decoy", unix.RENAME_EXCHANGE)
			},
			"link": func(held string) error {
				return errors.Join(os.Rename(held, held+"-away"), os.Symlink("held-away", held))
			},
			"nothing": func(string) error { return nil },
		} {
			work := t.TempDir()
			held := filepath.Join(work, "held")
			for _, d := range []string{held, held + "-decoy"} {
				if err := os.Mkdir(d, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			s := sh(spec(TierFull, work), "echo ran")
			s.View.Entries = append(s.View.Entries, Entry{Path: held, Access: access, Optional: true})
			l, err := NewRunner(host).prepare(s)
			if err == nil {
				err = move(held)
			}
			if err != nil {
				t.Fatal(err)
			}
			proc, err := child.Start(&l.plan, child.Options{Namespaces: l.namespaces})
			l.started()
			if proc != nil {
				proc.Close()
			}
			if e := l.explain(err); (name == "nothing") != (err == nil) || err != nil && e.(*SetupError).Hint == "" {
				t.Errorf("access %d, %s: %v", access, name, e)
			}
			l.release()
		}
	}
}

func TestReplacedDenialIsReported(t *testing.T) {
	if !host.MountView {
		require.Missing(t, require.UserNS, "no mount view")
	}
	for _, replaced := range []bool{true, false} {
		work := t.TempDir()
		env := filepath.Join(work, "env")
		if err := errors.Join(os.WriteFile(env, []byte("old"), 0o644), unix.Mkfifo(work+"/go", 0o644)); err != nil {
			t.Fatal(err)
		}
		s := sh(spec(TierFull, work), "read word < go; cat env")
		s.View.Entries = append(s.View.Entries, Entry{Path: env, Access: Deny, Demanded: true})
		go func() {
			f, err := os.OpenFile(work+"/go", os.O_WRONLY, 0) // waits for the command
			if err == nil && replaced {
				err = errors.Join(os.WriteFile(env+"-new", []byte("new"), 0o644), os.Rename(env+"-new", env))
			} else if err == nil {
				err = os.WriteFile(env, []byte("new"), 0o644)
			}
			if err != nil {
				t.Error(err)
			}
			f.Close()
		}()
		got := run(t, s)
		reported := len(got.Enforced.Missing) == 1 && got.Enforced.Missing[0].Part == "deny "+env
		if leaked := got.Stdout.Text == "new"; leaked != replaced || reported != replaced {
			t.Errorf("replaced %v: output %q, missing %v", replaced, got.Stdout.Text, got.Enforced.Missing)
		}
	}
}

func TestDemandOnAFileWithOtherNames(t *testing.T) {
	if !host.MountView {
		require.Missing(t, require.UserNS, "no mount view")
	}
	for _, access := range []Access{Deny, Protect} {
		for _, tt := range []struct{ linked, demanded, bestEffort, refused bool }{
			{true, true, false, true}, {true, true, true, false}, {true, false, false, false}, {false, true, false, false},
		} {
			work := t.TempDir()
			held := filepath.Join(work, "held")
			err := os.WriteFile(held, []byte("x"), 0o644)
			if tt.linked {
				err = errors.Join(err, os.Link(held, work+"/other"))
			}
			if err != nil {
				t.Fatal(err)
			}
			s := sh(spec(TierFull, work), "true")
			s.BestEffort = tt.bestEffort
			s.View.Entries = append(s.View.Entries, Entry{Path: held, Access: access, Demanded: tt.demanded})
			res, err := NewRunner(host).Run(t.Context(), s)
			if refused := err != nil; refused != tt.refused || !refused && res.ExitCode != 0 {
				t.Errorf("access %d, %+v: %v, exit %d", access, tt, err, res.ExitCode)
			}
		}
	}
}
