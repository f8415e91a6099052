package agentloop

import (
	"context"
	"errors"
)

// Kinds of a compaction.
const (
	compactMicro  = "micro"
	compactAuto   = "auto"
	compactManual = "manual"
)

func (a *Agent) compact(context.Context, string, string) (TurnCompaction, error) {
	return TurnCompaction{}, errors.New("bug: not built")
}
