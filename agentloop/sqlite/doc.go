// Package sqlite keeps the audit log, the sessions and the pending questions of
// the daemon in one SQLite database, and conversations with models in another.
//
//	store, err := sqlite.Open("/var/lib/sandboxd/audit.db", sqlite.Options{})
//	seq, err := store.Append(ctx, agentloop.AuditRecord{Tool: "run_bash", Status: agentloop.StatusAllow})
//	report, err := store.Verify(ctx)
//
// Append returns when its row is on disk. One goroutine writes; rows that arrive
// while it waits for the disk share the next transaction. Rows form a chain of
// hashes, and what the chain was is noted regularly in a file of anchors beside
// the database. docs/audit.md describes both so that another program can check them.
//
// [Conversations] are apart, so that no decision waits for the answers of models.
// They are neither chained nor anchored: what was said is no evidence of what ran.
//
// # Limits
//
// Whoever may write the files can rewrite the log. Verify finds that as far as an
// anchor reaches which they could not rewrite too: one in the journal, or in a file
// that the kernel keeps append-only. What was appended after the last anchor can
// be cut off unseen. The index for text searches is no evidence: Verify does not
// read it. That the disk keeps what it says it has written is the disk's promise.
package sqlite
