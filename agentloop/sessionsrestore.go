package agentloop

import (
	"context"
	"errors"
	"fmt"
)

// Reload reads the policy of every session again. A session whose policy cannot
// be read or used keeps the old one; the errors say which and why.
func (m *Sessions) Reload(ctx context.Context) error {
	var errs []error
	for _, s := range m.all() {
		if err := m.load(ctx, s); err != nil {
			m.o.Metrics.add(1, "sandboxd_policy_reloads_total", "refused")
			s.events.Publish(EventPolicyRefused, map[string]any{"error": err.Error(), "generation": s.Generation()})
			errs = append(errs, fmt.Errorf("session %s keeps policy %d: %w", s.id, s.Generation(), err))
			continue
		}
		m.o.Metrics.add(1, "sandboxd_policy_reloads_total", "ok")
		s.events.Publish(EventPolicyReloaded, map[string]any{"generation": s.Generation(), "warnings": s.Warnings()})
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
	var errs []error
	for _, st := range kept {
		s, err := m.restore(ctx, st)
		if err == nil {
			m.add(s)
			continue
		}
		errs = append(errs, fmt.Errorf("session %s could not be restored: %w", st.ID, err))
		if err := m.stopRow(ctx, st, 0, "not restored: "+err.Error()); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (m *Sessions) restore(ctx context.Context, st SessionState) (*Session, error) {
	peer := Peer{Caller: CallerOf(st.UID, st.GID, st.Groups, st.Environ)}
	r := SessionRequest{Workspace: st.Workspace, Cwd: st.Cwd, Mode: st.Mode, Policy: st.Policy, Profile: st.Profile, Environ: st.Environ, Grant: st.Grant}
	if err := m.reserve(st.UID); err != nil {
		return nil, err
	}
	s, err := m.start(ctx, st.ID, peer, r, &st)
	if err != nil {
		m.forget(st.UID, "")
	}
	return s, err
}

// shutdown is the reason why a session ends for this process alone.
const shutdown = "shutdown"

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
