package agentloop

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
)

// partition splits the calls of one answer into batches that run one after the
// other: calls that stand next to each other and are safe beside others form one
// batch, every other call one of its own. The order is kept.
func partition(safe []bool) [][]int {
	var out [][]int
	for i := range safe {
		if last := len(out) - 1; i > 0 && safe[i] && safe[i-1] {
			out[last] = append(out[last], i)
			continue
		}
		out = append(out, []int{i})
	}
	return out
}

// errSibling ends calls because one that ran beside them failed.
type errSibling struct{ tool string }

func (e *errSibling) Error() string { return "a call of " + e.tool + " that ran beside it failed" }

// schedule runs the calls of one answer. Each is given to do, or to skip with the
// reason when it is not to be started any more. When ctx ends, the rest is skipped
// at once, while what runs is waited for; broken is called between.
type schedule struct {
	parallel int
	// do names the call when those that run beside it are to be ended.
	do     func(ctx context.Context, i int) (abort string)
	skip   func(i int, why error)
	broken func()
}

func (s schedule) run(ctx context.Context, batches [][]int) {
	for n, batch := range batches {
		if ctx.Err() != nil {
			s.skipAll(batches[n:], cancelCause(ctx))
			s.broken()
			return
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.runBatch(ctx, batch)
		}()
		select {
		case <-done:
			continue
		case <-ctx.Done():
		}
		s.skipAll(batches[n+1:], cancelCause(ctx))
		s.broken()
		<-done
		return
	}
}

func (s schedule) skipAll(batches [][]int, why error) {
	for _, batch := range batches {
		for _, i := range batch {
			s.skip(i, why)
		}
	}
}

// runBatch runs the calls of a batch side by side, so many at once as may be.
func (s schedule) runBatch(ctx context.Context, batch []int) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(s.parallel, len(batch)) {
		workers.Go(func() {
			for n := int(next.Add(1)) - 1; n < len(batch); n = int(next.Add(1)) - 1 {
				if ctx.Err() != nil {
					s.skip(batch[n], cancelCause(ctx))
					continue
				}
				if tool := s.do(ctx, batch[n]); tool != "" {
					cancel(&errSibling{tool})
				}
			}
		})
	}
	workers.Wait()
}

// siblingFailed reports whether err is the end of a batch by one of its calls.
func siblingFailed(err error) bool {
	_, ok := errors.AsType[*errSibling](err)
	return ok
}
