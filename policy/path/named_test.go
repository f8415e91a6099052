package path

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"sandboxd/test/require"
)

// On a thread of another user the names of /proc lead nowhere; plain names and links
// work, and on the process's own thread everything does.
func TestClientsNamesLeadNotThroughProc(t *testing.T) {
	require.Root(t, "to take another user's file rights")
	dir := t.TempDir()
	for up := dir; filepath.Dir(up) != up && up != os.TempDir(); up = filepath.Dir(up) {
		_ = os.Chmod(up, 0o755) // for uid 1000
	}
	closed := dir + "/closed"
	for _, err := range []error{
		os.MkdirAll(closed+"/in", 0o755), os.WriteFile(closed+"/in/f", []byte("secret"), 0o644), os.Chmod(closed, 0o700),
		os.WriteFile(dir+"/plain", []byte("plain"), 0o644), os.Symlink("plain", dir+"/link"), os.Symlink("ring", dir+"/ring"),
		os.Symlink("/proc/self/maps", dir+"/maps"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	fd, err := unix.Open(closed+"/in", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	through := "/proc/self/fd/" + strconv.Itoa(fd)
	if err := os.Symlink(through, dir+"/through"); err != nil {
		t.Fatal(err)
	}
	readers := map[string]func(string) error{
		"OpenNamed": func(name string) error {
			f, err := OpenNamed(name, unix.O_RDONLY)
			unix.Close(f)
			return err
		},
		"ReadRegular": func(name string) error { _, err := ReadRegular(name, 1<<20); return err },
		"OpenDir": func(name string) error {
			f, err := OpenDir(name)
			f.Close()
			return err
		},
	}
	for reader, read := range readers {
		for _, tt := range []struct {
			name string
			want error // for a client
			own  error
		}{
			{through + "/f", ErrOwnProcess, nil},
			{dir + "/through/f", ErrOwnProcess, nil},
			{"/proc/self/root" + dir + "/plain", ErrOwnProcess, nil},
			{"/proc/thread-self/cwd", ErrOwnProcess, nil},
			{"/proc/self/maps", ErrOwnProcess, nil},
			{dir + "/maps", ErrOwnProcess, nil},
			{dir + "/plain", nil, nil},
			{dir + "/link", nil, nil},
			{dir + "/ring", unix.ELOOP, unix.ELOOP},
			{closed + "/in/f", unix.EACCES, nil},
		} {
			isDir := tt.name == "/proc/thread-self/cwd"
			if reader == "ReadRegular" && isDir || reader == "OpenDir" && !isDir && (tt.want == nil || strings.HasSuffix(tt.name, "maps")) {
				continue
			}
			if got := asUser1000(t, func() error { return read(tt.name) }); !errors.Is(got, tt.want) {
				t.Errorf("%s(%s) for uid 1000: %v, want %v", reader, tt.name, got, tt.want)
			}
			if reader != "OpenNamed" {
				continue
			}
			if got := read(tt.name); !errors.Is(got, tt.own) {
				t.Errorf("%s(%s) for the process itself: %v, want %v", reader, tt.name, got, tt.own)
			}
		}
	}
}

// asUser1000 calls f on a thread that ends with it.
func asUser1000(t *testing.T, f func() error) error {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		unix.RawSyscall(unix.SYS_SETFSGID, 1000, 0, 0)
		unix.RawSyscall(unix.SYS_SETFSUID, 1000, 0, 0)
		done <- f()
	}()
	return <-done
}
