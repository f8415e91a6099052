package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"sandboxd/agentloop"
)

// maxBatch is how many operations share one transaction at most. As many again
// wait in the queue; more wait in their callers.
const maxBatch = 512

// op is one write of the audit log that waits for the disk.
type op struct {
	waiting
	run func(ctx context.Context, t *transaction) error
	// alone asks for a transaction of its own.
	alone bool
}

// transaction is what an op may use.
type transaction struct {
	s    *Store
	tx   *sql.Tx
	head head
	from int64 // number of the last row before
	buf  []byte
	// cut is set by a retention that removed rows.
	cut *head
}

// exec runs a statement that is kept prepared. It belongs to the one connection,
// and so to the transaction; Tx.Stmt would prepare it again each time.
func (t *transaction) exec(ctx context.Context, query string, args ...any) (sql.Result, error) {
	st := t.s.stmts[query]
	if st == nil {
		var err error
		if st, err = t.s.conn.PrepareContext(ctx, query); err != nil {
			return nil, err
		}
		t.s.stmts[query] = st
	}
	return st.ExecContext(ctx, args...)
}

// do hands the op to the writer and waits for its commit.
func (s *Store) do(ctx context.Context, alone bool, run func(context.Context, *transaction) error) error {
	o := &op{waiting: newWaiting(), run: run, alone: alone}
	return await(ctx, s.ops, o, s.closing, s.closed)
}

// write is the one goroutine that changes the database. It ends after Close, when
// the queue is empty.
func (s *Store) write() {
	defer close(s.closed)
	tick := time.NewTicker(min(s.o.AnchorEvery, time.Hour))
	defer tick.Stop()
	for {
		select {
		case o := <-s.ops:
			s.batch(o)
			s.anchorIfDue(false)
		case <-tick.C:
			s.anchorIfDue(false)
		case <-s.closing:
			for {
				select {
				case o := <-s.ops:
					s.batch(o)
				default:
					s.anchorIfDue(true)
					return
				}
			}
		}
	}
}

// batch writes the op and what waits behind it in one transaction.
func (s *Store) batch(first *op) {
	batch := []*op{}
	var alone *op
	for o, more := first, true; more; {
		switch {
		case !o.state.CompareAndSwap(opWaiting, opTaken): // its caller has left
		case o.alone:
			alone = o
		default:
			batch = append(batch, o)
		}
		if alone != nil || len(batch) == maxBatch {
			break
		}
		select {
		case o = <-s.ops:
		default:
			more = false
		}
	}
	if len(batch) > 0 {
		s.commit(batch)
	}
	if alone != nil {
		s.commit([]*op{alone})
	}
}

// commit runs the ops in one transaction and tells each what became of it.
func (s *Store) commit(batch []*op) {
	results := make([]error, len(batch))
	err := s.transact(batch, results)
	if err != nil {
		s.failed(err)
	} else {
		s.mu.Lock()
		s.health.Rows, s.health.LastError, s.health.Failing = s.head.seq, "", time.Time{}
		s.mu.Unlock()
	}
	for i, o := range batch {
		if err != nil {
			results[i] = err
		}
		o.done <- results[i]
	}
}

// transact commits the batch. The error is about all of it; results holds those
// of single ops.
func (s *Store) transact(batch []*op, results []error) error {
	// A write that has begun is finished: its caller waits for the outcome.
	ctx := context.Background()
	if err := s.ready(ctx); err != nil {
		return err
	}
	tx, err := s.conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	t := &transaction{s: s, tx: tx}
	if t.head, err = readHead(ctx, tx, s.id); err != nil {
		return errors.Join(err, rollback(tx))
	}
	t.from = t.head.seq
	if t.head != s.head {
		// Appending goes on where the log now ends; Verify will show the place.
		s.warn(fmt.Errorf("another program changed the end of the audit log: row %d was last, now it is row %d", s.head.seq, t.head.seq))
	}
	for i, o := range batch {
		if results[i] = o.run(ctx, t); results[i] != nil && !onlyThis(results[i]) {
			return errors.Join(results[i], rollback(tx))
		}
	}
	if err := t.index(ctx); err != nil {
		return errors.Join(err, rollback(tx))
	}
	if err := tx.Commit(); err != nil {
		return errors.Join(err, rollback(tx))
	}
	s.head = t.head
	if t.cut != nil {
		s.anchorCut(*t.cut)
	}
	return s.keepWAL(ctx)
}

// keepWAL sees that the WAL is still the file at its path: rows in one that was
// removed would be gone with the next crash. Then they are moved into the database
// at once, and all connections begin anew.
func (s *Store) keepWAL(ctx context.Context) error {
	id, err := identify(walPath(s.health.Path))
	if err == nil && s.wal == (identity{}) {
		s.wal = id
	}
	if err == nil && id == s.wal {
		return nil
	}
	var busy, frames, moved int
	if err := s.conn.QueryRowContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`).Scan(&busy, &frames, &moved); err != nil {
		return err
	}
	if busy != 0 {
		return errWALGone // a search or Verify still reads; the next write tries again
	}
	s.warn(fmt.Errorf("%s was removed or replaced by another program; no row is lost", walPath(s.health.Path)))
	s.disconnect()
	return s.Reader.Close()
}

func rollback(tx *sql.Tx) error {
	if err := tx.Rollback(); err != nil && !errors.Is(err, sql.ErrTxDone) {
		return err
	}
	return nil
}

// ready opens the connection again after an error, and sees that the file is still
// the one at its path: rows written to a file that was removed would be lost.
func (s *Store) ready(ctx context.Context) error {
	if s.conn == nil {
		return s.connect(ctx)
	}
	id, err := identify(s.health.Path)
	if err != nil {
		return err
	}
	if id != s.file {
		return errReplaced(s.health.Path)
	}
	return nil
}

// failed keeps the error for Health and gives the connection up, since SQLite may
// not see with it that the disk is writable again.
func (s *Store) failed(err error) {
	if !errors.Is(err, errWALGone) { // whose rows this connection alone can still save
		s.disconnect()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.health.LastError = err.Error()
	if s.health.Failing.IsZero() {
		s.health.Failing = time.Now()
	}
}

// anchorIfDue anchors the head. Rows are durable without it, so an anchor that
// cannot be written is reported and tried again after the next batch.
func (s *Store) anchorIfDue(now bool) {
	a := s.anchors
	behind := s.head.seq - a.last
	if behind <= 0 || !now && behind < int64(s.o.AnchorRows) && time.Since(a.wrote) < s.o.AnchorEvery {
		return
	}
	s.addAnchor(s.anchorLine(anchorHead), a.add)
}

func (s *Store) anchorCut(cut head) {
	l := s.anchorLine(anchorCut)
	l.Seq, l.Hash = cut.seq, cut.hash
	s.addAnchor(l, s.anchors.keepFrom)
}

func (s *Store) addAnchor(l anchorLine, add func(anchorLine) error) {
	if err := add(l); err != nil {
		s.warn(fmt.Errorf("the audit log could not be anchored: %w", err))
		return
	}
	s.mu.Lock()
	s.health.Anchored = s.anchors.last
	s.mu.Unlock()
	if s.o.OnAnchor != nil {
		s.o.OnAnchor(l.AuditAnchor)
	}
}

// readHead returns the last row, or the start of the chain.
func readHead(ctx context.Context, q querier, id string) (head, error) {
	var h head
	err := q.QueryRowContext(ctx, `SELECT seq, hash FROM agent_audit_log ORDER BY seq DESC LIMIT 1`).Scan(&h.seq, &h.hash)
	if errors.Is(err, sql.ErrNoRows) {
		return head{hash: genesis(id)}, nil
	}
	return h, err
}

const insertRow = `INSERT INTO agent_audit_log (seq, time, uid, session_id, call_id, step, tool_name, status, agent_name,
	elapsed_ms, output_preview, verdict, reason, args, policy_generation, enforced, denials, prev_hash, hash)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

// Append returns when the row is on disk, with its number. The error wraps
// [agentloop.ErrNotRecorded] with the cause and the path. A canceled ctx ends the
// wait in the queue only; the row may be in the log although an error says that
// the disk did not confirm it.
func (s *Store) Append(ctx context.Context, r agentloop.AuditRecord) (int64, error) {
	r, err := normalize(r)
	if err == nil && r.Status == retentionStatus {
		err = fmt.Errorf("only retention writes rows with status %q", retentionStatus)
	}
	if err != nil {
		return 0, notRecorded(s.health.Path, err)
	}
	if err := s.do(ctx, false, func(ctx context.Context, t *transaction) error { return t.append(ctx, &r) }); err != nil {
		return 0, notRecorded(s.health.Path, err)
	}
	return r.Seq, nil
}

// index adds the new rows to the text index, in one statement: FTS5 writes out what
// it has at the end of each, so a trigger for each row doubles the cost.
func (t *transaction) index(ctx context.Context) error {
	if t.head.seq <= t.from {
		return nil
	}
	_, err := t.exec(ctx, `INSERT INTO agent_audit_text(rowid, args, output_preview, reason)
		SELECT seq, args, output_preview, reason FROM agent_audit_log WHERE seq > ?`, t.from)
	return err
}

// append adds the row behind the head and gives it its number and hashes.
func (t *transaction) append(ctx context.Context, r *agentloop.AuditRecord) error {
	r.Seq, r.PrevHash = t.head.seq+1, t.head.hash
	r.Hash, t.buf = rowHash(t.buf, r)
	if _, err := t.exec(ctx, insertRow, r.Seq, r.Time.Format(timeFormat), r.UID, r.Session, r.Call, r.Step, r.Tool, string(r.Status), r.Agent,
		r.ElapsedMS, r.OutputPreview, r.Verdict, string(r.Reason), string(r.Args), r.Generation, string(r.Enforced), string(r.Denials),
		r.PrevHash, r.Hash); err != nil {
		return err
	}
	t.head = head{r.Seq, r.Hash}
	return nil
}
