package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"sandboxd/agentloop"
)

// SaveSession keeps the session as it is now.
func (s *Store) SaveSession(ctx context.Context, st agentloop.SessionState) error {
	text, err := json.Marshal(st)
	if err != nil {
		return err
	}
	err = s.do(ctx, false, func(ctx context.Context, t *transaction) error {
		_, err := t.exec(ctx, `INSERT INTO sessions (id, uid, created, state) VALUES (?, ?, ?, ?)
			ON CONFLICT (id) DO UPDATE SET uid = excluded.uid, created = excluded.created, state = excluded.state`,
			st.ID, st.UID, st.Created.UTC().Format(timeFormat), string(text))
		return err
	})
	return s.stateError("session "+st.ID, err)
}

// Sessions returns the sessions that were not deleted, oldest first.
func (s *Store) Sessions(ctx context.Context) ([]agentloop.SessionState, error) {
	return readStates[agentloop.SessionState](ctx, s, `SELECT state FROM sessions ORDER BY created, id`)
}

// DeleteSession forgets an ended session. Its audit rows stay.
func (s *Store) DeleteSession(ctx context.Context, id string) error {
	err := s.do(ctx, false, func(ctx context.Context, t *transaction) error {
		_, err := t.exec(ctx, `DELETE FROM sessions WHERE id = ?`, id)
		return err
	})
	return s.stateError("session "+id, err)
}

// EndSession appends the last row of a session and forgets it, in one transaction.
func (s *Store) EndSession(ctx context.Context, id string, last agentloop.AuditRecord) error {
	r, err := normalize(last)
	if err == nil {
		err = s.do(ctx, false, func(ctx context.Context, t *transaction) error {
			if _, err := t.exec(ctx, `DELETE FROM sessions WHERE id = ?`, id); err != nil {
				return err
			}
			return t.append(ctx, &r)
		})
	}
	if err != nil {
		return notRecorded(s.health.Path, err)
	}
	return nil
}

// SaveQuestion keeps a pending question. One that has its answer is not opened
// again: the error is [ErrSettled].
func (s *Store) SaveQuestion(ctx context.Context, q agentloop.PendingQuestion) error {
	text, err := json.Marshal(q)
	if err != nil {
		return err
	}
	err = s.do(ctx, false, func(ctx context.Context, t *transaction) error {
		res, err := t.exec(ctx, `INSERT INTO questions (id, uid, session_id, asked, question) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (id) DO UPDATE SET uid = excluded.uid, session_id = excluded.session_id, asked = excluded.asked,
			question = excluded.question WHERE answer IS NULL`,
			q.ID, q.UID, q.Session, q.Asked.UTC().Format(timeFormat), string(text))
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return ErrSettled
		}
		return nil
	})
	return s.stateError("question "+q.ID, err)
}

// Questions returns those without an answer, oldest first.
func (s *Store) Questions(ctx context.Context) ([]agentloop.PendingQuestion, error) {
	return readStates[agentloop.PendingQuestion](ctx, s, `SELECT question FROM questions WHERE answer IS NULL ORDER BY asked, id`)
}

// SettleQuestion stores the answer of a pending question; of several that try, one
// gets true. It reports false, and changes nothing, when the question has an
// answer or is not known.
func (s *Store) SettleQuestion(ctx context.Context, id string, a agentloop.StoredAnswer) (bool, error) {
	text, err := json.Marshal(a)
	if err != nil {
		return false, err
	}
	var won bool
	err = s.do(ctx, false, func(ctx context.Context, t *transaction) error {
		res, err := t.exec(ctx, `UPDATE questions SET answer = ?, settled = ? WHERE id = ? AND answer IS NULL`,
			string(text), time.Now().UTC().Format(timeFormat), id)
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		won = n == 1
		return err
	})
	if err != nil {
		return false, s.stateError("question "+id, err)
	}
	return won, nil
}

// Answer returns what became of a question, and whether it has an answer.
func (s *Store) Answer(ctx context.Context, id string) (agentloop.StoredAnswer, bool, error) {
	var none agentloop.StoredAnswer
	query := `SELECT answer FROM questions WHERE id = ? AND answer IS NOT NULL`
	found, err := readStates[agentloop.StoredAnswer](ctx, s, query, id)
	if err != nil || len(found) == 0 {
		return none, false, err
	}
	return found[0], true, nil
}

func (s *Store) stateError(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s is not stored: %s: %w", what, s.path, withErrno(err))
}

// readStates reads a column of JSON objects.
func readStates[T any](ctx context.Context, s *Store, query string, args ...any) ([]T, error) {
	db, err := s.pool()
	if err != nil {
		return nil, err
	}
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.path, err)
	}
	defer func() { _ = rows.Close() }()
	var out []T
	for rows.Next() {
		var text string
		var v T
		if err := rows.Scan(&text); err != nil {
			return nil, fmt.Errorf("%s: %w", s.path, err)
		}
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			return nil, fmt.Errorf("%s: %w", s.path, err)
		}
		out = append(out, v)
	}
	return out, rows.Err()
}
