package api

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// keeperName is the first word of the command line of a run's keeper, see package
// exec/child.
const keeperName = "sbx-keeper"

// runCgroup is how the control groups of runs begin, see package exec.
const runCgroup = "/sandboxd-"

// process is what /proc says to everybody about one process.
type process struct {
	parent  int
	nesting int // pid namespaces below that of this /proc
	bound   bool
	filters int // seccomp filters
	keeper  bool
	cgroup  bool // in the control group of a run
}

// judge tells peers outside of runs from those inside. It is safe for concurrent
// use.
type judge struct {
	self process
	// above are the daemon and its ancestors, each with the time of its start: what
	// holds them holds everybody here. A process that took the number of one that
	// ended started later.
	above map[int]uint64
}

// newJudge looks at the daemon itself.
func newJudge() (*judge, error) {
	self, err := readProcess(os.Getpid())
	if err != nil {
		return nil, fmt.Errorf("the daemon needs /proc, to tell who connects: %w", err)
	}
	j := &judge{self: self, above: map[int]uint64{}}
	for pid := os.Getpid(); pid > 0; {
		// The start is read before and after: it belongs to the process that was
		// somebody's parent, not to one that took its number meanwhile.
		start, err := startOf(pid)
		if err != nil {
			break
		}
		p, err := readProcess(pid)
		if err != nil {
			break
		}
		if again, err := startOf(pid); err != nil || again != start || start > j.start() {
			break
		}
		j.above[pid] = start
		pid = p.parent
	}
	if len(j.above) == 0 {
		return nil, errors.New("the daemon needs /proc, to tell who connects: its own entry cannot be read")
	}
	return j, nil
}

// start is when the daemon started; no ancestor started later.
func (j *judge) start() uint64 {
	if start, ok := j.above[os.Getpid()]; ok {
		return start
	}
	return math.MaxUint64
}

// stands reports whether pid is one of those above, and no process that got its
// number later.
func (j *judge) stands(pid int) bool {
	then, ok := j.above[pid]
	if !ok {
		return false
	}
	now, err := startOf(pid)
	return err == nil && now == then
}

// confined says why a process counts as part of a run, or "" when it is certain
// that it is not. A run has no way out of any of these marks:
//
//   - a pid namespace of its own: its members stand in it for good;
//   - the keeper: without a pid namespace it is the subreaper, so that each
//     process of the run has it among its ancestors, however often it forks;
//   - the control group: the run cannot write to those files;
//   - a filter of system calls and no_new_privs, which are inherited. A service
//     that confines itself has these too; it is refused, since it cannot be told
//     from a run whose keeper was killed a moment ago.
//
// What cannot be read is refused.
func (j *judge) confined(cred credentials) string {
	if cred.PID <= 0 {
		return "its process cannot be seen from here: it is in a container or another namespace"
	}
	var why string
	for range looks {
		var known bool
		if why, known = j.walkUp(cred.PID); known {
			break
		}
	}
	if why == "" && !cred.alive() {
		return "its process has ended, so that nothing is known about it"
	}
	return why
}

const (
	// looks is how often the ancestors are read: one that ends meanwhile hands its
	// children on.
	looks = 3
	// maxAncestors bounds the walk. A chain that is longer is in doubt.
	maxAncestors = 512
)

// walkUp reads the process and its ancestors. known is false when one of them
// could not be read.
func (j *judge) walkUp(pid int) (why string, known bool) {
	for range maxAncestors {
		if j.stands(pid) {
			return "", true
		}
		p, err := readProcess(pid)
		switch {
		case err != nil:
			return fmt.Sprintf("process %d cannot be looked at: %v", pid, err), false
		case p.keeper:
			return "it was started by a confined command", true
		case p.nesting > j.self.nesting:
			return "it is in a pid namespace of its own, as confined commands and containers are", true
		case p.cgroup && !j.self.cgroup:
			return "it is in the control group of a run", true
		case p.bound && p.filters > j.self.filters:
			return "it is held by a filter of system calls, as confined commands are", true
		case p.parent <= 0:
			return "", true
		}
		pid = p.parent
	}
	return fmt.Sprintf("it has more than %d ancestors", maxAncestors), true
}

// readProcess reads the files that are readable for every user.
func readProcess(pid int) (process, error) {
	dir := "/proc/" + strconv.Itoa(pid)
	var room [4096]byte
	status, err := readStart(dir+"/status", room[:])
	if err != nil {
		return process{}, err
	}
	p, err := parseStatus(status)
	if err != nil {
		return p, fmt.Errorf("%s/status: %w", dir, err)
	}
	line, err := readStart(dir+"/cmdline", room[:len(keeperName)+1])
	if err != nil {
		return p, err
	}
	first, _, _ := bytes.Cut(line, []byte{0})
	p.keeper = string(first) == keeperName
	groups, err := readStart(dir+"/cgroup", room[:])
	if err != nil && err != unix.ENOENT { // a kernel may have no control groups
		return p, err
	}
	p.cgroup = bytes.Contains(groups, []byte(runCgroup)) || len(groups) == len(room)
	return p, nil
}

// startOf is when a process started, in clock ticks since the boot: the 22nd field of
// /proc/PID/stat, see proc_pid_stat(5). The second field, the name, is in brackets and
// may hold anything, brackets too.
func startOf(pid int) (uint64, error) {
	var room [4096]byte
	text, err := readStart("/proc/"+strconv.Itoa(pid)+"/stat", room[:])
	if err != nil {
		return 0, err
	}
	rest := text[bytes.LastIndexByte(text, ')')+1:]
	fields := bytes.Fields(rest) // from the third on
	if len(rest) == len(text) || len(fields) < 20 {
		return 0, fmt.Errorf("/proc/%d/stat: %d fields", pid, len(fields))
	}
	return strconv.ParseUint(string(fields[19]), 10, 64)
}

// readStart reads what fits into room, with the fewest calls: each new connection
// costs these for the peer and every ancestor.
func readStart(path string, room []byte) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	n, err := unix.Read(fd, room)
	return room[:max(n, 0)], err
}

// parseStatus reads /proc/PID/status, see proc(5). Fields that must be there and
// are not are an error.
func parseStatus(text []byte) (process, error) {
	var p process
	var err error
	seen := 0
	number := func(value string) int {
		n, failed := strconv.Atoi(value)
		if failed != nil {
			err = failed
		}
		seen++
		return n
	}
	for line := range bytes.Lines(text) {
		name, value, _ := strings.Cut(string(line), ":")
		value = strings.TrimSpace(value)
		switch name {
		case "PPid":
			p.parent = number(value)
		case "NSpid":
			p.nesting = len(strings.Fields(value)) - 1
			seen++
		case "NoNewPrivs":
			p.bound = number(value) != 0
		case "Seccomp_filters":
			p.filters = number(value)
		}
	}
	if err == nil && seen != 4 {
		err = fmt.Errorf("%d of 4 fields are there", seen)
	}
	return p, err
}
