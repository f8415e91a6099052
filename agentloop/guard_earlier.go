package agentloop

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// stateDir is where journals of a session's runs are kept: the user's own state
// directory where this process is the user, else one of the daemon's for each user.
// What is read back with the rights of root must not be writable by the user, and
// what is found in a user's workspace is told to nobody else.
func (d *Dispatcher) stateDir(s *Session) string {
	uid := s.peer.Caller.UID
	if uid == unix.Geteuid() {
		return s.caller().StateDir
	}
	if d.o.StateDir == "" {
		return ""
	}
	return filepath.Join(d.o.StateDir, userDirPrefix+strconv.Itoa(uid))
}

// keptDir is where the user of a session gets back what the guard of root's daemon
// moved aside: there, as in a user's own daemon, sbx clean finds it. Empty where the
// daemon's state is the user's.
func keptDir(s *Session) string {
	c := s.caller()
	if c.StateDir == "" || c.UID == unix.Geteuid() {
		return ""
	}
	return filepath.Join(c.StateDir, "kept")
}

const userDirPrefix = "uid-"

// userDirs is the pattern of the directories of all users; empty without any.
func (d *Dispatcher) userDirs() string {
	if d.o.StateDir == "" {
		return ""
	}
	return filepath.Join(d.o.StateDir, userDirPrefix+"*")
}

// earlierRuns completes the guards of one user whose runs did not end, and returns
// what is to be said of them, also of those that were completed at the start.
func (d *Dispatcher) earlierRuns(dir string) []string {
	found, err := CompleteGuards(dir)
	d.mu.Lock()
	said := d.earlier[dir]
	delete(d.earlier, dir)
	d.mu.Unlock()
	return append(said, sayEarlier(found, err)...)
}

func sayEarlier(found []GuardFinding, err error) (said []string) {
	for _, f := range found {
		said = append(said, "an earlier run that did not end: "+f.String())
	}
	if err != nil {
		said = append(said, "an earlier run could not be completed: "+err.Error())
	}
	return said
}

// CompleteRuns completes the guards of all users whose runs ended with an earlier
// daemon: each with its user's rights, and those of one user beside those of the
// others. It is called at the start of a daemon. What was found is told to the user
// alone, with its next run; the error says whose could not be completed.
func (d *Dispatcher) CompleteRuns(ctx context.Context) error {
	dirs, err := filepath.Glob(d.userDirs())
	if err != nil || d.o.StateDir == "" {
		return err
	}
	ctx, done := context.WithTimeout(ctx, reloadTime)
	defer done()
	uidOf := func(dir string) int {
		uid, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(dir), userDirPrefix))
		if err != nil {
			return -1
		}
		return uid
	}
	return errors.Join(perUser(ctx, dirs, uidOf, func(dir string) error {
		found, err := CompleteGuards(dir)
		if said := sayEarlier(found, err); len(said) > 0 {
			d.mu.Lock()
			d.earlier[dir] = append(d.earlier[dir], said...)
			d.mu.Unlock()
		}
		if err != nil {
			return fmt.Errorf("uid %d: a run that did not end could not be completed", uidOf(dir))
		}
		return nil
	}))
}
