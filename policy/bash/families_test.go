package bash_test

import (
	"os"
	"strings"
	"testing"
)

// lines reads a list of commands; "␤" stands for a newline.
func lines(t testing.TB, name string) []string {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for l := range strings.Lines(string(data)) {
		l = strings.TrimSuffix(l, "\n")
		if l != "" && !strings.HasPrefix(l, "# ") {
			out = append(out, strings.ReplaceAll(l, "␤", "\n"))
		}
	}
	return out
}

// finish closes the command lines that need an end.
func finish(prefix, cmd string) string {
	s := prefix + " " + cmd
	if strings.Contains(prefix, "-exec") && strings.HasPrefix(prefix, "find") || strings.HasPrefix(prefix, "find . -type f -ok") {
		s += ` {} \;`
	}
	return s
}

func TestLaunchersStartTheirCommand(t *testing.T) {
	for _, prefix := range lines(t, "launchers.txt") {
		if v, why := judge(finish(prefix, "canary")); v != "deny" {
			t.Errorf("%q: %s (%s), want deny", finish(prefix, "canary"), v, why)
		}
		// The honest neighbour: another program that only has the name as a word.
		if v, why := judge(finish(prefix, "echo canary")); v != "allow" && prefix != "eval" {
			t.Errorf("%q: %s (%s), want allow", finish(prefix, "echo canary"), v, why)
		}
	}
}

func TestCarriersRunTheirCode(t *testing.T) {
	for _, l := range lines(t, "carriers.txt") {
		bad := strings.NewReplacer("CODE", "canary", "WORD", "canary").Replace(l)
		if v, why := judge(bad); v == "allow" {
			t.Errorf("%q: allowed (%s)", bad, why)
		}
		quoted := l
		if !strings.Contains(l, `"CODE"`) && !strings.Contains(l, `"'CODE'"`) {
			quoted = strings.ReplaceAll(l, "CODE", `'echo x; canary'`)
		} else {
			quoted = strings.ReplaceAll(l, "CODE", "canary x")
		}
		if v, why := judge(quoted); v == "allow" && !strings.Contains(l, "WORD") {
			t.Errorf("%q: allowed (%s)", quoted, why)
		}
		good := strings.NewReplacer("CODE", "true", "WORD", "true").Replace(l)
		if v, why := judge(good); v == "deny" {
			t.Errorf("%q: denied (%s)", good, why)
		}
	}
}

func TestOrdinaryCommandsAreAllowed(t *testing.T) {
	for _, l := range lines(t, "ordinary.txt") {
		if v, why := judge(l); v != "allow" {
			t.Errorf("%q: %s (%s)", l, v, why)
		}
	}
}

func TestSpellingsOfTheCommandWord(t *testing.T) {
	for _, l := range lines(t, "spellings.txt") {
		if v, why := judge(l); v == "allow" {
			t.Errorf("%q: allowed (%s)", l, why)
		}
	}
}

// TestFoundBypasses: what an attack found stays closed.
func TestFoundBypasses(t *testing.T) {
	for _, l := range lines(t, "bypasses.txt") {
		if v, why := judge(l); v == "allow" {
			t.Errorf("%q: allowed (%s)", l, why)
		}
	}
}
