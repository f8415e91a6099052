package test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// requirementRows is the number of requirements of the design documents.
const requirementRows = 159

func TestRequirements(t *testing.T) {
	problems, err := checkRequirements(os.DirFS(".."), requirementRows)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Error(p)
	}
}

func TestRequirementsCheckFindsPlantedFaults(t *testing.T) {
	const head = "text\n\n| # | What | State | Tests | Fault |\n|---|---|---|---|---|\n"
	const proven = "| 1 | a | proven | a/b.TestIt, c.TestScripts/one | x |\n"
	const open = "| 2 | b \\| c | open | | y |\n"
	for _, tt := range []struct{ name, doc, want string }{
		{"honest", proven + open, ""},
		{"a row is missing", proven, "row 2 stands 0 times"},
		{"a row stands twice", proven + open + open, "row 2 stands 2 times"},
		{"a row too many", proven + open + "| 3 | c | open | | y |\n", "row 3 is not a requirement"},
		{"unknown state", proven + "| 2 | b | done | | y |\n", `row 2: state "done" is not proven or open`},
		{"proven by nothing", proven + "| 2 | b | proven | | y |\n", "row 2: proven without a test"},
		{"no fault", proven + "| 2 | b | proven | a/b.TestIt | |\n", "row 2: the last cell is empty"},
		{"nothing said to be missing", proven + "| 2 | b | open | | |\n", "row 2: the last cell is empty"},
		{"no such test", proven + "| 2 | b | proven | a/b.TestOther | y |\n", "row 2: no test TestOther in a/b"},
		{"a helper is not a test", proven + "| 2 | b | proven | a/b.testIt | y |\n", "row 2: no test testIt in a/b"},
		{"code is not a test", proven + "| 2 | b | proven | a/b.TestCode | y |\n", "row 2: no test TestCode in a/b"},
		{"no such room", proven + "| 2 | b | open | z.TestIt | y |\n", "row 2: no test TestIt in z"},
		{"no such script", proven + "| 2 | b | open | c.TestScripts/two | y |\n", "row 2: no script two in c"},
		{"not a name", proven + "| 2 | b | open | TestIt | y |\n", `row 2: "TestIt" is not ROOM.TestName`},
		{"a cell is missing", proven + "| 2 | b | open | y |\n", "row 2: 4 cells, want 5"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := checkRequirements(fstest.MapFS{
				"docs/requirements.md":          {Data: []byte(head + tt.doc)},
				"a/b/b_test.go":                 {Data: []byte("package b\nfunc TestIt(t *testing.T) {}\nfunc testIt() {}\n")},
				"a/b/b.go":                      {Data: []byte("package b\nfunc TestCode(t *testing.T) {}\n")},
				"c/main_test.go":                {Data: []byte("package c\nfunc TestScripts(t *testing.T) {}\n")},
				"c/testdata/script/one.txtar":   {Data: []byte("exec true\n")},
				"c/testdata/script/three.txtar": {Data: []byte("exec true\n")},
			}, 2)
			if err != nil {
				t.Fatal(err)
			}
			if text := strings.Join(got, "\n"); text != tt.want {
				t.Errorf("problems = %q, want %q", text, tt.want)
			}
		})
	}
}

// checkRequirements reads docs/requirements.md and returns one line for each
// problem. Rows go from 1 to rows.
func checkRequirements(tree fs.FS, rows int) ([]string, error) {
	doc, err := fs.ReadFile(tree, "docs/requirements.md")
	if err != nil {
		return nil, err
	}
	var problems []string
	seen := map[int]int{}
	tests := map[string]map[string]bool{}
	for line := range strings.Lines(string(doc)) {
		cells := cellsOf(line)
		if len(cells) == 0 {
			continue
		}
		row, err := strconv.Atoi(cells[0])
		if err != nil {
			continue // the head of the table
		}
		seen[row]++
		for _, p := range checkRow(tree, cells, tests) {
			problems = append(problems, fmt.Sprintf("row %d: %s", row, p))
		}
		if row < 1 || row > rows {
			problems = append(problems, fmt.Sprintf("row %d is not a requirement", row))
		}
	}
	for row := 1; row <= rows; row++ {
		if seen[row] != 1 {
			problems = append(problems, fmt.Sprintf("row %d stands %d times", row, seen[row]))
		}
	}
	return problems, nil
}

// cellsOf splits a table row; `\|` is a bar inside a cell.
func cellsOf(line string) []string {
	line = strings.TrimSpace(line)
	if len(line) < 2 || line[0] != '|' || line[len(line)-1] != '|' {
		return nil
	}
	const bar = "\x00"
	cells := strings.Split(strings.ReplaceAll(line[1:len(line)-1], `\|`, bar), "|")
	for i := range cells {
		cells[i] = strings.TrimSpace(strings.ReplaceAll(cells[i], bar, "|"))
	}
	return cells
}

func checkRow(tree fs.FS, cells []string, tests map[string]map[string]bool) []string {
	if len(cells) != 5 {
		return []string{fmt.Sprintf("%d cells, want 5", len(cells))}
	}
	var problems []string
	state, named, text := cells[2], cells[3], cells[4]
	if state != "proven" && state != "open" {
		problems = append(problems, fmt.Sprintf("state %q is not proven or open", state))
	}
	if state == "proven" && named == "" {
		problems = append(problems, "proven without a test")
	}
	if text == "" {
		problems = append(problems, "the last cell is empty")
	}
	for name := range strings.SplitSeq(named, ",") {
		if p := checkTestName(tree, strings.Trim(name, " `"), tests); p != "" {
			problems = append(problems, p)
		}
	}
	return problems
}

// checkTestName returns what is wrong with ROOM.TestName or
// ROOM.TestScripts/NAME, or "".
func checkTestName(tree fs.FS, name string, tests map[string]map[string]bool) string {
	if name == "" {
		return ""
	}
	room, test, ok := strings.Cut(name, ".")
	if !ok || room == "" {
		return fmt.Sprintf("%q is not ROOM.TestName", name)
	}
	test, script, isScript := strings.Cut(test, "/")
	if tests[room] == nil {
		tests[room] = testsIn(tree, room)
	}
	if !tests[room][test] {
		return fmt.Sprintf("no test %s in %s", test, room)
	}
	if !isScript || test != "TestScripts" {
		return ""
	}
	if _, err := fs.Stat(tree, path.Join(room, "testdata/script", script+".txtar")); err != nil {
		return fmt.Sprintf("no script %s in %s", script, room)
	}
	return ""
}

// testsIn names the tests, fuzz targets, benchmarks and examples of a room.
func testsIn(tree fs.FS, room string) map[string]bool {
	names := map[string]bool{}
	files, _ := fs.Glob(tree, path.Join(room, "*_test.go")) // the pattern is fixed
	for _, file := range files {
		content, err := fs.ReadFile(tree, file)
		if err != nil {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, content, parser.SkipObjectResolution)
		if err != nil {
			continue // the layout check reports files that cannot be read
		}
		for _, decl := range parsed.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Recv != nil {
				continue
			}
			for _, kind := range []string{"Test", "Fuzz", "Benchmark", "Example"} {
				if strings.HasPrefix(fn.Name.Name, kind) {
					names[fn.Name.Name] = true
				}
			}
		}
	}
	return names
}
