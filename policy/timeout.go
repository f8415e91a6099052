package policy

import (
	"fmt"
	"time"
)

// Timeouts of an agent's calls while no policy says anything (requirement 107).
const (
	DefaultCommandTimeout = 60 * time.Second  // of run_bash that asks for none
	MaxCommandTimeout     = 120 * time.Second // of run_bash, whatever it asks for
	ToolTimeout           = 120 * time.Second // of every other tool
	DefaultTaskTimeout    = 10 * time.Minute  // of a background task that asks for none
	MaxTaskTimeout        = time.Hour         // of a background task, whatever it asks for
)

// CallTimeout returns how long a call of an agent may take. asked is what the
// call itself asks for, zero or less for nothing; limit is the policy's
// limits.timeout as in [GrantLimits]: zero for none, negative for unlimited. A
// limit of the policy is the default of a call and its bound, also above the
// built-in ones. note is for the caller to pass on when the call gets less than
// it asked for. A result of zero is unlimited, which only a policy gives.
func CallTimeout(tool string, asked, limit time.Duration) (timeout time.Duration, note string) {
	asked = max(asked, 0)
	usual, most := ToolTimeout, ToolTimeout
	switch CanonicalTool(tool) {
	case "run_bash":
		usual, most = DefaultCommandTimeout, MaxCommandTimeout
	case "bg_task_run":
		usual, most = DefaultTaskTimeout, MaxTaskTimeout
	}
	switch {
	case limit < 0:
		return asked, ""
	case limit > 0:
		usual, most = limit, limit
	}
	if asked == 0 {
		return usual, ""
	}
	if asked > most {
		return most, fmt.Sprintf("timeout of %s shortened to %s, the most that a call may take; limits.timeout raises it", asked, most)
	}
	return asked, ""
}
