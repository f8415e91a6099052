package api

import (
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"sandboxd/agentloop"
)

// terminal is a pseudo-terminal that stands for the client's: the run takes inner
// for the caller's terminal, and what passes through outer goes over the stream.
type terminal struct{ inner, outer *os.File }

func openTerminal(size Size) (*terminal, error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open a terminal: %w", err)
	}
	t := &terminal{outer: os.NewFile(uintptr(fd), "terminal")}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		// The daemon may be a session leader without a terminal: this must not become
		// its own.
		t.inner, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.outer.Close()
		return nil, fmt.Errorf("open a terminal: %w", err)
	}
	t.resize(size)
	return t, nil
}

func (t *terminal) resize(s Size) {
	_ = control(t.outer, func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: s.Rows, Col: s.Columns})
	})
}

// connect copies between the terminal and the stream, and the beginning of the output to
// head. stop returns when all output was sent.
func (t *terminal) connect(st *serverStream, head *agentloop.OutputHead) (stop func()) {
	var in, out sync.WaitGroup
	in.Go(func() { _ = st.inlets[FrameStdin].copyTo(t.outer) })
	out.Go(func() {
		defer head.Finish()
		buf := make([]byte, 32<<10)
		for {
			n, err := t.outer.Read(buf)
			if n > 0 {
				head.Add(buf[:n])
				if _, failed := st.out[FrameStdout].Write(buf[:n]); failed != nil {
					return
				}
			}
			if err != nil { // EIO: the last inner end is closed and all was read
				return
			}
		}
	})
	return func() {
		t.inner.Close()
		t.outer.SetReadDeadline(time.Now().Add(time.Second))
		out.Wait()
		t.outer.SetWriteDeadline(time.Now())
		st.inlets[FrameStdin].drop()
		in.Wait()
		t.outer.Close()
	}
}
