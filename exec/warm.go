package exec

import (
	"sync"

	"sandboxd/exec/child"
)

// warm keeps keepers ready, by their namespaces, so that a run need not wait for
// the start of one and for a network namespace. A keeper is used once. Keepers are
// copies of one that waits, which is started once. The zero value is ready.
type warm struct {
	mu      sync.Mutex
	nursery *child.Nursery
	ready   map[uint64][]*child.Process
	coming  map[uint64]int // are being made
	closed  bool
	makers  sync.WaitGroup
}

// take returns a keeper that waits for its plan, or nil, and has up to keep of
// them made for the runs that come.
func (w *warm) take(namespaces uint64, keep int) *child.Process {
	if keep <= 0 {
		return nil
	}
	if p := w.waiting(namespaces, keep); p != nil {
		return p
	}
	return w.make(namespaces)
}

func (w *warm) waiting(namespaces uint64, keep int) *child.Process {
	w.mu.Lock()
	defer w.mu.Unlock()
	var taken *child.Process
	if list := w.ready[namespaces]; len(list) > 0 {
		taken, w.ready[namespaces] = list[len(list)-1], list[:len(list)-1]
	}
	if !w.closed && len(w.ready[namespaces])+w.coming[namespaces] < keep {
		if w.coming == nil {
			w.ready, w.coming = map[uint64][]*child.Process{}, map[uint64]int{}
		}
		w.coming[namespaces]++
		w.makers.Go(func() { w.add(namespaces) })
	}
	return taken
}

// make copies a keeper. A failure is no error here: the run makes its own and
// reports what stands against it.
func (w *warm) make(namespaces uint64) *child.Process {
	n := w.source()
	if n == nil {
		return nil
	}
	p, err := n.StartKeeper(child.Options{Namespaces: namespaces})
	if err != nil {
		w.forget(n)
		return nil
	}
	return p
}

// source is the nursery, started when it is first needed.
func (w *warm) source() *child.Nursery {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.nursery == nil && !w.closed {
		if n, err := child.NewNursery(); err == nil {
			w.nursery = n
		}
	}
	return w.nursery
}

// forget ends a nursery that failed: it may have been killed. The next run starts
// another.
func (w *warm) forget(n *child.Nursery) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.nursery == n {
		w.nursery = nil
		n.Close()
	}
}

func (w *warm) add(namespaces uint64) {
	p := w.make(namespaces)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.coming[namespaces]--
	switch {
	case p == nil:
	case w.closed:
		p.Close()
	default:
		w.ready[namespaces] = append(w.ready[namespaces], p)
	}
}

// close ends the keepers that wait, and waits for those that are being made.
func (w *warm) close() {
	w.mu.Lock()
	w.closed = true
	for _, list := range w.ready {
		for _, p := range list {
			p.Close()
		}
	}
	clear(w.ready)
	if w.nursery != nil {
		w.nursery.Close()
		w.nursery = nil
	}
	w.mu.Unlock()
	w.makers.Wait()
}
