package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"sandboxd/agentloop"
)

// conversationOp is one write that waits for the disk.
type conversationOp struct {
	waiting
	run func(ctx context.Context, tx *sql.Tx) error
}

// do hands the op to the writer and waits for its commit. A cancelled ctx ends the
// wait in the queue only.
func (s *Conversations) do(ctx context.Context, run func(context.Context, *sql.Tx) error) error {
	o := &conversationOp{waiting: newWaiting(), run: run}
	return await(ctx, s.ops, o, s.closing, s.closed)
}

// retainEvery is how often the retention is applied at least, retainBytes after how
// many written bytes.
const (
	retainEvery = time.Hour
	retainBytes = 16 << 20
)

// write is the one goroutine that changes the database. It ends after Close, when
// the queue is empty.
func (s *Conversations) write() {
	defer close(s.closed)
	s.retain()
	tick := time.NewTicker(retainEvery)
	defer tick.Stop()
	for {
		select {
		case o := <-s.ops:
			s.batch(o)
			if s.written > retainBytes {
				s.retain()
			}
		case <-tick.C:
			s.retain()
		case <-s.closing:
			for {
				select {
				case o := <-s.ops:
					s.batch(o)
				default:
					return
				}
			}
		}
	}
}

// batch writes the op, and what waits behind it, in one transaction.
func (s *Conversations) batch(first *conversationOp) {
	var batch []*conversationOp
	for o := first; o != nil; o = s.waiting(len(batch)) {
		if o.state.CompareAndSwap(opWaiting, opTaken) { // else its caller has left
			batch = append(batch, o)
		}
	}
	if len(batch) > 0 {
		s.commit(batch)
	}
}

// waiting takes the next op, if one waits and the batch of n has room.
func (s *Conversations) waiting(n int) *conversationOp {
	if n == maxBatch {
		return nil
	}
	select {
	case o := <-s.ops:
		return o
	default:
		return nil
	}
}

// commit runs the ops in one transaction and tells each what became of it.
func (s *Conversations) commit(batch []*conversationOp) {
	results := make([]error, len(batch))
	err := s.transact(func(ctx context.Context, tx *sql.Tx) error {
		for i, o := range batch {
			if results[i] = o.run(ctx, tx); results[i] != nil && !onlyThisEntry(results[i]) {
				return results[i]
			}
		}
		return nil
	})
	for i, o := range batch {
		if err != nil {
			results[i] = err
		}
		o.done <- results[i]
	}
}

// onlyThisEntry says whether the error is about one op, which has changed nothing.
func onlyThisEntry(err error) bool {
	return errors.Is(err, agentloop.ErrNoConversation) || errors.Is(err, agentloop.ErrConversationMoved) ||
		errors.Is(err, agentloop.ErrNoEntry) || errors.Is(err, agentloop.ErrConversationFull) || onlyThis(err)
}

// transact commits what run does. After an error the connection is given up, since
// SQLite may not see with it that the disk is writable again.
func (s *Conversations) transact(run func(context.Context, *sql.Tx) error) (err error) {
	ctx := context.Background() // a write that has begun is finished
	defer func() {
		if err != nil {
			s.disconnect()
		}
	}()
	if s.conn == nil {
		if err := s.connect(ctx); err != nil {
			return err
		}
	}
	if id, err := identify(s.path); err != nil {
		return err
	} else if id != s.file {
		return errReplaced(s.path)
	}
	tx, err := s.conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := run(ctx, tx); err != nil {
		return errors.Join(err, rollback(tx))
	}
	if err := tx.Commit(); err != nil {
		return errors.Join(err, rollback(tx))
	}
	return s.emptyWAL(ctx)
}

// emptyWAL moves deletions into the database: before that, the WAL still has the
// pages as they were.
func (s *Conversations) emptyWAL(ctx context.Context) error {
	if !s.erase {
		return nil
	}
	if _, err := s.conn.ExecContext(ctx, `PRAGMA incremental_vacuum`); err != nil {
		return err
	}
	var busy, frames, moved int
	if err := s.conn.QueryRowContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`).Scan(&busy, &frames, &moved); err != nil {
		return err
	}
	s.erase = busy != 0
	return nil
}

func (s *Conversations) problem(err error) {
	if s.o.OnProblem != nil {
		s.o.OnProblem(fmt.Errorf("conversations: %w", err))
	}
}
