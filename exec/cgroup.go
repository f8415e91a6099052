package exec

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// cgroupKind says which control groups a run can have.
type cgroupKind string

const (
	cgroupNone   cgroupKind = "none"
	cgroupV1     cgroupKind = "v1"
	cgroupV2     cgroupKind = "v2"
	cgroupHybrid cgroupKind = "hybrid" // limits by v1, membership and kill by v2
)

// cgroupHost is where this process may make groups for its runs, as tried. The
// zero value makes none.
type cgroupHost struct {
	Kind cgroupKind `json:"kind"`
	// Parents are the directories that a run's groups are made in, the unified
	// hierarchy's first. A run need not have a group in each.
	Parents []cgroupParent `json:"parents"`
	// Evidence has one line per hierarchy: what was tried and the answer.
	Evidence []string `json:"evidence"`
}

// cgroupParent is a directory of one hierarchy in which groups can be made.
type cgroupParent struct {
	Path string `json:"path"`
	V2   bool   `json:"v2"`
	// Controllers that a group made here has, of the ones that we use.
	Controllers []string `json:"controllers"`
}

// cgroupUses are the controllers that runs use: pids and memory for limits,
// cpuacct (v1) to know the cpu time of a tree. v2 counts cpu time without one.
func cgroupUses() []string { return []string{"pids", "memory", "cpuacct"} }

// probeCgroup finds out which groups can be made, by making one in each
// hierarchy next to or above this process and removing it. The error says that
// nothing can be known (no /proc); a host without groups is no error.
func probeCgroup() (cgroupHost, error) {
	places, err := cgroupPlaces("/proc/self/cgroup", "/proc/self/mountinfo")
	if err != nil {
		return cgroupHost{Kind: cgroupNone}, err
	}
	return probePlaces(places, cgroupUses()), nil
}

func probePlaces(places []cgroupPlace, uses []string) cgroupHost {
	h := cgroupHost{Kind: cgroupNone}
	have := map[string]bool{}
	var unified *cgroupParent
	for _, p := range places {
		if !p.V2 && !slices.ContainsFunc(p.Controllers, func(c string) bool { return slices.Contains(uses, c) }) {
			continue
		}
		parent, err := p.probe(uses)
		if err != nil {
			h.Evidence = append(h.Evidence, fmt.Sprintf("%s: %v", p, err))
			continue
		}
		h.Evidence = append(h.Evidence, fmt.Sprintf("%s: groups can be made in %s with %s",
			p, parent.Path, orNone(parent.Controllers)))
		for _, c := range parent.Controllers {
			have[c] = true
		}
		if p.V2 {
			unified = &parent
			continue
		}
		h.Parents = append(h.Parents, parent)
	}
	v1 := len(h.Parents) > 0
	if unified != nil { // first: one write there ends all tasks of a run
		h.Parents = slices.Insert(h.Parents, 0, *unified)
	}
	switch {
	case len(places) == 0:
		h.Evidence = append(h.Evidence, "no cgroup file system is mounted")
	case v1 && unified != nil:
		h.Kind = cgroupHybrid
	case v1:
		h.Kind = cgroupV1
	case unified != nil:
		h.Kind = cgroupV2
	}
	for _, c := range []string{"pids", "memory"} {
		if h.Kind != cgroupNone && !have[c] {
			h.Evidence = append(h.Evidence, "no controller "+c)
		}
	}
	return h
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "no controller"
	}
	return strings.Join(names, ", ")
}

// probe tries the place's own group, and in v2 the ones above it: a group with
// processes in it can not hand controllers to children, so there the groups of
// runs are siblings. The nearest one with the most controllers is taken.
func (p cgroupPlace) probe(uses []string) (best cgroupParent, err error) {
	if p.Problem != "" {
		return best, errors.New(p.Problem)
	}
	if !p.V2 {
		return p.tryV1(uses)
	}
	var first error
	for dir, found := p.Dir, false; ; dir = filepath.Dir(dir) {
		parent, tryErr := tryV2(dir, uses)
		if tryErr == nil && (!found || len(parent.Controllers) > len(best.Controllers)) {
			best, found = parent, true
		}
		if first == nil {
			first = tryErr
		}
		if dir == p.Mount || boundsMemoryOrCPU(dir) {
			break
		}
	}
	if best.Path == "" {
		return best, first
	}
	return best, nil
}

// boundsMemoryOrCPU reports whether a v2 group has a limit that a run made
// above it would escape: what an administrator set for us holds for our runs.
// Limits on tasks are left out, since systemd sets one on everything and a run
// has its own.
func boundsMemoryOrCPU(dir string) bool {
	for _, file := range []string{"memory.max", "memory.high", "cpu.max"} {
		b, err := os.ReadFile(filepath.Join(dir, file))
		if err == nil && !strings.HasPrefix(string(b), "max") {
			return true
		}
	}
	return false
}

func (p cgroupPlace) tryV1(uses []string) (cgroupParent, error) {
	parent := cgroupParent{Path: p.Dir}
	child, err := mkProbe(p.Dir)
	if err != nil {
		return parent, err
	}
	defer os.Remove(child)
	// v1 lets a process move another of the same user if it can open the file.
	f, err := os.OpenFile(filepath.Join(child, "cgroup.procs"), os.O_WRONLY, 0)
	if err != nil {
		return parent, err
	}
	f.Close()
	for _, c := range p.Controllers {
		if !slices.Contains(uses, c) {
			continue
		}
		file, known := cgroupMarks[c]
		if _, err := os.Stat(filepath.Join(child, file)); known && err != nil {
			return parent, fmt.Errorf("controller %s: %w", c, err)
		}
		parent.Controllers = append(parent.Controllers, c)
	}
	return parent, nil
}

// cgroupMarks names a file that a v1 controller brings, to see that it is there.
var cgroupMarks = map[string]string{
	"pids": "pids.max", "memory": "memory.limit_in_bytes", "cpuacct": "cpuacct.usage",
}

func tryV2(dir string, uses []string) (cgroupParent, error) {
	parent := cgroupParent{Path: dir, V2: true}
	child, err := mkProbe(dir)
	if err != nil {
		return parent, err
	}
	defer os.Remove(child)
	if err := tryJoin(child); err != nil {
		return parent, err
	}
	given, err := os.ReadFile(filepath.Join(child, "cgroup.controllers"))
	if err != nil {
		return parent, err
	}
	for _, c := range strings.Fields(string(given)) {
		if slices.Contains(uses, c) {
			parent.Controllers = append(parent.Controllers, c)
		}
	}
	return parent, nil
}

func mkProbe(dir string) (string, error) {
	name, err := cgroupName(fmt.Sprint("probe", rand.Uint32()))
	if err != nil {
		return "", err
	}
	child := filepath.Join(dir, name)
	if err := os.Mkdir(child, 0o755); err != nil {
		return "", err
	}
	removeDeadProbes(dir)
	return child, nil
}

// removeDeadProbes removes what probes that were killed left in dir, which may
// be one that no run uses. It is empty, so nothing is lost if its owner can not
// be judged.
func removeDeadProbes(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		owner, ok := parseCgroupName(e.Name())
		if ok && strings.Contains(e.Name(), "-probe") && !owner.alive() {
			_ = unix.Rmdir(filepath.Join(dir, e.Name()))
		}
	}
}

// tryJoin starts a process in the v2 group dir, which is what v2's rules for
// moving are about: the common ancestor must be writable too. The program does
// not exist, so that the process ends at once with ENOENT.
func tryJoin(dir string) error {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = syscall.ForkExec("/proc/self/no such program", nil, &syscall.ProcAttr{
		Sys: &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: fd},
	})
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return fmt.Errorf("start a process in %s: %w", dir, err)
}
