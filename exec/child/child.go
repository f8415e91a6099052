// Package child holds the few steps between clone and exec, and the keeper.
//
//	var p child.Plan
//	p.Scope(); p.Subreaper(); p.Drop(); p.RulesetFD(ruleset)
//	p.Run(child.Command{Path: "/bin/true", Argv: []string{"true"}, Dir: "/", ...})
//	proc, err := child.Start(&p, child.Options{})
//
// A run is three processes: the starter (this Go program), the keeper and the
// command. The keeper is a fresh exec of this binary that leaves in a C
// constructor, before the Go runtime starts; in a process that runs one command
// it is a copy of that process, made in the constructor when there is nothing in
// it yet (early.c). It walks the [Plan], starts the
// command with a vfork-style clone, reaps, and ends the whole tree when the
// command ended, when it is told to, or when the starter is gone.
//
// The order of the steps, and why it must be that one, is written beside each
// in start.c (clone of the keeper), keeper.c and command.c (clone of the command).
//
// # Limits
//
// A keeper that is killed from outside takes a run with a pid namespace with it.
// Without one only the command itself dies with it (PR_SET_PDEATHSIG), not what
// the command started.
package child

/*
#cgo CFLAGS: -O2 -Wall -Wextra -Wno-unused-result
#include <stdlib.h>
#include "child.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Options chooses the namespaces a keeper is made in.
type Options struct {
	// Namespaces are CLONE_NEW* flags. With CLONE_NEWUSER the caller's uid and
	// gid are mapped onto themselves.
	Namespaces uint64
	// Ready is a keeper of [StartKeeper] in these namespaces to use, or nil. Start
	// takes it; one that went away while it waited is replaced.
	Ready *Process
	// Meanwhile is called while the keeper walks the plan up to its Wait, without
	// which it must be nil. The command starts after it returned nil; an error of
	// it ends the start, and is what Start returns.
	Meanwhile func() error
}

// StartError reports a keeper that could not start the command.
type StartError struct {
	Stage  string // "user namespace", "mount", "landlock", "exec", ...
	Detail string // the operation or resource at fault; may be empty
	Err    error  // an errno
}

func (e *StartError) Error() string {
	if e.Detail == "" {
		return e.Stage + ": " + e.Err.Error()
	}
	return e.Stage + ": " + e.Detail + ": " + e.Err.Error()
}
func (e *StartError) Unwrap() error { return e.Err }

// Self is this program, opened once: a keeper is the same binary even after an
// upgrade replaced the file.
var self = sync.OnceValues(func() (int, error) {
	return unix.Open("/proc/self/exe", unix.O_PATH|unix.O_CLOEXEC, 0)
})

// Process is a started keeper.
type Process struct {
	pidfd   int
	copied  int // the pidfd that the last msgCopied carried
	control *os.File
	raw     syscall.RawConn
	// Scoped reports that the end of the tree cannot be outrun: the keeper is
	// process 1 of a pid namespace or its signals are scoped by Landlock.
	Scoped bool
	// PID of the command as the keeper sees it.
	PID int
	// Terminal is the controlling end of Plan.PTY. The caller closes it.
	Terminal *os.File
}

// Start makes a keeper and has it walk the plan. It returns when the command
// runs (exec succeeded) or could not be started.
//
// The plan is in the keeper's socket before the keeper is: it need not wait for
// this process to be scheduled again, which takes milliseconds on a busy machine.
func Start(p *Plan, o Options) (*Process, error) {
	ready := o.Ready
	if ready == nil {
		ready = early(o)
	}
	if ready != nil && ready.send(p) == nil {
		return ready.begin(p, o)
	}
	if ready != nil {
		ready.Close()
	}
	ours, theirs, err := socketpair()
	if err != nil {
		return nil, err
	}
	defer unix.Close(theirs)
	if err := sendPlan(ours, p); err != nil {
		unix.Close(ours)
		return nil, err
	}
	proc, err := startKeeper(o, ours, theirs)
	if err != nil {
		return nil, err
	}
	return proc.begin(p, o)
}

// begin waits for the command of a keeper that has its plan. If there is none, the
// keeper has ended when it returns: one that still makes the view would be in the way
// of who removes what the view was made of.
func (p *Process) begin(plan *Plan, o Options) (*Process, error) {
	if err := p.started(plan, o); err != nil {
		_ = p.Kill()
		_ = p.letGo()
		p.reap()
		return nil, err
	}
	return p, nil
}

// early returns the keeper that this process made before the runtime started, if
// it is of the kind that o asks for. One of another kind ends here.
func early(o Options) *Process {
	e := C.child_early()
	if e.pidfd < 0 {
		return nil
	}
	proc, err := newProcess(int(e.pidfd), int(e.control))
	if err != nil {
		return nil
	}
	// One that could not make its namespaces went away: the usual way says why.
	if uint64(e.flags) == o.Namespaces {
		if m, err := proc.Receive(); err == nil && m.Type == msgEarly {
			return proc
		}
	}
	proc.Close()
	return nil
}

// newProcess takes both descriptors of a keeper, also when it fails.
func newProcess(pidfd, control int) (*Process, error) {
	if err := unix.SetNonblock(control, true); err != nil {
		unix.Close(control)
		unix.Close(pidfd)
		return nil, &StartError{"start", "control socket", err}
	}
	f := os.NewFile(uintptr(control), "keeper")
	raw, err := f.SyscallConn()
	if err != nil {
		f.Close()
		unix.Close(pidfd)
		return nil, &StartError{"start", "control socket", err}
	}
	return &Process{pidfd: pidfd, control: f, raw: raw}, nil
}

// StartKeeper makes a keeper that waits for its plan, so that one can be kept
// ready. Close ends it.
func StartKeeper(o Options) (*Process, error) {
	ours, theirs, err := socketpair()
	if err != nil {
		return nil, err
	}
	defer unix.Close(theirs)
	return startKeeper(o, ours, theirs)
}

// socketpair makes the control socket. Neither end is inherited.
func socketpair() (ours, theirs int, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, -1, &StartError{"start", "socketpair", err}
	}
	return pair[0], pair[1], nil
}

// startKeeper clones a keeper with the socket theirs. It takes ours, also when it
// fails.
func startKeeper(o Options, ours, theirs int) (*Process, error) {
	exe, err := self()
	if err != nil {
		unix.Close(ours)
		return nil, &StartError{"start", "/proc/self/exe", err}
	}
	report := (*C.struct_report)(C.calloc(1, C.sizeof_struct_report))
	pidfd := (*C.int)(C.calloc(1, C.sizeof_int))
	defer C.free(unsafe.Pointer(report))
	defer C.free(unsafe.Pointer(pidfd))
	r := C.child_start(C.int(exe), C.int(theirs), C.uint64_t(o.Namespaces),
		C.uid_t(os.Geteuid()), C.gid_t(os.Getegid()), pidfd, report)
	if r < 0 {
		unix.Close(ours)
		return nil, &StartError{"start", "clone", syscall.Errno(-r)}
	}
	proc, err := newProcess(int(*pidfd), ours)
	if err != nil {
		return nil, err
	}
	if report.stage != 0 {
		proc.Close()
		return nil, startError(nil, int(report.stage), int(report.error), int(report.detail))
	}
	return proc, nil
}

// Execute hands the plan to a keeper that waits for it, and returns as Start does.
func (p *Process) Execute(plan *Plan) error {
	if err := p.send(plan); err != nil {
		return err
	}
	return p.started(plan, Options{})
}

func (p *Process) send(plan *Plan) error {
	var sent error
	if err := p.raw.Control(func(fd uintptr) { sent = sendPlan(int(fd), plan) }); err != nil {
		return &StartError{"plan", "send", err}
	}
	return sent
}

// sendPlan puts the plan, in a memory file, and its descriptors into the control
// socket. It is the first message there, so it always fits.
func sendPlan(control int, plan *Plan) error {
	text, err := plan.encode()
	if err != nil {
		return &StartError{Stage: "plan", Err: err}
	}
	mem, err := unix.MemfdCreate("plan", unix.MFD_CLOEXEC)
	if err != nil {
		return &StartError{"plan", "memfd_create", err}
	}
	defer unix.Close(mem)
	for rest := text; len(rest) > 0; {
		n, err := unix.Write(mem, rest)
		if err != nil {
			return &StartError{"plan", "write", err}
		}
		rest = rest[n:]
	}
	rights := unix.UnixRights(append([]int{mem}, plan.fds...)...)
	if err := unix.Sendmsg(control, Message{Type: msgPlan}.encode(), rights, nil, unix.MSG_NOSIGNAL); err != nil {
		return &StartError{"plan", "send", err}
	}
	return nil
}

// started waits until the command runs or failed.
func (p *Process) started(plan *Plan, o Options) error {
	if o.Meanwhile != nil {
		if err := o.Meanwhile(); err != nil {
			return err
		}
		_ = p.Send(Message{Type: msgGo}) // a keeper that failed meanwhile has said why
	}
	for {
		m, err := p.Receive()
		if err != nil {
			return &StartError{"start", "the keeper went away", err}
		}
		switch m.Type {
		case Started:
			p.PID, p.Scoped = int(m.A), m.B != 0
			return nil
		case msgError:
			return startError(plan, int(m.A), int(m.B), int(m.C))
		}
	}
}

var stages = [...]string{"", "start", "user namespace", "plan", "", "cgroup", "session", "terminal",
	"stdio", "limits", "directory", "parent", "capabilities", "no_new_privs", "landlock", "seccomp", "exec"}

const stageOp = 4

func startError(p *Plan, stage, errno, detail int) error {
	e := &StartError{Err: syscall.Errno(errno)}
	switch {
	case stage == stageOp && p != nil && detail < len(p.ops):
		o := p.ops[detail]
		e.Stage, e.Detail = o.stage(), o.text
	case stage > 0 && stage < len(stages):
		e.Stage = stages[stage]
		if e.Stage == "user namespace" {
			e.Detail = [...]string{"", "setgroups", "gid_map", "uid_map", "ambient capabilities"}[min(detail, 4)]
		}
	default:
		e.Stage = fmt.Sprintf("stage %d", stage)
	}
	return e
}

// stage names the part of the set-up that an operation belongs to.
func (o op) stage() string {
	switch {
	case o.code == opLoopback:
		return "network"
	case o.code == opPidmax:
		return "limits"
	case o.code < opBounding:
		return "mount"
	case o.code == opUser:
		return "user"
	case o.code == opBounding || o.code == opDrop:
		return "capabilities"
	case o.code == opPTY:
		return "terminal"
	}
	return "landlock"
}

// Kill ends the keeper at once, and with it a run in a pid namespace. It is the
// last resort when the keeper does not answer.
func (p *Process) Kill() error {
	return unix.PidfdSendSignal(p.pidfd, unix.SIGKILL, nil, 0)
}

// Close lets go of the keeper: it ends the tree if that still runs. The keeper is
// reaped in the background.
func (p *Process) Close() error {
	err := p.letGo()
	go p.reap()
	return err
}

func (p *Process) letGo() error {
	if p.Terminal != nil {
		p.Terminal.Close()
	}
	return p.control.Close()
}

// settleTime bounds how long a process that ends waits for its keepers. They end
// within a millisecond or two, unless the kernel holds on to a task of theirs.
const settleTime = 500 * time.Millisecond

// Settle reaps the keepers that were closed, for a process that is about to end,
// and the one that was made before the runtime started and not taken. Nothing can be started
// after it.
func Settle() { C.made_settle(C.int(settleTime.Milliseconds())) }

// reap waits for the keeper in the poller, where waiting takes no thread, and
// closes its descriptor.
func (p *Process) reap() {
	wait := func(fd uintptr) (done bool) {
		for {
			err := unix.Waitid(unix.P_PIDFD, int(fd), nil, unix.WEXITED, nil)
			if !errors.Is(err, unix.EINTR) {
				return !errors.Is(err, unix.EAGAIN)
			}
		}
	}
	_ = unix.SetNonblock(p.pidfd, true) // before Linux 5.10 waitid blocks all the same
	f := os.NewFile(uintptr(p.pidfd), "keeper")
	defer f.Close()
	raw, err := f.SyscallConn()
	if err == nil {
		err = raw.Read(wait)
	}
	if err != nil { // the poller does not take it
		_ = unix.SetNonblock(p.pidfd, false)
		wait(uintptr(p.pidfd))
	}
}
