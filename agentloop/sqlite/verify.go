package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"sandboxd/agentloop"
)

// Kinds of problems, as docs/audit.md explains them.
const (
	foundChanged     = "changed"      // a row is not what its hash says
	foundLink        = "link"         // a row does not follow the one before it
	foundGap         = "gap"          // numbers are missing
	foundStart       = "start"        // the log begins where no checkpoint says so
	foundCut         = "cut"          // rows that were anchored are gone from the end
	foundAnchor      = "anchor"       // a row is not the one that was anchored
	foundAnchorsLost = "anchors_lost" // the file of anchors is missing, or begins late
	foundForeign     = "foreign"      // an anchor is of another store
	foundSchema      = "schema"       // tables or triggers are not ours
	foundDamaged     = "damaged"      // the database cannot be read
)

// maxProblems bounds the report; the rest is counted.
const maxProblems = 100

// verification is one run of Verify.
type verification struct {
	rep    agentloop.AuditReport
	prev   head // the row before
	buf    []byte
	starts []startAt // checkpoints that say where the log may begin
	first  head      // what the first row names as the one before it
}

type startAt struct {
	checkpoint
	row int64
}

func (v *verification) found(kind string, seq int64, format string, args ...any) {
	v.rep.ProblemCount++
	if len(v.rep.Problems) < maxProblems {
		v.rep.Problems = append(v.rep.Problems, agentloop.AuditProblem{Kind: kind, Seq: seq, Detail: fmt.Sprintf(format, args...)})
	}
}

func (v *verification) note(format string, args ...any) {
	v.rep.Notes = append(v.rep.Notes, fmt.Sprintf(format, args...))
}

// Verify reads the whole log in one transaction and reports what does not fit: see
// docs/audit.md. What it finds is in the report; an error means that it could not
// look. Memory does not grow with the log.
func (r *Reader) Verify(ctx context.Context, known ...agentloop.AuditAnchor) (agentloop.AuditReport, error) {
	v := &verification{rep: agentloop.AuditReport{Path: r.path}}
	// What is anchored now was in the log before it is read.
	file, err := openToRead(anchorsPath(r.path))
	var lines io.Reader
	if err == nil {
		defer func() { _ = file.Close() }()
		st, err := file.Stat()
		if err != nil {
			return v.rep, fmt.Errorf("verify the audit log: %w", err)
		}
		lines = io.LimitReader(file, st.Size())
		v.rep.AppendOnly = isAppendOnly(file)
	} else if !errors.Is(err, os.ErrNotExist) {
		return v.rep, fmt.Errorf("verify the audit log: %w", err)
	}
	err = r.snapshot(ctx, func(tx *sql.Tx) error { return v.run(ctx, tx, lines, known) })
	if damaged(err) {
		v.found(foundDamaged, v.prev.seq+1, "the database cannot be read from here on: %v", err)
		err = nil
	}
	if err != nil {
		return v.rep, fmt.Errorf("verify the audit log: %s: %w", r.path, withErrno(err))
	}
	v.rep.OK = v.rep.ProblemCount == 0
	return v.rep, nil
}

func (v *verification) run(ctx context.Context, tx *sql.Tx, lines io.Reader, known []agentloop.AuditAnchor) error {
	if err := v.schema(ctx, tx); err != nil {
		return err
	}
	if err := tx.QueryRowContext(ctx, `SELECT value FROM store_meta WHERE name = 'id'`).Scan(&v.rep.Store); err != nil {
		if errors.Is(err, sql.ErrNoRows) {
			v.found(foundSchema, 0, "the id of the store is missing")
		} else {
			return err
		}
	}
	if err := v.rows(ctx, tx); err != nil {
		return err
	}
	v.start()
	if err := v.fileAnchors(ctx, tx, lines); err != nil {
		return err
	}
	for _, a := range known {
		if err := v.anchor(ctx, tx, a, "the anchor that was given"); err != nil {
			return err
		}
	}
	v.unknown(lines != nil, known)
	return nil
}

func (v *verification) schema(ctx context.Context, tx *sql.Tx) error {
	diffs, err := checkSchema(ctx, tx)
	if err != nil {
		return err
	}
	for _, d := range diffs {
		v.found(foundSchema, 0, "%s", d)
	}
	return nil
}

// rows walks the chain.
func (v *verification) rows(ctx context.Context, tx *sql.Tx) error {
	// NOT INDEXED reads the table itself: an index could be made to hide rows.
	rows, err := tx.QueryContext(ctx, "SELECT "+rowColumns+" FROM agent_audit_log NOT INDEXED ORDER BY seq")
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		r, err := scanRow(rows)
		bad, isBad := errors.AsType[*rowError](err)
		if err != nil && !isBad {
			return err
		}
		v.row(&r, bad)
	}
	return rows.Err()
}

func (v *verification) row(r *agentloop.AuditRecord, bad *rowError) {
	if v.rep.Rows == 0 {
		v.rep.First, v.first = r.Seq, head{r.Seq - 1, r.PrevHash}
	} else {
		v.follows(r)
	}
	var hash string
	if hash, v.buf = rowHash(v.buf, r); bad != nil {
		v.found(foundChanged, r.Seq, "%s", bad.what)
	} else if hash != r.Hash {
		v.found(foundChanged, r.Seq, "what the row holds does not have its hash: it was changed or moved here")
	}
	if r.Tool == retentionTool && r.Status == retentionStatus {
		v.checkpoint(r)
	}
	v.prev = head{r.Seq, r.Hash}
	v.rep.Rows, v.rep.Last, v.rep.Head = v.rep.Rows+1, r.Seq, r.Hash
}

// follows checks that r comes after the row before it.
func (v *verification) follows(r *agentloop.AuditRecord) {
	if missing := r.Seq - v.prev.seq - 1; missing > 0 {
		v.found(foundGap, r.Seq, "rows %d to %d are missing (%d)", v.prev.seq+1, r.Seq-1, missing)
	} else if r.PrevHash != v.prev.hash {
		v.found(foundLink, r.Seq, "it does not follow row %d: a row was changed, inserted or moved", v.prev.seq)
	}
}

// checkpoint keeps the one that explains the start, if this is it.
func (v *verification) checkpoint(r *agentloop.AuditRecord) {
	var c checkpoint
	if json.Unmarshal(r.Args, &c) == nil && c.Through == v.first.seq {
		v.starts = append(v.starts, startAt{c, r.Seq})
		if len(v.starts) > 2 { // an honest log has one
			v.starts = v.starts[:2]
		}
	}
}

// start checks that the log begins with row 1, or where a checkpoint says.
func (v *verification) start() {
	switch {
	case v.rep.Rows == 0:
		v.rep.Head = genesis(v.rep.Store)
	case v.rep.First == 1 && v.first.hash != genesis(v.rep.Store):
		v.found(foundStart, 1, "the first row is of another store")
	case v.rep.First == 1:
	case len(v.starts) == 0:
		v.found(foundStart, v.rep.First, "the rows before are gone and no checkpoint of retention says so")
	default:
		for _, s := range v.starts {
			if s.Hash == v.first.hash {
				v.rep.Checkpoint = s.row
				return
			}
		}
		v.found(foundStart, v.rep.First, "it does not follow the rows that checkpoint %d removed", v.starts[0].row)
	}
}

// fileAnchors compares the anchors that were in the file before the log was read.
func (v *verification) fileAnchors(ctx context.Context, tx *sql.Tx, lines io.Reader) error {
	if lines == nil {
		v.found(foundAnchorsLost, 0, "the file of anchors is missing: %s", anchorsPath(v.rep.Path))
		return nil
	}
	var bad int64
	var failed error
	first := true
	err := eachAnchor(lines, func(a anchorLine, ok, ended bool) {
		switch {
		case failed != nil:
			return
		case !ok:
			bad++
			return
		}
		if first && a.kind != anchorStart && a.kind != anchorCut {
			v.found(foundAnchorsLost, a.Seq, "the file of anchors begins with row %d: earlier ones are gone", a.Seq)
		}
		first = false
		failed = v.anchor(ctx, tx, a.AuditAnchor, "the anchor")
	})
	if bad > 0 {
		v.note("%d lines of %s cannot be read, as after a power loss", bad, anchorsPath(v.rep.Path))
	}
	if first && v.rep.Rows > 0 {
		v.found(foundAnchorsLost, 0, "the file of anchors is empty")
	}
	return errors.Join(err, failed)
}

// anchor compares one anchor with the row it names.
func (v *verification) anchor(ctx context.Context, tx *sql.Tx, a agentloop.AuditAnchor, what string) error {
	v.rep.Anchors++
	if a.Store != "" && a.Store != v.rep.Store {
		v.found(foundForeign, a.Seq, "%s of row %d is of store %s, this is %s", what, a.Seq, a.Store, v.rep.Store)
		return nil
	}
	var hash string
	switch {
	case a.Seq > v.rep.Last:
		v.found(foundCut, a.Seq, "%s says that row %d was there; the log ends with row %d", what, a.Seq, v.rep.Last)
		return nil
	case a.Seq == 0:
		hash = genesis(v.rep.Store)
	case a.Seq < v.first.seq: // gone; the checkpoint's hash holds all before it
		return nil
	case a.Seq == v.first.seq:
		hash = v.first.hash
	default:
		err := tx.QueryRowContext(ctx, `SELECT hash FROM agent_audit_log WHERE seq = ?`, a.Seq).Scan(&hash)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
	}
	if hash != a.Hash {
		v.found(foundAnchor, a.Seq, "row %d is not the one that was anchored: the log was rewritten", a.Seq)
		return nil
	}
	v.rep.Anchored = max(v.rep.Anchored, a.Seq)
	return nil
}

// unknown notes what this verification could not see.
func (v *verification) unknown(anchored bool, known []agentloop.AuditAnchor) {
	if !anchored && len(known) == 0 {
		v.note("without an anchor it cannot be known whether rows were cut off the end or the whole chain was rewritten")
		return
	}
	if n := v.rep.Last - v.rep.Anchored; n > 0 {
		v.note("%d rows after row %d are not anchored yet: cutting rows off behind them, or rewriting them, would not be seen", n, v.rep.Anchored)
	} else {
		v.note("rows that were appended after the last anchor and cut off again cannot be seen")
	}
	if !v.rep.AppendOnly && len(known) == 0 {
		v.note("the anchors are an ordinary file: who can write the database can rewrite them too; compare with anchors from the journal")
	}
}
