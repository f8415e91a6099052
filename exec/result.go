package exec

import "time"

// Outcome says how a run ended.
type Outcome string

const (
	Exited    Outcome = "exited"
	Signaled  Outcome = "signaled"
	TimedOut  Outcome = "timeout"
	OutOfMem  Outcome = "memory"
	TaskLimit Outcome = "tasks"
	CPULimit  Outcome = "cpu"
	FileLimit Outcome = "file-size"
	// Refused means that a policy denied the command; nothing ran.
	Refused Outcome = "denied"
	// NotSetUp means that confinement could not be established; nothing ran.
	NotSetUp Outcome = "setup"
)

// ResultVersion is the version of the Result's JSON form, see docs/result.md.
const ResultVersion = 1

// Stream tells what became of one output stream.
type Stream struct {
	Bytes     int64  `json:"bytes"`   // written by the command
	Kept      int64  `json:"kept"`    // in Text, or passed through
	Dropped   int64  `json:"dropped"` // Bytes - Kept
	Truncated bool   `json:"truncated"`
	Text      string `json:"text,omitempty"` // captured streams only
	File      string `json:"file,omitempty"` // the whole output, up to a cap
	// FileDropped is how much of the output File does not hold: what came after the
	// cap. FileError says why there is no File, or not all of it.
	FileDropped int64  `json:"file_dropped,omitempty"`
	FileError   string `json:"file_error,omitempty"`
	// Lost is why the rest could not be passed on: a full disk. A reader who went
	// away is no loss, the command is told by SIGPIPE.
	Lost error `json:"-"`
}

// Part is one part of the policy and the mechanism that holds it.
type Part struct {
	Part      string `json:"part"`      // "filesystem", "network", "tasks", ...
	Mechanism string `json:"mechanism"` // "mount view + landlock", "cgroup v1 pids", ...
	Exact     bool   `json:"exact"`     // false: an approximation, see docs/confinement.md
}

// Gap is a part of the policy that this host holds less well than others.
type Gap struct {
	Part    string `json:"part"`
	Why     string `json:"why"`
	Instead string `json:"instead,omitempty"` // what holds it in place of the usual mechanism
}

// Enforced says what held the command.
type Enforced struct {
	Tier           string `json:"tier"` // "base", "namespaces", "namespaces+cgroup", ...
	LandlockABI    int    `json:"landlock_abi"`
	LandlockErrata int    `json:"landlock_errata"`
	Seccomp        string `json:"seccomp"` // profile name
	// SeccompUnknown are calls of the profile that the libseccomp here does
	// not know by name. They are refused with every call that is not listed.
	SeccompUnknown []string `json:"seccomp_unknown"`
	Parts          []Part   `json:"parts"`
	Missing        []Gap    `json:"missing"`  // wanted by a default, not held at all
	Weakened       []Gap    `json:"weakened"` // held by a substitute
}

// Result is what became of one run.
type Result struct {
	Version   int           `json:"version"`
	Outcome   Outcome       `json:"outcome"`
	ExitCode  int           `json:"exit_code"` // as the shell would report it: 128+n by signal n
	Signal    int           `json:"signal,omitempty"`
	Elapsed   time.Duration `json:"-"`
	CPU       time.Duration `json:"-"`
	MaxMemory int64         `json:"max_memory_bytes"` // peak; 0 unknown
	PeakTasks int           `json:"peak_tasks"`       // 0 unknown
	// LeftBehind: processes outlived the command, and were ended.
	LeftBehind bool     `json:"left_behind,omitempty"`
	Stdout     Stream   `json:"stdout"`
	Stderr     Stream   `json:"stderr"`
	LimitsHit  []string `json:"limits_hit"`
	Enforced   Enforced `json:"enforced"`
	UID        int      `json:"uid"`
	GID        int      `json:"gid"`
}

// SetupError reports that confinement could not be established; the command
// never ran.
type SetupError struct {
	Stage string // "landlock", "seccomp", "mount", "limits", "exec", ...
	Hint  string // what the user can do; may be empty
	Err   error
}

func (e *SetupError) Error() string { return e.Stage + ": " + e.Err.Error() }
func (e *SetupError) Unwrap() error { return e.Err }
