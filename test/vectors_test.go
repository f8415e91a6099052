package test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// vectors are all of them, section by section of docs/confinement.md.
func vectors() []vector {
	return slices.Concat(
		readVectors(), kernelFileVectors(), observeVectors(), mountVectors(), writeVectors(), changeVectors(), rootVectors(), configVectors(),
		execVectors(), environmentVectors(),
		netVectors(), netListVectors(), unixVectors(), processVectors(), kernelVectors(), tableVectors(),
		limitVectors(), memoryFileVectors(),
	)
}

func TestVectors(t *testing.T) {
	for _, v := range vectors() {
		t.Run(strings.ReplaceAll(v.name, " ", "-"), func(t *testing.T) {
			for _, uid := range users() {
				t.Run(fmt.Sprintf("uid%d", uid), func(t *testing.T) { testVector(t, v, uid) })
			}
		})
	}
}

func TestVectorNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, v := range vectors() {
		if seen[v.name] || v.name == "" || strings.Contains(v.name, "/") {
			t.Errorf("vector %q: the name is empty, has a slash or stands twice", v.name)
		}
		seen[v.name] = true
	}
}

func testVector(t *testing.T, v vector, uid int) {
	if !v.rootOnly || uid == 0 {
		s := newScene(t, uid, "")
		v.prepare(s)
		if r := s.plain(s.player(v.name, "attack")...); !v.reached(s, r) {
			t.Fatalf("the attack fails without confinement and proves nothing: exit %d, stdout %q, stderr %q", r.Code, r.Stdout, r.Stderr)
		}
	}
	for _, tier := range tiers() {
		t.Run(tier, func(t *testing.T) {
			s := newScene(t, uid, tier)
			v.prepare(s)
			r := s.sbx(v.moreFlags(s), s.player(v.name, "attack")...)
			if v.refusedIn == tier {
				if r.Report.Outcome != "setup" || r.Code != 125 || v.reached(s, r) {
					t.Errorf("want a refusal to start, got %s, exit %d", r.Report.Outcome, r.Code)
				}
				return
			}
			if r.Report.Outcome == "setup" {
				t.Fatalf("nothing ran: %+v", r.Report.Error)
			}
			v.judge(s, r)
			if v.honest == nil {
				return
			}
			s = newScene(t, uid, tier)
			v.prepare(s)
			if r := s.sbx(v.moreFlags(s), s.player(v.name, "honest")...); r.Report.Outcome != "exited" || r.Code != 0 {
				t.Errorf("the honest neighbour fails: %s %d, stdout %q, stderr %q", r.Report.Outcome, r.Code, r.Stdout, r.Stderr)
			}
		})
	}
}

func (v vector) prepare(s *scene) {
	if v.setup != nil {
		v.setup(s)
	}
	s.caller = v.caller
	if v.inherit != nil {
		s.files = v.inherit(s)
	}
}

func (v vector) moreFlags(s *scene) []string {
	if v.flags == nil {
		return nil
	}
	return v.flags(s)
}

// judge compares what the attack reached with what the tier is said to hold.
func (v vector) judge(s *scene, r result) {
	s.Helper()
	reached := v.reached(s, r)
	g, open := v.openIn(s)
	switch {
	case reached && !open:
		s.Errorf("the attack succeeds: exit %d, stdout %q, stderr %q", r.Code, r.Stdout, r.Stderr)
	case !reached && open:
		s.Errorf("said to be open, but the attack fails: exit %d, stdout %q, stderr %q", r.Code, r.Stdout, r.Stderr)
	case open && !reported(r, g.part):
		s.Errorf("open, and %q is not reported: missing %+v, weakened %+v", g.part, r.Report.Enforced.Missing, r.Report.Enforced.Weakened)
	}
}

func (v vector) openIn(s *scene) (gap, bool) {
	for _, g := range v.open {
		if g.tier == s.Tier && (len(g.uids) == 0 || slices.Contains(g.uids, s.UID)) {
			return g, true
		}
	}
	return gap{}, false
}

func reported(r result, part string) bool {
	return slices.ContainsFunc(slices.Concat(r.Report.Enforced.Missing, r.Report.Enforced.Weakened),
		func(g reason) bool { return strings.Contains(g.Part, part) })
}
