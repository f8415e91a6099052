package test

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// faultFile lists the faults that make faults plants, beside this test.
const faultFile = "test/testdata/faults.txt"

// fault is a small fault of the code that one test must find.
type fault struct {
	rows []int
	// test is ROOM.TestName or ROOM.TestScripts/NAME.
	test string
	file string
	// old stands in file exactly once; new stands in its place when the fault
	// is planted.
	old, new string
	line     int // where the fault is described
}

func (f fault) String() string {
	rows := make([]string, len(f.rows))
	for i, r := range f.rows {
		rows[i] = strconv.Itoa(r)
	}
	return strings.Join(rows, ",") + " " + f.test + " " + f.file
}

// TestFaultsApply: each fault can still be planted, and each row that is called
// proven has one. It plants nothing; make faults does.
func TestFaultsApply(t *testing.T) {
	problems, err := checkFaults(os.DirFS(".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Error(p)
	}
}

// parseFaults reads blocks of lines, separated by empty lines; "#" begins a
// comment outside a block:
//
//	row 22, 105
//	test policy.TestIt
//	file policy/engine.go
//	- the text as it stands in the file, several lines one below the other
//	+ what takes its place; a lone + is nothing
func parseFaults(text string) ([]fault, error) {
	var list []fault
	var old, new []string
	var f fault
	flush := func() error {
		if f.line == 0 {
			return nil
		}
		f.old, f.new = strings.Join(old, "\n"), strings.Join(new, "\n")
		switch {
		case len(f.rows) == 0, f.test == "", f.file == "", f.old == "", len(new) == 0:
			return fmt.Errorf("%s:%d: want row, test, file, - and +", faultFile, f.line)
		case f.old == f.new:
			return fmt.Errorf("%s:%d: the fault changes nothing", faultFile, f.line)
		}
		list = append(list, f)
		f, old, new = fault{}, nil, nil
		return nil
	}
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSuffix(line, "\n")
		if line == "" {
			if err := flush(); err != nil {
				return nil, err
			}
			continue
		}
		word, rest, _ := strings.Cut(line, " ")
		if word[0] == '#' && f.line == 0 {
			continue
		}
		if f.line == 0 {
			f.line = n
		}
		switch word {
		case "row":
			for s := range strings.SplitSeq(rest, ",") {
				row, err := strconv.Atoi(strings.TrimSpace(s))
				if err != nil {
					return nil, fmt.Errorf("%s:%d: row %q is not a number", faultFile, n, s)
				}
				f.rows = append(f.rows, row)
			}
		case "test":
			f.test = rest
		case "file":
			f.file = rest
		case "-":
			old = append(old, rest)
		case "+":
			new = append(new, rest)
		default:
			return nil, fmt.Errorf("%s:%d: %q is not row, test, file, - or +", faultFile, n, word)
		}
	}
	return list, flush()
}

func readFaults(tree fs.FS) ([]fault, error) {
	text, err := fs.ReadFile(tree, faultFile)
	if err != nil {
		return nil, err
	}
	return parseFaults(string(text))
}

// checkFaults compares the faults with the tree and with docs/requirements.md
// and returns one line for each problem.
func checkFaults(tree fs.FS) ([]string, error) {
	faults, err := readFaults(tree)
	if err != nil {
		return nil, err
	}
	doc, err := fs.ReadFile(tree, "docs/requirements.md")
	if err != nil {
		return nil, err
	}
	rows := map[int][]string{}
	for line := range strings.Lines(string(doc)) {
		if cells := cellsOf(line); len(cells) == 5 {
			if row, err := strconv.Atoi(cells[0]); err == nil {
				rows[row] = cells
			}
		}
	}
	var problems []string
	tests := map[string]map[string]bool{}
	for _, f := range faults {
		for _, p := range checkFault(tree, f, rows, tests) {
			problems = append(problems, fmt.Sprintf("%s:%d: %s", faultFile, f.line, p))
		}
	}
	for row, cells := range rows {
		if cells[2] == "proven" && !slices.ContainsFunc(faults, func(f fault) bool { return slices.Contains(f.rows, row) }) {
			problems = append(problems, fmt.Sprintf("row %d is proven and has no fault in %s", row, faultFile))
		}
	}
	slices.Sort(problems)
	return problems, nil
}

func checkFault(tree fs.FS, f fault, rows map[int][]string, tests map[string]map[string]bool) []string {
	var problems []string
	code, err := fs.ReadFile(tree, f.file)
	if err != nil {
		problems = append(problems, err.Error())
	} else if n := strings.Count(string(code), f.old); n != 1 {
		problems = append(problems, fmt.Sprintf("%q stands %d times in %s, want once", f.old, n, f.file))
	}
	if p := checkTestName(tree, f.test, tests); p != "" {
		problems = append(problems, p)
	}
	for _, row := range f.rows {
		switch cells := rows[row]; {
		case cells == nil:
			problems = append(problems, fmt.Sprintf("there is no row %d", row))
		case !namesTest(cells[3], f.test):
			problems = append(problems, fmt.Sprintf("row %d does not name %s", row, f.test))
		}
	}
	return problems
}

// namesTest reports whether a cell with tests names this one.
func namesTest(cell, test string) bool {
	for name := range strings.SplitSeq(cell, ",") {
		if strings.Trim(name, " `") == test {
			return true
		}
	}
	return false
}

func TestFaultCheckFindsPlantedProblems(t *testing.T) {
	const honest = "# why\nrow 1\ntest a.TestIt\nfile a/a.go\n- return 1\n+ return 2\n"
	const two = "\nrow 1, 2\ntest a.TestIt\nfile a/a.go\n- x := 1\n- \treturn 1\n+\n"
	for _, tt := range []struct{ name, faults, want string }{
		{"honest", honest + two, ""},
		{"stands not there", strings.Replace(honest, "return 1", "return 3", 1), `test/testdata/faults.txt:2: "return 3" stands 0 times in a/a.go, want once`},
		{"stands twice", strings.Replace(honest, "return 1", "1", 1), `test/testdata/faults.txt:2: "1" stands 2 times in a/a.go, want once`},
		{"no such file", strings.Replace(honest, "a/a.go", "a/b.go", 1), "test/testdata/faults.txt:2: open a/b.go: file does not exist"},
		{"no such test", strings.Replace(honest, "TestIt", "TestOther", 1), "test/testdata/faults.txt:2: no test TestOther in a\ntest/testdata/faults.txt:2: row 1 does not name a.TestOther"},
		{"no such row", strings.Replace(honest, "row 1", "row 1, 7", 1), "test/testdata/faults.txt:2: there is no row 7"},
		{"a row that names another test", strings.Replace(honest, "row 1", "row 1, 3", 1), "test/testdata/faults.txt:2: row 3 does not name a.TestIt"},
		{"a proven row without a fault", strings.Replace(two, "row 1, 2", "row 2", 1), "row 1 is proven and has no fault in test/testdata/faults.txt"},
		{"changes nothing", strings.Replace(honest, "return 2", "return 1", 1), "error: test/testdata/faults.txt:2: the fault changes nothing"},
		{"nothing in its place", strings.Replace(honest, "+ return 2\n", "", 1), "error: test/testdata/faults.txt:2: want row, test, file, - and +"},
		{"a slip", honest + "tset x\n", `error: test/testdata/faults.txt:7: "tset" is not row, test, file, - or +`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := checkFaults(fstest.MapFS{
				faultFile: {Data: []byte(tt.faults)},
				"docs/requirements.md": {Data: []byte("| # | What | State | Tests | Fault |\n|---|---|---|---|---|\n| 1 | x | proven | `a.TestIt` | y |\n" +
					"| 2 | x | open | a.TestMore, a.TestIt | y |\n| 3 | x | open | a.TestMore | y |\n")},
				"a/a.go":      {Data: []byte("package a\nfunc F() int {\n\tx := 1\n\treturn 1\n}\n")},
				"a/a_test.go": {Data: []byte("package a\nfunc TestIt(t *testing.T) {}\nfunc TestMore(t *testing.T) {}\n")},
			})
			text := strings.Join(got, "\n")
			if err != nil {
				text = "error: " + err.Error()
			}
			if text != tt.want {
				t.Errorf("problems = %q, want %q", text, tt.want)
			}
		})
	}
}
