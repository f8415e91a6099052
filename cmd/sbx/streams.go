package main

import (
	"io"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"sandboxd/agentloop"
	"sandboxd/exec"
)

// cappedWriter passes on at most left bytes and counts the rest, so that the
// writer of an endless output neither blocks nor fills a disk. It is safe for
// concurrent use.
type cappedWriter struct {
	mu      sync.Mutex
	to      io.Writer
	left    int64
	dropped int64
}

// Write reports all of b as written: the command is not to notice the cap.
func (w *cappedWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	pass := b[:min(int64(len(b)), w.left)]
	w.left -= int64(len(pass))
	w.dropped += int64(len(b) - len(pass))
	if len(pass) > 0 {
		if n, err := w.to.Write(pass); err != nil {
			return n, err
		}
	}
	return len(b), nil
}

// cut returns how many bytes were dropped.
func (w *cappedWriter) cut() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dropped
}

// connect gives the call its streams and descriptors. The writers it returns are
// those with a cap; there are none without --output-limit.
func (p *program) connect(c *agentloop.ToolCall, o runOptions) ([]*cappedWriter, error) {
	c.IO.Stdin, c.IO.Listen = p.stdin, forwardSignals
	for _, n := range o.passFDs {
		c.IO.PassFDs = append(c.IO.PassFDs, exec.PassFD{File: os.NewFile(uintptr(n), "inherited"), Number: n})
	}
	if o.tty {
		if p.stdin == nil || !isTerminal(int(p.stdin.Fd())) {
			return nil, misuse("leave --tty out, or run sbx from a terminal", "--tty: standard input is not a terminal")
		}
		c.IO.TTY = p.stdin
	}
	if o.json {
		c.Limits.OutputBytes = int(o.outputBytes)
		return nil, nil // captured into the result
	}
	c.IO.Stdout, c.IO.Stderr = p.stdout, p.stderr
	if o.outputBytes <= 0 {
		return nil, nil
	}
	out := &cappedWriter{to: p.stdout, left: o.outputBytes}
	errs := &cappedWriter{to: p.stderr, left: o.outputBytes}
	c.IO.Stdout, c.IO.Stderr = out, errs
	return []*cappedWriter{out, errs}, nil
}

// keepHead keeps the beginning of what is printed for the row of the end: what passes
// here on its way. Where nothing is recorded no byte is looked at.
func keepHead(io *agentloop.CallIO) {
	head := &agentloop.OutputHead{}
	switch {
	case io.TTY != nil:
		io.Output = func(_ string, piece []byte) { head.Add(piece) }
	case io.Stdout == nil:
		return // captured, and recorded from there
	default:
		io.Stdout, io.Stderr = head.Tee(io.Stdout), head.Tee(io.Stderr)
	}
	io.Printed = head
}

// forwarded are the signals that sbx hands to the command instead of obeying
// them. The command may ignore them, as it may without sbx; whoever kills sbx
// ends the command's whole tree with it.
var forwarded = []syscall.Signal{
	unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGWINCH, unix.SIGCONT, unix.SIGTSTP,
}

// forwardSignals starts to collect signals for the command. end stops it.
//
// Ctrl-Z stops the command's whole tree and then sbx, so that the shell has its
// terminal back; SIGCONT continues both. The command is in a session of its own,
// where SIGTSTP has no effect unless it is caught, so its tree gets SIGSTOP.
func forwardSignals() (signals <-chan os.Signal, end func(), err error) {
	return exec.CatchSignals(func(s os.Signal, deliver func(os.Signal) bool) {
		if s != unix.SIGTSTP {
			deliver(s)
			return
		}
		// The second one is taken when the first is through. It is ignored
		// unless caught, and cannot be the one that stops sbx.
		if deliver(unix.SIGSTOP) && deliver(unix.SIGWINCH) {
			unix.Kill(unix.Getpid(), unix.SIGSTOP)
		}
	}, forwarded...)
}

// isTerminal reports whether fd is a terminal.
func isTerminal(fd int) bool {
	_, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	return err == nil
}
