package exec

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// openTerminal prepares a terminal of the command's own. In a mount view the
// keeper opens it, so that its name is in the view's /dev/pts; without one it
// is opened here and its name alone is granted.
func (s *stdio) openTerminal(caller *os.File, view bool, user *User) error {
	s.tty, s.source = true, caller
	t, err := unix.IoctlGetTermios(int(caller.Fd()), unix.TCGETS)
	if err != nil {
		return fmt.Errorf("--tty: standard input is not a terminal: %w", err)
	}
	s.saved = t
	if view {
		return nil
	}
	m, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("open a terminal: %w", err)
	}
	s.master = os.NewFile(uintptr(m), "terminal")
	if err := unix.IoctlSetPointerInt(m, unix.TIOCSPTLCK, 0); err != nil {
		return err
	}
	n, err := unix.IoctlGetInt(m, unix.TIOCGPTN)
	if err != nil {
		return err
	}
	s.slaveName = fmt.Sprintf("/dev/pts/%d", n)
	fd, err := unix.Open(s.slaveName, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if user != nil {
		if err := unix.Fchown(fd, user.UID, -1); err != nil {
			unix.Close(fd)
			return err
		}
	}
	s.own = append(s.own, fd)
	s.child = [3]int{fd, fd, fd}
	return nil
}

// startTerminal makes the caller's terminal raw: keys go through as they are,
// and the inner terminal turns Ctrl-C and Ctrl-Z into signals for the job that
// is in its foreground.
func (s *stdio) startTerminal() {
	if s.master == nil {
		return
	}
	s.resize()
	raw := *s.saved
	raw.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	raw.Oflag &^= unix.OPOST
	raw.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	raw.Cflag = raw.Cflag&^(unix.CSIZE|unix.PARENB) | unix.CS8
	raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
	unix.IoctlSetTermios(int(s.source.Fd()), unix.TCSETS, &raw)
	s.copiers.Go(func() { copyUntil(s.master, s.source, s.cancel[0]) })
	s.outputs[0] = &output{from: s.master, to: s.source}
	if s.watch != nil {
		s.outputs[0].to = watched{s.source, s.watch, "terminal"}
	}
	s.copiers.Go(func() { s.outputs[0].copy() })
}

// resize hands the caller's window size on.
func (s *stdio) resize() {
	if s.master == nil || !s.tty {
		return
	}
	if w, err := unix.IoctlGetWinsize(int(s.source.Fd()), unix.TIOCGWINSZ); err == nil {
		if raw, err := s.master.SyscallConn(); err == nil {
			raw.Control(func(fd uintptr) { unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, w) })
		}
	}
}

// restore gives the caller's terminal its settings back.
func (s *stdio) restore() {
	if s.saved != nil {
		unix.IoctlSetTermios(int(s.source.Fd()), unix.TCSETS, s.saved)
	}
}

// drainTime is how long output may still come once the tree is dead. Only a
// process outside can hold a pipe open then.
const drainTime = time.Second

// finish waits for the copiers. The input copier is stopped; outputs end by
// themselves, since no writer is left, or at the deadline. A reader who does not
// take the output is waited for only if patient: at the end of a command that
// ended by itself, every byte arrives, but nobody can hold up a deadline. What he
// has not taken then is lost to him; its copier ends with this process, or when
// he reads on. It touches nothing but the stream's count; captures never block.
func (s *stdio) finish(patient bool) {
	s.cancel[1].Close()
	deadline := time.Now().Add(drainTime)
	for _, o := range s.outputs {
		if o != nil && o.from != nil {
			o.from.SetReadDeadline(deadline)
		}
	}
	if s.input != nil {
		s.input.SetWriteDeadline(time.Now())
	}
	if s.tty && s.master != nil {
		s.master.SetWriteDeadline(time.Now())
	}
	done := make(chan struct{})
	go func() {
		s.copiers.Wait()
		close(done)
	}()
	var late <-chan time.Time
	if !patient {
		late = time.After(drainTime + drainTime/4)
	}
	select {
	case <-done:
	case <-late:
	}
	s.restore()
}
