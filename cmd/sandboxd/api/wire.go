package api

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"sandboxd/exec"
	"sandboxd/policy"
)

// ExecRequest asks for one call: a command, a script, or a tool with arguments.
type ExecRequest struct {
	// Session names a session that decides; empty: one of the client's own, which
	// calls of the same client from the same place share.
	Session string `json:"session_id,omitempty"`
	// Exactly one of Argv, Script and Tool is given.
	Argv   []Text          `json:"argv,omitempty"`
	Script Text            `json:"script,omitempty"`
	Tool   string          `json:"tool,omitempty"`
	Args   json.RawMessage `json:"args,omitempty"` // of Tool, an object
	// Cwd is the client's directory, absolute. Env is its environment as
	// NAME=VALUE; what the command gets of it is the policy's to say.
	Cwd   Text   `json:"cwd"`
	Env   []Text `json:"env,omitempty"`
	Grant Grant  `json:"grant"`
	// Policy and Profile are those of the flags, Mode is the session's.
	Policy  []Text `json:"policy,omitempty"`
	Profile Text   `json:"profile,omitempty"`
	Mode    string `json:"mode,omitempty"`
	// Tier is auto, base or full.
	Tier       string `json:"tier,omitempty"`
	BestEffort bool   `json:"best_effort,omitempty"`
	// Stdin is the whole input where there is no stream.
	Stdin Text `json:"stdin,omitempty"`
	// Capture: the output goes into the result, also where there is a stream.
	Capture bool `json:"capture,omitempty"`
	// Terminal asks for a terminal of this size; the connection must be a stream.
	Terminal *Size `json:"terminal,omitempty"`
	// Answers: whoever is at the stream can answer questions about this call.
	Answers bool `json:"answers,omitempty"`
	// Attended: a person waits for the command of Argv, which takes as long as the
	// policy and Grant let it, and any time where neither says. Without it, and without
	// a time in Grant, the call is a model's: 60 s where the policy says nothing.
	Attended bool `json:"attended,omitempty"`
	// Detach makes a job of it, with no input.
	Detach bool `json:"detach,omitempty"`
}

// Size is that of a terminal, in characters.
type Size struct {
	Rows    uint16 `json:"rows"`
	Columns uint16 `json:"columns"`
}

// Grant is what the client's flags add to the policy. Zero fields add nothing.
type Grant struct {
	Workspace   Text        `json:"workspace,omitempty"`
	User        string      `json:"user,omitempty"`
	Paths       []PathGrant `json:"paths,omitempty"`
	Network     []string    `json:"network,omitempty"`
	Unix        []Text      `json:"unix,omitempty"`
	EnvPass     []Text      `json:"env_pass,omitempty"`
	EnvSet      []Text      `json:"env_set,omitempty"`
	Syscalls    string      `json:"syscalls,omitempty"`
	NoExecWrite bool        `json:"no_exec_write,omitempty"`
	Limits      Limits      `json:"limits"`
}

// PathGrant is one path flag: access is ro, rw, deny, protect or unprotect.
type PathGrant struct {
	Path   Text              `json:"path"`
	Access policy.PathAccess `json:"access"`
}

// Limits are those of policy.GrantLimits: 0 is not given, negative is unlimited.
type Limits struct {
	TimeoutMS   int64 `json:"timeout_ms,omitempty"`
	CPUMS       int64 `json:"cpu_ms,omitempty"`
	MemoryBytes int64 `json:"memory_bytes,omitempty"`
	Tasks       int   `json:"tasks,omitempty"`
	FileBytes   int64 `json:"file_bytes,omitempty"`
	OutputBytes int   `json:"output_bytes,omitempty"`
}

// NewGrant puts the grant of flags on the wire.
func NewGrant(g policy.Grant) Grant {
	out := Grant{
		Workspace: Text(g.Workspace), User: g.User, Network: g.Network, Unix: Texts(g.Unix),
		EnvPass: Texts(g.EnvPass), EnvSet: Texts(g.EnvSet), Syscalls: g.Syscalls, NoExecWrite: g.NoExecWrite,
		Limits: Limits{
			TimeoutMS: wireTime(g.Limits.Timeout), CPUMS: wireTime(g.Limits.CPU), MemoryBytes: g.Limits.MemoryBytes,
			Tasks: g.Limits.Tasks, FileBytes: g.Limits.FileBytes, OutputBytes: g.Limits.OutputBytes,
		},
	}
	for _, p := range g.Paths {
		out.Paths = append(out.Paths, PathGrant{Text(p.Path), p.Access})
	}
	return out
}

// wireTime keeps a time that is shorter than a millisecond a limit.
func wireTime(d time.Duration) int64 {
	if d < 0 {
		return exec.Unlimited
	}
	return milliseconds(d)
}

func ownTime(ms int64) time.Duration {
	switch {
	case ms < 0:
		return exec.Unlimited
	case ms > int64(time.Duration(1<<63-1)/time.Millisecond):
		return 1<<63 - 1
	}
	return time.Duration(ms) * time.Millisecond
}

// grant checks what a client asks for. Only root chooses the user of a run.
func (g Grant) grant(uid int) (policy.Grant, error) {
	out := policy.Grant{
		Workspace: string(g.Workspace), User: g.User, Network: g.Network, Unix: Strings(g.Unix),
		EnvPass: Strings(g.EnvPass), EnvSet: Strings(g.EnvSet), Syscalls: g.Syscalls, NoExecWrite: g.NoExecWrite,
		Limits: policy.GrantLimits{
			Timeout: ownTime(g.Limits.TimeoutMS), CPU: ownTime(g.Limits.CPUMS), MemoryBytes: g.Limits.MemoryBytes,
			Tasks: g.Limits.Tasks, FileBytes: g.Limits.FileBytes, OutputBytes: g.Limits.OutputBytes,
		},
	}
	if g.User != "" && g.User != "caller" && uid != 0 {
		return out, fault(CodeForbidden, "leave it out: commands run as who asks", "only root may run a command as another user")
	}
	if out.Workspace != "" && !filepath.IsAbs(out.Workspace) {
		return out, fault(CodeBadRequest, "write it from / on", "the workspace %q is not absolute", out.Workspace)
	}
	known := []policy.PathAccess{policy.GrantDeny, policy.GrantProtect, policy.GrantUnprotect, policy.GrantRead, policy.GrantWrite}
	for _, p := range g.Paths {
		if !slices.Contains(known, p.Access) {
			return out, fault(CodeBadRequest, fmt.Sprintf("one of %q", known), "unknown access %q", p.Access)
		}
		out.Paths = append(out.Paths, policy.PathGrant{Path: string(p.Path), Access: p.Access, Source: policy.Source{Kind: policy.SourceCLI}})
	}
	return out, nil
}

// check compares the fields with each other.
func (q *ExecRequest) check() error {
	kinds := 0
	for _, given := range []bool{len(q.Argv) > 0, q.Script != "", q.Tool != ""} {
		if given {
			kinds++
		}
	}
	switch {
	case kinds != 1:
		return fault(CodeBadRequest, "", "give one of argv, script and tool")
	case len(q.Argv) > 0 && q.Argv[0] == "":
		return fault(CodeBadRequest, "", "the command is an empty word")
	case q.Attended && len(q.Argv) == 0:
		return fault(CodeBadRequest, "a script or a tool is a model's call, held to a time", "attended without argv")
	case len(q.Args) > 0 && q.Tool == "":
		return fault(CodeBadRequest, "", "args without tool")
	case !filepath.IsAbs(string(q.Cwd)):
		return fault(CodeBadRequest, "write it from / on", "cwd %q is not absolute", q.Cwd)
	case q.Terminal != nil && (q.Capture || q.Detach):
		return fault(CodeBadRequest, "", "terminal excludes capture and detach")
	case q.Detach && (q.Stdin != "" || q.Capture):
		return fault(CodeBadRequest, "a job has no input, and its output is in its log", "detach excludes stdin and capture")
	}
	if _, err := q.tier(); err != nil {
		return err
	}
	if err := q.checkNames(); err != nil {
		return err
	}
	for _, list := range [][]Text{q.Argv, q.Env, {q.Cwd, q.Script, q.Grant.Workspace}} {
		for _, t := range list {
			if slices.Contains([]byte(t), 0) {
				return fault(CodeBadRequest, "", "a null byte in an argument, a variable or a path")
			}
		}
	}
	return nil
}

func (q *ExecRequest) tier() (exec.Tier, error) {
	switch q.Tier {
	case "", "auto":
		return exec.TierAuto, nil
	case "base":
		return exec.TierBase, nil
	case "full":
		return exec.TierFull, nil
	}
	return exec.TierAuto, fault(CodeBadRequest, "one of auto, base, full", "unknown tier %q", q.Tier)
}

// StreamQuestion is the payload of FrameQuestion: a question about this call, or
// that it was settled by somebody.
type StreamQuestion struct {
	Question json.RawMessage `json:"question,omitempty"` // agentloop.PendingQuestion
	ID       string          `json:"id"`
	Settled  bool            `json:"settled,omitempty"`
}

// StreamAnswer is the payload of FrameAnswer.
type StreamAnswer struct {
	ID string `json:"id"`
	AnswerRequest
}

// AnswerRequest answers a question.
type AnswerRequest struct {
	// Answer is allow, deny or always; always allows and keeps the rule that the
	// question shows, at Scope: session (if empty), project or user. A question of
	// kind text is answered by text, with Text, or by deny.
	Answer string `json:"answer"`
	Scope  string `json:"scope,omitempty"`
	Text   string `json:"text,omitempty"`
}
