package agentloop

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
)

// TestQueueTakesUsersInTurn: a user with many calls does not hold up one with few.
func TestQueueTakesUsersInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFairQueue(1, 0, 0, nil)
		if err := q.acquire(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		var order []int
		started := make(chan int)
		for _, uid := range []int{1, 1, 1, 1, 2, 3, 2} {
			go func() {
				if err := q.acquire(t.Context(), uid); err == nil {
					started <- uid
				}
			}()
			synctest.Wait() // one after the other
		}
		q.release(1)
		for range 7 {
			uid := <-started
			order = append(order, uid)
			q.release(uid)
		}
		if want := []int{1, 2, 3, 1, 2, 1, 1}; !slices.Equal(order, want) {
			t.Errorf("order %v, want %v", order, want)
		}
		if q.total != 0 || q.queued != 0 || len(q.waiting)+len(q.running)+len(q.order) != 0 {
			t.Errorf("left: %+v", q)
		}
	})
}

func TestQueueHoldsItsBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFairQueue(3, 2, 4, nil)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 16)
		for range 4 { // two run, two wait: half of the places
			go func() { ended <- q.acquire(ctx, 1) }()
		}
		synctest.Wait()
		if q.running[1] != 2 || q.queued != 2 {
			t.Fatalf("%d run, %d wait", q.running[1], q.queued)
		}
		var full *ErrQueueFull
		if err := q.acquire(ctx, 1); !errors.As(err, &full) || !full.Own {
			t.Errorf("error %v", err)
		}
		go func() { ended <- q.acquire(ctx, 2) }()
		synctest.Wait()
		if q.running[2] != 1 {
			t.Errorf("another user waits behind the first: %v", q.running)
		}
		for range 2 {
			go func() { ended <- q.acquire(ctx, 3) }()
		}
		synctest.Wait()
		if err := q.acquire(ctx, 4); !errors.As(err, &full) || full.Own || full.Limit != 4 {
			t.Errorf("error %v", err)
		}
		cancel()
		synctest.Wait()
		cancelled := 0
		for range 7 {
			if err := <-ended; errors.Is(err, context.Canceled) {
				cancelled++
			}
		}
		if cancelled != 4 || q.queued != 0 || q.total != 3 {
			t.Errorf("%d were cancelled, %d wait, %d run", cancelled, q.queued, q.total)
		}
	})
}

// FuzzQueue: whatever comes in whatever order, the bounds hold and nothing is
// left over.
func FuzzQueue(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 17, 33, 0, 0, 64, 65, 66})
	f.Fuzz(func(t *testing.T, steps []byte) {
		if len(steps) > 200 {
			return
		}
		synctest.Test(t, func(t *testing.T) {
			q := newFairQueue(3, 2, 8, nil)
			type one struct {
				cancel context.CancelFunc
				uid    int
				got    chan error
			}
			var live []one
			for _, b := range steps {
				switch {
				case b < 128 || len(live) == 0:
					ctx, cancel := context.WithCancel(t.Context())
					o := one{cancel, int(b % 4), make(chan error, 1)}
					go func() { o.got <- q.acquire(ctx, o.uid) }()
					live = append(live, o)
				default:
					i := int(b) % len(live)
					o := live[i]
					live = slices.Delete(live, i, i+1)
					o.cancel()
					if err := <-o.got; err == nil {
						q.release(o.uid)
					}
				}
				synctest.Wait()
				if q.total > 3 || q.queued > 8 {
					t.Fatalf("%d run, %d wait", q.total, q.queued)
				}
				for uid, n := range q.running {
					if n > 2 {
						t.Fatalf("uid %d runs %d", uid, n)
					}
				}
			}
			for _, o := range live {
				o.cancel()
				if err := <-o.got; err == nil {
					q.release(o.uid)
				}
			}
			synctest.Wait()
			if q.total != 0 || q.queued != 0 || len(q.waiting)+len(q.running)+len(q.order) != 0 {
				t.Fatalf("left: %+v", q)
			}
		})
	})
}
