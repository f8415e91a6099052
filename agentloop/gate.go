package agentloop

import "context"

// gate lets calls of one turn run side by side, or one of them alone.
type gate struct {
	places chan struct{} // one for each call that runs
	alone  chan struct{} // held while one waits for all places
}

// newGate lets at most n calls run at once.
func newGate(n int) *gate {
	return &gate{places: make(chan struct{}, max(n, 1)), alone: make(chan struct{}, 1)}
}

// enter waits for a place, or for all of them, until ctx ends.
func (g *gate) enter(ctx context.Context, alone bool) (leave func(), err error) {
	want := 1
	if alone {
		want = cap(g.places)
		select {
		case g.alone <- struct{}{}:
			defer func() { <-g.alone }()
		case <-ctx.Done():
			return nil, cancelCause(ctx)
		}
	}
	got := 0
	leave = func() {
		for range got {
			<-g.places
		}
	}
	for ; got < want; got++ {
		select {
		case g.places <- struct{}{}:
		case <-ctx.Done():
			leave()
			return nil, cancelCause(ctx)
		}
	}
	return leave, nil
}
