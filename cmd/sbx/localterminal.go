package main

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"sandboxd/cmd/sandboxd/api"
)

// localTerminal is the caller's terminal while a command of the daemon has one of
// its own. A nil one is none.
type localTerminal struct {
	file *os.File

	mu    sync.Mutex
	saved *unix.Termios
	over  bool
}

// terminal prepares for --tty: the size goes with the request, and keys go through
// as they are once the command runs.
func (j *job) terminal(q *api.ExecRequest, s *api.StreamIO) (*localTerminal, error) {
	if !j.o.tty || q == nil {
		return nil, nil
	}
	if j.p.stdin == nil || !isTerminal(int(j.p.stdin.Fd())) {
		return nil, misuse("leave --tty out, or run sbx from a terminal", "--tty: standard input is not a terminal")
	}
	t := &localTerminal{file: j.p.stdin}
	s.Size = t.size
	size := t.size()
	q.Terminal = &size
	return t, nil
}

func (t *localTerminal) size() api.Size {
	w, err := unix.IoctlGetWinsize(int(t.file.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return api.Size{Rows: 24, Columns: 80}
	}
	return api.Size{Rows: w.Row, Columns: w.Col}
}

// raw hands every key on; the terminal of the command makes signals of them.
func (t *localTerminal) raw() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	old, err := unix.IoctlGetTermios(int(t.file.Fd()), unix.TCGETS)
	if err != nil || t.over {
		return
	}
	t.saved = old
	raw := *old
	raw.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	raw.Oflag &^= unix.OPOST
	raw.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	raw.Cflag = raw.Cflag&^(unix.CSIZE|unix.PARENB) | unix.CS8
	raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
	_ = unix.IoctlSetTermios(int(t.file.Fd()), unix.TCSETS, &raw)
}

// restore gives the terminal its settings back.
func (t *localTerminal) restore() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	if t.saved != nil {
		_ = unix.IoctlSetTermios(int(t.file.Fd()), unix.TCSETS, t.saved)
		t.saved = nil
	}
}
