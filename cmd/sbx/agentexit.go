package main

import (
	"golang.org/x/sys/unix"

	"sandboxd/agentloop"
)

// Exit codes of sbx agent. What is not a code of its own is as in exit.go.
const (
	exitModel  = 1 // the model gave no answer, or declined
	exitLimit  = 3 // a limit ended the turn
	exitDenied = 4 // denials or a hook ended it, or it ended with a call that nobody was there to allow
)

// agentExit is the code of a turn that ended. unanswered says that the last call was
// refused since nobody could be asked.
func agentExit(reason agentloop.EndReason, unanswered bool) int {
	switch reason {
	case agentloop.EndCompleted:
		if unanswered {
			return exitDenied
		}
		return 0
	case agentloop.EndModel, agentloop.EndRefusal:
		return exitModel
	case agentloop.EndMaxSteps, agentloop.EndRepeated, agentloop.EndDiminishing, agentloop.EndTokens, agentloop.EndCost:
		return exitLimit
	case agentloop.EndTime:
		return exitTimeout
	case agentloop.EndDenials, agentloop.EndHook:
		return exitDenied
	case agentloop.EndCancelled:
		return 128 + int(unix.SIGINT)
	}
	return exitSandbox // the conversation could not be kept, the session ended
}
