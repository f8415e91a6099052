package test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func ownerOf(t *testing.T, path string) (uid, gid int) {
	t.Helper()
	info, err := os.Stat(path)
	must(t, err)
	st := info.Sys().(*syscall.Stat_t)
	return int(st.Uid), int(st.Gid)
}

// dockerFirst: sbx is process 1 of the container, as in docker run IMAGE sbx run.
func dockerFirst(t *testing.T, e engine) {
	r := e.run(t, []string{"-w", "/v"}, "sbx", "run", "--json", "--", "sh", "-c", "setsid sleep 50 & setsid sleep 50 & exit 3")
	var got report
	if err := json.Unmarshal([]byte(r.Stdout), &got); err != nil {
		t.Fatalf("%v: %+v", err, r)
	}
	if r.Code != 3 || got.Outcome != "exited" || got.Enforced.Tier != "base" {
		t.Errorf("exit %d, %s in tier %s", r.Code, got.Outcome, got.Enforced.Tier)
	}
	for _, g := range got.Enforced.Weakened {
		if g.Part == "end of the tree" {
			t.Errorf("weakened: %+v; process 1 is a starter like any other", g)
		}
	}
}

// dockerHardened: no capability, a read-only root and no home are no reason to fail.
func dockerHardened(t *testing.T, e engine) {
	for _, flags := range [][]string{
		{"--cap-drop", "ALL", "-w", "/v"},
		{"--cap-drop", "ALL", "--security-opt", "no-new-privileges", "-w", "/v"},
		{"--read-only", "--tmpfs", "/tmp", "--tmpfs", "/v", "-w", "/v"},
		{"--read-only", "--mount", "type=tmpfs,destination=/v,tmpfs-mode=1777", "-u", "1000", "-w", "/v"},
		{"--pids-limit", "64", "--memory", "128m", "-w", "/v"},
	} {
		r := e.run(t, flags, "sbx", "run", "--", "sh", "-c", "echo made >file; cat file")
		if r.Code != 0 || r.Stdout != "made\n" {
			t.Errorf("%q: exit %d, %s%s", flags, r.Code, r.Stdout, r.Stderr)
		}
	}
}

// dockerDoctor: the report names who refuses namespaces, and that runs work.
func dockerDoctor(t *testing.T, e engine) {
	for _, user := range []string{"0", "1000"} {
		r := e.run(t, []string{"-u", user}, "sbx", "doctor", "--json")
		var got struct {
			Runs bool
			Host struct {
				Mechanisms []struct {
					Name      string
					Works     bool
					RefusedBy string `json:"refused_by"`
				}
			}
		}
		if err := json.Unmarshal([]byte(r.Stdout), &got); err != nil {
			t.Fatalf("%v: %+v", err, r)
		}
		if r.Code != 0 || !got.Runs {
			t.Errorf("uid %s: exit %d, runs %v", user, r.Code, got.Runs)
		}
		works := []string{"landlock", "seccomp", "keeper", "signal scope"}
		refused := []string{"user namespace", "pid namespace", "ipc namespace", "net namespace", "mount view"}
		for _, m := range got.Host.Mechanisms {
			if slices.Contains(works, m.Name) && !m.Works {
				t.Errorf("uid %s: %s is refused by %q", user, m.Name, m.RefusedBy)
			}
			if slices.Contains(refused, m.Name) && (m.Works || !strings.Contains(m.RefusedBy, "outer seccomp filter")) {
				t.Errorf("uid %s: %s works %v, refused by %q, want the container's filter", user, m.Name, m.Works, m.RefusedBy)
			}
			refused = slices.DeleteFunc(refused, func(n string) bool { return n == m.Name })
		}
		if len(refused) > 0 {
			t.Errorf("uid %s: nothing about %q", user, refused)
		}
		if text := e.run(t, []string{"-u", user}, "sbx", "doctor"); !strings.Contains(text.Stdout, "by: an outer seccomp filter") {
			t.Errorf("uid %s: the text does not name the filter:\n%s", user, text.Stdout)
		}
	}
}
