package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"sandboxd/agentloop"
	"sandboxd/cmd/sandboxd/api"
)

// modeCycle is the order in which Shift+Tab goes through the modes (requirement 60).
// One that the session may not have, bypassPermissions without having been enabled
// at its start, is passed over.
var modeCycle = []string{"default", "acceptEdits", "plan", "bypassPermissions"}

// shiftTab is what a terminal sends for that key (terminfo: kcbt).
const shiftTab = "\x1b[Z"

// endLinesAtShiftTab makes the last byte of that key the end of a line, so that it is
// read at once and editing of other lines stays the terminal's. A plain Z ends a line
// too; no answer has one.
func endLinesAtShiftTab(tty *os.File) (restore func(), err error) {
	raw, err := tty.SyscallConn() // Fd would take its deadlines away
	if err != nil {
		return nil, err
	}
	var old *unix.Termios
	inner := raw.Control(func(fd uintptr) {
		if old, err = unix.IoctlGetTermios(int(fd), unix.TCGETS); err == nil {
			with := *old
			with.Cc[unix.VEOL] = shiftTab[len(shiftTab)-1]
			err = unix.IoctlSetTermios(int(fd), unix.TCSETS, &with)
		}
	})
	if err := errors.Join(inner, err); err != nil {
		return nil, err
	}
	return func() {
		_ = raw.Control(func(fd uintptr) { _ = unix.IoctlSetTermios(int(fd), unix.TCSETS, old) })
	}, nil
}

// cycleMode switches a session to the next mode and returns its name.
func cycleMode(ctx context.Context, cl *api.Client, session string) (string, error) {
	var now agentloop.SessionState
	if err := cl.Get(ctx, sessionPath(session, ""), &now); err != nil {
		return "", err
	}
	at := slices.Index(modeCycle, now.Mode) // -1 in a mode of another kind: the first is next
	for i := range modeCycle {
		next := modeCycle[(at+1+i)%len(modeCycle)]
		err := cl.Put(ctx, sessionPath(session, "/permissions/mode"), api.ModeRequest{Mode: next}, nil)
		if f, ok := errors.AsType[*api.Fault](err); ok && f.Code == api.CodePolicy {
			continue
		}
		return next, err
	}
	return "", fmt.Errorf("the session %s takes no mode of %v", session, modeCycle)
}
