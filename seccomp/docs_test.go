package seccomp

import (
	"os"
	"strings"
	"testing"
)

// TestDocumentListsEveryRefusal: docs/seccomp.md has the rows of [Refusals].
func TestDocumentListsEveryRefusal(t *testing.T) {
	const file = "../docs/seccomp.md"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(text[strings.Index(string(text), "## Refused"):])) {
		if strings.HasPrefix(line, "| `") {
			rows++
		}
	}
	for _, r := range Refusals() {
		if row := "| `" + strings.Join(r.Calls, "`, `") + "` | " + r.Why + " |\n"; !strings.Contains(string(text), row) {
			t.Errorf("%s lacks the row\n%s", file, row)
		}
	}
	if rows != len(Refusals()) {
		t.Errorf("%s has %d rows, want %d", file, rows, len(Refusals()))
	}
}

func ExampleProfile_Compile() {
	p, err := ByName("default")
	if err != nil {
		panic(err)
	}
	f, err := p.Compile("amd64", Options{Inet: true})
	if err != nil {
		panic(err)
	}
	os.Stdout.WriteString(f.Arch)
	// Output: amd64
}
