package agentloop

import "sandboxd/policy"

// GrantError reports an entry of the policy, a flag or a start directory that
// cannot be turned into a confinement as written. Nothing ran.
type GrantError struct {
	Entry  string // as the user wrote it: "rw out/*", "workspace /"
	Source policy.Source
	Hint   string // what the user can do; may be empty
	Err    error
}

func (e *GrantError) Error() string {
	where := ""
	if e.Source.File != "" {
		where = " (" + place(e.Source) + ")"
	}
	return e.Entry + where + ": " + e.Err.Error()
}

func (e *GrantError) Unwrap() error { return e.Err }

// ProgramError reports that the program cannot be started: not found (exit
// status 127), or found but not executable (126). Nothing ran.
type ProgramError struct {
	Name  string
	Found bool
	Hint  string
	Err   error
}

func (e *ProgramError) Error() string { return e.Name + ": " + e.Err.Error() }
func (e *ProgramError) Unwrap() error { return e.Err }

// ExitCode is the status that env(1) and shells use for this case.
func (e *ProgramError) ExitCode() int {
	if e.Found {
		return 126
	}
	return 127
}
