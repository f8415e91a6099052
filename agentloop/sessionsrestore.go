package agentloop

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Reload reads the policy of every session again, each user's beside those of the
// others. A session whose policy cannot be read or used keeps the old one; the
// errors say which and why. What is not read after 30 s is not waited for.
func (m *Sessions) Reload(ctx context.Context) error {
	ctx, done := context.WithTimeout(ctx, reloadTime)
	defer done()
	var kept keptPolicies
	err := perUser(ctx, m.all(), func(s *Session) int { return s.peer.UID() }, func(s *Session) error {
		s.looking.Lock()
		defer s.looking.Unlock()
		s.look.at = time.Now()
		kept.add(m.reload(context.WithoutCancel(ctx), s))
		return nil
	})
	return errors.Join(kept.err(), err)
}

// keptPolicies are sessions whose policy could not be read, by the reason: one broken
// file is that of many. It is safe for concurrent use.
type keptPolicies struct {
	mu  sync.Mutex
	why []string // in the order they came
	of  map[string][]error
}

func (k *keptPolicies) add(err error) {
	if err == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.of == nil {
		k.of = map[string][]error{}
	}
	why := errors.Unwrap(err)
	if why == nil {
		why = err
	}
	if k.of[why.Error()] == nil {
		k.why = append(k.why, why.Error())
	}
	k.of[why.Error()] = append(k.of[why.Error()], err)
}

// err tells each reason once.
func (k *keptPolicies) err() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []error
	for _, why := range k.why {
		if list := k.of[why]; len(list) == 1 {
			all = append(all, list[0])
		} else {
			all = append(all, fmt.Errorf("%d sessions keep their policies: %s", len(list), why))
		}
	}
	return errors.Join(all...)
}

// perUser calls f for each of all, one after the other for those of one user, and
// for all users at once: what one user's files hold up is that user's alone. Users
// that are not done when ctx ends are left to themselves, and named in the error.
func perUser[T any](ctx context.Context, all []T, uid func(T) int, f func(T) error) error {
	byUser := map[int][]T{}
	for _, x := range all {
		byUser[uid(x)] = append(byUser[uid(x)], x)
	}
	type outcome struct {
		uid int
		err error
	}
	ended := make(chan outcome, len(byUser)) // so that none that is left waits
	for user, list := range byUser {
		go func() {
			var errs []error
			for _, x := range list {
				errs = append(errs, f(x))
			}
			ended <- outcome{user, errors.Join(errs...)}
		}()
	}
	var errs []error
	for len(byUser) > 0 {
		select {
		case o := <-ended:
			delete(byUser, o.uid)
			errs = append(errs, o.err)
		case <-ctx.Done():
			for user, list := range byUser {
				errs = append(errs, fmt.Errorf("uid %d: %d policies are still being read: %w", user, len(list), ctx.Err()))
			}
			return errors.Join(errs...)
		}
	}
	return errors.Join(errs...)
}

// Restore makes the sessions of the Store live again after a restart. One whose
// policy or workspace is not what it was any more is ended, with a row; the
// errors say which and why.
func (m *Sessions) Restore(ctx context.Context) error {
	if m.o.Store == nil {
		return nil
	}
	kept, err := m.o.Store.Sessions(ctx)
	if err != nil {
		return err
	}
	ctx, done := context.WithTimeout(ctx, reloadTime)
	defer done()
	return perUser(ctx, kept, func(st SessionState) int { return st.UID }, func(st SessionState) error {
		s, err := m.restore(context.WithoutCancel(ctx), st)
		if err == nil {
			s.waking.asleep.Store(true)
			m.add(s)
			return nil
		}
		err = fmt.Errorf("session %s could not be restored: %w", st.ID, err)
		return errors.Join(err, m.stopRow(ctx, st, 0, NewRedactor(nil).Mask("not restored: "+err.Error())))
	})
}

func (m *Sessions) restore(ctx context.Context, st SessionState) (*Session, error) {
	if st.Incomplete {
		return nil, errors.New("a directory or a flag held a secret, which is not kept")
	}
	peer := Peer{Caller: CallerOf(st.UID, st.GID, st.Groups, st.Environ)}
	r := SessionRequest{Workspace: st.Workspace, Cwd: st.Cwd, Mode: st.Mode, Policy: st.Policy, Profile: st.Profile, Environ: st.Environ, Grant: st.Grant, Attached: st.Attached, Key: st.Key}
	if st.ModeByPolicy {
		r.Mode = ""
	}
	if err := m.reserve(st.UID); err != nil {
		return nil, err
	}
	s, err := m.start(ctx, st.ID, peer, r, &st)
	if err != nil {
		m.forget(st.UID, "")
		return nil, err
	}
	s.partial = true
	return s, nil
}

// Resume gives a restored session back what is not kept, when its client sends it
// again: variables that hold secrets, and directories that were found with them. peer
// and r are those that the session was made with, as their Key says. A session that has
// all is left as it is. The policy is read again: variables may choose its files.
func (m *Sessions) Resume(ctx context.Context, s *Session, peer Peer, r SessionRequest) error {
	s.looking.Lock()
	defer s.looking.Unlock()
	if changed, err := s.complement(peer.Caller, r); err != nil || !changed {
		return err
	}
	s.secrets.Learn(NewRedactor(r.Environ).values...)
	s.look.at = time.Now()
	_ = m.reload(context.WithoutCancel(ctx), s) // told by its event; what is in force stays
	return nil
}

// complement puts into a restored session what [Sessions.Resume] says.
func (s *Session) complement(c Caller, r SessionRequest) (changed bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.partial {
		return false, nil
	}
	if err := s.hold(requestBytes(r) - requestBytes(s.request)); err != nil {
		return false, err
	}
	s.partial = false
	s.request.Environ, s.request.Grant = r.Environ, r.Grant
	own := &s.peer.Caller
	own.Environ, own.StateDir, own.CacheDir = r.Environ, c.StateDir, c.CacheDir
	return true, nil
}

// Reasons why a session ends.
const (
	// shutdown: for this process alone.
	shutdown = "shutdown"
	// ClientGone: it was made for one client, which left without ending it, as one
	// that was killed.
	ClientGone = "client-gone"
)

// Shutdown ends the calls of every session and leaves the sessions in the Store.
// Without a Store they are over, and each has its row.
func (m *Sessions) Shutdown(ctx context.Context) error {
	var errs []error
	for _, s := range m.all() {
		if m.o.Store == nil {
			errs = append(errs, m.stop(ctx, s, shutdown))
			continue
		}
		s.end(ctx, shutdown)
		s.events.close()
	}
	return errors.Join(errs...)
}
