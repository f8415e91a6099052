package tools

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"golang.org/x/sys/unix"

	"sandboxd/agentloop"
	"sandboxd/policy"
)

func TestReadShowsNumberedLinesOfTheRange(t *testing.T) {
	w := newWorld(t, nil)
	var long strings.Builder
	for i := 1; i <= 5000; i++ {
		fmt.Fprintf(&long, "line %d\n", i)
	}
	w.file("long.txt", long.String())
	w.file("unended.txt", "a\nb")
	w.file("crlf.txt", "a\r\nb\r\n")
	w.file("bom.txt", "\xef\xbb\xbfhello\n")
	w.file("latin.txt", "caf\xe9\n")
	w.file("wide.txt", strings.Repeat("x", 5000)+"\nend\n")
	w.file("empty.txt", "")
	utf16le := "\xff\xfe"
	for _, u := range utf16.Encode([]rune("grüße\n")) {
		utf16le += string([]byte{byte(u), byte(u >> 8)})
	}
	w.file("wide16.txt", utf16le)
	for _, tt := range []struct {
		file          string
		offset, limit float64
		want          string
	}{
		{"a.txt", 0, 0, "1\tone\n2\ttwo\n3\tthree\n"},
		{"a.txt", 2, 1, "2\ttwo\n[more lines follow: read on with offset 3]\n"},
		{"a.txt", 3, 0, "3\tthree\n"},
		{"a.txt", 9, 0, "[the file has 3 lines, so none from 9 on]\n"},
		{"long.txt", 4999, 0, "4999\tline 4999\n5000\tline 5000\n"},
		{"unended.txt", 0, 0, "1\ta\n2\tb\n[the last line has no line end]\n"},
		{"crlf.txt", 0, 0, "1\ta\n2\tb\n[lines end with CR LF]\n"},
		{"bom.txt", 0, 0, "1\thello\n[encoding: UTF-8 with a byte order mark]\n"},
		{"latin.txt", 0, 0, "1\tcaf\uFFFD\n[encoding: not UTF-8]\n"},
		{"wide16.txt", 0, 0, "1\tgrüße\n[encoding: UTF-16, little-endian]\n"},
		{"wide.txt", 0, 0, "1\t" + strings.Repeat("x", 2000) + " [... 3000 more bytes in this line]\n2\tend\n"},
		{"empty.txt", 0, 0, "[the file is empty]"},
	} {
		args := policy.Args{"file_path": tt.file}
		if tt.offset > 0 {
			args["offset"] = tt.offset
		}
		if tt.limit > 0 {
			args["limit"] = tt.limit
		}
		if got := w.ok("read_file", args); got != tt.want {
			t.Errorf("%s from %v, %v lines: %q, want %q", tt.file, tt.offset, tt.limit, got, tt.want)
		}
	}
	got := w.ok("read_file", policy.Args{"file_path": "long.txt"})
	if n := strings.Count(got, "\n"); n != defaultLines+1 || !strings.HasSuffix(got, "[more lines follow: read on with offset 2001]\n") {
		t.Errorf("the whole of a long file: %d lines, %q", n, got[len(got)-80:])
	}
}

func TestReadOfWhatIsNoTextFile(t *testing.T) {
	w := newWorld(t, nil)
	w.file("image.png", "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR")
	if got := w.ok("read_file", policy.Args{"file_path": "image.png"}); !strings.HasPrefix(got, "[binary file, image/png, 16 bytes") || !strings.Contains(got, "89 50 4e 47") {
		t.Errorf("binary: %q", got)
	}
	if err := unix.Mkfifo(w.path("fifo"), 0o666); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	w.refused("is a FIFO, not a file", "read_file", policy.Args{"file_path": "fifo"})
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("a FIFO without a writer held the call for %v", took)
	}
	w.refused("is a directory", "read_file", policy.Args{"file_path": "."})
	w.refused("no such file", "read_file", policy.Args{"file_path": "missing/x"})
	w.refused("argument file_path is missing", "read_file", policy.Args{})
	if err := os.Symlink("a.txt", w.path("link")); err != nil {
		t.Fatal(err)
	}
	if got := w.ok("read_file", policy.Args{"file_path": "link", "limit": 1.0}); !strings.HasPrefix(got, "1\tone\n") {
		t.Errorf("through a link: %q", got)
	}
}

// TestReadOfAHugeFileKeepsOnlyTheRange: the memory limit of the call is far below
// the size of the file.
func TestReadOfAHugeFileKeepsOnlyTheRange(t *testing.T) {
	w := newWorld(t, nil)
	f, err := os.Create(w.path("huge"))
	if err != nil {
		t.Fatal(err)
	}
	line := strings.Repeat("y", 99) + "\n"
	for range 20 {
		if _, err := f.WriteString(strings.Repeat(line, 20_000)); err != nil {
			t.Fatal(err)
		}
	}
	f.Close()
	// One line that never ends follows.
	if err := os.Truncate(w.path("huge"), 1<<30); err != nil {
		t.Fatal(err)
	}
	res := w.d.Dispatch(t.Context(), w.s, agentloop.ToolCall{Call: policy.Call{Tool: "read_file", Args: policy.Args{"file_path": "huge", "offset": 399_999.0}},
		Limits: policy.GrantLimits{MemoryBytes: 64 << 20}})
	if res.Status != agentloop.StatusOK || !strings.HasPrefix(res.Output, "399999\t"+line+"400000\t"+line+"400001\t\x00") || len(res.Output) > 20_000 {
		t.Errorf("%s %s: %d bytes, %.100q", res.Status, res.Error, len(res.Output), res.Output)
	}
	w.refused("larger than", "file_write", policy.Args{"file_path": "huge", "content": "x"})
}
