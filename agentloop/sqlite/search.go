package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"io"
	"strings"

	"sandboxd/agentloop"
)

const (
	defaultPage = 100
	maxPage     = 1000
	// maxPageBytes ends a page early: rows may be as large as maxRowBytes.
	maxPageBytes = 8 << 20
)

// Search returns one page of the rows that q selects and its viewer may see.
func (r *Reader) Search(ctx context.Context, q agentloop.AuditQuery) (agentloop.AuditPage, error) {
	if q.Limit <= 0 {
		q.Limit = defaultPage
	}
	q.Limit = min(q.Limit, maxPage)
	query, args, err := selectRows(q)
	if err != nil {
		return agentloop.AuditPage{}, err
	}
	db, err := r.pool()
	if err != nil {
		return agentloop.AuditPage{}, err
	}
	rows, err := db.QueryContext(ctx, query, append(args, q.Limit+1)...)
	if err != nil {
		return agentloop.AuditPage{}, r.searchError(err)
	}
	defer func() { _ = rows.Close() }()
	page, err := readPage(rows, q.Limit)
	if err != nil {
		return agentloop.AuditPage{}, r.searchError(err)
	}
	return page, nil
}

func readPage(rows *sql.Rows, limit int) (agentloop.AuditPage, error) {
	page := agentloop.AuditPage{Rows: []agentloop.AuditRecord{}}
	size := 0
	for rows.Next() {
		if n := len(page.Rows); n == limit || size > maxPageBytes {
			page.Next = page.Rows[n-1].Seq
			return page, nil
		}
		row, err := scanRow(rows)
		if err != nil {
			return page, err
		}
		size += len(row.Args) + len(row.OutputPreview) + len(row.Reason) + len(row.Denials) + len(row.Enforced)
		page.Rows = append(page.Rows, row)
	}
	return page, rows.Err()
}

func (r *Reader) searchError(err error) error {
	return fmt.Errorf("search the audit log: %s: %w", r.path, err)
}

// selectRows makes the statement of a query; its last parameter is the limit.
func selectRows(q agentloop.AuditQuery) (string, []any, error) {
	uid, all, err := q.Viewer.Limits()
	if err != nil {
		return "", nil, err
	}
	var where []string
	var args []any
	add := func(condition string, arg ...any) {
		where = append(where, condition)
		args = append(args, arg...)
	}
	if !all {
		add("uid = ?", uid)
	}
	if q.UID != nil {
		add("uid = ?", *q.UID)
	}
	for _, f := range []struct{ column, value string }{
		{"call_id", q.Call}, {"agent_name", q.Agent},
		{"tool_name", q.Tool}, {"verdict", q.Verdict}, {"status", string(q.Status)},
	} {
		if f.value != "" {
			add(f.column+" = ?", f.value)
		}
	}
	if s := q.Session; s != "" { // and those of its sub-agents, "session/explore-1": a range of the index
		add("(session_id = ? OR session_id > ? AND session_id < ?)", s, s+"/", s+string(rune('/'+1)))
	}
	if !q.Since.IsZero() {
		add("time >= ?", q.Since.UTC().Format(timeFormat))
	}
	if !q.Until.IsZero() {
		add("time < ?", q.Until.UTC().Format(timeFormat))
	}
	if text := matchExpression(q.Text); text != "" {
		add("seq IN (SELECT rowid FROM agent_audit_text WHERE agent_audit_text MATCH ?)", text)
	}
	order := "ASC"
	if q.After > 0 && q.Newest {
		add("seq < ?", q.After)
	} else if q.After > 0 {
		add("seq > ?", q.After)
	}
	if q.Newest {
		order = "DESC"
	}
	query := "SELECT " + rowColumns + " FROM agent_audit_log"
	if len(where) > 0 {
		query += " WHERE " + strings.Join(where, " AND ")
	}
	return query + " ORDER BY seq " + order + " LIMIT ?", args, nil
}

// Export writes every row that q selects, oldest first, one JSON object a line, as
// docs/audit.md says: each holds its hash and the one before, so [VerifyExport] or
// any program can check them. It reads page by page and holds no lock meanwhile;
// rows that are appended while it runs may be part of it.
func (r *Reader) Export(ctx context.Context, w io.Writer, q agentloop.AuditQuery) (int64, error) {
	q.Limit = maxPage
	var count int64
	for {
		lines, next, err := r.ExportPage(ctx, q)
		if err != nil {
			return count, err
		}
		if _, err := w.Write(lines); err != nil {
			return count, fmt.Errorf("export the audit log: %w", err)
		}
		count += int64(bytes.Count(lines, []byte("\n")))
		if next == 0 {
			return count, nil
		}
		q.After = next
	}
}

// ExportPage returns the next q.Limit rows as the lines of [Reader.Export], and what
// q.After is for those behind them; 0 says that there are none.
func (r *Reader) ExportPage(ctx context.Context, q agentloop.AuditQuery) (lines []byte, next int64, err error) {
	q.Newest = false
	page, err := r.Search(ctx, q)
	if err != nil {
		return nil, 0, err
	}
	for i := range page.Rows {
		lines = appendLine(lines, &page.Rows[i])
	}
	return lines, page.Next, nil
}
