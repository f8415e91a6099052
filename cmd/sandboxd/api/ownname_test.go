package api

import "testing"

func TestNamesOfTheOpeningProcess(t *testing.T) {
	for path, want := range map[string]bool{
		"/dev/fd/63": true, "/proc/self": true, "/proc/self/root/etc/passwd": true, "/proc/thread-self/cwd/x": true,
		"//proc/./self/fd/3": true, "/dev/shm/../fd/3": true, "/dev/stdin": true, "proc/self/fd/0": true,
		"/proc/selfish": false, "/dev/fdx": false, "/home/u/proc/self": false, "/proc/1/root": false, "/dev/shm/f": false, "": false,
	} {
		if got := OwnName(path); got != want {
			t.Errorf("OwnName(%q) = %v, want %v", path, got, want)
		}
	}
}
