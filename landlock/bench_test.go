package landlock

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"sandboxd/test/require"
)

// What opening a ruleset with 24 rules adds to a launch that can not reuse one.
func BenchmarkOpen(b *testing.B) {
	s := Probe()
	if s.effective() < 1 {
		require.Missing(b, require.Landlock, s.Err)
	}
	entries, err := os.ReadDir("/etc")
	if err != nil {
		b.Fatal(err)
	}
	var rs Ruleset
	for _, e := range entries[:min(24, len(entries))] {
		rs.Paths = append(rs.Paths, PathRule{Path: filepath.Join("/etc", e.Name()), Access: ReadExec, Optional: true})
	}
	for b.Loop() {
		fd, _, _, err := rs.Open(s)
		if err != nil {
			b.Fatal(err)
		}
		unix.Close(fd)
	}
}

func BenchmarkProbe(b *testing.B) {
	for b.Loop() {
		Probe()
	}
}
