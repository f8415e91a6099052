package exec

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"sandboxd/test/require"
)

// What a user named is opened with its rights; what root names for another user is
// root's to open.
func TestPathsOfAUserAreOpenedWithItsRights(t *testing.T) {
	require.Root(t, "to run as another user")
	each(t, func(t *testing.T, s Spec, work string) {
		if s.Tier != TierFull {
			return // the command itself opens them there
		}
		for up := work; up != os.TempDir() && up != "/"; up = filepath.Dir(up) {
			_ = os.Chmod(up, 0o755) // for uid 1000
		}
		closed := work + "/closed"
		if err := errors.Join(os.MkdirAll(closed+"/in", 0o755), os.WriteFile(closed+"/in/f", []byte("content"), 0o644), os.Chmod(closed, 0o750),
			os.Chown(closed, 0, 54321)); err != nil {
			t.Fatal(err)
		}
		s.View.Entries = slices.DeleteFunc(s.View.Entries, func(e Entry) bool { return e.Path == work })
		s.View.Entries = append(s.View.Entries, Entry{Path: closed + "/in", Access: ReadOnly})
		s.Dir = "/"
		for _, tt := range []struct {
			user User
			want bool
		}{
			{User{UID: 1000, GID: 1000}, true},
			{User{UID: 1000, GID: 1000, OwnPaths: true}, false},
			{User{UID: 1000, GID: 1000, Groups: []int{54321}, OwnPaths: true}, true},
		} {
			s.User = &tt.user
			res, err := NewRunner(host).Run(t.Context(), sh(s, "cat "+closed+"/in/f"))
			got := err == nil && res.ExitCode == 0
			if got != tt.want || !tt.want && !errors.Is(err, unix.EACCES) {
				t.Errorf("%+v: %v, %v, %+v", tt.user, got, err, res)
			}
		}
	})
}
