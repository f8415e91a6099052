package agentloop

import (
	"context"
	"fmt"
	"sync"
)

// ErrQueueFull reports that no more calls may wait; nothing ran.
type ErrQueueFull struct {
	// Limit is how many may wait: of all users, or of this one.
	Limit int
	UID   int
	Own   bool
}

func (e *ErrQueueFull) Error() string {
	if e.Own {
		return fmt.Sprintf("uid %d has %d calls waiting already, which is its share; try again when one has ended", e.UID, e.Limit)
	}
	return fmt.Sprintf("%d calls are waiting already; try again when one has ended", e.Limit)
}

// fairQueue bounds how many calls run at once. Users take turns: a user with a
// thousand calls waits behind one with a single call. Zero bounds are none. It
// is safe for concurrent use.
type fairQueue struct {
	max, perUID, maxQueued int
	metrics                *Metrics

	mu      sync.Mutex
	running map[int]int
	total   int
	waiting map[int][]*waiter // by uid, oldest first
	order   []int             // uids that have waiters, next one first
	queued  int
}

type waiter struct {
	uid   int
	start chan struct{} // closed when it is the waiter's turn
}

func newFairQueue(limit, perUID, maxQueued int, m *Metrics) *fairQueue {
	return &fairQueue{max: limit, perUID: perUID, maxQueued: maxQueued, metrics: m,
		running: map[int]int{}, waiting: map[int][]*waiter{}}
}

// acquire waits for a turn of uid. The error is *[ErrQueueFull] or that of ctx.
func (q *fairQueue) acquire(ctx context.Context, uid int) error {
	q.mu.Lock()
	if len(q.waiting[uid]) == 0 && q.free(uid) {
		q.take(uid)
		q.mu.Unlock()
		return nil
	}
	if err := q.full(uid); err != nil {
		q.mu.Unlock()
		return err
	}
	w := &waiter{uid: uid, start: make(chan struct{})}
	if len(q.waiting[uid]) == 0 {
		q.order = append(q.order, uid)
	}
	q.waiting[uid] = append(q.waiting[uid], w)
	q.count(1)
	q.mu.Unlock()
	select {
	case <-w.start:
		return nil
	case <-ctx.Done():
	}
	if !q.leave(w) { // its turn came at the same moment
		q.release(uid)
	}
	return ctx.Err()
}

// full says why uid may not wait. One user may fill half of the places.
func (q *fairQueue) full(uid int) error {
	if q.maxQueued <= 0 {
		return nil
	}
	if q.queued >= q.maxQueued {
		return &ErrQueueFull{Limit: q.maxQueued, UID: uid}
	}
	if share := max(q.maxQueued/2, 1); len(q.waiting[uid]) >= share {
		return &ErrQueueFull{Limit: share, UID: uid, Own: true}
	}
	return nil
}

func (q *fairQueue) free(uid int) bool {
	return (q.max <= 0 || q.total < q.max) && (q.perUID <= 0 || q.running[uid] < q.perUID)
}

func (q *fairQueue) take(uid int) {
	q.total++
	q.running[uid]++
	q.metrics.add(1, "sandboxd_running")
}

func (q *fairQueue) count(n int) {
	q.queued += n
	q.metrics.add(float64(n), "sandboxd_queued")
}

// release ends a turn and gives it to whoever is next.
func (q *fairQueue) release(uid int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.total--
	if q.running[uid]--; q.running[uid] == 0 {
		delete(q.running, uid)
	}
	q.metrics.add(-1, "sandboxd_running")
	q.next()
}

// next starts waiters while there is room, one of each user in turn.
func (q *fairQueue) next() {
	for i := 0; i < len(q.order); {
		uid := q.order[i]
		if !q.free(uid) {
			i++
			continue
		}
		list := q.waiting[uid]
		q.waiting[uid] = list[1:]
		q.order = append(q.order[:i], q.order[i+1:]...)
		if len(list) > 1 {
			q.order = append(q.order, uid)
		} else {
			delete(q.waiting, uid)
		}
		q.count(-1)
		q.take(uid)
		close(list[0].start)
	}
}

// leave takes a waiter out; false when its turn has come.
func (q *fairQueue) leave(w *waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := q.waiting[w.uid]
	for i := range list {
		if list[i] != w {
			continue
		}
		list = append(list[:i:i], list[i+1:]...)
		q.waiting[w.uid] = list
		if len(list) == 0 {
			delete(q.waiting, w.uid)
			for j, uid := range q.order {
				if uid == w.uid {
					q.order = append(q.order[:j], q.order[j+1:]...)
					break
				}
			}
		}
		q.count(-1)
		return true
	}
	return false
}
