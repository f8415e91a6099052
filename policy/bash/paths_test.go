package bash_test

import (
	"path"
	"slices"
	"strings"
	"testing"

	"sandboxd/policy/bash"
)

// links reads the links that a case's setup makes.
func links(setup string) map[string]string {
	out := map[string]string{}
	for _, cmd := range strings.Split(setup, ";") {
		f := strings.Fields(cmd)
		if len(f) == 4 && f[0] == "ln" && f[1] == "-s" {
			out[path.Join("/w", f[3])] = f[2]
		}
	}
	return out
}

// kernelPath resolves a path as the kernel does: links first, then "..".
func kernelPath(p string, last bool, links map[string]string) string {
	cur := "/"
	parts := strings.Split(p, "/")
	for n := 0; len(parts) > 0 && n < 100; n++ {
		c := parts[0]
		parts = parts[1:]
		next := path.Join(cur, c)
		if t, ok := links[next]; ok && c != "" && c != "." && c != ".." && (last || len(parts) > 0) {
			if strings.HasPrefix(t, "/") {
				cur = "/"
			}
			parts = append(strings.Split(t, "/"), parts...)
			continue
		}
		cur = next
	}
	return cur
}

func isSensitive(p string) bool {
	rel := strings.TrimPrefix(p, "/w/")
	first, _, _ := strings.Cut(rel, "/")
	return slices.Contains([]string{".git", ".vscode", ".idea", ".claude", ".bashrc", ".profile", ".zshrc", ".gitmodules", ".envrc", ".mcp.json", ".gitattributes"}, first)
}

// judgePaths: the workspace /w alone may be written.
func judgePaths(c caseLine) (verdict, why string) {
	l := links(c.Setup)
	a := bash.Analyze(c.Command, bash.Options{Cwd: c.Cwd, Home: "/home/dev", Readlink: func(p string) (string, bool) {
		t, ok := l[p]
		return t, ok
	}})
	for _, e := range a.Effects {
		if e.Kind != bash.Write && e.Kind != bash.Delete {
			continue
		}
		p := kernelPath(e.Path, !e.NoFollow, l)
		if p != "/w" && !strings.HasPrefix(p, "/w/") {
			return "ask", e.Kind.String() + " " + e.Path
		}
		if isSensitive(p) {
			return "ask", "sensitive " + p
		}
	}
	for _, u := range a.Unknown {
		return "ask", u.Kind.String() + ": " + u.Text
	}
	return "allow", ""
}

func TestCorpusOfPaths(t *testing.T) {
	pos, alarms, neg := 0, 0, 0
	for _, c := range readCases(t, "paths.jsonl") {
		got, why := judgePaths(c)
		switch {
		case c.Outside || c.Sensitive:
			pos++
			if got == "allow" {
				t.Errorf("%s: allowed: %q writes %q", c.ID, c.Command, c.Writes)
			}
		case !c.Undecidable:
			neg++
			if got != "allow" {
				alarms++
				t.Logf("%s: false alarm: %s: %q", c.ID, why, c.Command)
			}
		}
		if !c.Undecidable && !c.Outside && !c.Sensitive {
			continue
		}
	}
	rate := float64(alarms) / float64(neg)
	t.Logf("total: positives %d; decidable negatives %d, alarms %d (%.2f %%)", pos, neg, alarms, rate*100)
	if rate > 0.02 {
		t.Errorf("false alarms: %.2f %%, more than 2 %%", rate*100)
	}
}

// TestWritesOfCorpusAreListed checks the targets themselves: every path that
// was seen to be written is covered by an effect.
func TestWritesOfCorpusAreListed(t *testing.T) {
	for _, c := range readCases(t, "paths.jsonl") {
		l := links(c.Setup)
		a := bash.Analyze(c.Command, bash.Options{Cwd: c.Cwd, Home: "/home/dev", Readlink: func(p string) (string, bool) {
			t, ok := l[p]
			return t, ok
		}})
		if len(a.Unknown) > 0 {
			continue
		}
		for _, w := range c.Writes {
			if !covered(a.Effects, w, l) {
				t.Errorf("%s: %q writes %s, which is not listed: %+v", c.ID, c.Command, w, a.Effects)
			}
		}
	}
}

func covered(effects []bash.Effect, w string, links map[string]string) bool {
	for _, e := range effects {
		if e.Kind != bash.Write && e.Kind != bash.Delete {
			continue
		}
		p := kernelPath(e.Path, !e.NoFollow, links)
		if p == w || strings.HasPrefix(p, w+"/") || (e.Tree || e.Into) && strings.HasPrefix(w, strings.TrimSuffix(p, "/")+"/") {
			return true
		}
		if ok, _ := path.Match(p, w); ok && e.Glob {
			return true
		}
	}
	return false
}

// outside lists the effects that change something outside /w.
func outside(script string) []bash.Effect {
	a := bash.Analyze(script, bash.Options{Cwd: "/w", Home: "/home/dev"})
	var out []bash.Effect
	for _, e := range a.Effects {
		if e.Kind != bash.Write && e.Kind != bash.Delete {
			continue
		}
		if p := kernelPath(e.Path, !e.NoFollow, nil); p != "/w" && !strings.HasPrefix(p, "/w/") && p != "/tmp" && !strings.HasPrefix(p, "/tmp/") {
			out = append(out, e)
		}
	}
	return out
}

func TestWritersListTheirTargets(t *testing.T) {
	for _, l := range lines(t, "writes.txt") {
		found := false
		for _, e := range outside(l) {
			p := kernelPath(e.Path, !e.NoFollow, nil)
			found = found || p == "/out" || strings.HasPrefix(p, "/out/")
		}
		if !found {
			t.Errorf("%q: no change below /out is listed: %+v", l, bash.Analyze(l, bash.Options{Cwd: "/w"}).Effects)
		}
	}
}

func TestReadersChangeNothingOutside(t *testing.T) {
	for _, l := range lines(t, "reads.txt") {
		if got := outside(l); len(got) > 0 {
			t.Errorf("%q: changes listed: %+v", l, got)
		}
		if a := bash.Analyze(l, bash.Options{Cwd: "/w"}); slices.ContainsFunc(a.Unknown, func(u bash.Unknown) bool { return u.Kind == bash.UnknownTarget }) {
			t.Errorf("%q: unknown: %+v", l, a.Unknown)
		}
	}
}
