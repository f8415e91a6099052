package test

import (
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"sandboxd/test/require"
)

// processVectors are ways to other processes of the same user.
func processVectors() []vector {
	var list []vector
	add := func(name string, reached func(*scene, result) bool, do func(pid int) error) {
		list = append(list, vector{name: "process " + name, reached: reached, setup: victim, honest: ownProcesses,
			attack: func(p places) error { return do(p.victim()) }})
	}
	for _, s := range signals {
		add(s.name, ended, s.do)
	}
	add("stop signal", stopped, func(pid int) error { return unix.Kill(pid, unix.SIGSTOP) })
	for _, c := range changes {
		add(c.name, c.changed, c.do)
		if strings.HasSuffix(c.name, "of its user") {
			list[len(list)-1].setup = func(s *scene) {
				if s.UID == os.Getuid() {
					require.NotHere(s, "without confinement it would reach this test too")
				}
				victim(s)
			}
		}
	}
	memory := func(name string, reached func(*scene, result) bool, do func(p places) error) {
		list = append(list, vector{name: "process " + name, reached: reached, setup: victim, honest: ownProcesses, attack: do})
	}
	memory("ptrace seize", leaks, seize)
	memory("ptrace attach", memoryChanged, attach)
	memory("process_vm_readv", leaks, readMemory)
	memory("process_vm_writev", memoryChanged, writeMemory)
	memory("write proc mem", memoryChanged, func(p places) error {
		f, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", p.victim()), os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteAt([]byte("x"), p.address())
		return err
	})
	memory("pidfd_getfd", leaks, takeFD)
	memory("kcmp", printed("fd 3 differs"), compare)
	// A debugger needs these calls inside the run; they reach no further with them.
	for _, v := range list {
		if strings.HasPrefix(v.name, "process ptrace") || strings.HasPrefix(v.name, "process process_vm") || v.name == "process pidfd_getfd" || v.name == "process kcmp" {
			v.name += " with debug calls"
			v.flags = func(*scene) []string { return []string{"--syscalls", "debug"} }
			list = append(list, v)
		}
	}
	seen := []gap{{tier: "base", part: "process list"}}
	return append(append(list, keeperVectors()...),
		vector{name: "process seen in proc", reached: leaks, setup: victim, honest: ownProcesses, open: seen,
			attack: func(p places) error { return show(fmt.Sprintf("/proc/%d/cmdline", p.victim())) }},
		vector{name: "process seen by its number", reached: printed("it exists"), setup: victim, honest: ownProcesses, open: seen,
			attack: func(p places) error {
				if err := unix.Kill(p.victim(), 0); err != nil && !errors.Is(err, unix.EPERM) {
					return err
				}
				fmt.Println("it exists")
				return nil
			}})
}

// victim is a bystander with a number that no process of a run has.
func victim(s *scene) {
	// In a run's own pid namespace numbers start at 1. Who may not set it has low
	// numbers outside as well, and the outside judge still tells the truth.
	os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte("20000"), 0)
	b := s.bystander("")
	s.Cleanup(func() { unix.Kill(b.PID, unix.SIGKILL) }) // a stopped one would not end by itself
	s.Extra["pid"], s.Extra["address"] = strconv.Itoa(b.PID), b.Address
}

func (p places) victim() int {
	n, err := strconv.Atoi(p.Extra["pid"])
	if err != nil || n <= 1 {
		panic("no victim") // 0, 1 and -1 mean others
	}
	return n
}

func (p places) address() int64 {
	n, _ := strconv.ParseInt(p.Extra["address"], 16, 64) // printed by the bystander
	return n
}

// stateOf is the letter of proc_pid_stat(5), or 0.
func stateOf(pid int) byte {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if i := strings.LastIndex(string(text), ") "); err == nil && i >= 0 && i+2 < len(text) {
		return text[i+2]
	}
	return 0
}

// soon asks until it is true, for a moment: a signal is acted on a little later.
func soon(is func() bool) bool {
	for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if is() {
			return true
		}
	}
	return false
}

func ended(s *scene, _ result) bool {
	return soon(func() bool { st := stateOf(s.victim()); return st == 'Z' || st == 'X' || st == 0 })
}

func stopped(s *scene, _ result) bool {
	return soon(func() bool { return stateOf(s.victim()) == 'T' })
}

func memoryChanged(s *scene, _ result) bool {
	s.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/mem", s.victim()))
	s.must(err)
	defer f.Close()
	b := make([]byte, 1)
	_, err = f.ReadAt(b, s.address())
	s.must(err)
	return b[0] != s.Token[0]
}

var signals = []struct {
	name string
	do   func(pid int) error
}{
	{"kill", func(pid int) error { return unix.Kill(pid, unix.SIGKILL) }},
	{"tgkill", func(pid int) error { return unix.Tgkill(pid, pid, unix.SIGKILL) }},
	{"sigqueue", func(pid int) error {
		info := [32]int32{int32(unix.SIGTERM), 0, -1} // si_signo, si_errno, si_code = SI_QUEUE
		_, _, errno := unix.Syscall(unix.SYS_RT_SIGQUEUEINFO, uintptr(pid), uintptr(unix.SIGTERM), uintptr(unsafe.Pointer(&info)))
		return errnoOrNil(errno)
	}},
	{"signal to its group", func(pid int) error { return unix.Kill(-pid, unix.SIGKILL) }},
	{"signal through process descriptor", func(pid int) error {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			return err
		}
		return unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}},
	{"signal by owner of descriptor", signalByOwner},
}

func errnoOrNil(errno syscall.Errno) error {
	if errno != 0 {
		return errno
	}
	return nil
}

// signalByOwner makes the kernel signal the owner of a pipe end that becomes
// readable.
func signalByOwner(pid int) error {
	const setSignal = 10 // F_SETSIG
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return err
	}
	fd := uintptr(pipe[0])
	_, err := unix.FcntlInt(fd, unix.F_SETOWN, pid)
	_, err2 := unix.FcntlInt(fd, setSignal, int(unix.SIGTERM))
	_, err3 := unix.FcntlInt(fd, unix.F_SETFL, unix.O_ASYNC|unix.O_NONBLOCK)
	_, err4 := unix.Write(pipe[1], []byte("x"))
	return errors.Join(err, err2, err3, err4)
}

// changes of how another process is treated.
var changes = []struct {
	name    string
	do      func(pid int) error
	changed func(s *scene, _ result) bool
}{
	{"prlimit", func(pid int) error {
		return unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 77, Max: 77}, nil)
	}, func(s *scene, _ result) bool {
		return regexp.MustCompile(`Max open files +77 `).MatchString(s.content(fmt.Sprintf("/proc/%d/limits", s.victim())))
	}},
	{"setpriority", func(pid int) error { return unix.Setpriority(unix.PRIO_PROCESS, pid, 7) }, renice},
	{"setpriority of its group", func(pid int) error { return unix.Setpriority(unix.PRIO_PGRP, pid, 7) }, renice},
	{"setpriority of its user", func(int) error { return unix.Setpriority(unix.PRIO_USER, 0, 7) }, renice},
	{"ioprio_set", func(pid int) error { return setIOPriority(1, pid) }, idleIO},
	{"ioprio_set of its user", func(int) error { return setIOPriority(3, os.Getuid()) }, idleIO},
	{"sched_setaffinity", func(pid int) error {
		var one unix.CPUSet
		one.Set(firstCPU())
		return unix.SchedSetaffinity(pid, &one)
	}, func(s *scene, _ result) bool {
		var set unix.CPUSet
		s.must(unix.SchedGetaffinity(s.victim(), &set))
		return set.Count() == 1
	}},
	{"sched_setscheduler", func(pid int) error {
		var priority int32
		_, _, errno := unix.Syscall(unix.SYS_SCHED_SETSCHEDULER, uintptr(pid), unix.SCHED_BATCH, uintptr(unsafe.Pointer(&priority)))
		return errnoOrNil(errno)
	}, func(s *scene, _ result) bool {
		policy, _, errno := unix.Syscall(unix.SYS_SCHED_GETSCHEDULER, uintptr(s.victim()), 0, 0)
		s.must(errnoOrNil(errno))
		return policy == unix.SCHED_BATCH
	}},
	{"oom_score_adj", func(pid int) error {
		return os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid), []byte("777"), 0)
	}, func(s *scene, _ result) bool {
		return s.content(fmt.Sprintf("/proc/%d/oom_score_adj", s.victim())) == "777\n"
	}},
}

func renice(s *scene, _ result) bool {
	n, err := unix.Getpriority(unix.PRIO_PROCESS, s.victim())
	s.must(err)
	return n == 20-7
}

func setIOPriority(who, id int) error {
	const idle = 3 << 13
	_, _, errno := unix.Syscall(unix.SYS_IOPRIO_SET, uintptr(who), uintptr(id), idle)
	return errnoOrNil(errno)
}

func idleIO(s *scene, _ result) bool {
	class, _, errno := unix.Syscall(unix.SYS_IOPRIO_GET, 1, uintptr(s.victim()), 0)
	s.must(errnoOrNil(errno))
	return class>>13 == 3
}

func firstCPU() int {
	var set unix.CPUSet
	unix.SchedGetaffinity(0, &set)
	for i := range 1024 {
		if set.IsSet(i) {
			return i
		}
	}
	return 0
}

func seize(p places) error {
	runtime.LockOSThread()
	if err := unix.PtraceSeize(p.victim()); err != nil {
		return err
	}
	if err := unix.PtraceInterrupt(p.victim()); err != nil {
		return err
	}
	if _, err := unix.Wait4(p.victim(), nil, unix.WALL, nil); err != nil {
		return err
	}
	text := make([]byte, 64)
	n, err := unix.PtracePeekData(p.victim(), uintptr(p.address()), text)
	fmt.Printf("%s\n", text[:n])
	return errors.Join(err, unix.PtraceDetach(p.victim()))
}

func attach(p places) error {
	runtime.LockOSThread()
	if err := unix.PtraceAttach(p.victim()); err != nil {
		return err
	}
	if _, err := unix.Wait4(p.victim(), nil, unix.WALL, nil); err != nil {
		return err
	}
	_, err := unix.PtracePokeData(p.victim(), uintptr(p.address()), []byte("xxxxxxxx"))
	return errors.Join(err, unix.PtraceDetach(p.victim()))
}

func (p places) remote(n int) []unix.RemoteIovec {
	return []unix.RemoteIovec{{Base: uintptr(p.address()), Len: n}}
}

func readMemory(p places) error {
	text := make([]byte, 64)
	n, err := unix.ProcessVMReadv(p.victim(), []unix.Iovec{{Base: &text[0], Len: 64}}, p.remote(64), 0)
	fmt.Printf("%s\n", text[:max(n, 0)])
	return err
}

func writeMemory(p places) error {
	b := []byte("x")
	_, err := unix.ProcessVMWritev(p.victim(), []unix.Iovec{{Base: &b[0], Len: 1}}, p.remote(1), 0)
	return err
}

// takeFD copies the bystander's descriptor of its secret file.
func takeFD(p places) error {
	process, err := unix.PidfdOpen(p.victim(), 0)
	if err != nil {
		return err
	}
	fd, err := unix.PidfdGetfd(process, 3, 0)
	if err != nil {
		return err
	}
	text := make([]byte, 64)
	n, err := unix.Pread(fd, text, 0)
	fmt.Printf("%s\n", text[:max(n, 0)])
	return err
}

// compare asks whether two descriptors of the bystander are the same file.
func compare(p places) error {
	const kcmpFile = 0
	pid := uintptr(p.victim())
	answer, _, errno := unix.Syscall6(unix.SYS_KCMP, pid, pid, kcmpFile, 0, 3, 0)
	if errno != 0 {
		return errno
	}
	if answer != 0 {
		fmt.Println("fd 3 differs")
	}
	return nil
}

// ownProcesses: a run sees, signals and sets its own.
func ownProcesses(places) error {
	c := osexec.Command("/bin/sleep", "50")
	if err := c.Start(); err != nil {
		return err
	}
	var err error
	if !soon(func() bool { // the name comes with the last step of exec
		name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", c.Process.Pid))
		return strings.Contains(string(name), "sleep")
	}) {
		err = errors.New("an own process is not seen")
	}
	var set unix.CPUSet
	err = errors.Join(err,
		unix.Setpriority(unix.PRIO_PROCESS, 0, 5),
		unix.SchedGetaffinity(0, &set), unix.SchedSetaffinity(0, &set),
		unix.Prlimit(0, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 500, Max: 500}, nil),
		unix.Kill(c.Process.Pid, unix.SIGSTOP), unix.Kill(c.Process.Pid, unix.SIGCONT), unix.Kill(c.Process.Pid, unix.SIGKILL))
	c.Wait() // it was killed
	return err
}
