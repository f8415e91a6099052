package exec

import (
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// stdio connects the command's three streams. The command never gets the
// caller's terminal: pipes, or a terminal of its own.
type stdio struct {
	child     [3]int // descriptors for the command; -1: the terminal of the view
	own       []int  // closed on this side once the command has them
	tty       bool
	watch     func(stream string, piece []byte) // of the terminal; nil: nobody
	saved     *unix.Termios                     // settings of the caller's terminal
	slaveName string                            // of a terminal opened here

	input   *os.File // this side of the command's standard input
	source  *os.File // what is copied into it
	master  *os.File // this side of the terminal
	outputs [2]*output

	copiers sync.WaitGroup
	cancel  [2]*os.File // a pipe: closing the write end ends the input copier
}

// output is one stream on its way out.
type output struct {
	from    *os.File // read end of the pipe; nil if there is nothing to copy
	to      io.Writer
	capture *capture
	bytes   atomic.Int64
	passed  atomic.Int64
	lost    atomic.Pointer[error] // why passing on ended early
	direct  bool                  // the descriptor itself was passed
}

func (l *launch) openStdio() error {
	s := &stdio{child: [3]int{-1, -1, -1}}
	l.stdio = s
	l.onRelease(s.close)
	if err := s.openCancel(); err != nil {
		return &SetupError{Stage: "stdio", Err: err}
	}
	var err error
	if l.spec.TTY != nil {
		s.watch = l.spec.Watch
		err = s.openTerminal(l.spec.TTY, l.view, l.spec.User)
	} else {
		err = s.openStreams(l)
	}
	if err != nil {
		return &SetupError{Stage: "stdio", Err: err}
	}
	return nil
}

func (s *stdio) openCancel() error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	s.cancel = [2]*os.File{r, w}
	return nil
}

func (s *stdio) openStreams(l *launch) error {
	if err := s.openInput(l.spec.Stdin); err != nil {
		return err
	}
	for i, to := range []io.Writer{l.spec.Stdout, l.spec.Stderr} {
		o, err := s.openOutput(i+1, to, l)
		if err != nil {
			return err
		}
		s.outputs[i] = o
	}
	return nil
}

// openInput passes a pipe, a file or the null device as it is: reading ahead
// would take input that the caller's next command should get. Anything else, a
// terminal or a socket, is copied.
func (s *stdio) openInput(in *os.File) error {
	if in == nil {
		fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		s.child[0] = fd
		s.own = append(s.own, fd)
		return nil
	}
	fd := int(in.Fd())
	if harmless(fd) {
		s.child[0] = fd
		return nil
	}
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return err
	}
	s.child[0] = p[0]
	s.own = append(s.own, p[0])
	s.input, s.source = nonblocking(p[1], "stdin"), in
	return nil
}

// harmless descriptors give the command nothing but the bytes in them. A file
// open for writing too would let it write there, a socket would let it talk.
func harmless(fd int) bool {
	var st unix.Stat_t
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil || unix.Fstat(fd, &st) != nil {
		return false
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFIFO:
		return true
	case unix.S_IFREG:
		return flags&unix.O_ACCMODE == unix.O_RDONLY && flags&unix.O_PATH == 0
	case unix.S_IFCHR:
		return isNull(&st)
	}
	return false
}

func isNull(st *unix.Stat_t) bool {
	return st.Mode&unix.S_IFMT == unix.S_IFCHR && unix.Major(st.Rdev) == 1 && unix.Minor(st.Rdev) == 3
}

func nonblocking(fd int, name string) *os.File {
	unix.SetNonblock(fd, true)
	return os.NewFile(uintptr(fd), name)
}

func (s *stdio) openOutput(i int, to io.Writer, l *launch) (*output, error) {
	o := &output{to: to}
	if f, ok := to.(*os.File); ok {
		var st unix.Stat_t
		if unix.Fstat(int(f.Fd()), &st) == nil && isNull(&st) {
			o.direct = true
			s.child[i] = int(f.Fd())
			return o, nil
		}
	}
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return nil, err
	}
	s.child[i] = p[1]
	s.own = append(s.own, p[1])
	o.from = nonblocking(p[0], "output")
	if to == nil {
		o.capture = newCapture(l.limits.OutputBytes, l.limits.OutputFileBytes, l.spec.OpenOutput)
		o.to = o.capture
		if watch := l.spec.Watch; watch != nil {
			o.to = watched{o.capture, watch, [...]string{"stdout", "stderr"}[i-1]}
		}
	}
	return o, nil
}

// watched is what takes an output whose pieces are also given to [Spec.Watch].
type watched struct {
	to     io.Writer
	watch  func(stream string, piece []byte)
	stream string
}

func (w watched) Write(b []byte) (int, error) {
	w.watch(w.stream, b)
	return w.to.Write(b)
}

// closeChild closes the ends that the command has now.
func (s *stdio) closeChild() {
	for _, fd := range s.own {
		unix.Close(fd)
	}
	s.own = nil
}

// start begins copying. terminal is the controlling end that a keeper opened.
func (s *stdio) start(terminal *os.File) {
	if terminal != nil {
		s.master = terminal
	}
	if s.tty {
		s.startTerminal()
		return
	}
	if s.input != nil {
		s.copiers.Go(func() {
			copyUntil(s.input, s.source, s.cancel[0])
			s.input.Close()
		})
	}
	for _, o := range s.outputs {
		if o != nil && o.from != nil {
			s.copiers.Go(o.copy)
		}
	}
}

const copyBytes = 64 << 10

var buffers = sync.Pool{New: func() any { return new([copyBytes]byte) }}

// copy passes the stream on until it ends. If the reader at the other side is
// gone, the read end is closed, so that the command is told by SIGPIPE. A
// capture never fails and drains everything.
func (o *output) copy() {
	buf := buffers.Get().(*[copyBytes]byte)
	defer buffers.Put(buf)
	defer o.from.Close()
	for {
		n, err := o.from.Read(buf[:])
		if n > 0 {
			o.bytes.Add(int64(n))
			m, werr := o.to.Write(buf[:n])
			o.passed.Add(int64(m))
			if werr != nil {
				if !errors.Is(werr, unix.EPIPE) && !errors.Is(werr, os.ErrClosed) {
					o.lost.Store(&werr)
				}
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// backgroundPause is how many milliseconds pass between two looks at a terminal
// that belongs to another job.
const backgroundPause = 100

// inBackground reports whether fd is the controlling terminal and another job
// has it.
func inBackground(fd int) bool {
	group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	return err == nil && group != unix.Getpgrp()
}

// copyUntil copies from src to dst until either ends or stop is readable. src
// is polled, so no byte is taken from a terminal after the command ended.
func copyUntil(dst io.Writer, src, stop *os.File) {
	buf := buffers.Get().(*[copyBytes]byte)
	defer buffers.Put(buf)
	in := int(src.Fd())
	stopFD := int(stop.Fd())
	for {
		p := []unix.PollFd{{Fd: int32(in), Events: unix.POLLIN}, {Fd: int32(stopFD), Events: unix.POLLIN}}
		if _, err := unix.Poll(p, -1); err != nil && err != unix.EINTR {
			return
		}
		if p[1].Revents != 0 {
			return
		}
		if p[0].Revents == 0 {
			continue
		}
		if inBackground(in) {
			// What is typed now is the shell's; reading it would stop this process.
			if n, err := unix.Poll(p[1:], backgroundPause); n > 0 || err != nil && err != unix.EINTR {
				return
			}
			continue
		}
		n, err := unix.Read(in, buf[:4096])
		if err == unix.EINTR || err == unix.EAGAIN {
			continue
		}
		if n <= 0 || err != nil {
			return
		}
		if _, err := dst.Write(buf[:n]); err != nil {
			return
		}
	}
}

// abandon lets go of a run that never started.
func (s *stdio) abandon() {
	s.closeChild()
	s.restore()
}

func (s *stdio) close() {
	s.closeChild()
	for _, f := range []*os.File{s.cancel[0], s.cancel[1], s.input, s.master} {
		if f != nil {
			f.Close()
		}
	}
	for _, o := range s.outputs {
		if o != nil && o.from != nil {
			o.from.Close()
		}
	}
}
