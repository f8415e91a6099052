package agentloop

import (
	"context"
	"encoding/json"
	"time"

	"sandboxd/policy"
)

// Store keeps what must outlive the daemon: sessions and pending questions.
// Writes are durable when the method returns. It is safe for concurrent use.
type Store interface {
	AuditLog
	SaveSession(ctx context.Context, s SessionState) error
	// Sessions returns those that have not ended, oldest first.
	Sessions(ctx context.Context) ([]SessionState, error)
	DeleteSession(ctx context.Context, id string) error
	// EndSession appends the last row of a session and forgets it: both or neither,
	// so that a session whose daemon is killed meanwhile ends once.
	EndSession(ctx context.Context, id string, last AuditRecord) error

	SaveQuestion(ctx context.Context, q PendingQuestion) error
	// Questions returns those without an answer, oldest first.
	Questions(ctx context.Context) ([]PendingQuestion, error)
	// SettleQuestion stores the answer of a pending question. It reports false,
	// and changes nothing, when the question is not pending any more.
	SettleQuestion(ctx context.Context, id string, a StoredAnswer) (bool, error)
}

// SessionState is a session as it is kept.
type SessionState struct {
	ID        string    `json:"id"`
	UID       int       `json:"uid"`
	GID       int       `json:"gid"`
	Groups    []int     `json:"groups,omitempty"`
	Created   time.Time `json:"created"`
	Workspace string    `json:"workspace"`
	Mode      string    `json:"mode"`
	// ModeByPolicy: nobody asked for the mode; a policy that says another one has it.
	ModeByPolicy bool `json:"mode_by_policy,omitempty"`
	// Key is that of the request, see [SessionRequest].
	Key string `json:"key,omitempty"`
	// Policy and Profile name files as the client gave them.
	Policy  []string `json:"policy,omitempty"`
	Profile string   `json:"profile,omitempty"`
	// Environ is the client's environment as far as policies and runs need it.
	Environ []string `json:"environ,omitempty"`
	// Rules are those of the session itself.
	Rules []SessionRule `json:"rules,omitempty"`
	// Cwd and Grant are the client's directory and flags.
	Cwd   string       `json:"cwd,omitempty"`
	Grant policy.Grant `json:"grant"`
	// Attached: the session ends with its client ([ClientGone]).
	Attached bool `json:"attached,omitempty"`
	// Incomplete: a directory or a flag held a secret, which is not here. The
	// session ends with its daemon.
	Incomplete bool `json:"incomplete,omitempty"`
}

// SessionRule is a rule added to one session.
type SessionRule struct {
	Kind    string `json:"kind"` // deny, ask or allow
	Pattern string `json:"rule"`
	// Reason is told when the rule denies or asks.
	Reason string    `json:"reason,omitempty"`
	Added  time.Time `json:"added"`
	// By is who added it: "uid 1000", "answer to QUESTION".
	By string `json:"by,omitempty"`
	// Unkept: the pattern holds a secret, so that the rule ends with the daemon.
	Unkept bool `json:"-"`
}

// PendingQuestion is a question that waits for a person, as it is shown and kept.
type PendingQuestion struct {
	ID      string `json:"id"`
	UID     int    `json:"uid"` // whose session asks
	Session string `json:"session_id"`
	Call    string `json:"call_id"`
	Agent   string `json:"agent_name"`
	// Kind is empty for a question whether a call may run, or [QuestionText]. Text
	// and Options are what is asked then, as the model wrote it.
	Kind    string    `json:"kind,omitempty"`
	Text    string    `json:"text,omitempty"`
	Options []string  `json:"options,omitempty"`
	Asked   time.Time `json:"asked"`
	Expires time.Time `json:"expires"`
	Tool    string    `json:"tool"`
	// Argv or Script is exactly what would run; Args are all arguments.
	Argv   []string        `json:"argv,omitempty"`
	Script string          `json:"script,omitempty"`
	Args   json.RawMessage `json:"args,omitempty"`
	Cwd    string          `json:"cwd"`
	// CallCwd is the directory as the call gave it.
	CallCwd string `json:"call_cwd,omitempty"`
	// Redirects are the files that redirections open, resolved.
	Redirects []string `json:"redirects,omitempty"`
	Reads     []string `json:"reads,omitempty"`
	Writes    []string `json:"writes,omitempty"`
	// Opens says what an allow opens for this call besides what is granted, and what
	// of it stays closed, in words.
	Opens []string `json:"opens,omitempty"`
	Mode  string   `json:"mode"`
	// Reason is the typed reason why it is asked; Why is one line of it.
	Reason json.RawMessage `json:"reason"`
	Why    string          `json:"why"`
	Risk   json.RawMessage `json:"risk"` // a policy.Explanation
	// ModelRisk is what a model says about the call; it comes later, or never. It
	// is data, decides nothing and is not kept.
	ModelRisk string `json:"model_risk,omitempty"`
	// AlwaysRule is what "always" would keep, AlwaysAllows what else that would
	// let pass, in words. Empty when nothing can be kept.
	AlwaysRule   string   `json:"always_rule,omitempty"`
	AlwaysAllows []string `json:"always_allows,omitempty"`
	// AlwaysRules are the rules one by one: a script can need several.
	AlwaysRules []string `json:"always_rules,omitempty"`
	// Shown is the command or the arguments in one line for a terminal, with
	// control and direction characters escaped.
	Shown string `json:"shown,omitempty"`
	// Diff is what the call would change in a file, as a unified diff that is cut
	// after 16 KiB; NoDiff says why there is none, where there could be one. They
	// are not kept.
	Diff   string `json:"diff,omitempty"`
	NoDiff string `json:"no_diff,omitempty"`
	// Digest is of tool, arguments and directory: a repetition has the same.
	Digest string `json:"digest,omitempty"`
	// Placement is the confinement it would run in, one line.
	Placement string `json:"placement"`
}

// StoredAnswer is what became of a question.
type StoredAnswer struct {
	Verdict string    `json:"verdict"`        // allow or deny
	Text    string    `json:"text,omitempty"` // of a question of kind text, masked
	Always  bool      `json:"always,omitempty"`
	Scope   string    `json:"scope,omitempty"` // session, project or user
	By      string    `json:"by"`              // "uid 1000 by sbx approve", "webhook", "timeout", "cancelled"
	When    time.Time `json:"when"`
}
