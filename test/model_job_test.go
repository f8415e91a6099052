package test

import (
	"fmt"
	"regexp"
	"strings"
)

// brokenModule is a Go module with a test that fails, under names that no player can know
// beforehand.
type brokenModule struct {
	pkg, fn, file, testFile string
}

// writeBroken writes the module into the workspace: a function that goes the wrong
// way, and its test.
func writeBroken(s *scene, j brokenModule) {
	s.Helper()
	s.file(s.Work+"/go.mod", "module "+j.pkg+"\n\ngo 1.21\n")
	s.file(s.Work+"/"+j.file, fmt.Sprintf(`package %[1]s

// %[2]s adds up the values.
func %[2]s(values []int) int {
	total := 0
	for _, v := range values {
		total -= v
	}
	return total
}
`, j.pkg, j.fn))
	s.file(s.Work+"/"+j.testFile, fmt.Sprintf(`package %[1]s

import "testing"

func Test%[2]s(t *testing.T) {
	if got := %[2]s([]int{1, 2, 3}); got != 6 {
		t.Errorf("%[2]s = %%d, want 6", got)
	}
}
`, j.pkg, j.fn))
}

var (
	failingAt   = regexp.MustCompile(`(\w+_test\.go):\d+: (\w+) = -?\d+, want -?\d+`)
	definedIn   = regexp.MustCompile(`(?m)([\w./-]+\.go):\d*:?\s*func (\w+)`)
	wrongWay    = regexp.MustCompile(`(\w+) -= (\w+)`)
	testsPassed = regexp.MustCompile(`(?m)^ok\s+(\w+)`)
)

// competent plays a model that can program: it runs the tests, reads what failed,
// looks for the function, corrects what is wrong there and runs the tests again.
// Each call follows from the result before it.
func competent(r modelRequest) modelReply {
	calls, results := r.calls()
	if len(calls) == 0 {
		return modelReply{Text: "I will run the tests first.", Calls: []modelCall{goTest()}}
	}
	last := calls[len(calls)-1]
	text := results[last.ID].Text
	switch last.Tool {
	case "run_bash":
		if testsPassed.MatchString(text) && !strings.Contains(text, "FAIL") {
			return modelReply{Text: "The tests pass now."}
		}
		if m := failingAt.FindStringSubmatch(text); m != nil {
			return modelReply{Text: "Test of " + m[2] + " fails.", Calls: []modelCall{
				{Tool: "read_file", Args: object{"file_path": m[1]}},
				{Tool: "grep_files", Args: object{"pattern": "func " + m[2] + "\\b", "output_mode": "content", "-n": true}},
			}}
		}
		return modelReply{Text: "I cannot tell from the output what fails: " + text}
	case "grep_files":
		if m := definedIn.FindStringSubmatch(text); m != nil {
			return modelReply{Calls: []modelCall{{Tool: "read_file", Args: object{"file_path": m[1]}}}}
		}
		return modelReply{Text: "The function is nowhere: " + text}
	case "read_file":
		file := last.Args["file_path"]
		if m := wrongWay.FindStringSubmatch(text); m != nil {
			return modelReply{Text: "It takes away where it should add.", Calls: []modelCall{
				{Tool: "file_edit", Args: object{"file_path": file, "old_string": m[0], "new_string": m[1] + " += " + m[2]}}}}
		}
		return modelReply{Text: fmt.Sprintf("I see nothing wrong in %v: %s", file, text)}
	case "file_edit":
		if results[last.ID].Error {
			return modelReply{Text: "The edit was refused: " + text}
		}
		return modelReply{Calls: []modelCall{goTest()}}
	}
	return modelReply{Text: "I am lost."}
}

func goTest() modelCall {
	return modelCall{Tool: "run_bash", Args: object{"command": "go test ./...", "timeout": 110}}
}
