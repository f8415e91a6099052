package test

import (
	"bytes"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// badLine is something that no line of ours may hold. The patterns are written
// so that they do not match themselves.
type badLine struct {
	why     string
	pattern string
	// only names the extensions that are read; empty means all.
	only []string
}

var badLines = []badLine{
	{"a note to finish later belongs in an issue", `\b(TO` + `DO|FIX` + `ME)(\(|:|$)`, []string{".go", ".c", ".h"}},
	{"a path of one developer's machine", `(^|[^a-z.~])/wor` + `k/(main|shared)\b`, nil},
	{"the name of a package registry", `\b(proxy\.go` + `lang\.org|registry\.np` + `mjs\.org|files\.python` + `hosted\.org|static\.cra` + `tes\.io)\b`, nil},
	{"space at the end of a line", `[ \t]+$`, []string{".go", ".c", ".h", ".sh", "", ".toml"}},
	{"a carriage return", `\r$`, []string{".go", ".c", ".h", ".sh", ""}},
}

func TestNoBadLines(t *testing.T) {
	found, err := findBadLines(os.DirFS(".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		t.Error(f)
	}
}

func TestBadLinesAreFound(t *testing.T) {
	for name, content := range map[string]string{
		"a/x.go":    "// TO" + "DO: later\n",
		"a/y.go":    "const dir = \"/wor" + "k/main/x\"\n",
		"README.md": "get it from https://proxy.go" + "lang.org/x\n",
		"Makefile":  "all: \n",
		"b.go":      "package b\r\n",
	} {
		got, err := findBadLines(fstest.MapFS{name: {Data: []byte(content)}})
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != 1 || !strings.HasPrefix(got[0], name+":1: ") {
			t.Errorf("%s %q: found %q, want one line", name, content, got)
		}
	}
	honest := fstest.MapFS{
		"a/x.go":           {Data: []byte("package a // a network of ours in ~/wor" + "k/main\n")},
		"a/testdata/y.txt": {Data: []byte("/wor" + "k/main \r\n")},
		"bin/sbx":          {Data: []byte("/wor" + "k/main")},
		"sbx":              {Data: []byte("\x7fELF\x00/wor" + "k/main")},
	}
	if got, err := findBadLines(honest); err != nil || len(got) != 0 {
		t.Errorf("honest lines are reported: %q, %v", got, err)
	}
}

// findBadLines reads every text file of ours; testdata holds the words of others.
func findBadLines(tree fs.FS) ([]string, error) {
	patterns := make([]*regexp.Regexp, len(badLines))
	for i, b := range badLines {
		patterns[i] = regexp.MustCompile(b.pattern)
	}
	var found []string
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name == ".git" || name == "bin" || d.Name() == "testdata" {
				return fs.SkipDir
			}
			return nil
		}
		if name == "LICENSE" || name == "go.sum" || name == ".git" || !d.Type().IsRegular() {
			return nil
		}
		content, err := fs.ReadFile(tree, name)
		if err != nil || bytes.IndexByte(content, 0) >= 0 { // a program, not text
			return err
		}
		for i, line := range strings.Split(string(content), "\n") {
			for k, b := range badLines {
				if b.reads(path.Ext(name)) && patterns[k].MatchString(line) {
					found = append(found, name+":"+strconv.Itoa(i+1)+": "+b.why)
				}
			}
		}
		return nil
	})
	return found, err
}

func (b badLine) reads(ext string) bool { return b.only == nil || slices.Contains(b.only, ext) }
