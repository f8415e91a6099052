package exec

import (
	"sync"

	"sandboxd/exec/child"
)

// warm keeps keepers ready, by their namespaces, so that a run need not wait for
// the exec of one and for a network namespace. A keeper is used once. The zero
// value keeps none.
type warm struct {
	mu     sync.Mutex
	ready  map[uint64][]*child.Process
	coming map[uint64]int // are being made
	closed bool
	makers sync.WaitGroup
}

// take returns a keeper that waits for its plan, or nil, and has up to keep of
// them made for the runs that come.
func (w *warm) take(namespaces uint64, keep int) *child.Process {
	if keep <= 0 {
		return nil
	}
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

// add makes one keeper. A failure is no error here: the run that finds none makes
// its own and reports what stands against it.
func (w *warm) add(namespaces uint64) {
	p, err := child.StartKeeper(child.Options{Namespaces: namespaces})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.coming[namespaces]--
	switch {
	case err != nil:
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
	w.mu.Unlock()
	w.makers.Wait()
}
