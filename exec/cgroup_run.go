package exec

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// defaultTasks is Limits.Tasks when it is zero.
const defaultTasks = 256

// cgroup is the groups of one run, one directory per hierarchy. It is used by
// one goroutine; kill may be called from any.
type cgroup struct {
	name  string
	dirs  []cgroupParent // with the run's own path
	procs []*os.File
}

// create makes the groups of a run and sets its limits. id tells the runs of
// this process apart: letters and digits. Parts are what the groups hold, gaps
// what was wanted and is not held by them. An error means that there are no
// groups; nothing is left then.
func (h cgroupHost) create(id string, l Limits) (*cgroup, []Part, []Gap, error) {
	if len(h.Parents) == 0 {
		return nil, nil, nil, errors.New("cgroup: none can be made on this host")
	}
	name, err := cgroupName(id)
	if err != nil {
		return nil, nil, nil, err
	}
	c := &cgroup{name: name}
	for _, p := range h.Parents {
		p.Path = filepath.Join(p.Path, name)
		if err = os.Mkdir(p.Path, 0o755); err != nil {
			break
		}
		c.dirs = append(c.dirs, p)
		var f *os.File
		f, err = os.OpenFile(filepath.Join(p.Path, "cgroup.procs"), os.O_WRONLY, 0)
		if err != nil {
			break
		}
		c.procs = append(c.procs, f)
	}
	if err != nil {
		return nil, nil, nil, errors.Join(fmt.Errorf("cgroup: %w", err), c.remove())
	}
	var parts []Part
	var gaps []Gap
	for _, limit := range []func(Limits) (Part, error){c.limitTasks, c.limitMemory, c.countCPU} {
		part, err := limit(l)
		switch {
		case part.Part == "": // not wanted
		case err != nil:
			gaps = append(gaps, Gap{Part: part.Part, Why: err.Error()})
		default:
			parts = append(parts, part)
		}
	}
	return c, parts, gaps, nil
}

// with is the directory that has a controller.
func (c *cgroup) with(controller string) (cgroupParent, error) {
	i := slices.IndexFunc(c.dirs, func(p cgroupParent) bool { return slices.Contains(p.Controllers, controller) })
	if i < 0 {
		return cgroupParent{}, fmt.Errorf("cgroup: no controller %s", controller)
	}
	return c.dirs[i], nil
}

func (p cgroupParent) version() string {
	if p.V2 {
		return "cgroup v2"
	}
	return "cgroup v1"
}

func (p cgroupParent) set(file, value string) error {
	return os.WriteFile(filepath.Join(p.Path, file), []byte(value), 0)
}

func (c *cgroup) limitTasks(l Limits) (Part, error) {
	if l.Tasks == Unlimited {
		return Part{}, nil
	}
	tasks := l.Tasks
	if tasks == 0 {
		tasks = defaultTasks
	}
	p, err := c.with("pids")
	if err == nil {
		err = p.set("pids.max", strconv.Itoa(tasks))
	}
	return Part{"tasks", p.version() + " pids", true}, err
}

func (c *cgroup) limitMemory(l Limits) (Part, error) {
	if l.Memory <= 0 {
		return Part{}, nil
	}
	p, err := c.with("memory")
	part := Part{"memory", p.version() + " memory", true}
	if err != nil {
		return part, err
	}
	bytes := strconv.FormatInt(l.Memory, 10)
	if p.V2 {
		err = p.set("memory.max", bytes)
		// One task that is killed for memory takes the whole run along.
		err = errors.Join(err, p.set("memory.oom.group", "1"))
		part.Exact = p.set("memory.swap.max", "0") == nil || !hasSwap()
		return part, err
	}
	// The order matters: memory plus swap can not be less than memory.
	err = p.set("memory.limit_in_bytes", bytes)
	part.Exact = p.set("memory.memsw.limit_in_bytes", bytes) == nil || !hasSwap()
	return part, err
}

// hasSwap reports whether memory over the limit could go to a swap area, where
// the kernel does not count swap and has no file to limit it.
func hasSwap() bool {
	b, err := os.ReadFile("/proc/swaps")
	return err != nil || bytes.Count(b, []byte("\n")) > 1
}

// countCPU holds no limit: the groups have quotas and no totals. They tell the
// time of the tree exactly, and the runner ends it.
func (c *cgroup) countCPU(l Limits) (Part, error) {
	if l.CPU <= 0 {
		return Part{}, nil
	}
	part := Part{"cpu", "cgroup cpu time, watched", false}
	if c.dirs[0].V2 {
		return part, nil
	}
	_, err := c.with("cpuacct")
	return part, err
}

// joinFDs are the files into each of which a child writes "0" to join, before
// it makes any namespace. They belong to c and are closed by remove.
func (c *cgroup) joinFDs() []*os.File { return c.procs }

// stats reads what the groups counted. What they can not tell is 0: the peak of
// tasks before Linux 6.7, the peak of memory in v2 before 5.19.
func (c *cgroup) stats() (memPeak int64, peakTasks, memEvents, pidsEvents int, cpu time.Duration) {
	if p, err := c.with("memory"); err == nil {
		if p.V2 {
			memPeak = p.number("memory.peak", "")
			memEvents = int(p.number("memory.events", "oom_kill"))
		} else {
			memPeak = p.number("memory.max_usage_in_bytes", "")
			memEvents = int(p.number("memory.oom_control", "oom_kill"))
		}
	}
	if p, err := c.with("pids"); err == nil {
		peakTasks = int(p.number("pids.peak", ""))
		pidsEvents = int(p.number("pids.events", "max"))
	}
	if p, err := c.with("cpuacct"); err == nil {
		cpu = time.Duration(p.number("cpuacct.usage", ""))
	} else if c.dirs[0].V2 {
		cpu = time.Duration(c.dirs[0].number("cpu.stat", "usage_usec")) * time.Microsecond
	}
	return memPeak, peakTasks, memEvents, pidsEvents, cpu
}

// number reads a file that is one number, or the line of it that starts with key.
func (p cgroupParent) number(file, key string) int64 {
	b, err := os.ReadFile(filepath.Join(p.Path, file))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if key != "" && (len(f) != 2 || f[0] != key) || len(f) == 0 {
			continue
		}
		n, err := strconv.ParseInt(f[len(f)-1], 10, 64)
		if err != nil {
			return 0
		}
		return n
	}
	return 0
}
