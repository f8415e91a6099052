package agentloop

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// Status is what an audit row is about.
type Status string

const (
	// The decision, on disk before anything starts.
	StatusAllow   Status = "allow"
	StatusDeny    Status = "deny"
	StatusAsk     Status = "ask"     // a question was put
	StatusBlocked Status = "blocked" // by a hook
	// The end of a call.
	StatusTimeout   Status = "timeout"
	StatusCancelled Status = "cancelled"
	StatusOK        Status = "ok"
	StatusFail      Status = "fail"
	// The result of a call that the end of the daemon cut off. No row has it.
	StatusInterrupted Status = "interrupted"
	// The start of a sub-agent; the tool's name is "subagent" then, the agent's its own.
	StatusSubagentStart Status = "SUBAGENT_START"
	// The end of a session; the tool's name is "session" then.
	StatusSessionStop Status = "SESSION_STOP"
	// Retention removed older rows; the tool's name is "retention" then.
	StatusCheckpoint Status = "checkpoint"
)

// AuditStatuses are the statuses that rows have.
func AuditStatuses() []string {
	return []string{string(StatusAllow), string(StatusDeny), string(StatusAsk), string(StatusBlocked), string(StatusTimeout), string(StatusCancelled),
		string(StatusOK), string(StatusFail), string(StatusSubagentStart), string(StatusSessionStop), string(StatusCheckpoint)}
}

// AuditRecord is one row of the audit log. Texts are masked and capped by the
// caller: what is in a record is stored as it is.
type AuditRecord struct {
	// Seq is the number of the row, from 1 without a gap. The log sets it.
	Seq  int64     `json:"seq"`
	Time time.Time `json:"time"` // UTC
	// UID is whose call it was.
	UID     int    `json:"uid"`
	Session string `json:"session_id"`
	Call    string `json:"call_id"`
	Step    int    `json:"step"`
	Tool    string `json:"tool_name"`
	Status  Status `json:"status"`
	// Agent is "lead" or the name of the sub-agent.
	Agent     string `json:"agent_name"`
	ElapsedMS int64  `json:"elapsed_ms"`
	// OutputPreview is the first 200 characters of the output.
	OutputPreview string `json:"output_preview"`
	Verdict       string `json:"verdict"`
	// Reason is the typed reason of the decision, or of the end.
	Reason json.RawMessage `json:"reason,omitempty"`
	// Args are the final arguments, as one JSON object.
	Args json.RawMessage `json:"args,omitempty"`
	// Generation is that of the policy which decided.
	Generation int64 `json:"policy_generation"`
	// Enforced is what held the command, Denials what the kernel refused.
	Enforced json.RawMessage `json:"enforced,omitempty"`
	Denials  json.RawMessage `json:"denials,omitempty"`
	// Hash is of this row and PrevHash, which is that of the row before. The log
	// sets both.
	PrevHash string `json:"prev_hash"`
	Hash     string `json:"hash"`
}

// ErrNotRecorded reports that a row could not be made durable. Unless the policy
// says otherwise nothing runs then.
var ErrNotRecorded = errors.New("the audit log cannot be written")

// AuditLog keeps records. It is safe for concurrent use.
type AuditLog interface {
	// Append returns when the row is on disk. The error wraps [ErrNotRecorded].
	Append(ctx context.Context, r AuditRecord) (seq int64, err error)
}
