package landlock

import (
	"fmt"
	"net"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	golandlock "github.com/landlock-lsm/go-landlock/landlock"
)

// wants everything that a lower ABI may lack.
func wantsAll(in string) Ruleset {
	return Ruleset{
		Paths: system(
			PathRule{Path: in, Access: ReadExec | Write},
			PathRule{Path: "/dev/urandom", Access: ReadFile}),
		RestrictTCP: true, ScopeSignal: true, ScopeAbstractUnix: true, LogExec: true,
	}
}

// TestLowerABIs binds to rulesets as kernels of each ABI would make them. What
// Gaps call missing must really pass, and everything else must be held.
func TestLowerABIs(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	asEachUser(t, func(t *testing.T, uid int) {
		outside, name := startSleep(t, uid), listenAbstract(t)
		for abi := 1; abi <= min(7, Probe().effective()); abi++ {
			for _, tt := range []struct {
				op, arg        string
				from           int // the ABI that changes the answer
				without, since string
			}{
				{"read out", "", 1, "ok", "EACCES"},
				{"write out", "", 1, "ok", "EACCES"},
				{"move out", "", 1, "ok", "EACCES"},
				{"read", "", 1, "", "ok"},
				{"create", "", 1, "", "ok"},
				{"rename", "", 2, "EXDEV", "ok"},
				{"link", "", 2, "EXDEV", "ok"},
				{"truncate out", "", 3, "ok", "EACCES"},
				{"truncate", "", 1, "", "ok"},
				{"connect tcp", port, 4, "ok", "EACCES"},
				{"bind tcp", "0", 4, "ok", "EACCES"},
				{"ioctl", "", 5, "ok", "EACCES"},
				{"signal", outside, 6, "ok", "EPERM"},
				{"abstract", name, 6, "ok", "EPERM"},
			} {
				tr := trial{Op: tt.op, Args: []string{tt.arg}, ABI: abi, Dir: newTree(t, uid)}
				tr.Ruleset = wantsAll(tr.in(""))
				want := tt.since
				if abi < tt.from {
					want = tt.without
				}
				if got := tr.run(t, uid); got != want {
					t.Errorf("ABI %d: %s: %s, want %s", abi, tt.op, got, want)
				}
			}
		}
	})
}

func TestGapsOfEachABI(t *testing.T) {
	root := newTree(t, os.Getuid())
	for abi, want := range map[int][]int{
		1: {2, 3, 4, 5, 6, 7}, 2: {3, 4, 5, 6, 7}, 3: {4, 5, 6, 7}, 4: {5, 6, 7}, 5: {6, 7}, 6: {7}, 7: nil, 8: nil, 11: nil, 99: nil,
	} {
		p, e, err := wantsAll(root).Plan(Support{ABI: abi, Errata: 7})
		if err != nil {
			t.Fatal(err)
		}
		var got []int
		for _, g := range e.Gaps {
			got = append(got, g.ABI)
			if g.Part == "" || g.Why == "" || g.Instead == "" {
				t.Errorf("ABI %d: empty text in %+v", abi, g)
			}
			if g.Refuse || g.Stricter != (g.ABI == 2) {
				t.Errorf("ABI %d: %+v", abi, g)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("ABI %d: gaps %v, want %v", abi, got, want)
		}
		if e.ABI != min(abi, 11) || e.Files != p.HandledFS || e.TCP != (abi >= 4) ||
			e.ScopeSignal != (abi >= 6) || e.ScopeAbstractUnix != (abi >= 6) || e.Log != (abi >= 7) {
			t.Errorf("ABI %d: Enforced = %+v", abi, e)
		}
	}
}

func TestGapsThatRefuse(t *testing.T) {
	refused := func(r Ruleset, abi int) bool {
		_, e, err := r.Plan(Support{ABI: abi, Errata: 7})
		return err != nil || slices.ContainsFunc(e.Gaps, func(g Gap) bool { return g.Refuse })
	}
	ports := Ruleset{RestrictTCP: true, ConnectTCP: []uint16{443}}
	keeper := Ruleset{ScopesOnly: true, ScopeSignal: true}
	for _, tt := range []struct {
		name string
		rs   Ruleset
		abi  int
		want bool
	}{
		{"no landlock", Ruleset{}, 0, true},
		{"files", Ruleset{}, 1, false},
		{"ports", ports, 3, true},
		{"ports", ports, 4, false},
		{"no TCP at all", Ruleset{RestrictTCP: true}, 3, false},
		{"the keeper's scope", keeper, 5, true},
		{"the keeper's scope", keeper, 6, false},
	} {
		if got := refused(tt.rs, tt.abi); got != tt.want {
			t.Errorf("%s on ABI %d: refused %v, want %v", tt.name, tt.abi, got, tt.want)
		}
	}
}

func TestFaultySignalScopeIsNotUsed(t *testing.T) {
	_, e, err := Ruleset{ScopeSignal: true}.Plan(Support{ABI: 6, Errata: 1})
	if err != nil || e.ABI != 5 || e.ScopeSignal || len(e.Gaps) != 1 || e.Gaps[0].ABI != 6 {
		t.Errorf("Plan = %+v, %v; want ABI 5 with the scope as a gap", e, err)
	}
}

// The library refuses what it does not know, so the levels must be its own.
func TestLevelsAreTheLibrarys(t *testing.T) {
	for i, c := range []golandlock.Config{
		golandlock.V1, golandlock.V2, golandlock.V3, golandlock.V4, golandlock.V5, golandlock.V6,
		golandlock.V7, golandlock.V8, golandlock.V9, golandlock.V10, golandlock.V11,
	} {
		if Levels[i].ABI != i+1 || fileRights(i+1) != Access(c.HandledAccessFS) {
			t.Errorf("row %d: ABI %d, rights %v; the library has %v", i, Levels[i].ABI, fileRights(i+1), c.HandledAccessFS)
		}
	}
	if len(Levels) != 11 {
		t.Errorf("%d levels", len(Levels))
	}
}

func TestProbe(t *testing.T) {
	needLandlock(t)
	s := Probe()
	if s.ABI < 1 || s.Err != nil {
		t.Errorf("Probe() = %+v", s)
	}
	if got := s.Limit(3); got.ABI != min(3, s.ABI) || got.Errata != s.Errata {
		t.Errorf("Limit(3) = %+v", got)
	}
}

// TestLevelsAreDocumented keeps docs/landlock.md and Levels equal.
func TestLevelsAreDocumented(t *testing.T) {
	data, err := os.ReadFile("../docs/landlock.md")
	must(t, err)
	var got []string
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "| ABI ") {
			got = append(got, strings.TrimSuffix(line, "\n"))
		}
	}
	var want []string
	for _, l := range Levels {
		want = append(want, fmt.Sprintf("| ABI %d, Linux %s | %s | %s | %s | %s |",
			l.ABI, l.Kernel, l.Adds, l.Without, l.Instead, l.Refuse))
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the table of docs/landlock.md should be\n%s", strings.Join(want, "\n"))
	}
	for _, e := range Errata {
		if !strings.Contains(string(data), e.Text) {
			t.Errorf("docs/landlock.md lacks erratum %q", e.Text)
		}
	}
}
