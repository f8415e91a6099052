package test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

// A skip that asks nobody hides what a run of all tests did not try: only the room
// that knows SANDBOXD_TEST_REQUIRE skips.
func TestLayoutHasOneRoomThatSkips(t *testing.T) {
	found, err := skips(os.DirFS(".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range found {
		t.Errorf("%s: skips by itself; use the functions of %s", at, testRoom)
	}
}

func TestSkipsAreFound(t *testing.T) {
	const head = "package p\nimport \"testing\"\n"
	for _, tt := range []struct {
		file, text string
		want       bool
	}{
		{"a/a_test.go", head + "func TestA(t *testing.T) { t.Skip() }", true},
		{"a/a_test.go", head + "func TestA(t *testing.T) { t.Skipf(\"%d\", 1) }", true},
		{"a/a_test.go", head + "func BenchmarkA(b *testing.B) { b.SkipNow() }", true},
		{"a/a_test.go", head + "func TestA(t *testing.T) { f := t.SkipNow; f() }", true},
		{"a/a_test.go", head + "func TestA(t *testing.T) { defer t.Skipped() }", false},
		{"a/a_test.go", head + "func f(x struct{ Skip int }) int { return x.Skip }", false},
		{"a/a_test.go", head + "// t.Skip()\nfunc TestA(t *testing.T) { t.Log(\"t.Skip()\") }", false},
		{"a/a.go", "package p\nfunc f(x interface{ Skip(int) }) { x.Skip(1) }", false},
		{testRoom + "/r.go", head + "func R(t testing.TB) { t.Skip() }", false},
	} {
		got, err := skips(fstest.MapFS{tt.file: {Data: []byte(tt.text)}})
		if err != nil || len(got) > 0 != tt.want {
			t.Errorf("skips(%s: %s) = %q, %v; want one: %v", tt.file, tt.text, got, err, tt.want)
		}
	}
}

// skips lists where test files of tree skip by a method of testing.
func skips(tree fs.FS) ([]string, error) {
	var found []string
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (skippedDir(d.Name()) || name == testRoom):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, "_test.go"):
			return nil
		}
		content, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, content, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, _ := n.(*ast.CallExpr)
			if call != nil {
				n = call.Fun
			}
			if s, ok := n.(*ast.SelectorExpr); ok && skipping(s.Sel.Name, call != nil) {
				found = append(found, set.Position(s.Pos()).String())
				return false
			}
			return true
		})
		return nil
	})
	return found, err
}

// skipping says whether name is a method of testing that skips. Fields may be
// named Skip too, and are not called.
func skipping(name string, called bool) bool {
	return name == "Skip" && called || name == "Skipf" || name == "SkipNow"
}
