package settings

import (
	"path"
	"strings"
	"testing"

	"sandboxd/policy"
)

// srtModel says what sandbox-runtime permits: denyWrite wins over allowWrite,
// allowRead over denyRead; the project is /w, the home /home/dev.
type srtModel struct{ allowWrite, denyWrite, denyRead, allowRead []string }

func newSRTModel(t *testing.T, data []byte) srtModel {
	t.Helper()
	fs, _ := jsonOf(t, data)["filesystem"].(map[string]any)
	list := func(key string) []string {
		var out []string
		items, _ := fs[key].([]any)
		for _, x := range items {
			p := strings.TrimSuffix(x.(string), "/**")
			if strings.ContainsAny(p, "*") {
				if key == "denyRead" {
					continue // held by the decision, compared elsewhere
				}
				continue // literal paths only, on Linux
			}
			if rest, ok := strings.CutPrefix(p, "~"); ok {
				p = "/home/dev" + rest
			}
			if !strings.HasPrefix(p, "/") {
				p = "/w/" + p
			}
			out = append(out, path.Clean(p))
		}
		return out
	}
	return srtModel{list("allowWrite"), list("denyWrite"), list("denyRead"), list("allowRead")}
}

func under(p string, roots []string) bool {
	for _, r := range roots {
		if p == r || r == "/" || strings.HasPrefix(p, r+"/") {
			return true
		}
	}
	return false
}

func (m srtModel) writable(p string) bool { return under(p, m.allowWrite) && !under(p, m.denyWrite) }
func (m srtModel) readable(p string) bool { return under(p, m.allowRead) || !under(p, m.denyRead) }

// granted is the rule of the longest path, as the kernel part of our policy has
// it; the workspace is writable to begin with.
func granted(e *Effective, p string) policy.PathAccess {
	best, access := len("/w"), policy.PathAccess("")
	if within(p, "/w") {
		access = policy.GrantWrite
	}
	order := []policy.PathAccess{policy.GrantDeny, policy.GrantProtect, policy.GrantRead, policy.GrantWrite}
	for _, want := range order {
		for _, g := range e.Paths {
			root := e.expand(g.Path)
			if g.Access != want || !within(p, root) {
				continue
			}
			if len(root) > best || len(root) == best && (access == policy.GrantWrite && root == "/w" || access == "") {
				best, access = len(root), want
			}
		}
	}
	return access
}

func TestImportIsNeverWiderForSandboxRuntime(t *testing.T) {
	probes := []string{"/w/a", "/w/src/x", "/w/test/x", "/w/.env", "/w/config/production.json", "/tmp/x", "/w/b/keep", "/w/a/b", "/w/a/b/c", "/w/x", "/w/x/y",
		"/srv/pub/p", "/srv/q", "/srv/out/z", "/home/dev/.ssh/id", "/home/dev/q", "/home/dev/.aws/c", "/etc/passwd", "/etc/shadow", "/root/x", "/var/tmp/x/y", "/sibling/s", "/w/out/o", "/w/b/z"}
	writes := 0
	for name, data := range settingsFiles(t, "srt") {
		p, _, err := Import("srt", source(name), data)
		if err != nil {
			t.Fatal(err)
		}
		e := &Effective{Policy: *p, Workspace: "/w", Home: "/home/dev"}
		theirs := newSRTModel(t, data)
		for _, probe := range probes {
			access := granted(e, probe)
			if access == policy.GrantWrite {
				writes++
				if !theirs.writable(probe) {
					t.Errorf("%s: %s is writable here and not there\n%s", name, probe, p.TOML())
				}
			}
			opened := access == policy.GrantWrite || access == policy.GrantRead || access == policy.GrantProtect
			if opened && !theirs.readable(probe) && !within(probe, "/w") {
				t.Errorf("%s: %s is readable here (%s) and not there", name, probe, access)
			}
			if theirs.readable(probe) || access == policy.GrantDeny {
				continue
			}
			if access == policy.GrantWrite || access == policy.GrantRead {
				t.Errorf("%s: %s is %s here, hidden there", name, probe, access)
			}
		}
	}
	if writes < 20 {
		t.Errorf("%d probes writable: the comparison says little", writes)
	}
}

func TestSandboxRuntimeHosts(t *testing.T) {
	for _, tt := range []struct {
		domains string
		want    string
	}{
		{`[]`, "none"},
		{`["*"]`, ""},
		{`["a.example"]`, "a.example:443"},
		{`["a.example:22", "*.b.example"]`, "a.example:22 *.b.example:443"},
		{`["[::1]:8080", "a\u0000.example", "x..y", "http://x"]`, "[::1]:8080"},
	} {
		p, report, err := Import("srt", source("x.json"), []byte(`{"network":{"allowedDomains":`+tt.domains+`}}`))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(texts(p.Network), " "); got != tt.want {
			t.Errorf("%s: network %q, want %q (%+v)", tt.domains, got, tt.want, report)
		}
	}
}
