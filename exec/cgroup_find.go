package exec

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// cgroupPlace is where this process is in one hierarchy.
type cgroupPlace struct {
	V2          bool
	Controllers []string // v1 only
	Mount       string   // where the hierarchy is mounted
	Dir         string   // this process's group, beneath Mount
	Problem     string   // why Dir is not known
}

func (p cgroupPlace) String() string {
	if p.V2 {
		return "v2"
	}
	return "v1 " + strings.Join(p.Controllers, ",")
}

// cgroupPlaces reads /proc/PID/cgroup and /proc/PID/mountinfo (proc(5),
// cgroups(7)). Hierarchies that are not mounted here are left out.
func cgroupPlaces(cgroupFile, mountinfoFile string) ([]cgroupPlace, error) {
	own, err := os.ReadFile(cgroupFile)
	if err != nil {
		return nil, err
	}
	mounts, err := os.ReadFile(mountinfoFile)
	if err != nil {
		return nil, err
	}
	var places []cgroupPlace
	for line := range strings.Lines(string(own)) {
		// hierarchy:controllers:path; the path may hold colons
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(f) != 3 {
			return nil, fmt.Errorf("%s: cannot read %q", cgroupFile, line)
		}
		p := cgroupPlace{V2: f[0] == "0" && f[1] == ""}
		if !p.V2 {
			p.Controllers = strings.Split(f[1], ",")
		}
		if p.locate(f[2], string(mounts)) {
			places = append(places, p)
		}
	}
	return places, nil
}

// locate finds the mount that shows the group called path.
func (p *cgroupPlace) locate(path, mounts string) bool {
	found := false
	for line := range strings.Lines(mounts) {
		m, ok := parseMount(line)
		if !ok || !m.shows(p) {
			continue
		}
		found = true
		if rel, ok := beneath(m.root, path); ok {
			p.Mount, p.Dir, p.Problem = m.point, filepath.Join(m.point, rel), ""
			return true
		}
		// Mounted from outside this cgroup namespace, or another part of the tree.
		p.Problem = fmt.Sprintf("own group %s is not in the mounted part %s", path, m.root)
	}
	return found
}

type cgroupMount struct{ root, point, fstype, options string }

// parseMount reads the fields that matter:
// "31 23 0:28 ROOT POINT rw,relatime shared:1 - FSTYPE SOURCE OPTIONS".
func parseMount(line string) (cgroupMount, bool) {
	before, after, ok := strings.Cut(line, " - ")
	if !ok || !strings.HasPrefix(after, "cgroup") {
		return cgroupMount{}, false
	}
	b, a := strings.Fields(before), strings.Fields(after)
	if len(b) < 6 || len(a) < 3 {
		return cgroupMount{}, false
	}
	return cgroupMount{unescape(b[3]), unescape(b[4]), a[0], a[2]}, true
}

func (m cgroupMount) shows(p *cgroupPlace) bool {
	if p.V2 {
		return m.fstype == "cgroup2"
	}
	if m.fstype != "cgroup" {
		return false
	}
	options := "," + m.options + ","
	for _, c := range p.Controllers {
		if !strings.Contains(options, ","+c+",") {
			return false
		}
	}
	return true
}

// beneath is path relative to root, both absolute in one cgroup namespace.
// Paths above the namespace's root start with "/..".
func beneath(root, path string) (string, bool) {
	if strings.HasPrefix(root, "/..") || strings.HasPrefix(path, "/..") {
		return "", false
	}
	if root == "/" {
		return path, true
	}
	if path == root {
		return "", true
	}
	return strings.CutPrefix(path, root+"/")
}

// unescape undoes mountinfo's octal escapes for space, tab, newline, backslash.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}
