package child

/*
#include "child.h"
*/
import "C"

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Signals are those that a process catches while it runs a command.
type Signals struct {
	list        [C.MAX_CAUGHT]C.int
	count       C.int
	read, write *os.File
}

// CatchSignals catches list, also what is ignored. Handlers belong to the process:
// EBUSY if some are caught already, and what os/signal was asked for is out of
// force until Close.
func CatchSignals(list ...syscall.Signal) (*Signals, error) {
	if len(list) > C.MAX_CAUGHT {
		return nil, &StartError{"signals", "catch", unix.E2BIG}
	}
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return nil, &StartError{"signals", "pipe2", err}
	}
	s := &Signals{count: C.int(len(list)),
		read: os.NewFile(uintptr(pipe[0]), "signals"), write: os.NewFile(uintptr(pipe[1]), "signals")}
	for i, n := range list {
		s.list[i] = C.int(n)
	}
	if r := C.signals_catch(C.int(pipe[1]), &s.list[0], s.count); r < 0 {
		s.read.Close()
		s.write.Close()
		return nil, &StartError{"signals", "catch", syscall.Errno(-r)}
	}
	return s, nil
}

// Next waits for a signal. After Close it fails.
func (s *Signals) Next() (syscall.Signal, error) {
	var b [1]byte
	if _, err := s.read.Read(b[:]); err != nil {
		return 0, err
	}
	return syscall.Signal(b[0]), nil
}

// Close gives the signals back to whoever had them, and ends a Next that waits.
func (s *Signals) Close() error {
	C.signals_release(&s.list[0], s.count)
	return errors.Join(s.read.Close(), s.write.Close())
}
