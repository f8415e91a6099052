package agentloop

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

var (
	// ErrNoPrice reports a cost budget for a model whose price is not known.
	ErrNoPrice = errors.New("a cost budget is set and the price of the model is not known: set its price in [agent] prices, or limit time and steps instead")
	// ErrTimeBudget is why a context ended at the end of the time of a turn.
	ErrTimeBudget = errors.New("the time of the turn is over")
	// ErrTooManySpawns reports that a turn started as many sub-agents as it may.
	ErrTooManySpawns = errors.New("no further sub-agent in this turn")
)

// budget is what a turn and all its sub-agents share: money, time, the number of
// sub-agents, and the denials altogether. It is safe for concurrent use.
//
// # Limits
//
// What a request costs is known when it is answered. A turn ends before a request
// when one like the last would cost more than is left; sub-agents that run at once
// may each have one request on its way.
type budget struct {
	maxCost    float64 // US dollars; 0: none
	start      time.Time
	deadline   time.Time // zero: none
	maxSpawns  int
	maxDenials int

	mu      sync.Mutex
	earlier float64 // of the conversation before this turn
	cost    float64
	spawns  int
	denials int
}

func newBudget(l AgentLimits, start time.Time) *budget {
	b := &budget{maxCost: l.Cost, start: start, maxSpawns: l.Spawns, maxDenials: l.DenialsTotal}
	if l.Time > 0 {
		b.deadline = start.Add(l.Time)
	}
	return b
}

// startWith counts what the conversation cost before this turn.
func (l *limits) startWith(cost float64) {
	l.budget.mu.Lock()
	defer l.budget.mu.Unlock()
	l.budget.earlier += cost
}

// withDeadline bounds ctx by the time of the turn; its cause is [ErrTimeBudget].
func (l *limits) withDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if l.budget.deadline.IsZero() {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, l.budget.deadline.Sub(l.now()), ErrTimeBudget)
}

// spend counts a usage and returns its cost.
func (b *budget) spend(u Usage, price *Price) (cost float64) {
	if price == nil {
		return 0
	}
	cost = price.Of(u)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cost += cost
	return cost
}

// over reports the budget that is spent; last is what the last request cost.
func (b *budget) over(now time.Time, last float64) (EndReason, string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	cost := b.earlier + b.cost
	switch {
	case !b.deadline.IsZero() && !now.Before(b.deadline):
		return EndTime, fmt.Sprintf("the time of %v is over", b.deadline.Sub(b.start))
	case b.maxCost > 0 && cost >= b.maxCost:
		return EndCost, fmt.Sprintf("the budget of $%.4f is spent ($%.4f)", b.maxCost, cost)
	case b.maxCost > 0 && cost+last > b.maxCost:
		return EndCost, fmt.Sprintf("$%.4f of the budget of $%.4f is spent, and a request like the last ($%.4f) would exceed it", cost, b.maxCost, last)
	}
	return "", ""
}

// nearlySpent reports that the budget holds one more request like the last, and
// not two.
func (b *budget) nearlySpent(last float64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.maxCost > 0 && last > 0 && b.earlier+b.cost+2*last > b.maxCost
}

func (b *budget) costNotice() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.maxCost <= 0 || b.earlier+b.cost < budgetNotice*b.maxCost {
		return ""
	}
	return fmt.Sprintf("$%.4f of the budget of $%.4f are spent. Finish what you are at.", b.earlier+b.cost, b.maxCost)
}

func (b *budget) timeNotice(now time.Time) string {
	if b.deadline.IsZero() {
		return ""
	}
	all := b.deadline.Sub(b.start)
	if now.Sub(b.start) < time.Duration(budgetNotice*float64(all)) {
		return ""
	}
	return fmt.Sprintf("%v of the time of %v are left. Finish what you are at.", b.deadline.Sub(now).Round(time.Second), all)
}

// denial counts a denied call of any agent of the turn. The text says that all of
// them together have as many as one may have.
func (b *budget) denial() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.denials++
	if b.maxDenials > 0 && b.denials >= b.maxDenials {
		return fmt.Sprintf("%d calls of this turn and its sub-agents were denied", b.denials)
	}
	return ""
}

// spawn counts one more sub-agent, or refuses it.
func (b *budget) spawn() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.maxSpawns > 0 && b.spawns >= b.maxSpawns {
		return fmt.Errorf("%w: it has started %d", ErrTooManySpawns, b.spawns)
	}
	b.spawns++
	return nil
}
