package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"sandboxd/agentloop"
)

// Retention says what may be removed. Zero fields keep everything.
type Retention struct {
	Age   time.Duration // rows older than this go
	Rows  int64         // more rows than this: the oldest go, down to nine tenths
	Bytes int64         // a larger database: the oldest tenth of the rows goes, until it fits
}

func (r Retention) set() bool { return r.Age > 0 || r.Rows > 0 || r.Bytes > 0 }

// Retained is what a retention did.
type Retained struct {
	Rows    int64 `json:"rows"`    // removed
	Through int64 `json:"through"` // number of the last row that is gone
}

const (
	// retentionTool and retentionStatus name the row that signs a cut off.
	retentionTool   = "retention"
	retentionStatus = agentloop.StatusCheckpoint
	// cutRows is how many rows one transaction removes. Appends wait for it: a row
	// takes about 0.4 ms, nearly all of it to overwrite its words in the text index.
	cutRows = 200
	// keepSettled is how long answers of questions stay.
	keepSettled = 30 * 24 * time.Hour
)

// checkpoint is the args of the row that retention appends, in the transaction
// that removes the rows: the chain goes on from Hash.
type checkpoint struct {
	Through int64  `json:"through_seq"`
	Hash    string `json:"through_hash"`
	Rows    int64  `json:"rows"`
	Why     string `json:"why"` // age, rows or bytes
}

// Retain removes what r allows to go, 200 rows at a time, so that appends come in
// between. Each time the same transaction appends a row that holds the hash at the
// cut, so Verify accepts the new start, and no other. The newest row always stays.
func (s *Store) Retain(ctx context.Context, r Retention) (Retained, error) {
	do := func(run func(context.Context, *transaction) error) error { return s.do(ctx, true, run) }
	var total Retained
	err := do(func(ctx context.Context, t *transaction) error {
		_, err := t.exec(ctx, `DELETE FROM questions WHERE settled < ?`, time.Now().Add(-keepSettled).UTC().Format(timeFormat))
		return err
	})
	if err != nil {
		return total, err
	}
	for _, rule := range r.rules(s.path) {
		for {
			var cut int64
			err := do(func(ctx context.Context, t *transaction) (err error) {
				total, cut, err = t.cutOnce(ctx, rule, total)
				return err
			})
			if err != nil {
				return total, fmt.Errorf("%s: %w", s.path, withErrno(err))
			}
			if cut == 0 {
				break
			}
		}
	}
	if total.Rows == 0 {
		return total, nil
	}
	// FTS5 gives pages of its own back when the last transaction ends.
	return total, do(func(ctx context.Context, t *transaction) error {
		_, err := t.tx.ExecContext(ctx, `PRAGMA incremental_vacuum`)
		return err
	})
}

// keepRetaining applies the options' retention now and every hour until Close.
func (s *Store) keepRetaining() {
	tick := time.NewTicker(time.Hour)
	defer tick.Stop()
	for {
		if _, err := s.Retain(context.Background(), s.o.Retention); err != nil && !errors.Is(err, ErrClosed) {
			s.warn(fmt.Errorf("retention of the audit log: %w", err))
		}
		select {
		case <-tick.C:
		case <-s.closing:
			return
		}
	}
}

// rule finds the last row that may go, given the first and the last; 0 is none.
type rule struct {
	why   string
	limit func(ctx context.Context, t *transaction, first, last int64) (int64, error)
}

func (r Retention) rules(path string) []rule {
	var rules []rule
	if r.Age > 0 {
		before := time.Now().Add(-r.Age).UTC().Format(timeFormat)
		rules = append(rules, rule{"age", func(ctx context.Context, t *transaction, _, last int64) (int64, error) {
			var next int64
			// Times may go back: what is behind the first row that stays, stays too.
			err := t.tx.QueryRowContext(ctx, `SELECT coalesce(min(seq), ?) FROM agent_audit_log WHERE time >= ?`, last+1, before).Scan(&next)
			return next - 1, err
		}})
	}
	if r.Rows > 0 {
		target := int64(-1)
		rules = append(rules, rule{"rows", func(_ context.Context, _ *transaction, first, last int64) (int64, error) {
			if target < 0 && last-first+1 > r.Rows {
				target = last - r.Rows*9/10
			}
			return target, nil
		}})
	}
	if r.Bytes > 0 {
		target := int64(-1)
		rules = append(rules, rule{"bytes", func(ctx context.Context, t *transaction, first, last int64) (int64, error) {
			var size int64
			err := t.tx.QueryRowContext(ctx, `SELECT ((SELECT page_count FROM pragma_page_count) -
				(SELECT freelist_count FROM pragma_freelist_count)) * (SELECT page_size FROM pragma_page_size)`).Scan(&size)
			if err == nil && target < first && size > r.Bytes {
				target = first + (last-first)/10
			}
			return target, err
		}})
	}
	return rules
}

// cutOnce removes the oldest rows as far as the rule allows, at most cutRows, and
// appends the checkpoint.
func (t *transaction) cutOnce(ctx context.Context, r rule, total Retained) (Retained, int64, error) {
	var first, last int64
	if err := t.tx.QueryRowContext(ctx, `SELECT coalesce(min(seq), 1), coalesce(max(seq), 0) FROM agent_audit_log`).Scan(&first, &last); err != nil {
		return total, 0, err
	}
	through, err := r.limit(ctx, t, first, last)
	if err != nil {
		return total, 0, err
	}
	// The last row stays, and no checkpoint is written for a checkpoint alone.
	through = min(through, last-1, first+cutRows-1)
	if through < first {
		return total, 0, nil
	}
	if only, err := t.onlyCheckpoints(ctx, through); err != nil || only {
		return total, 0, err
	}
	c := checkpoint{Through: through, Rows: through - first + 1, Why: r.why}
	if err := t.tx.QueryRowContext(ctx, `SELECT hash FROM agent_audit_log WHERE seq = ?`, through).Scan(&c.Hash); err != nil {
		return total, 0, err
	}
	if err := t.sign(ctx, c); err != nil {
		return total, 0, err
	}
	for _, statement := range []string{
		// In one statement, as index does it. FTS5 overwrites the words, and wants
		// for that what was indexed.
		fmt.Sprintf(`INSERT INTO agent_audit_text(agent_audit_text, rowid, args, output_preview, reason)
			SELECT 'delete', seq, args, output_preview, reason FROM agent_audit_log WHERE seq <= %d`, through),
		fmt.Sprintf(`UPDATE audit_gate SET cut = %d`, through),
		fmt.Sprintf(`DELETE FROM agent_audit_log WHERE seq <= %d`, through),
		`UPDATE audit_gate SET cut = 0`,
	} {
		if _, err := t.tx.ExecContext(ctx, statement); err != nil {
			return total, 0, err
		}
	}
	// The pages go back to the file system.
	if _, err := t.tx.ExecContext(ctx, `PRAGMA incremental_vacuum`); err != nil {
		return total, 0, err
	}
	t.cut = &head{through, c.Hash}
	total.Rows, total.Through = total.Rows+c.Rows, through
	return total, through, nil
}

// onlyCheckpoints says whether nothing but checkpoints would be removed: else each
// retention by age would write a checkpoint about the one before.
func (t *transaction) onlyCheckpoints(ctx context.Context, through int64) (bool, error) {
	var others int64
	err := t.tx.QueryRowContext(ctx, `SELECT count(*) FROM (SELECT 1 FROM agent_audit_log
		WHERE seq <= ? AND NOT (tool_name = ? AND status = ?) LIMIT 1)`, through, retentionTool, string(retentionStatus)).Scan(&others)
	return others == 0, err
}

// sign appends the row of a checkpoint.
func (t *transaction) sign(ctx context.Context, c checkpoint) error {
	args, err := json.Marshal(c)
	if err != nil {
		return err
	}
	row, err := normalize(agentloop.AuditRecord{
		UID: os.Geteuid(), Tool: retentionTool, Status: retentionStatus, Agent: "sandboxd", Args: args,
	})
	return errors.Join(err, t.append(ctx, &row))
}
