package test

import (
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

// documented is one row of docs/confinement.md.
type documented struct {
	patterns   []string
	full, base string
}

func (d documented) covers(name string) bool {
	return slices.ContainsFunc(d.patterns, func(p string) bool {
		ok, err := path.Match(p, name)
		return ok && err == nil
	})
}

// TestConfinementTable compares docs/confinement.md with the vectors: each has a
// row, each row has a vector, and both say the same about what is open.
func TestConfinementTable(t *testing.T) {
	rows := confinementRows(t)
	used := make([]bool, len(rows))
	for _, v := range vectors() {
		i := slices.IndexFunc(rows, func(d documented) bool { return d.covers(v.name) })
		if i < 0 {
			t.Errorf("%q has no row", v.name)
			continue
		}
		used[i] = true
		for tier, cell := range map[string]string{"full": rows[i].full, "base": rows[i].base} {
			open := slices.ContainsFunc(v.open, func(g gap) bool { return g.tier == tier })
			if open != strings.HasPrefix(cell, "open") {
				t.Errorf("%q in tier %s: the test says open %v, the table %q", v.name, tier, open, cell)
			}
			if refused := strings.Contains(cell, "the run is refused (125)"); refused != (v.refusedIn == tier) {
				t.Errorf("%q in tier %s: the test says refused %v, the table %q", v.name, tier, v.refusedIn == tier, cell)
			}
			for _, g := range v.open {
				if g.tier == tier && !strings.Contains(cell, "`"+g.part+"`") {
					t.Errorf("%q in tier %s: the row does not name %q, which the result reports", v.name, tier, g.part)
				}
			}
		}
	}
	for i, u := range used {
		if !u {
			t.Errorf("no vector for the row %q", rows[i].patterns)
		}
	}
}

// confinementRows reads the rows of all tables whose first column is "vector".
func confinementRows(t *testing.T) []documented {
	t.Helper()
	text, err := os.ReadFile("../docs/confinement.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows []documented
	inside := false
	for line := range strings.Lines(string(text)) {
		cells := cellsOf(line)
		switch {
		case len(cells) != 3:
			inside = false
		case cells[0] == "vector":
			inside = true
		case inside && !strings.HasPrefix(cells[0], "---"):
			rows = append(rows, documented{strings.Split(cells[0], ", "), cells[1], cells[2]})
		}
	}
	return rows
}
