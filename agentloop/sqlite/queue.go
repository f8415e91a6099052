package sqlite

import (
	"context"
	"sync/atomic"
)

// waiting is the part of an operation that its caller and the writer share.
type waiting struct {
	state *atomic.Int32 // opWaiting, opTaken or opLeft
	done  chan error    // holds one
}

const (
	opWaiting = iota
	opTaken   // by the writer: it is done whether its caller waits or not
	opLeft    // by its caller, before the writer came to it
)

func newWaiting() waiting { return waiting{state: &atomic.Int32{}, done: make(chan error, 1)} }

func (w waiting) shared() waiting { return w }

// await puts an operation into the queue of a writer and waits for its commit. A
// cancelled ctx ends the wait in the queue only: what the writer has begun is waited
// for. closing says that nothing new is taken, closed that the writer has ended.
func await[O interface{ shared() waiting }](ctx context.Context, queue chan<- O, o O, closing, closed <-chan struct{}) error {
	w := o.shared()
	select {
	case <-closing:
		return ErrClosed
	default:
	}
	select {
	case queue <- o:
	case <-ctx.Done():
		return ctx.Err()
	case <-closing:
		return ErrClosed
	}
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
		if w.state.CompareAndSwap(opWaiting, opLeft) {
			return ctx.Err()
		}
		return <-w.done // it is being written: what becomes of it is known soon
	case <-closed:
		select {
		case err := <-w.done:
			return err
		default:
			return ErrClosed // it was put into the queue after the last look
		}
	}
}
