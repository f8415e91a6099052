package exec

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// removeWait bounds kill and remove, each: the kernel keeps a group busy
	// until the last killed task is gone.
	removeWait = 2 * time.Second
	// foreignAge is how old a leftover of another pid namespace must be.
	foreignAge = time.Hour

	cgroupPrefix = "sandboxd-"
)

// kill ends every task in the groups and returns when none is left.
func (c *cgroup) kill() error {
	if len(c.dirs) == 0 {
		return nil
	}
	if first := c.dirs[0]; first.V2 && first.set("cgroup.kill", "1") == nil {
		return c.waitEmpty(first)
	}
	// No cgroup.kill (v1, or before Linux 5.14): forbid new tasks, then end
	// what is there, again and again until nothing is.
	members := c.dirs[0]
	if p, err := c.with("pids"); err == nil {
		members = p
		_ = p.set("pids.max", "0")
	}
	for deadline := time.Now().Add(removeWait); ; time.Sleep(time.Millisecond) {
		pids, err := members.pids()
		if err != nil {
			return fmt.Errorf("cgroup: %w", err)
		}
		if len(pids) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("cgroup: %s still has %d tasks after %v", c.name, len(pids), removeWait)
		}
		for _, pid := range pids {
			killMember(pid, c.name)
		}
	}
}

func (c *cgroup) waitEmpty(p cgroupParent) error {
	for deadline := time.Now().Add(removeWait); ; time.Sleep(time.Millisecond) {
		if p.number("cgroup.events", "populated") == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("cgroup: %s still has tasks after %v", c.name, removeWait)
		}
	}
}

// pids are the processes in the group. Those outside this pid namespace read as
// 0 and are left out.
func (p cgroupParent) pids() ([]int, error) {
	b, err := os.ReadFile(filepath.Join(p.Path, "cgroup.procs"))
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, f := range strings.Fields(string(b)) {
		if pid, err := strconv.Atoi(f); err == nil && pid > 1 {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// killMember ends pid if it is in the group called name. The pidfd comes first:
// a process that took over the number since then is not the one that is ended.
func killMember(pid int, name string) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	own, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil || !strings.Contains(string(own), "/"+name) {
		return
	}
	_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
}

// remove closes the files and removes the groups, waiting up to two seconds for
// tasks that are ending. It removes nothing that still has tasks.
func (c *cgroup) remove() error {
	for _, f := range c.procs {
		f.Close()
	}
	c.procs = nil
	var errs []error
	deadline := time.Now().Add(removeWait)
	for i := len(c.dirs) - 1; i >= 0; i-- {
		err := rmdir(c.dirs[i].Path, deadline)
		if err != nil {
			errs = append(errs, fmt.Errorf("cgroup: remove %s: %w", c.dirs[i].Path, err))
		}
	}
	return errors.Join(errs...)
}

func rmdir(path string, deadline time.Time) error {
	for wait := 100 * time.Microsecond; ; wait = min(2*wait, 20*time.Millisecond) {
		err := unix.Rmdir(path)
		if err == nil || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
			return err
		}
		time.Sleep(wait)
	}
}

// sweep removes the groups of runs whose owner is dead, tasks in them included.
// Groups of an owner in another pid namespace can not be judged: they go only
// if they are empty and old.
func (h cgroupHost) sweep() {
	for name, c := range h.leftovers() {
		owner, _ := parseCgroupName(name)
		if owner.namespace != pidNamespace() {
			c.removeOld()
			continue
		}
		// Another user's leftovers can not be removed; nor can they hurt.
		if c.kill() == nil {
			_ = c.remove()
		}
	}
}

// leftovers are the groups whose owner is not known to live. A run has groups
// only where its limits need them, so each hierarchy is looked at.
func (h cgroupHost) leftovers() map[string]*cgroup {
	var found map[string]*cgroup
	for _, p := range h.Parents {
		entries, err := os.ReadDir(p.Path)
		if err != nil {
			continue
		}
		for _, e := range entries {
			owner, ok := parseCgroupName(e.Name())
			if !ok || !e.IsDir() || owner.alive() {
				continue
			}
			if found == nil {
				found = map[string]*cgroup{}
			}
			c := found[e.Name()]
			if c == nil {
				c = &cgroup{name: e.Name()}
				found[e.Name()] = c
			}
			dir := p
			dir.Path = filepath.Join(p.Path, e.Name())
			c.dirs = append(c.dirs, dir)
		}
	}
	return found
}

// removeOld removes groups without tasks that have been there for an hour.
func (c *cgroup) removeOld() {
	for i := len(c.dirs) - 1; i >= 0; i-- {
		info, err := os.Stat(c.dirs[i].Path)
		if err != nil || time.Since(info.ModTime()) < foreignAge || unix.Rmdir(c.dirs[i].Path) != nil {
			return
		}
	}
}

// cgroupOwner is the process that made a group.
type cgroupOwner struct {
	namespace uint64 // inode of its pid namespace
	pid       int
	start     uint64 // clock ticks after boot; tells a reused pid apart
}

// cgroupName is sandboxd-NAMESPACE-PID-START-ID.
func cgroupName(id string) (string, error) {
	if id == "" || strings.Trim(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") != "" {
		return "", fmt.Errorf("cgroup: bad id %q", id)
	}
	start, err := startTime(os.Getpid())
	if err != nil {
		return "", fmt.Errorf("cgroup: own start time: %w", err)
	}
	return fmt.Sprintf("%s%d-%d-%d-%s", cgroupPrefix, pidNamespace(), os.Getpid(), start, id), nil
}

func parseCgroupName(name string) (cgroupOwner, bool) {
	rest, ok := strings.CutPrefix(name, cgroupPrefix)
	f := strings.Split(rest, "-")
	if !ok || len(f) != 4 || f[3] == "" {
		return cgroupOwner{}, false
	}
	namespace, err1 := strconv.ParseUint(f[0], 10, 64)
	pid, err2 := strconv.Atoi(f[1])
	start, err3 := strconv.ParseUint(f[2], 10, 64)
	return cgroupOwner{namespace, pid, start}, errors.Join(err1, err2, err3) == nil
}

// alive reports whether the owner still runs; in another pid namespace it does
// not know and says no. In doubt it says yes.
func (o cgroupOwner) alive() bool {
	if o.namespace != pidNamespace() {
		return false
	}
	start, err := startTime(o.pid)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return false
	}
	return err != nil || start == o.start
}

// startTime is when a process started, in clock ticks after boot (proc(5)).
func startTime(pid int) (uint64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name, in brackets, may hold anything. After it: state is field 3,
	// starttime 22.
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(f) < 20 {
		return 0, fmt.Errorf("/proc/%d/stat: too short", pid)
	}
	return strconv.ParseUint(f[19], 10, 64)
}

// pidNamespace is the inode of this process's pid namespace; 0 if it is unknown.
func pidNamespace() uint64 {
	var st syscall.Stat_t
	if syscall.Stat("/proc/self/ns/pid", &st) != nil {
		return 0
	}
	return st.Ino
}
